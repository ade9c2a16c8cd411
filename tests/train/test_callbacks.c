/* Keras's callbacks beyond what test_callbacks_keras.c compares: messages, refusals, resumption, training
 * that diverges. Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/snapshot.h"
#include "tests/support/callback_state.h"
#include "tests/support/data_parallel.h"
#include "tests/support/folder.h"
#include "tests/support/linear.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 24 };

static iso_context *ctx;
static iso_mesh *mesh;
static iso_distribution *distribution;

static iso_model *compiled_with(iso_optimizer optimizer)
{
    return linear_model_compiled(ctx, optimizer, distribution);
}

static iso_dataset *data_set(void)
{
    return linear_data(ctx, ROWS, NULL, NULL, 5);
}

static iso_status fit(iso_model *model, int epochs, iso_callback **callbacks, iso_history **history)
{
    iso_dataset *data = data_set();
    iso_status status = iso_fit(model, data, .epochs = epochs, .verbose = ISO_ZERO, .callbacks = callbacks,
                                .history = history);
    iso_dataset_destroy(data);
    return status;
}

/* What the callbacks of a training say, on stdout and stderr. */
static iso_status fit_and_hear(iso_model *model, int epochs, iso_callback **callbacks, char *text,
                               size_t size)
{
    char path[] = "/tmp/isogrid-callbacks-XXXXXX";
    int file = mkstemp(path), out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    ck_assert_int_ge(file, 0);
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    iso_status status = fit(model, epochs, callbacks, NULL);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    ssize_t length = pread(file, text, size - 1, 0);
    text[length < 0 ? 0 : length] = 0;
    close(file);
    close(out);
    close(err);
    unlink(path);
    return status;
}

/* The values of a list become those of "val_loss". */
static iso_status give_losses(void *user, iso_fit_state *state)
{
    return iso_fit_log(state, "val_loss", ((const double *)user)[state->epoch]);
}

static iso_callback *losses(const double *values)
{
    return iso_callback_create(.epoch_end = give_losses, .user = (void *)values);
}

/* ---- messages ---- */

START_TEST(callbacks_say_what_they_do)
{
    static const double values[] = {3, 2, 2.5, 2.5, 1};
    char text[2000];
    iso_model *model = compiled_with(iso_sgd(0.25));
    check_ok(fit_and_hear(
        model, 5,
        (iso_callback *[]){losses(values), iso_reduce_lr_on_plateau(.patience = 1, .verbose = 1),
                           iso_early_stopping(.patience = 2, .restore_best_weights = true, .verbose = 1),
                           NULL},
        text, sizeof text));
    ck_assert_str_eq(text, iso_is_chief(ctx)
                               ? "Epoch 3: learning rate 0.025 from here on, as val_loss has not improved\n"
                                 "Epoch 4: learning rate 0.0025 from here on, as val_loss has not improved\n"
                                 "Epoch 4: stopped early, val_loss was best in epoch 2\n"
                                 "The weights are those of epoch 2\n"
                               : "");
    iso_model_destroy(model);
}
END_TEST

START_TEST(a_missing_value_is_told_once)
{
    char text[2000];
    iso_model *model = compiled_with(iso_sgd(0.25));
    check_ok(fit_and_hear(model, 4, (iso_callback *[]){iso_early_stopping(.patience = 1), NULL}, text,
                          sizeof text));
    ck_assert_str_eq(text, iso_is_chief(ctx)
                               ? "isogrid: warning: early stopping monitors 'val_loss', but there are no "
                                 "validation data (--validation-data, --validation-split; iso_fit's "
                                 ".validation); there are: loss, mae\n"
                               : "");
    iso_model_destroy(model);
}
END_TEST

/* fit with one more callback returns so, and its message holds that. */
static void check_watched(iso_callback *watching, iso_callback *other, iso_status wanted, const char *words)
{
    iso_model *model = compiled_with(iso_sgd(0.25));
    iso_status status = fit(model, 1, (iso_callback *[]){watching, other, NULL}, NULL);
    ck_assert_int_eq(status, wanted);
    if (wanted != ISO_OK)
        ck_assert_msg(strstr(iso_error_message(), words), "%s", iso_error_message());
    iso_model_destroy(model);
}

