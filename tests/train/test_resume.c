/* A training that stops after any step and goes on from its checkpoint gives the losses, weights and order of
 * rows of the one that never stopped, to the last bit on the same mesh, with any number of ranks: dropout,
 * batch statistics, shuffling, Adam, a shorter last batch, running sums, callbacks with a state. On
 * another mesh to rounding. The oracle is the training without a stop. Ranks: 1, 3   More: 4
 * */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "models/models.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];

enum { ROWS = 26, BATCH = 6, STEPS = 5, EPOCHS = 3 };

/* ---- a training ---- */

typedef struct setting {
    const char *mesh;
    int zero;
    bool some; /* the mesh's two slots on the last rank and on the first: others idle */
} setting;

/* What a run is and leaves. */
typedef struct run {
    setting where;
    const char *resume; /* or NULL */
    iso_saved_file *resume_file;
    const char *save; /* where checkpoints go; NULL: none */
    int64_t save_freq;
    int stop_after;        /* steps of this run; 0: never */
    bool backup;           /* BackupAndRestore instead */
    bool stopping;         /* with EarlyStopping, which keeps the "best" weights: those of the worst loss */
    const char *optimizer; /* NULL: Adam with a learning rate of 0.01 */
    /* results */
    int steps;  /* made by this run */
    int epochs; /* of which this run saw the end */
    double logs[EPOCHS][8];
    int values;
    iso_fingerprint fingerprint;
    uint64_t seen[EPOCHS * STEPS]; /* loss's running mean after each step, as bits; at the step's number */
} run;

/* own: with a variable that belongs to no layer, which Keras's list of the optimizer's state does not have. */
static iso_model *build(bool own)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(6, 6, 1));
    iso_tensor *h = iso_conv2d(x, 4, 3, .padding = ISO_SAME, .no_bias = true);
    h = iso_relu(iso_batch_norm(h));
    h = iso_dropout(iso_dense(iso_flatten(h), 10, .activation = ISO_RELU, .name = "d1"), 0.4);
    h = iso_dense(h, 3, .name = "d2");
    if (own)
        h = iso_multiply(
            h, iso_variable_value(iso_variable_create(g, "own/scale", ISO_F32, ISO_SHAPE(3),
                                                      (iso_initializer){.kind = ISO_INIT_ONES}, true)));
    return iso_model_create(g, x, h);
}

static iso_dataset *make_data(void)
{
    iso_dataset *data;
    check_ok(iso_dataset_random(ctx, ROWS, &data, .shape = ISO_SHAPE(6, 6, 1), .classes = 3));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, BATCH));
    return data;
}

static iso_status after_batch(void *user, iso_fit_state *state)
{
    run *r = user;
    double loss = iso_logs_get(&state->logs, "loss");
    memcpy(&r->seen[state->epoch * STEPS + state->batch], &loss, sizeof loss);
    if (++r->steps == r->stop_after)
        state->stop = true;
    return ISO_OK;
}

static iso_status after_epoch(void *user, iso_fit_state *state)
{
    run *r = user;
    if (r->steps == r->stop_after && state->batch != STEPS - 1)
        return ISO_OK;
    r->epochs++;
    r->values = state->logs.count;
    for (int i = 0; i < state->logs.count; i++)
        r->logs[state->epoch][i] = state->logs.value[i];
    return ISO_OK;
}

static void callbacks_of(run *r, iso_callback **callbacks)
{
    int count = 0;
    if (r->stopping)
        callbacks[count++] = iso_early_stopping(.monitor = "val_loss", .patience = EPOCHS,
                                                .restore_best_weights = true, .mode = ISO_MODE_MAX);
    callbacks[count++] = iso_callback_create(.batch_end = after_batch, .epoch_end = after_epoch, .user = r);
    if (r->save && r->backup)
        callbacks[count++] =
            iso_backup_and_restore(r->save, .save_freq = r->save_freq, .stop_on_error = true);
    else if (r->save)
        callbacks[count++] =
            iso_model_checkpoint(r->save, .save_freq = r->save_freq, .keep = 2, .stop_on_error = true);
    callbacks[count] = NULL;
}

static void compile(iso_model *model, iso_distribution *distribution, const char *name)
{
    iso_optimizer optimizer = iso_adam(1e-2);
    if (name)
        check_ok(iso_optimizer_find(name, &optimizer));
    if (name) {
        optimizer.use_ema = true;
        optimizer.ema_overwrite_frequency = 3;
    }
    check_ok(iso_compile(model, .optimizer = optimizer, .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .metrics = {ISO_METRIC_SPARSE_ACCURACY, ISO_METRIC_MEAN_IOU},
                         .metric_settings = {{0}, {.dense_y_pred = true}}, .distribution = distribution));
}

