/* What fit calls callbacks for, what they may do to it, and what they log.
 * Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/isogrid.h"
#include "tests/support/data_parallel.h"
#include "tests/support/linear.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_mesh *mesh;
static iso_distribution *distribution;

/* ---- callbacks ---- */

typedef struct record {
    char calls[200];
    int length, stop_after, stop_in, fail_in, destroyed;
    char stop_at;    /* the function that asks to stop at its first call, as `calls` has it; 0: none */
    bool alone;      /* only one rank stops or fails: */
    int who;         /* so many before the last one */
    bool collective; /* what the callback says of itself */
} record;

static bool is_me(const record *r)
{
    return !r->alone || iso_rank(ctx) == iso_ranks(ctx) - 1 - r->who;
}

static iso_status note(record *r, iso_fit_state *state, char what)
{
    r->calls[r->length++] = what;
    if (r->stop_at == what && is_me(r))
        state->stop = true;
    return ISO_OK;
}

static iso_status train_begin(void *user, iso_fit_state *state)
{
    ck_assert_int_eq(state->steps, 2);
    return note(user, state, '(');
}

static iso_status train_end(void *user, iso_fit_state *state)
{
    return note(user, state, ')');
}

static iso_status epoch_begin(void *user, iso_fit_state *state)
{
    return note(user, state, '[');
}

static iso_status epoch_end(void *user, iso_fit_state *state)
{
    record *r = user;
    ck_assert(iso_logs_get(&state->logs, "loss") > 0);
    if (r->stop_after == state->epoch + 1 && is_me(r))
        state->stop = true;
    return note(user, state, ']');
}

static iso_status batch_begin(void *user, iso_fit_state *state)
{
    return note(user, state, '<');
}

static iso_status batch_end(void *user, iso_fit_state *state)
{
    record *r = user;
    ck_assert(iso_logs_get(&state->logs, "loss") > 0);
    note(r, state, '>');
    if (r->stop_in == state->epoch + 1 && is_me(r))
        state->stop = true;
    if (r->fail_in == state->epoch + 1 && is_me(r))
        return iso_error(ISO_IO, "the disk of a callback is full");
    return ISO_OK;
}

static void destroy(void *user)
{
    ((record *)user)->destroyed++;
}

static iso_status run_with(record *r)
{
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.1), distribution);
    iso_dataset *data = linear_data(ctx, LINEAR_ROWS, NULL, NULL, 32);
    iso_callback *callbacks[] = {
        iso_callback_create(.train_begin = train_begin, .train_end = train_end, .epoch_begin = epoch_begin,
                            .epoch_end = epoch_end, .batch_begin = batch_begin, .batch_end = batch_end,
                            .collective = r->collective, .user = r, .destroy = destroy),
        NULL};
    iso_status status = iso_fit(model, data, .epochs = 3, .callbacks = callbacks, .verbose = ISO_ZERO);
    ck_assert_int_eq(r->destroyed, 1);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    return status;
}

START_TEST(callbacks_are_called_in_order)
{
    record r = {.length = 0};
    check_ok(run_with(&r));
    ck_assert_str_eq(r.calls, "([<><>][<><>][<><>])");
}
END_TEST

START_TEST(a_callback_of_one_rank_stops_all)
{
    for (int who = 0; who < iso_ranks(ctx); who++) {
        record r = {.stop_after = 2, .alone = true, .who = who};
        check_ok(run_with(&r));
        ck_assert_str_eq(r.calls, "([<><>][<><>])");
    }
}
END_TEST

START_TEST(a_callback_that_fails_alone_fails_everywhere)
{
    for (int who = 0; who < iso_ranks(ctx); who++) {
        record r = {.fail_in = 2, .alone = true, .who = who};
        ck_assert_int_eq(run_with(&r), ISO_IO);
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "the disk of a callback is full"));
        ck_assert_str_eq(r.calls, "([<><>][<>");
    }
}
END_TEST

