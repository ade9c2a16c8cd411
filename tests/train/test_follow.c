/* iso_follow: the values of each checkpoint are those that the training's own validation found, as JSON lines
 * and as events; what is done is not done again; damaged and missing checkpoints, a file of lines that is
 * removed or renamed, the end of a training, and what is refused. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/json.h"
#include "runtime/isogrid.h"
#include "runtime/train/callbacks_impl.h"
#include "tests/support/event_files.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { WIDTH = 5, OUTPUTS = 3, EPOCHS = 3, STEPS = 4, MOST_LINES = 20 };

static iso_context *ctx;
static char folder[64];

static const char *in(const char *name)
{
    return in_folder(folder, name);
}

static iso_dataset *make_data(int64_t rows)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_random(ctx, rows, &data, .shape = ISO_SHAPE(WIDTH), .targets = ISO_SHAPE(OUTPUTS)));
    check_ok(iso_dataset_batch(data, 7));
    return data;
}

static iso_model *make_model(int width)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_model *model = iso_model_create(graph, x, iso_dense(iso_batch_norm(iso_dense(x, width)), OUTPUTS));
    check_ok(
        iso_compile(model, .optimizer = iso_adam(0.05), .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MAE}));
    return model;
}

/* Whether a new fit has removed the mark of the last one. */
static iso_status expect_no_mark(void *user, iso_fit_state *state)
{
    (void)user, (void)state;
    ck_assert_int_ne(access(in("ck/finished"), F_OK), 0);
    return ISO_OK;
}

/* Trains with a checkpoint after each epoch; loss, mae: of the validation [EPOCHS], may be NULL. */
static void train(double *loss, double *mae)
{
    iso_model *model = make_model(6);
    iso_dataset *data = make_data(27), *validation = make_data(23);
    iso_history *history = NULL;
    iso_callback *list[] = {iso_model_checkpoint(in("ck/{epoch}.weights.h5"), .stop_on_error = true),
                            iso_callback_create(.batch_begin = expect_no_mark, .collective = true), NULL};
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .validation = validation, .callbacks = list,
                     .history = &history, .verbose = ISO_ZERO));
    for (int epoch = 0; epoch < EPOCHS && loss; epoch++) {
        iso_logs logs = iso_history_logs(history, epoch);
        loss[epoch] = iso_logs_get(&logs, "val_loss");
        mae[epoch] = iso_logs_get(&logs, "val_mae");
    }
    iso_history_destroy(history);
    iso_dataset_destroy(data);
    iso_dataset_destroy(validation);
    iso_model_destroy(model);
}

typedef struct line {
    char checkpoint[64];
    double loss, mae;
    int64_t step, epoch, batch;
} line;

static int read_lines(const char *path, line *lines)
{
    char text[1000];
    int count = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(text, sizeof text, file)) {
        json_t *root = NULL;
        ck_assert_int_lt(count, MOST_LINES);
        check_ok(iso_json_parse(path, text, strlen(text), &root));
        line *l = &lines[count++];
        snprintf(l->checkpoint, sizeof l->checkpoint, "%s",
                 json_string_value(json_object_get(root, "checkpoint")));
        l->loss = json_real_value(json_object_get(root, "loss"));
        l->mae = json_real_value(json_object_get(root, "mae"));
        l->step = json_integer_value(json_object_get(root, "step"));
        l->epoch = json_integer_value(json_object_get(root, "epoch"));
        l->batch = json_integer_value(json_object_get(root, "batch"));
        json_decref(root);
    }
    if (file)
        fclose(file);
    return count;
}

/* The names of the lines in ck/evaluator.json, with blanks between. */
static const char *evaluated(void)
{
    static char text[MOST_LINES * 80];
    line lines[MOST_LINES];
    check_ok(iso_agree(ctx, ISO_OK));
    int count = read_lines(in("ck/evaluator.json"), lines);
    text[0] = 0;
    for (int i = 0; i < count; i++)
        sprintf(text + strlen(text), "%s%.*s", i ? " " : "", (int)strcspn(lines[i].checkpoint, "."),
                lines[i].checkpoint);
    return text;
}

static iso_map_fn map_data; /* of the next evaluators; NULL: none */

static iso_status follow_with(int width, iso_follow_options options)
{
    iso_model *model = make_model(width);
    iso_dataset *validation = make_data(23);
    char checkpoints[sizeof folder + 3]; /* callbacks use the texts of `in` */
    snprintf(checkpoints, sizeof checkpoints, "%s/ck", folder);
    if (map_data)
        check_ok(iso_dataset_map(validation, map_data));
    options.period = 0.01;
    options.verbose = ISO_ZERO;
    iso_status status = iso_follow_with(model, checkpoints, validation, &options, sizeof options);
    iso_dataset_destroy(validation);
    iso_model_destroy(model);
    return status;
}
#define follow(...) follow_with(6, (iso_follow_options){__VA_ARGS__})

