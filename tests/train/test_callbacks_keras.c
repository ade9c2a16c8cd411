/* EarlyStopping, ReduceLROnPlateau, LearningRateScheduler, CSVLogger and ModelCheckpoint do what Keras's do,
 * given the values of each epoch (tests/keras/callbacks.json). Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/isogrid.h"
#include "tests/support/data_parallel.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { MOST_EPOCHS = 64 };

static iso_context *ctx;
static json_t *file;
static iso_mesh *mesh;
static iso_distribution *distribution;
static const double zeros[8];

static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(value != NULL, "callbacks.json lacks %s", key);
    return value;
}

static double number(const json_t *value)
{
    double out = 0;
    ck_assert(iso_json_get_number(value, &out));
    return out;
}

static double number_of(const json_t *object, const char *key)
{
    return number(get(object, key));
}

/* An option as our structs want it: zero is the default, so a zero that was given is ISO_ZERO. */
static double option(const json_t *test, const char *key)
{
    const json_t *value = json_object_get(get(test, "options"), key);
    double given = value ? number(value) : 0;
    return value && given == 0 ? ISO_ZERO : given;
}

static const char *text_option(const json_t *test, const char *key)
{
    return json_string_value(json_object_get(get(test, "options"), key));
}

static bool flag(const json_t *test, const char *key)
{
    return json_is_true(json_object_get(get(test, "options"), key));
}

static iso_mode mode_of(const json_t *test)
{
    const char *mode = text_option(test, "mode");
    return !mode || !strcmp(mode, "auto") ? ISO_MODE_AUTO
           : !strcmp(mode, "min")         ? ISO_MODE_MIN
                                          : ISO_MODE_MAX;
}

/* ---- the epochs of a case ---- */

/* Before the callback under test: the given values into the logs, the epoch into the bias. Behind it: what
 * the logs then say of the learning rate. */
typedef struct epochs {
    const json_t *values;
    int count;
    double rate[MOST_EPOCHS];
} epochs;

static iso_status give(void *user, iso_fit_state *state)
{
    epochs *e = user;
    const char *name;
    const json_t *list;
    double epoch = state->epoch;
    e->count = state->epoch + 1;
    json_object_foreach((json_t *)e->values, name, list)
    {
        const json_t *value = json_array_get(list, (size_t)state->epoch);
        if (!json_is_null(value))
            check_ok(iso_fit_log(state, name, number(value)));
    }
    return iso_variable_assign(iso_model_variable(state->model, "d/bias"), &epoch, 1);
}

static iso_status note_rate(void *user, iso_fit_state *state)
{
    ((epochs *)user)->rate[state->epoch] = iso_logs_get(&state->logs, "learning_rate");
    return ISO_OK;
}

static iso_model *compiled(void)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, ISO_F64);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2));
    iso_model *model = iso_model_create(graph, x, iso_dense(x, 1, .name = "d"));
    check_ok(iso_compile(model, .optimizer = iso_sgd(number_of(file, "rate")), .loss = ISO_LOSS_MSE,
                         .metrics = {ISO_METRIC_MAE}, .distribution = distribution));
    return model;
}

/* Runs a case with the callback under test; what is left in the bias and of the learning rate. */
static void fit(const json_t *test, iso_callback *callback, epochs *e, double *bias, double *rate)
{
    iso_model *model = compiled();
    iso_dataset *data = NULL;
    *e = (epochs){.values = get(test, "values")};
    iso_dataset_arrays_options options = {
        .dataset = &data, .x = {zeros, ISO_F64, ISO_SHAPE(4, 2)}, .y = {zeros, ISO_F64, ISO_SHAPE(4)}};
    check_ok(iso_dataset_arrays_with(ctx, &options, sizeof options));
    iso_callback *list[] = {iso_callback_create(.epoch_end = give, .user = e), callback,
                            iso_callback_create(.epoch_end = note_rate, .user = e), NULL};
    check_ok(iso_fit(model, data, .epochs = (int)number_of(file, "epochs"), .verbose = ISO_ZERO,
                     .callbacks = list));
    check_ok(iso_variable_read(iso_model_variable(model, "d/bias"), bias, 1));
    check_ok(iso_model_learning_rate(model, rate));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}