static void train(run *r)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_callback *callbacks[5];
    const int last_and_first[] = {iso_ranks(ctx) - 1, 0};
    iso_model *model = build(true);
    iso_dataset *data = make_data(), *validation = make_data();
    check_ok(r->where.some ? iso_mesh_create_on(ctx, r->where.mesh, last_and_first, 2, &mesh)
                           : iso_mesh_create(ctx, r->where.mesh, &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    check_ok(iso_distribution_set_zero(distribution, r->where.zero));
    compile(model, distribution, r->optimizer);
    callbacks_of(r, callbacks);
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .validation = validation, .callbacks = callbacks,
                     .resume = r->resume, .resume_file = r->resume_file, .verbose = ISO_ZERO));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &r->fingerprint));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_dataset_destroy(validation);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}

/* ---- comparing ---- */

static void check_same_weights(const run *a, const run *b)
{
    ck_assert_msg(!memcmp(&a->fingerprint, &b->fingerprint, sizeof a->fingerprint),
                  "mesh %s, zero %d: other weights", a->where.mesh, a->where.zero);
}

/* b went on after `step` steps of what a did whole. */
static void check_continued(const run *a, const run *b, int step)
{
    check_same_weights(a, b);
    ck_assert_int_eq(b->steps, EPOCHS * STEPS - step);
    for (int i = step; i < EPOCHS * STEPS; i++)
        ck_assert_msg(a->seen[i] == b->seen[i], "step %d: another running loss", i);
    for (int e = step / STEPS; e < EPOCHS; e++)
        for (int i = 0; i < a->values; i++)
            ck_assert_msg(a->logs[e][i] == b->logs[e][i], "epoch %d, value %d: %.17g, %.17g", e, i,
                          a->logs[e][i], b->logs[e][i]);
}