START_TEST(a_callback_stops_training_within_an_epoch)
{
    for (int way = 0; way < 3; way++) { /* one rank asks; all ask; all, without an agreement */
        record r = {.stop_in = 2, .alone = way == 0, .collective = way == 2};
        check_ok(run_with(&r));
        ck_assert_str_eq(r.calls, "([<><>][<>])");
    }
}
END_TEST

/* As in Keras, except that nothing is trained if train_begin asks: Keras trains one batch. */
START_TEST(training_ends_after_the_batch_in_progress)
{
    static const struct {
        char at;
        const char *calls;
    } table[] = {{'(', "()"}, {'[', "([<>])"}, {'<', "([<>])"}, {'>', "([<>])"}, {']', "([<><>])"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int who = 0; who < iso_ranks(ctx); who++) {
            record r = {.stop_at = table[i].at, .alone = true, .who = who};
            check_ok(run_with(&r));
            ck_assert_str_eq(r.calls, table[i].calls);
        }
}
END_TEST

START_TEST(callbacks_that_fail_alike_need_no_agreement)
{
    record r = {.fail_in = 2, .collective = true};
    ck_assert_int_eq(run_with(&r), ISO_IO);
    ck_assert_str_eq(r.calls, "([<><>][<>");
}
END_TEST

/* ---- what callbacks log ---- */

static iso_status log_epoch(void *user, iso_fit_state *state)
{
    iso_status status = iso_fit_log(state, "extra", 10 + state->epoch);
    (void)user;
    return status == ISO_OK ? iso_fit_log(state, "extra", 20 + state->epoch) : status;
}

static iso_status see_extra(void *user, iso_fit_state *state)
{
    (void)user;
    ck_assert_double_eq(iso_logs_get(&state->logs, "extra"), 20 + state->epoch);
    return ISO_OK;
}

static iso_status log_too_early(void *user, iso_fit_state *state)
{
    (void)user;
    ck_assert(isnan(iso_logs_get(&state->logs, "extra")));
    return iso_fit_log(state, "extra", 1);
}

static iso_status log_many(void *user, iso_fit_state *state)
{
    iso_status status = ISO_OK;
    char name[20];
    (void)user;
    for (int i = 0; i < 100 && status == ISO_OK; i++) {
        snprintf(name, sizeof name, "extra_%d", i);
        status = iso_fit_log(state, name, i);
    }
    return status;
}

static iso_status log_another(void *user, iso_fit_state *state)
{
    (void)user;
    return iso_fit_log(state, state->epoch ? "odd" : "even", 1);
}

static iso_status fit_with(iso_callback *first, iso_callback *second, iso_history **history)
{
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.1), distribution);
    iso_dataset *data = linear_data(ctx, LINEAR_ROWS, NULL, NULL, 32),
                *validation = linear_data(ctx, LINEAR_ROWS, NULL, NULL, 20);
    iso_status status = iso_fit(model, data, .epochs = 2, .validation = validation, .verbose = ISO_ZERO,
                                .callbacks = (iso_callback *[]){first, second, NULL}, .history = history);
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    return status;
}

START_TEST(callbacks_add_to_the_logs)
{
    iso_history *history = NULL;
    check_ok(fit_with(iso_callback_create(.epoch_end = log_epoch),
                      iso_callback_create(.epoch_end = see_extra), &history));
    iso_logs logs = iso_history_logs(history, 1);
    ck_assert_int_eq(logs.count, 5);
    ck_assert_str_eq(logs.name[4], "extra");
    ck_assert_double_eq(logs.value[4], 21);
    iso_history_destroy(history);
    check_refused_naming(fit_with(iso_callback_create(.epoch_begin = log_too_early), NULL, NULL), "extra",
                         "end of an epoch");
    check_refused_naming(fit_with(iso_callback_create(.epoch_end = log_many), NULL, NULL), "extra_16", "16");
}
END_TEST