/* Calls a function for every case of a kind. */
static void for_each(const char *kind, void (*check)(const json_t *test, const char *what))
{
    size_t i;
    const json_t *test;
    int seen = 0;
    char what[400];
    json_array_foreach((json_t *)get(file, "cases"), i, test)
    {
        if (strcmp(json_string_value(get(test, "kind")), kind) != 0)
            continue;
        char *options = json_dumps(get(test, "options"), JSON_COMPACT);
        snprintf(what, sizeof what, "%s of '%s' with %s", kind, json_string_value(get(test, "name")),
                 options);
        free(options);
        check(test, what);
        seen++;
    }
    ck_assert_int_gt(seen, 0);
}

/* ---- the callbacks ---- */

static void check_early_stopping(const json_t *test, const char *what)
{
    epochs e;
    double bias, rate;
    const json_t *result = get(test, "result");
    fit(test,
        iso_early_stopping(.monitor = text_option(test, "monitor"), .min_delta = option(test, "min_delta"),
                           .patience = (int)option(test, "patience"), .mode = mode_of(test),
                           .baseline = option(test, "baseline"),
                           .restore_best_weights = flag(test, "restore_best_weights"),
                           .start_from_epoch = (int)option(test, "start_from_epoch")),
        &e, &bias, &rate);
    ck_assert_msg(e.count == (int)number_of(result, "epochs"), "%s: %d epochs, Keras had %g", what, e.count,
                  number_of(result, "epochs"));
    ck_assert_msg(bias == number_of(result, "bias"), "%s: weights of epoch %g, Keras's were of %g", what,
                  bias, number_of(result, "bias"));
}

START_TEST(early_stopping_ends_where_kerass_does)
{
    for_each("early_stopping", check_early_stopping);
}
END_TEST

static void check_rates(const json_t *test, const char *what, const epochs *e, double rate)
{
    const json_t *result = get(test, "result"), *rates = get(result, "rates");
    for (int i = 0; i < e->count; i++) {
        double expected = number(json_array_get(rates, (size_t)i));
        ck_assert_msg(fabs(e->rate[i] - expected) <= 1e-14 * expected,
                      "%s: rate %.17g in epoch %d, Keras's %.17g", what, e->rate[i], i, expected);
    }
    ck_assert_int_eq(e->count, (int)json_array_size(rates));
    check_near(what, &rate, (double[]){number_of(result, "rate")}, 1, 1e-14);
}

static void check_plateau(const json_t *test, const char *what)
{
    epochs e;
    double bias, rate;
    fit(test,
        iso_reduce_lr_on_plateau(.monitor = text_option(test, "monitor"), .factor = option(test, "factor"),
                                 .patience = (int)option(test, "patience"), .mode = mode_of(test),
                                 .min_delta = option(test, "min_delta"),
                                 .cooldown = (int)option(test, "cooldown"), .min_lr = option(test, "min_lr")),
        &e, &bias, &rate);
    check_rates(test, what, &e, rate);
}

START_TEST(plateaus_reduce_the_rate_as_in_keras)
{
    for_each("reduce_lr_on_plateau", check_plateau);
}
END_TEST

static double thirds(void *user, int epoch, double rate)
{
    ck_assert_ptr_eq(user, &ctx);
    return epoch % 3 == 2 ? rate * 0.5 : rate + 0.125 * epoch;
}

static void check_scheduler(const json_t *test, const char *what)
{
    epochs e;
    double bias, rate;
    fit(test, iso_learning_rate_scheduler(thirds, .user = &ctx), &e, &bias, &rate);
    check_rates(test, what, &e, rate);
}