START_TEST(what_cannot_come_is_refused)
{
    static const double values[] = {1};
    static const char path[] = "/tmp/isogrid-watched/{epoch}.weights.h5";
    check_watched(iso_early_stopping(.monitor = "val_los"), NULL, ISO_INVALID,
                  "no such value; did you mean 'val_loss'");
    check_watched(iso_reduce_lr_on_plateau(.monitor = "nothing"), NULL, ISO_INVALID,
                  "no such value; there are: loss, mae");
    check_watched(iso_model_checkpoint(path, .best = "val_mae"), NULL, ISO_INVALID, "needs validation data");
    /* what a callback may log */
    check_watched(iso_early_stopping(.monitor = "learning_rate", .mode = ISO_MODE_MIN),
                  iso_reduce_lr_on_plateau(.monitor = "loss"), ISO_OK, "");
    check_watched(iso_early_stopping(.monitor = "val_loss"), losses(values), ISO_OK, "");
    check_watched(iso_early_stopping(.monitor = "any", .mode = ISO_MODE_MIN), losses(values), ISO_OK, "");
}
END_TEST

/* ---- what is better ---- */

/* Epochs that a training with rising values of a name lasts: 3 where less is better, 6 where more is. */
static iso_status rise(void *user, iso_fit_state *state)
{
    return iso_fit_log(state, user, state->epoch);
}

static int epochs_of(const char *name)
{
    iso_model *model = compiled_with(iso_sgd(0.01));
    iso_history *history = NULL;
    iso_status status = fit(model, 6,
                            (iso_callback *[]){iso_callback_create(.epoch_end = rise, .user = (void *)name),
                                               iso_early_stopping(.monitor = name, .patience = 2), NULL},
                            &history);
    int epochs = status == ISO_OK ? iso_history_epochs(history) : -1;
    iso_history_destroy(history);
    iso_model_destroy(model);
    return epochs;
}

START_TEST(names_tell_what_is_better)
{
    static const char *const less[] = {"loss",      "val_loss",         "mse",   "val_mae",
                                       "head_loss", "val_weighted_mse", "mae_1", "val_mean_squared_error"};
    static const char *const more[] = {"accuracy", "val_accuracy", "weighted_accuracy_2", "sparse_top_k",
                                       "val_head_acc"};
    for (size_t i = 0; i < sizeof less / sizeof less[0]; i++)
        ck_assert_int_eq(epochs_of(less[i]), 3);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        ck_assert_int_eq(epochs_of(more[i]), 6);
    ck_assert_int_eq(epochs_of("glossy"), -1);
    check_refused(ISO_INVALID, "'glossy', whose name does not say");
}
END_TEST

/* A value that is another one on each rank is the chief's for those behind: what depends on it is done by all
 * ranks or by none. */
static iso_status log_own(void *user, iso_fit_state *state)
{
    (void)user;
    return iso_fit_log(state, "own", (state->epoch + 1) * (7 * iso_rank(ctx) + 3) % 5);
}

static iso_status check_chiefs(void *user, iso_fit_state *state)
{
    (void)user;
    ck_assert_double_eq(iso_logs_get(&state->logs, "own"), (state->epoch + 1) * 3 % 5);
    return ISO_OK;
}

static iso_status log_on_chief(void *user, iso_fit_state *state)
{
    return iso_is_chief(ctx) ? log_own(user, state) : ISO_OK;
}