/* On one rank; the others wait. */
static bool once(void)
{
    check_ok(iso_agree(ctx, ISO_OK));
    return iso_is_chief(ctx);
}

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

START_TEST(values_are_those_of_the_validation)
{
    double loss[EPOCHS], mae[EPOCHS];
    char path[4][300];
    line lines[MOST_LINES];
    train(loss, mae);
    iso_callback *list[] = {iso_tensorboard(in("logs")),
                            iso_history_file(in("h.json")),
                            iso_early_stopping(.monitor = "no such value"),
                            iso_csv_logger(in("log.csv")),
                            iso_backup_and_restore(in("backup")),
                            NULL};
    check_ok(follow(.callbacks = list));
    check_ok(iso_agree(ctx, ISO_OK));
    ck_assert_int_eq(read_lines(in("h-evaluator.json"), lines), EPOCHS);
    ck_assert_int_eq(find_event_files(in("logs"), "evaluator", path, 4), 1);
    events list_of_events;
    read_events(path[0], &list_of_events);
    for (int i = 0; i < EPOCHS; i++) {
        ck_assert_int_eq(lines[i].checkpoint[0], '1' + i);
        ck_assert(lines[i].loss == loss[i] && lines[i].mae == mae[i]);
        ck_assert(lines[i].step == (i + 1) * STEPS && lines[i].epoch == i + 1 && lines[i].batch == 0);
        check_scalar(&list_of_events, "evaluation_loss_vs_iterations", (i + 1) * STEPS, loss[i]);
        check_scalar(&list_of_events, "evaluation_mae_vs_iterations", (i + 1) * STEPS, mae[i]);
        check_scalar(&list_of_events, "epoch_loss", i, loss[i]);
    }
    free_events(&list_of_events);
    ck_assert_str_eq(names_in(in("ck")), "1.weights.h5 2.weights.h5 3.weights.h5 finished latest");
    ck_assert(access(in("log.csv"), F_OK) != 0 && access(in("backup"), F_OK) != 0);
}
END_TEST

/* Also after the last line was cut off, and a checkpoint was replaced by another one of the same name. */
START_TEST(nothing_is_evaluated_twice)
{
    train(NULL, NULL);
    check_ok(follow(NULL));
    ck_assert_str_eq(evaluated(), "1 2 3");
    check_ok(follow(NULL));
    ck_assert_str_eq(evaluated(), "1 2 3");
    struct stat about;
    if (once()) {
        ck_assert_int_eq(stat(in("ck/evaluator.json"), &about), 0);
        ck_assert_int_eq(truncate(in("ck/evaluator.json"), about.st_size - 20), 0);
        ck_assert_int_eq(rename(in("ck/2.weights.h5"), in("ck/1.weights.h5")), 0);
    }
    check_ok(follow(NULL));
    ck_assert_str_eq(evaluated(), "1 2 1 3");
}
END_TEST

START_TEST(only_the_newest_if_asked)
{
    train(NULL, NULL);
    check_ok(follow(.newest_only = true));
    ck_assert_str_eq(evaluated(), "3");
    check_ok(follow(.newest_only = true)); /* older ones do not count as new */
    ck_assert_str_eq(evaluated(), "3");
    if (once())
        ck_assert_int_eq(unlink(in("ck/evaluator.json")), 0);
    check_ok(follow(.pattern = "2{}.weights.h5"));
    ck_assert_str_eq(evaluated(), "2");
}
END_TEST

/* Removes the next checkpoint while the first one is evaluated. */
static iso_status remove_second(void *user, iso_context *context, const iso_evaluation *one)
{
    (void)user, (void)context;
    if (one->checkpoint[0] == '1')
        ck_assert_int_eq(unlink(in("ck/2.weights.h5")), 0);
    return ISO_OK;
}

START_TEST(a_checkpoint_that_is_removed_is_skipped)
{
    train(NULL, NULL);
    iso_callback *list[] = {iso_callback_create(.user = NULL), NULL};
    list[0]->evaluated = remove_second;
    check_ok(follow(.callbacks = list));
    ck_assert_str_eq(evaluated(), "1 3");
}
END_TEST

/* Removes the file of the lines, or renames the folder, while checkpoint 1 is evaluated: the first lines go with it,
 * the others into a file that has the name now. */
static void move_the_lines(bool folder_too)
{
    if (folder_too) {
        ck_assert_int_eq(rename(in("ck"), in("away")), 0);
        ck_assert_int_eq(mkdir(in("ck"), 0777), 0);
        ck_assert_int_eq(link(in("away/2.weights.h5"), in("ck/2.weights.h5")), 0);
        ck_assert_int_eq(link(in("away/3.weights.h5"), in("ck/3.weights.h5")), 0);
        ck_assert_int_eq(link(in("away/finished"), in("ck/finished")), 0);
    } else
        ck_assert_int_eq(unlink(in("ck/evaluator.json")), 0);
}