START_TEST(the_scheduler_sets_the_rate)
{
    for_each("learning_rate_scheduler", check_scheduler);
}
END_TEST

static void check_csv(const json_t *test, const char *what)
{
    epochs e;
    double bias, rate;
    char path[100], text[20000] = "";
    const char *before = text_option(test, "before"),
               *expected = json_string_value(get(get(test, "result"), "text"));
    snprintf(path, sizeof path, "/tmp/isogrid-csv-%d.csv", (int)getpid());
    if (before && iso_is_chief(ctx)) {
        FILE *old = fopen(path, "w");
        ck_assert(old && fputs(before, old) >= 0 && fclose(old) == 0);
    }
    fit(test,
        iso_csv_logger(path, .separator = text_option(test, "separator"), .append = flag(test, "append")), &e,
        &bias, &rate);
    if (!iso_is_chief(ctx)) {
        ck_assert(access(path, F_OK) != 0);
        return;
    }
    FILE *made = fopen(path, "r");
    ck_assert_ptr_nonnull(made);
    text[fread(text, 1, sizeof text - 1, made)] = 0;
    fclose(made);
    remove(path);
    ck_assert_msg(strcmp(text, expected) == 0, "%s:\n%s\nKeras wrote:\n%s", what, text, expected);
}

START_TEST(tables_are_those_of_keras)
{
    for_each("csv_logger", check_csv);
}
END_TEST

static void check_checkpoints(const json_t *test, const char *what)
{
    epochs e;
    double bias, rate;
    char folder[100], pattern[160], path[160];
    const json_t *files = get(get(test, "result"), "files");
    size_t wanted = 0;
    snprintf(folder, sizeof folder, "/tmp/isogrid-best-%d", (int)getpid());
    snprintf(pattern, sizeof pattern, "%s/{epoch:02d}.weights.h5", folder);
    iso_broadcast(ctx, pattern, sizeof pattern);
    fit(test,
        iso_model_checkpoint(pattern, .monitor = text_option(test, "monitor"), .mode = mode_of(test),
                             .save_best_only = flag(test, "save_best_only"), .save_weights_only = true,
                             .initial_value_threshold = option(test, "initial_value_threshold"),
                             .save_freq = (int64_t)option(test, "save_freq"), .stop_on_error = true),
        &e, &bias, &rate);
    if (!iso_is_chief(ctx))
        return;
    for (int epoch = 1; epoch <= e.count; epoch++) {
        char name[32];
        snprintf(name, sizeof name, "%02d.weights.h5", epoch);
        const char *next = json_string_value(json_array_get(files, wanted));
        bool want = next && strcmp(next, name) == 0;
        wanted += want;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        ck_assert_msg((unlink(path) == 0) == want, "%s: %s is %s", what, name, want ? "missing" : "too much");
    }
    ck_assert_int_eq((int)wanted, (int)json_array_size(files));
    snprintf(path, sizeof path, "%s/latest", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/finished", folder);
    unlink(path);
    rmdir(folder);
}

START_TEST(checkpoints_are_saved_after_the_epochs_of_keras)
{
    for_each("model_checkpoint", check_checkpoints);
}
END_TEST

int main(void)
{
    int failed = 1;
    json_error_t error;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = data_parallel_begin("data=4", &ctx, &mesh, &distribution);
    file = json_load_file("tests/keras/callbacks.json", 0, &error);
    if (status == ISO_OK && !file)
        status = iso_error(ISO_IO, "tests/keras/callbacks.json: %s", error.text);
    if (status == ISO_OK)
        failed = RUN_TESTS("callbacks_keras", 0, early_stopping_ends_where_kerass_does,
                           plateaus_reduce_the_rate_as_in_keras, the_scheduler_sets_the_rate,
                           tables_are_those_of_keras, checkpoints_are_saved_after_the_epochs_of_keras);
    json_decref(file);
    return data_parallel_end(ctx, mesh, distribution, status) || failed;
}