START_TEST(what_ranks_log_otherwise_is_the_chiefs)
{
    char best[64];
    snprintf(best, sizeof best, "/tmp/isogrid-own-%d", iso_is_chief(ctx) ? (int)getpid() : 0);
    iso_broadcast(ctx, best, sizeof best);
    char path[100], command[100];
    snprintf(path, sizeof path, "%s/{epoch}.weights.h5", best);
    iso_model *model = compiled_with(iso_sgd(0.01));
    check_ok(fit(model, 6,
                 (iso_callback *[]){iso_callback_create(.epoch_end = log_own),
                                    iso_early_stopping(.monitor = "own", .mode = ISO_MODE_MIN, .patience = 9,
                                                       .restore_best_weights = true),
                                    iso_model_checkpoint(path, .monitor = "own", .mode = ISO_MODE_MIN,
                                                         .save_best_only = true, .stop_on_error = true),
                                    iso_callback_create(.epoch_end = check_chiefs), NULL},
                 NULL));
    if (iso_ranks(ctx) > 1)
        check_refused(
            fit(model, 2, (iso_callback *[]){iso_callback_create(.epoch_end = log_on_chief), NULL}, NULL),
            "has 'loss, mae, own'");
    bool chief = iso_is_chief(ctx);
    iso_callback *lists[][2] = {
        /* what would leave ranks waiting for each other */
        {iso_early_stopping(.patience = chief ? 1 : 2), NULL},
        {iso_model_checkpoint(path, .save_freq = chief ? 1 : 2), NULL},
        {iso_model_checkpoint(path, .best = chief ? "loss" : "mae"), NULL},
        {iso_backup_and_restore(best, .keep_backup = chief), NULL},
        {iso_reduce_lr_on_plateau(.patience = chief ? 1 : 2), NULL},
        {iso_reduce_lr_on_plateau(.monitor = chief ? "loss" : "mae"), NULL},
        {iso_tensorboard(best, .histogram_freq = chief ? 1 : 2), NULL},
        {iso_profile(path, .step = chief ? 1 : 2), NULL},
        {iso_terminate_on_nan(.raise_error = chief), NULL},
        {chief ? iso_callback_create(.batch_end = log_own) : iso_callback_create(.epoch_end = log_own), NULL},
        {chief ? iso_terminate_on_nan(.raise_error = false) : NULL, NULL}};
    static const char *const what[][2] = {
        {"'callback 0 (early_stopping): patience = 1'", "'callback 0 (early_stopping): patience = 2'"},
        {"'callback 0 (model_checkpoint): save_freq = 1'", "save_freq = 2'"},
        {"'callback 0 (model_checkpoint): best = loss'", "best = mae'"},
        {"'callback 0 (backup_and_restore): keep_backup = 1'", "keep_backup = 0'"},
        {"'callback 0 (reduce_lr_on_plateau): patience = 1'", "patience = 2'"},
        {"'callback 0 (reduce_lr_on_plateau): monitor = loss'", "monitor = mae'"},
        {"'callback 0 (tensorboard): histogram_freq = 1'", "histogram_freq = 2'"},
        {"'callback 0 (profile): step = 1'", "step = 2'"},
        {"'callback 0 (terminate_on_nan): raise_error = 1'", "raise_error = 0'"},
        {"'callback 0 (of the program): functions = batch_end'", "functions = epoch_end'"},
        {"'callback 0 (terminate_on_nan): raise_error = 0'", "'nothing more'"}};
    enum { LISTS = sizeof lists / sizeof *lists };
    for (int i = 0; i < LISTS && iso_ranks(ctx) > 1; i++) {
        check_refused_naming(fit(model, 2, lists[i], NULL), what[i][0], what[i][1]);
        ck_assert_msg(strstr(iso_error_message(), "from rank 0 in fit's list of callbacks: rank 0"), "%s",
                      iso_error_message());
    }
    for (int i = 0; i < LISTS && iso_ranks(ctx) == 1; i++)
        iso_callback_destroy(lists[i][0]);
    snprintf(command, sizeof command, "rm -rf %s", best);
    ck_assert(!iso_is_chief(ctx) || system(command) == 0);
    iso_model_destroy(model);
}
END_TEST

static void check_callback_refused(iso_callback *callback, const char *part)
{
    iso_model *model = compiled_with(iso_sgd(0.1));
    check_refused(fit(model, 2, (iso_callback *[]){callback, NULL}, NULL), part);
    iso_model_destroy(model);
}

static double twice(void *user, int epoch, double rate)
{
    (void)user, (void)epoch;
    return 2 * rate;
}

static double negative(void *user, int epoch, double rate)
{
    (void)user, (void)epoch;
    return -rate;
}

static double by_rank(void *user, int epoch, double rate)
{
    (void)user, (void)epoch;
    return rate * (1 + iso_rank(ctx));
}