static iso_status move_after_first(void *user, iso_context *context, const iso_evaluation *one)
{
    (void)context;
    if (one->checkpoint[0] == '1')
        move_the_lines(*(bool *)user);
    return ISO_OK;
}

START_TEST(lines_go_to_the_file_that_has_the_name)
{
    for (int i = 0; i < 2; i++) {
        bool folder_too = i == 1;
        train(NULL, NULL);
        iso_callback *list[] = {iso_callback_create(.user = &folder_too), NULL};
        list[0]->evaluated = move_after_first;
        check_ok(follow(.callbacks = list));
        ck_assert_str_eq(evaluated(), "2 3");
    }
}
END_TEST

/* Data that are read only when the folder has another name. */
static iso_status rename_folder(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    for (int c = 0; c < in->components; c++)
        memcpy(out[c], in->data[c], (size_t)(in->rows * (c == 0 ? WIDTH : OUTPUTS)) * sizeof(float));
    if (iso_is_chief(ctx))
        rename(in_folder(folder, "ck"), in_folder(folder, "away"));
    return ISO_OK;
}

START_TEST(a_checkpoint_whose_folder_is_renamed_is_skipped)
{
    train(NULL, NULL);
    map_data = rename_folder;
    iso_status status = follow(.timeout = 0.2);
    map_data = NULL;
    ck_assert_int_eq(status, ISO_FAILED);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "no new checkpoint has appeared"));
    if (once())
        ck_assert_int_eq(rename(in("away"), in("ck")), 0);
    ck_assert_str_eq(evaluated(), "");
    check_ok(follow(NULL));
    ck_assert_str_eq(evaluated(), "1 2 3");
}
END_TEST

START_TEST(a_damaged_checkpoint_is_skipped)
{
    train(NULL, NULL);
    if (once()) {
        FILE *file = fopen(in("ck/2.weights.h5"), "r+");
        ck_assert(file && fseek(file, 3000, SEEK_SET) == 0 && fputs("damaged", file) > 0 &&
                  fclose(file) == 0);
        ck_assert_int_eq(truncate(in("ck/1.weights.h5"), 5000), 0);
        file = fopen(in("ck/0.weights.h5"), "w"); /* no checkpoint at all */
        ck_assert(file && fclose(file) == 0);
    }
    check_ok(follow(NULL));
    ck_assert_str_eq(evaluated(), "3");
}
END_TEST

START_TEST(the_end_is_that_of_the_training)
{
    train(NULL, NULL);
    check_ok(follow(.epochs = EPOCHS));
    ck_assert_str_eq(evaluated(), "1 2 3");
    ck_assert_int_eq(follow(.epochs = EPOCHS + 1, .timeout = 0.2), ISO_FAILED);
    ck_assert(strstr(iso_error_message(), "no new checkpoint has appeared"));
    if (once())
        ck_assert_int_eq(unlink(in("ck/finished")), 0);
    check_ok(follow(.epochs = EPOCHS));                   /* the last epoch is evaluated */
    ck_assert_int_eq(follow(.timeout = 0.2), ISO_FAILED); /* a training that was killed */
    if (once())
        for (int i = 0; i < EPOCHS; i++)
            ck_assert_int_eq(
                unlink(in((const char *[]){"ck/1.weights.h5", "ck/2.weights.h5", "ck/3.weights.h5"}[i])), 0);
    ck_assert_str_eq(evaluated(), "1 2 3");
    ck_assert_int_eq(follow(.epochs = EPOCHS, .timeout = 0.2), ISO_FAILED); /* a training that begins anew */
    train(NULL, NULL);
    check_ok(follow(NULL));
}
END_TEST

START_TEST(wrong_arguments_are_named)
{
    train(NULL, NULL);
    ck_assert_int_eq(follow_with(8, (iso_follow_options){.callbacks = NULL}), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "has the shape"));
    ck_assert_str_eq(evaluated(), "");
    ck_assert_int_eq(follow(.timeout = -1), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "timeout -1"));
    iso_callback *nowhere[] = {iso_history_file(in("no/h.json")), NULL};
    ck_assert_int_eq(follow(.callbacks = nowhere), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "cannot be written: No such file"));
    if (once()) {
        FILE *file = fopen(in("h-evaluator.json"), "w");
        ck_assert(file && fputs("{\"epoch\": 1}\n", file) > 0 && fclose(file) == 0);
    }
    iso_callback *other[] = {iso_history_file(in("h.json")), NULL};
    ck_assert_int_eq(follow(.callbacks = other), ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "line 1: this is not a line of an evaluator"));
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS_WITH("follow", 0, set_up, tear_down, values_are_those_of_the_validation,
                       nothing_is_evaluated_twice, only_the_newest_if_asked,
                       a_checkpoint_that_is_removed_is_skipped, lines_go_to_the_file_that_has_the_name,
                       a_checkpoint_whose_folder_is_renamed_is_skipped, a_damaged_checkpoint_is_skipped,
                       the_end_is_that_of_the_training, wrong_arguments_are_named))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