START_TEST(epochs_may_log_different_things)
{
    iso_history *history = NULL;
    check_ok(fit_with(iso_callback_create(.epoch_end = log_another), NULL, &history));
    iso_logs first = iso_history_logs(history, 0), second = iso_history_logs(history, 1);
    ck_assert_double_eq(iso_logs_get(&first, "even"), 1);
    ck_assert(isnan(iso_logs_get(&first, "odd")) && isnan(iso_logs_get(&second, "even")));
    ck_assert_double_eq(iso_logs_get(&second, "odd"), 1);
    ck_assert_double_eq(iso_logs_get(&first, "val_mae"), first.value[3]);
    iso_history_destroy(history);
}
END_TEST

START_TEST(the_history_file_holds_every_digit)
{
    char path[100], line[1000], expected[100];
    snprintf(path, sizeof path, "/tmp/isogrid-history-%d.json", (int)getpid());
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.1), distribution);
    iso_dataset *data = linear_data(ctx, LINEAR_ROWS, NULL, NULL, 32);
    iso_history *history = NULL;
    iso_fingerprint fingerprint;
    char text[33];
    check_ok(iso_fit(model, data, .epochs = 2, .verbose = ISO_ZERO, .history = &history,
                     .callbacks = (iso_callback *[]){iso_history_file(path), NULL}));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &fingerprint));
    iso_fingerprint_text(&fingerprint, text);
    if (iso_is_chief(ctx)) {
        FILE *file = fopen(path, "r");
        ck_assert_ptr_nonnull(file);
        for (int epoch = 0; epoch < 2; epoch++) {
            ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
            iso_logs logs = iso_history_logs(history, epoch);
            snprintf(expected, sizeof expected, "{\"epoch\": %d, \"loss\": %.17g,", epoch + 1, logs.value[0]);
            ck_assert_ptr_nonnull(strstr(line, expected));
        }
        ck_assert_ptr_nonnull(strstr(line, text));
        fclose(file);
        remove(path);
    }
    iso_history_destroy(history);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

START_TEST(a_history_file_that_cannot_be_made)
{
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.1), distribution);
    iso_dataset *data = linear_data(ctx, LINEAR_ROWS, NULL, NULL, 32);
    iso_status status = iso_fit(model, data, .verbose = ISO_ZERO,
                                .callbacks = (iso_callback *[]){iso_history_file("/nowhere/h.json"), NULL});
    ck_assert_int_eq(status, ISO_INVALID); /* as all outputs that are found so before the first step */
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "/nowhere/h.json"));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* ---- a callback that uses the training's own data ---- */

typedef struct evaluation {
    iso_model *other; /* what is evaluated, or trained for two steps */
    iso_dataset *data;
    bool trains;
    int64_t at; /* the batch before, or after, which it happens */
} evaluation;

static iso_status use_the_data(void *user, iso_fit_state *state)
{
    evaluation *e = user;
    double loss;
    if (state->batch != e->at)
        return ISO_OK;
    return e->trains ? iso_fit(e->other, e->data, .steps_per_epoch = 2, .verbose = ISO_ZERO)
                     : iso_evaluate(e->other, e->data, .loss = &loss, .verbose = ISO_ZERO);
}

static iso_status add_nothing(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    memcpy(out[0], in->data[0], (size_t)in->rows * LINEAR_FEATURES * sizeof(double));
    memcpy(out[1], in->data[1], (size_t)in->rows * sizeof(double));
    return ISO_OK;
}

static iso_status read_linear(const iso_batch *batch, int component, int64_t begin, int64_t count,
                              iso_dtype dtype, void *out)
{
    const int64_t *number = batch->impl;
    int64_t width = component ? 1 : LINEAR_FEATURES;
    const double *from = component ? linear_targets() : linear_inputs();
    ck_assert_int_eq(dtype, ISO_F64);
    memcpy(out, from + (*number * 8 + begin) * width, (size_t)(count * width) * sizeof *from);
    return ISO_OK;
}