START_TEST(options_that_make_no_sense)
{
    check_callback_refused(iso_early_stopping(.patience = -1), "patience is -1");
    check_callback_refused(iso_early_stopping(.start_from_epoch = -2), "start_from_epoch is -2");
    check_callback_refused(iso_early_stopping(.min_delta = NAN), "min_delta is nan");
    check_callback_refused(iso_early_stopping(.mode = (iso_mode)7), "7 is not a mode");
    check_callback_refused(iso_reduce_lr_on_plateau(.factor = 1), "factor is 1");
    check_callback_refused(iso_reduce_lr_on_plateau(.factor = -0.5), "factor is -0.5");
    check_callback_refused(iso_reduce_lr_on_plateau(.patience = -3), "patience -3");
    check_callback_refused(iso_reduce_lr_on_plateau(.min_lr = -1), "min_lr is -1");
    check_callback_refused(iso_learning_rate_scheduler(NULL), "no function");
    check_callback_refused(iso_learning_rate_scheduler(negative), "learning rate of -0.1");
    check_callback_refused(iso_csv_logger("/tmp/x.csv", .separator = "ab"), "one character");
    check_callback_refused(iso_csv_logger(NULL), "no name");
    if (iso_ranks(ctx) > 1)
        check_callback_refused(iso_learning_rate_scheduler(by_rank), "the learning rate");
}
END_TEST

/* Through what is no folder: as root, too. */
START_TEST(checkpoints_that_cannot_be_written)
{
    check_watched(iso_model_checkpoint("/proc/self/stat/{epoch}.weights.h5"), NULL, ISO_INVALID,
                  "ModelCheckpoint: '/proc/self/stat/{epoch}.weights.h5': ");
    check_watched(iso_model_checkpoint("/proc/self/stat/{epoch}/x.weights.h5"), NULL, ISO_INVALID,
                  "/proc/self/stat");
    check_watched(iso_backup_and_restore("/proc/none"), NULL, ISO_INVALID,
                  "BackupAndRestore: '/proc/none/backup.weights.h5': ");
}
END_TEST

START_TEST(a_table_that_cannot_be_written)
{
    iso_model *model = compiled_with(iso_sgd(0.1));
    iso_status status = fit(model, 1, (iso_callback *[]){iso_csv_logger("/nowhere/t.csv"), NULL}, NULL);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_ptr_nonnull(
        strstr(iso_error_message(), "CSV file /nowhere/t.csv: it cannot be written: No such file"));
    iso_model_destroy(model);
}
END_TEST

/* ---- the learning rate ---- */

START_TEST(a_schedule_is_not_overruled)
{
    double rate;
    iso_model *model =
        compiled_with(iso_sgd(.schedule = iso_exponential_decay(0.5, .decay_steps = 5, .decay_rate = 0.5)));
    check_refused(fit(model, 2, (iso_callback *[]){iso_learning_rate_scheduler(twice), NULL}, NULL),
                  "schedule");
    check_refused(fit(model, 2, (iso_callback *[]){iso_reduce_lr_on_plateau(.patience = 1), NULL}, NULL),
                  "schedule");
    check_refused(iso_model_set_learning_rate(model, 1), "schedule");
    check_ok(fit(model, 1, NULL, NULL)); /* 5 steps */
    check_ok(iso_model_learning_rate(model, &rate));
    check_near("rate", &rate, (double[]){0.25}, 1, 1e-12);
    iso_model_destroy(model);
}
END_TEST

START_TEST(a_rate_that_was_set_is_used)
{
    double before[LINEAR_FEATURES], after[LINEAR_FEATURES], rate;
    iso_model *model = compiled_with(iso_sgd(0.1));
    check_ok(iso_model_set_learning_rate(model, 0));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), before, LINEAR_FEATURES));
    check_ok(fit(model, 1, NULL, NULL));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), after, LINEAR_FEATURES));
    check_near("kernel", after, before, LINEAR_FEATURES, 0);
    check_ok(iso_model_set_learning_rate(model, 0.5));
    check_ok(iso_model_learning_rate(model, &rate));
    ck_assert_double_eq(rate, 0.5);
    check_ok(fit(model, 1, NULL, NULL));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), after, LINEAR_FEATURES));
    ck_assert(before[0] != after[0]);
    iso_model_destroy(model);
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(LINEAR_FEATURES));
    model = iso_model_create(graph, x, x);
    check_refused(iso_model_learning_rate(model, &rate), "compiled");
    check_refused(iso_model_set_learning_rate(model, 1), "compiled");
    iso_model_destroy(model);
}
END_TEST

/* ---- the best ---- */