static const char *path_of(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- tests ---- */

static const setting settings[] = {
    {"data=4", 1, false}, {"data=2,model=2", 1, false}, {"data=4", 3, false}, {"data=5", 2, false}};
enum { SETTINGS = 4 };

START_TEST(goes_on_after_any_step)
{
    for (int s = 0; s < SETTINGS; s++) {
        run whole = {.where = settings[s]};
        train(&whole);
        ck_assert_int_eq(whole.steps, EPOCHS * STEPS);
        for (int step = 1; step < EPOCHS * STEPS; step += s == 0 ? 1 : 4) {
            char save[400], from[400];
            snprintf(save, sizeof save, "%s/any-{epoch}-{batch}.weights.h5", folder);
            run first = {.where = settings[s], .save = save, .save_freq = 1, .stop_after = step};
            train(&first);
            ck_assert_int_eq(first.steps, step);
            snprintf(from, sizeof from, "%s/any-%d-%d.weights.h5", folder, (step - 1) / STEPS + 1,
                     (step - 1) % STEPS + 1);
            run second = {.where = settings[s], .resume = from};
            train(&second);
            check_continued(&whole, &second, step);
        }
    }
}
END_TEST

/* Slots and the optimizer's own variables, split and not. */
START_TEST(goes_on_with_every_optimizer)
{
    const char *mesh = iso_ranks(ctx) > 3 ? "data=4" : "data=3";
    const setting where[] = {{mesh, 1, false}, {mesh, 3, false}};
    for (int i = 0; i < 2 * iso_optimizer_count(); i++) {
        const char *name = iso_optimizer_name(i / 2);
        char save[400], from[400];
        snprintf(save, sizeof save, "%s/%s-{epoch}-{batch}.weights.h5", folder, name);
        run whole = {.where = where[i % 2], .optimizer = name, .save = save, .save_freq = 7};
        train(&whole);
        snprintf(from, sizeof from, "%s/%s-2-2.weights.h5", folder, name);
        run second = {.where = where[i % 2], .optimizer = name, .resume = from};
        train(&second);
        check_continued(&whole, &second, 7);
    }
}
END_TEST

START_TEST(goes_on_after_epochs)
{
    run whole = {.where = settings[0]};
    train(&whole);
    char save[400];
    snprintf(save, sizeof save, "%s/deep/er/{epoch:02d}-{val_loss:.4f}.weights.h5", folder);
    run first = {.where = settings[0], .save = save, .stop_after = 2 * STEPS};
    train(&first);
    iso_saved_file *newest = NULL;
    char path[400];
    snprintf(path, sizeof path, "%s/deep/er", folder);
    check_ok(iso_checkpoint_find(ctx, path, "{epoch:02d}-{val_loss:.4f}.weights.h5", &newest, NULL));
    ck_assert_ptr_nonnull(newest);
    char want[500];
    snprintf(want, sizeof want, "%s/02-%.4f.weights.h5", path, first.logs[1][3]);
    ck_assert_str_eq(iso_saved_file_path(newest), want);
    run second = {.where = settings[0], .resume_file = newest};
    train(&second);
    check_continued(&whole, &second, 2 * STEPS);
}
END_TEST

/* A checkpoint of any mesh is read on any other: equal where it begins, near where it ends. */
START_TEST(goes_on_on_another_mesh)
{
    static const setting others[] = {
        {"data=4", 3, false}, {"data=1,model=4", 1, false}, {"data=6", 1, false}};
    char save[400], from[400];
    snprintf(save, sizeof save, "%s/mesh-{epoch}-{batch}.weights.h5", folder);
    run first = {.where = {"data=2,model=3", 3}, .save = save, .save_freq = 7, .stop_after = 7};
    train(&first);
    snprintf(from, sizeof from, "%s/mesh-2-2.weights.h5", folder);
    run whole = {.where = {"data=2,model=3", 3}};
    train(&whole);
    for (int i = 0; i < 3; i++) {
        run second = {.where = others[i], .resume = from};
        train(&second);
        for (int v = 0; v < whole.values; v++)
            ck_assert_msg(fabs(whole.logs[EPOCHS - 1][v] - second.logs[EPOCHS - 1][v]) < 1e-4,
                          "mesh %s, value %d: %.9g, %.9g", others[i].mesh, v, whole.logs[EPOCHS - 1][v],
                          second.logs[EPOCHS - 1][v]);
    }
}
END_TEST

/* The best weights so far travel in the checkpoint: they are what training ends with. */
START_TEST(keeps_the_best_weights)
{
    static const setting where[] = {{"data=4", 1, false}, {"data=4", 3, false}, {"data=2", 1, true}};
    for (int s = 0; s < 3; s++) {
        char save[400], from[400];
        run whole = {.where = where[s], .stopping = true}, without = {.where = where[s]};
        train(&whole);
        train(&without);
        ck_assert(memcmp(&whole.fingerprint, &without.fingerprint, sizeof whole.fingerprint));
        snprintf(save, sizeof save, "%s/best-{epoch}-{batch}.weights.h5", folder);
        run first = {.where = where[s], .stopping = true, .save = save, .save_freq = 6, .stop_after = 12};
        train(&first);
        snprintf(from, sizeof from, "%s/best-3-2.weights.h5", folder);
        run second = {.where = where[s], .stopping = true, .resume = from};
        train(&second);
        check_continued(&whole, &second, 12);
    }
}
END_TEST

START_TEST(backup_goes_on_and_goes)
{
    struct stat facts;
    run whole = {.where = settings[0]};
    train(&whole);
    char save[400], file[500];
    snprintf(save, sizeof save, "%s/backup", folder);
    snprintf(file, sizeof file, "%s/backup.weights.h5", save);
    run first = {.where = settings[0], .save = save, .save_freq = 3, .backup = true};
    train(&first);
    check_same_weights(&whole, &first);
    check_ok(iso_agree(ctx, ISO_OK));
    ck_assert_int_ne(stat(file, &facts), 0); /* done: nobody is to go on from it */
    ck_assert_int_ne(stat(save, &facts), 0);
}
END_TEST

/* Goes on from a backup that stands before the others in the list: they keep what the checkpoint gives them.
 * The "best" epoch is that of the worst loss, the first. */
static iso_status stops_after(void *user, iso_fit_state *state)
{
    state->stop = state->epoch == *(const int *)user;
    return ISO_OK;
}

static void train_with_backup(int last_epoch)
{
    char backup[400], best[500];
    snprintf(backup, sizeof backup, "%s/order", folder);
    snprintf(best, sizeof best, "%s/order-{epoch}.weights.h5", folder);
    iso_model *model = build(false);
    iso_dataset *data = make_data();
    iso_callback *list[] = {iso_backup_and_restore(backup, .keep_backup = true),
                            iso_model_checkpoint(best, .monitor = "loss", .mode = ISO_MODE_MAX,
                                                 .save_best_only = true, .save_weights_only = true),
                            iso_callback_create(.epoch_end = stops_after, .user = &last_epoch), NULL};
    compile(model, NULL, NULL);
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .callbacks = list, .verbose = ISO_ZERO));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}