static iso_status next_linear(void *user, int64_t epoch, int64_t number, iso_batch *batch)
{
    (void)epoch;
    *(int64_t *)user = number;
    batch->read = read_linear;
    batch->impl = user;
    return ISO_OK;
}

enum { IN_MEMORY, PREFETCHED, IN_SHARES, GENERATED, SOURCES };

static iso_dataset *data_of(int source)
{
    static int64_t number;
    iso_dataset *data = NULL;
    int64_t rows = 48, begin = rows * iso_rank(ctx) / iso_ranks(ctx),
            count = rows * (iso_rank(ctx) + 1) / iso_ranks(ctx) - begin;
    if (source == GENERATED) {
        check_ok(iso_dataset_generator(ctx, &data, .next = next_linear, .user = &number, .batch_size = 8,
                                       .batches = 6, .shape = {ISO_SHAPE(LINEAR_FEATURES), ISO_SHAPE(1)},
                                       .dtype = {ISO_F64, ISO_F64}));
        return data;
    }
    if (source != IN_SHARES)
        data = linear_data(ctx, rows, NULL, NULL, 0);
    else
        check_ok(iso_dataset_arrays(
            ctx, &data, .local = true,
            .x = {linear_inputs() + begin * LINEAR_FEATURES, ISO_F64, ISO_SHAPE(count, LINEAR_FEATURES)},
            .y = {linear_targets() + begin, ISO_F64, ISO_SHAPE(count)}));
    check_ok(iso_dataset_shuffle(data, 0));
    if (source == PREFETCHED)
        check_ok(iso_dataset_map(data, add_nothing, .threads = 2));
    check_ok(iso_dataset_batch(data, 8));
    if (source == PREFETCHED)
        check_ok(iso_dataset_prefetch(data, 2));
    return data;
}

/* The loss after three epochs; how 0: no callback; else which function of a callback uses the data. */
static double loss_of(int source, int how, bool trains)
{
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.1), distribution);
    iso_model *other = linear_model_compiled(ctx, iso_sgd(0.1), distribution);
    iso_dataset *data = data_of(source);
    evaluation e = {.other = other, .data = data, .trains = trains, .at = 2};
    double loss = 0;
    iso_callback *callbacks[] = {iso_callback_create(.batch_begin = how == 1 ? use_the_data : NULL,
                                                     .batch_end = how == 2 ? use_the_data : NULL,
                                                     .collective = true, .user = &e),
                                 NULL};
    check_ok(iso_fit(model, data, .epochs = 3, .callbacks = callbacks, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(other);
    iso_model_destroy(model);
    return loss;
}

START_TEST(a_callback_may_use_the_same_data)
{
    for (int source = 0; source < SOURCES; source++) {
        double loss = loss_of(source, 0, false);
        for (int how = 1; how <= 2; how++)
            for (int trains = 0; trains < 2; trains++) {
                double same = loss_of(source, how, trains);
                ck_assert_msg(same == loss, "source %d, how %d, trains %d: %.17g, not %.17g", source, how,
                              trains, same, loss);
            }
    }
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = data_parallel_begin("data=4", &ctx, &mesh, &distribution);
    if (status == ISO_OK)
        failed = RUN_TESTS(
            "fit_callbacks", 0, callbacks_are_called_in_order, a_callback_of_one_rank_stops_all,
            a_callback_that_fails_alone_fails_everywhere, a_callback_stops_training_within_an_epoch,
            training_ends_after_the_batch_in_progress, callbacks_that_fail_alike_need_no_agreement,
            callbacks_add_to_the_logs, epochs_may_log_different_things, the_history_file_holds_every_digit,
            a_history_file_that_cannot_be_made, a_callback_may_use_the_same_data);
    return data_parallel_end(ctx, mesh, distribution, status) || failed;
}