/* Keras compares with a NaN that came first for ever; here a NaN is never the best, first or later. */
START_TEST(a_loss_that_is_no_number_is_never_the_best)
{
    static const double values[] = {NAN, 3, NAN, 4, 2, 2.5};
    char folder[64], pattern[160];
    iso_model *model = compiled_with(iso_sgd(0.01));
    check_ok(make_test_folder(ctx, folder));
    snprintf(pattern, sizeof pattern, "%s/{epoch}.weights.h5", folder);
    check_ok(fit(model, 6,
                 (iso_callback *[]){losses(values),
                                    iso_model_checkpoint(pattern, .save_best_only = true,
                                                         .save_weights_only = true, .stop_on_error = true),
                                    NULL},
                 NULL));
    check_ok(iso_agree(ctx, ISO_OK));
    ck_assert_int_ne(access(in_folder(folder, "1.weights.h5"), F_OK), 0);
    ck_assert_int_eq(access(in_folder(folder, "2.weights.h5"), F_OK), 0);
    ck_assert_int_ne(access(in_folder(folder, "3.weights.h5"), F_OK), 0);
    ck_assert_int_ne(access(in_folder(folder, "4.weights.h5"), F_OK), 0);
    ck_assert_int_eq(access(in_folder(folder, "5.weights.h5"), F_OK), 0);
    ck_assert_int_ne(access(in_folder(folder, "6.weights.h5"), F_OK), 0);
    iso_model_destroy(model);
    check_ok(remove_test_folder(ctx, folder));
}
END_TEST

/* ---- training that diverges ---- */

typedef struct calls {
    int batches, epochs, ends;
} calls;

static iso_status count_batch(void *user, iso_fit_state *state)
{
    (void)state;
    ((calls *)user)->batches++;
    return ISO_OK;
}

static iso_status count_epoch(void *user, iso_fit_state *state)
{
    (void)state;
    ((calls *)user)->epochs++;
    return ISO_OK;
}

static iso_status count_end(void *user, iso_fit_state *state)
{
    (void)state;
    ((calls *)user)->ends++;
    return ISO_OK;
}

/* A rate so high that the weights are infinite after the first batch, the loss after the second. */
static calls diverge(bool raise_error, iso_history **history)
{
    calls c = {0};
    iso_model *model = compiled_with(iso_sgd(1e200));
    iso_status status =
        fit(model, 3,
            (iso_callback *[]){iso_terminate_on_nan(.raise_error = raise_error),
                               iso_callback_create(.batch_end = count_batch, .epoch_end = count_epoch,
                                                   .train_end = count_end, .user = &c),
                               NULL},
            history);
    ck_assert_int_eq(status, ISO_DIVERGED);
    ck_assert_int_eq(iso_status_exit_code(status), 3);
    ck_assert_msg(strstr(iso_error_message(), "training diverged: the loss is inf after batch 2 of epoch 1"),
                  "%s", iso_error_message());
    iso_model_destroy(model);
    return c;
}

START_TEST(training_ends_where_the_loss_is_no_number)
{
    iso_history *history = NULL;
    calls c = diverge(false, &history);
    ck_assert_int_eq(c.batches, 2);
    ck_assert_int_eq(c.epochs, 1);
    ck_assert_int_eq(c.ends, 1);
    ck_assert_int_eq(iso_history_epochs(history), 1);
    iso_history_destroy(history);
    c = diverge(true, NULL);
    ck_assert_int_eq(c.batches, 2);
    ck_assert_int_eq(c.epochs, 0);
    ck_assert_int_eq(c.ends, 0);
}
END_TEST

/* Weights grow by the rate in each step: the loss is infinite in the seventh, the second of the second epoch. */
static void check_saved(const char *below, int64_t save_freq, const char *names)
{
    char pattern[100], backup[100];
    const char *checkpoints = in_folder(below, "ck");
    snprintf(pattern, sizeof pattern, "%s/{epoch}-{batch}.weights.h5", checkpoints);
    snprintf(backup, sizeof backup, "%s/backup", below);
    iso_model *model = compiled_with(iso_sgd(1e30));
    iso_callback *list[] = {
        iso_model_checkpoint(pattern, .save_freq = save_freq, .keep = 1, .stop_on_error = true),
        iso_backup_and_restore(backup, .save_freq = save_freq, .stop_on_error = true),
        iso_terminate_on_nan(.raise_error = false), NULL};
    ck_assert_int_eq(fit(model, 3, list, NULL), ISO_DIVERGED);
    ck_assert_msg(strstr(iso_error_message(), "after batch 2 of epoch 2"), "%s", iso_error_message());
    ck_assert_str_eq(names_in(checkpoints), names);
    ck_assert_str_eq(names_in(backup), "backup.weights.h5 latest");
    iso_model_destroy(model);
}