START_TEST(callbacks_keep_their_state_in_any_order)
{
    struct stat facts;
    train_with_backup(0);
    train_with_backup(EPOCHS);
    ck_assert_int_eq(stat(path_of("order-1.weights.h5"), &facts), 0);
    ck_assert_int_ne(stat(path_of("order-2.weights.h5"), &facts), 0);
    ck_assert_int_ne(stat(path_of("order-3.weights.h5"), &facts), 0);
}
END_TEST

/* Saves after each epoch into the folder `both`. */
static void train_into_both(const char *name, int epochs, const char *backup)
{
    char path[400];
    snprintf(path, sizeof path, "%s/both/%s-{batch}.weights.h5", folder, name);
    iso_model *model = build(true);
    iso_dataset *data = make_data();
    iso_callback *list[] = {
        iso_model_checkpoint(path, .save_freq = STEPS),
        backup ? iso_backup_and_restore(backup, .save_freq = 12, .keep_backup = true) : NULL, NULL};
    compile(model, NULL, NULL);
    check_ok(iso_fit(model, data, .epochs = epochs, .callbacks = list, .verbose = ISO_ZERO));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}

static void check_number(const char *name, uint64_t expected)
{
    iso_saved_file *file = NULL;
    uint64_t number = 0;
    check_ok(iso_saved_file_open(ctx, path_of(name), &file));
    ck_assert(iso_saved_file_committed(file, &number));
    ck_assert_uint_eq(number, expected);
    iso_saved_file_close(file);
}

/* A training that begins anew beside checkpoints of another one, 10 steps long: their numbers are below those of
 * its checkpoints and of its backup, whose first one comes after more than 10 steps. */
START_TEST(backups_and_checkpoints_are_numbered_together)
{
    char backup[400];
    snprintf(backup, sizeof backup, "%s/both-backup", folder);
    train_into_both("old-{epoch}", 2, NULL);
    check_number("both/old-2-5.weights.h5", 10);
    train_into_both("new-{epoch}", 3, backup);
    check_number("both/new-1-5.weights.h5", 10 + 5);
    check_number("both-backup/backup.weights.h5", 10 + 12);
    check_number("both/new-3-5.weights.h5", 10 + 15);
}
END_TEST

/* A second training of the same model, cut in two: its first steps are not those of the graph's random
 * numbers, by which dropout draws. */
static iso_fingerprint train_twice(const char *save, const char *resume, int stop_after)
{
    iso_fingerprint result;
    iso_model *model = build(true);
    iso_dataset *data = make_data();
    compile(model, NULL, NULL);
    if (!resume)
        check_ok(iso_fit(model, data, .epochs = 1, .verbose = ISO_ZERO));
    run r = {.stop_after = stop_after};
    iso_callback *list[] = {iso_callback_create(.batch_end = after_batch, .user = &r),
                            save ? iso_model_checkpoint(save, .save_freq = 3, .stop_on_error = true) : NULL,
                            NULL};
    check_ok(
        iso_fit(model, data, .epochs = EPOCHS, .callbacks = list, .resume = resume, .verbose = ISO_ZERO));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &result));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    return result;
}

START_TEST(a_second_training_goes_on)
{
    char save[400], from[400];
    snprintf(save, sizeof save, "%s/second-{epoch}-{batch}.weights.h5", folder);
    snprintf(from, sizeof from, "%s/second-2-1.weights.h5", folder);
    iso_fingerprint whole = train_twice(NULL, NULL, 0);
    train_twice(save, NULL, STEPS + 1);
    iso_fingerprint parts = train_twice(NULL, from, 0);
    ck_assert_msg(memcmp(&whole, &parts, sizeof whole) == 0,
                  "other weights after going on in a second training");
}
END_TEST

/* The last save cannot take the place of the backup: that stays, to go on from. */
static iso_status block_backup(void *user, iso_fit_state *state)
{
    char file[500], aside[500], within[600];
    if (state->epoch + 1 < EPOCHS || !iso_is_chief(ctx))
        return ISO_OK;
    snprintf(file, sizeof file, "%s/backup.weights.h5", (const char *)user);
    snprintf(aside, sizeof aside, "%s/aside", (const char *)user);
    snprintf(within, sizeof within, "%s/within", file);
    ck_assert(rename(file, aside) == 0 && mkdir(file, 0700) == 0 && mkdir(within, 0700) == 0);
    return ISO_OK;
}