START_TEST(weights_that_diverged_are_not_saved)
{
    char below[64];
    for (int by_batch = 0; by_batch < 2; by_batch++) {
        const char *names = by_batch ? "2-1.weights.h5 finished latest" : "1-5.weights.h5 finished latest";
        check_ok(make_test_folder(ctx, below));
        check_saved(below, by_batch, names);
        check_saved(below, by_batch, names); /* resumes, and so again */
        check_ok(remove_test_folder(ctx, below));
    }
}
END_TEST

START_TEST(training_that_does_not_diverge_goes_on)
{
    iso_model *model = compiled_with(iso_sgd(0.01));
    check_ok(fit(model, 2, (iso_callback *[]){iso_terminate_on_nan(.raise_error = true), NULL}, NULL));
    iso_model_destroy(model);
}
END_TEST

/* ---- state ---- */

/* Cuts a training in two after `cut` epochs. What a checkpoint would hold passes from one to the other: the
 * callbacks' states as text, their tensors as numbers, the weights as they were then. */
typedef struct handover {
    iso_callback **callbacks;
    int cut;
    bool second;
    iso_text json;
    iso_snapshot *weights;
    double tensors[4 * (LINEAR_FEATURES + 1)];
} handover;

static void copy_tensors(handover *h, bool out)
{
    iso_state_shards shards = {0};
    double *at = h->tensors;
    check_ok(iso_callbacks_shards(h->callbacks, &shards));
    for (int i = 0; i < shards.count; i++) {
        const iso_state_shard *shard = &shards.shards[i];
        ck_assert_ptr_nonnull(strstr(shard->path, "callbacks/early_stopping/0/d/"));
        ck_assert(at + shard->count <= h->tensors + sizeof h->tensors / sizeof h->tensors[0]);
        memcpy(out ? at : shard->data, out ? shard->data : at, (size_t)shard->count * sizeof *at);
        at += shard->count;
    }
    iso_state_shards_free(&shards);
}

static iso_status hand_over(void *user, iso_fit_state *state)
{
    handover *h = user;
    if (h->second || state->epoch + 1 != h->cut)
        return ISO_OK;
    check_ok(save_state(h->callbacks, &h->json));
    copy_tensors(h, true);
    return iso_snapshot_create(iso_model_graph(state->model), &h->weights);
}

static iso_status take_over(void *user, iso_fit_state *state)
{
    handover *h = user;
    (void)state;
    if (!h->second)
        return ISO_OK;
    check_ok(restore_state(h->callbacks, iso_text_get(&h->json)));
    copy_tensors(h, false);
    return iso_snapshot_put(h->weights);
}

typedef struct outcome {
    int epochs;
    double rate, kernel[LINEAR_FEATURES];
} outcome;

/* A training of 16 epochs at most, in one part or cut after `cut`. */
static outcome run_parts(int cut)
{
    static const double bumpy[] = {5, 4, 4.5, 3, 3.5, 3.4, 3.3, 2.9, 4, 4, 4, 4, 4, 4, 4, 4};
    outcome o = {0};
    iso_model *model = compiled_with(iso_sgd(0.05));
    iso_dataset *data = data_set();
    handover h = {.cut = cut};
    for (int part = cut ? 0 : 1; part < 2; part++) {
        iso_history *history = NULL;
        iso_callback *list[] = {
            losses(bumpy), iso_reduce_lr_on_plateau(.patience = 2, .factor = 0.5, .cooldown = 1),
            iso_early_stopping(.patience = 4, .restore_best_weights = true),
            iso_callback_create(.train_begin = take_over, .epoch_end = hand_over, .user = &h), NULL};
        h.callbacks = list;
        h.second = cut && part == 1;
        check_ok(iso_fit(model, data, .epochs = part ? 16 : cut, .initial_epoch = part ? cut : 0,
                         .verbose = ISO_ZERO, .callbacks = list, .history = &history));
        o.epochs += iso_history_epochs(history);
        iso_history_destroy(history);
    }
    check_ok(iso_model_learning_rate(model, &o.rate));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), o.kernel, LINEAR_FEATURES));
    iso_text_free(&h.json);
    iso_snapshot_destroy(h.weights);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    return o;
}

/* Wherever it is cut, even after the epoch in which it was stopped. */
START_TEST(states_pass_to_the_training_that_goes_on)
{
    outcome whole = run_parts(0);
    ck_assert_int_eq(whole.epochs, 12);
    ck_assert(whole.rate < 0.05);
    for (int cut = 1; cut <= 12; cut++) {
        outcome parts = run_parts(cut);
        ck_assert_int_eq(parts.epochs, whole.epochs);
        check_near("rate", &parts.rate, &whole.rate, 1, 0);
        check_near("kernel", parts.kernel, whole.kernel, LINEAR_FEATURES, 0);
    }
}
END_TEST

START_TEST(states_that_are_wrong)
{
    static const char *const wrong[] = {
        "{\"kind\": \"early_stopping\", \"state\": {\"best\": \"x\", \"best_epoch\": 1, \"wait\": 1, "
        "\"stopped_epoch\": 0}}",
        "{\"kind\": \"early_stopping\", \"state\": {\"best\": 1, \"best_epoch\": -1, \"wait\": 1, "
        "\"stopped_epoch\": 0}}",
        "{\"kind\": \"early_stopping\", \"state\": 5}",
        "{\"kind\": \"reduce_lr_on_plateau\", \"state\": {\"best\": null, \"wait\": 1e300}}",
        "{\"kind\": \"csv_logger\", \"state\": {\"bytes\": -3}}",
    };
    iso_callback *list[] = {iso_early_stopping(.patience = 1), iso_reduce_lr_on_plateau(.patience = 1),
                            iso_csv_logger("/tmp/never.csv"), NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, "[%s]", wrong[i]);
        check_refused(restore_state(list, text), "the state of a callback, ");
    }
    for (int i = 0; list[i]; i++)
        iso_callback_destroy(list[i]);
}
END_TEST

/* ---- another monitored value ---- */

typedef struct handed {
    iso_callback **list;
    char state[600];
    int epochs;
} handed;

static iso_status hand_state(void *user, iso_fit_state *state)
{
    handed *h = user;
    h->epochs++;
    return state->epoch == 0 ? restore_state(h->list, h->state) : ISO_OK;
}

/* A training that monitors the value "own", which rises by 1 in each epoch, with the state of one whose best value
 * was 9, and which early stopping has ended. named: what that one monitored, or "". Returns the epochs of 6. */
static int epochs_after(const char *named, double *rate, char *said, size_t size)
{
    iso_callback *list[] = {
        iso_early_stopping(.monitor = "own", .mode = ISO_MODE_MAX, .patience = 2),
        iso_reduce_lr_on_plateau(.monitor = "own", .mode = ISO_MODE_MAX, .patience = 2, .factor = 0.5), NULL};
    handed h = {.list = list};
    snprintf(h.state, sizeof h.state,
             "[{\"kind\": \"early_stopping\", \"state\": {\"best\": 9, \"best_epoch\": 1, \"wait\": 2, "
             "\"stopped_epoch\": 1%s}}, {\"kind\": \"reduce_lr_on_plateau\", \"state\": {\"best\": 9, "
             "\"wait\": 1, \"cooldown\": 0%s}}]",
             named, named);
    iso_model *model = compiled_with(iso_sgd(0.25));
    check_ok(fit_and_hear(
        model, 6,
        (iso_callback *[]){iso_callback_create(.epoch_end = rise, .user = "own"), list[0], list[1],
                           iso_callback_create(.epoch_begin = hand_state, .user = &h), NULL},
        said, size));
    check_ok(iso_model_learning_rate(model, rate));
    iso_model_destroy(model);
    return h.epochs;
}

START_TEST(another_value_begins_anew)
{
    static const char same[] = ", \"monitor\": \"own\", \"mode\": \"max\"",
                      mode[] = ", \"monitor\": \"own\", \"mode\": \"min\"",
                      other[] = ", \"monitor\": \"val_loss\", \"mode\": \"min\"";
    char said[2000], wanted[600] = "";
    double rate;
    ck_assert_int_eq(epochs_after(same, &rate, said, sizeof said), 1);
    ck_assert_double_eq(rate, 0.125);
    ck_assert_str_eq(said, "");
    ck_assert_int_eq(epochs_after("", &rate, said, sizeof said), 1); /* an older version's */
    ck_assert_double_eq(rate, 0.125);
    ck_assert_int_eq(epochs_after(mode, &rate, said, sizeof said), 6);
    ck_assert_int_eq(epochs_after(other, &rate, said, sizeof said), 6);
    ck_assert_double_eq(rate, 0.25);
    for (int i = 0; i < 2 && iso_is_chief(ctx); i++)
        snprintf(
            wanted + strlen(wanted), sizeof wanted - strlen(wanted),
            "isogrid: warning: %s: the checkpoint was written by a run that monitors 'val_loss' (min); it is "
            "'own' (max) from here on, and the best value so far is forgotten\n",
            i ? "reduce_lr_on_plateau" : "early stopping");
    ck_assert_str_eq(said, wanted);
}
END_TEST