START_TEST(a_backup_stays_where_the_last_save_failed)
{
    char save[400], latest[500];
    struct stat facts;
    snprintf(save, sizeof save, "%s/blocked", folder);
    snprintf(latest, sizeof latest, "%s/latest", save);
    iso_model *model = build(true);
    iso_dataset *data = make_data();
    /* waits: no save of an earlier epoch is still under way when block_backup moves the file */
    iso_callback *list[] = {iso_callback_create(.epoch_end = block_backup, .user = save),
                            iso_backup_and_restore(save, .waits = true, .stop_on_error = true), NULL};
    compile(model, NULL, NULL);
    iso_status status = iso_fit(model, data, .epochs = EPOCHS, .callbacks = list, .verbose = ISO_ZERO);
    ck_assert_int_eq(status, ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "backup.weights.h5"));
    check_ok(iso_agree(ctx, ISO_OK));
    ck_assert_int_eq(stat(path_of("blocked/aside"), &facts), 0);
    ck_assert_msg(lstat(latest, &facts) == 0, "the backup was removed although the last save failed");
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}
END_TEST

static void expect_refusal(iso_model *model, iso_dataset *data, const char *resume, const char *part)
{
    check_refused(iso_fit(model, data, .epochs = EPOCHS, .resume = resume, .verbose = ISO_ZERO), part);
}

START_TEST(refuses_what_is_not_its_own)
{
    char save[400], from[400];
    snprintf(save, sizeof save, "%s/own-{epoch}-{batch}.weights.h5", folder);
    run first = {.where = settings[0], .save = save, .save_freq = 3, .stop_after = 3};
    train(&first);
    snprintf(from, sizeof from, "%s/own-1-3.weights.h5", folder);
    iso_dataset *data = make_data(), *other;
    check_ok(iso_dataset_random(ctx, ROWS, &other, .shape = ISO_SHAPE(6, 6, 1), .classes = 3));
    check_ok(iso_dataset_batch(other, BATCH + 1));
    iso_model *model = build(true);
    compile(model, NULL, NULL);
    expect_refusal(model, other, from, "in the middle of an epoch");
    iso_saved_file *file;
    check_ok(iso_saved_file_open(ctx, from, &file));
    check_refused(iso_fit(model, data, .resume = from, .resume_file = file), "give one of them");
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(6, 6, 1));
    iso_model *stranger = iso_model_create(g, x, iso_dense(iso_flatten(x), 3, .name = "d2"));
    compile(stranger, NULL, NULL);
    expect_refusal(stranger, data, from, "another model");
    iso_status status = iso_model_load_weights(stranger, from);
    ck_assert_int_eq(status, ISO_INVALID);
    check_refused(iso_model_load_weights(model, NULL), "is NULL");
    compile(model, NULL, "adam");
    expect_refusal(model, data, from,
                   "use_ema false, this one has use_ema true: only one of them has averages");
    const char *weights = path_of("only.weights.h5");
    check_ok(iso_model_save_weights(model, weights));
    expect_refusal(model, data, weights, "holds weights, but no training state");
    iso_model_destroy(model);
    iso_model_destroy(stranger);
    iso_dataset_destroy(data);
    iso_dataset_destroy(other);
}
END_TEST

static iso_model *built(iso_context *context)
{
    ck_assert_ptr_eq(context, ctx);
    return build(true);
}

START_TEST(makes_or_restores)
{
    char none[400], some[400], save[400];
    iso_model *model = NULL;
    iso_fingerprint fresh, restored;
    snprintf(none, sizeof none, "%s/none", folder);
    snprintf(some, sizeof some, "%s/some", folder);
    snprintf(save, sizeof save, "%s/some/{epoch}.weights.h5", folder);
    check_ok(iso_model_restore_or_create(ctx, none, built, &model));
    compile(model, NULL, NULL);
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &fresh));
    iso_model_destroy(model);
    run first = {.where = {NULL, 1}, .save = save};
    train(&first);
    check_ok(iso_model_restore_or_create(ctx, some, built, &model));
    compile(model, NULL, NULL);
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &restored));
    ck_assert_mem_eq(&restored, &first.fingerprint, sizeof restored);
    ck_assert_mem_ne(&restored, &fresh, sizeof restored);
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        status = make_test_folder(ctx, folder);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int code =
        RUN_TESTS("resume", 300, goes_on_after_any_step, goes_on_with_every_optimizer, goes_on_after_epochs,
                  goes_on_on_another_mesh, keeps_the_best_weights, backup_goes_on_and_goes,
                  backups_and_checkpoints_are_numbered_together, a_second_training_goes_on,
                  a_backup_stays_where_the_last_save_failed, callbacks_keep_their_state_in_any_order,
                  refuses_what_is_not_its_own, makes_or_restores);
    return iso_finish(ctx, remove_test_folder(ctx, folder)) || code;
}