/* ---- files that go on ---- */

static void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

/* A table of five epochs; or of three, of which two belong to a checkpoint, then of the others behind that.
 */
static void write_table(const char *path, bool cut, char *text, size_t size)
{
    static const double values[] = {1, 2, 3, 4, 5};
    iso_model *model = compiled_with(iso_sgd(0.05));
    handover h = {.cut = 2};
    iso_dataset *data = data_set();
    for (int part = cut ? 0 : 1; part < 2; part++) {
        iso_callback *list[] = {
            losses(values), iso_csv_logger(path),
            iso_callback_create(.train_begin = take_over, .epoch_end = hand_over, .user = &h), NULL};
        h.callbacks = list;
        h.second = cut && part == 1;
        check_ok(iso_fit(model, data, .epochs = part ? 5 : 3, .initial_epoch = h.second ? 2 : 0,
                         .verbose = ISO_ZERO, .callbacks = list));
    }
    if (iso_is_chief(ctx)) {
        read_text(path, text, size);
        remove(path);
    }
    iso_text_free(&h.json);
    iso_snapshot_destroy(h.weights);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}

START_TEST(tables_go_on_behind_a_checkpoint)
{
    char path[100], whole[2000] = "", parts[2000] = "";
    snprintf(path, sizeof path, "/tmp/isogrid-table-%d.csv", (int)getpid());
    write_table(path, false, whole, sizeof whole);
    write_table(path, true, parts, sizeof parts);
    ck_assert_str_eq(parts, whole);
}
END_TEST

static iso_status restore_table(void *user, iso_fit_state *state)
{
    (void)state;
    return restore_state(user, "[{\"kind\": \"csv_logger\", \"state\": {\"bytes\": 7}}]");
}

/* The checkpoint says that the table had 7 bytes, and in the file no line ends there: somebody has put
 * another file in its place, of which nothing is taken off. */
START_TEST(another_file_of_that_name_is_not_cut_off)
{
    static const char other[] = "notes of somebody else\n";
    char path[100], text[2000] = "";
    iso_model *model = compiled_with(iso_sgd(0.05));
    snprintf(path, sizeof path, "/tmp/isogrid-other-%d.csv", (int)getpid());
    if (iso_is_chief(ctx)) {
        FILE *file = fopen(path, "w");
        ck_assert(file && fputs(other, file) >= 0 && fclose(file) == 0);
    }
    iso_callback *table[] = {iso_csv_logger(path), NULL};
    iso_callback *list[] = {table[0], iso_callback_create(.train_begin = restore_table, .user = table), NULL};
    check_ok(fit(model, 1, list, NULL));
    if (iso_is_chief(ctx)) {
        read_text(path, text, sizeof text);
        remove(path);
        ck_assert_msg(strncmp(text, other, sizeof other - 1) == 0, "what is left is: %s", text);
    }
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    int failed = 1;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = data_parallel_begin("data=4", &ctx, &mesh, &distribution);
    if (status == ISO_OK)
        failed = RUN_TESTS(
            "callbacks", 0, callbacks_say_what_they_do, a_missing_value_is_told_once,
            what_cannot_come_is_refused, checkpoints_that_cannot_be_written, names_tell_what_is_better,
            what_ranks_log_otherwise_is_the_chiefs, options_that_make_no_sense,
            a_table_that_cannot_be_written, a_schedule_is_not_overruled, a_rate_that_was_set_is_used,
            training_ends_where_the_loss_is_no_number, weights_that_diverged_are_not_saved,
            training_that_does_not_diverge_goes_on, states_pass_to_the_training_that_goes_on,
            states_that_are_wrong, another_value_begins_anew, tables_go_on_behind_a_checkpoint,
            a_loss_that_is_no_number_is_never_the_best, another_file_of_that_name_is_not_cut_off);
    return data_parallel_end(ctx, mesh, distribution, status) || failed;
}
