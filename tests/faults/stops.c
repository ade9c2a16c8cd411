/* A training that signals ask to stop.
 *
 *   stops FOLDER SAVER [MOMENT EPOCH RANK SIGNAL...]
 *
 * Trains in FOLDER, and goes on from what an earlier run saved there. SAVER: checkpoint, named (the name has a
 * value of validation), backup, best (which keeps only the best), none. At MOMENT of EPOCH (from 0), rank
 * RANK, or each rank for `all`, gets the signals; more than a second passes between two. The signal `job` goes
 * to mpirun, which gives all ranks SIGUSR1. An evaluator does not train: it gets its signals at once, and ends.
 * MOMENT: set-up (before fit), train-begin, epoch-begin, batch-N, epoch-end, validation, test (an evaluation
 * after training), predict.
 *
 * FOLDER gets history.json, log.csv, events, the running loss after each step (steps), and after the last step
 * the fingerprint (print). */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"

enum { ROWS = 26, BATCH = 6, EPOCHS = 3, MOST_SIGNALS = 3, OF_JOB = 0 };

static struct {
    iso_context *ctx;
    const char *folder, *saver, *moment;
    int epoch, batch, rank; /* batch -1: another moment; rank -1: all */
    int signals[MOST_SIGNALS], n_signals;
    int now; /* the current epoch */
} run = {.moment = "", .batch = -1};

/* ---- signals ---- */

static void strike(void)
{
    if (run.rank >= 0 && run.rank != iso_rank(run.ctx))
        return;
    for (int i = 0; i < run.n_signals; i++) {
        if (i > 0)
            usleep(1200000);
        if (run.signals[i] == OF_JOB) {
            kill(getppid(), SIGUSR1);
            usleep(1200000); /* it is on its way */
        } else
            kill(getpid(), run.signals[i]);
    }
    run.n_signals = 0;
}

static iso_status at(const char *moment, const iso_fit_state *state)
{
    run.now = state->epoch;
    if (!strcmp(run.moment, moment) && state->epoch == run.epoch)
        strike();
    return ISO_OK;
}

static iso_status train_begin(void *user, iso_fit_state *state)
{
    (void)user;
    return at("train-begin", state);
}

static iso_status epoch_begin(void *user, iso_fit_state *state)
{
    (void)user;
    return at("epoch-begin", state);
}

static iso_status epoch_end(void *user, iso_fit_state *state)
{
    (void)user;
    return at("epoch-end", state);
}

static iso_status batch_begin(void *user, iso_fit_state *state)
{
    (void)user;
    run.now = state->epoch;
    if (state->epoch == run.epoch && state->batch == run.batch)
        strike();
    return ISO_OK;
}

static iso_status batch_end(void *user, iso_fit_state *state)
{
    (void)user;
    FILE *steps = iso_rank(run.ctx) == 0 ? fopen(in_folder(run.folder, "steps"), "a") : NULL;
    if (steps) {
        fprintf(steps, "%d %" PRId64 " %a\n", state->epoch, state->batch, iso_logs_get(&state->logs, "loss"));
        fclose(steps);
    }
    return ISO_OK;
}

/* Rows of validation, test and prediction pass here, on every rank that reads some. user: which of these. */
static iso_status pass_on(const iso_element *in, void *const *out, void *user)
{
    if (!strcmp(run.moment, user) && (run.now == run.epoch || strcmp(user, "validation") != 0))
        strike();
    for (int c = 0; c < in->components; c++) {
        int64_t count = 1;
        iso_shape_count(&in->shape[c], &count);
        memcpy(out[c], in->data[c], (size_t)(count * in->rows) * iso_dtype_size(in->dtype[c]));
    }
    return ISO_OK;
}

/* ---- the training ---- */

static iso_status make_data(const char *use, iso_dataset **data)
{
    iso_status status;
    ISO_TRY(iso_dataset_random(run.ctx, ROWS, data, .shape = ISO_SHAPE(6, 6, 1), .classes = 3));
    if (!strcmp(use, "training"))
        ISO_TRY(iso_dataset_shuffle(*data, 0));
    else
        ISO_TRY(iso_dataset_map(*data, pass_on, .user = (void *)(uintptr_t)use));
    ISO_TRY(iso_dataset_batch(*data, BATCH));
done:
    return status;
}

static iso_model *make_model(void)
{
    iso_graph *g = iso_graph_create(run.ctx);
    iso_tensor *x = iso_input(g, "image", ISO_F32, ISO_SHAPE(6, 6, 1));
    iso_tensor *h = iso_relu(iso_batch_norm(iso_conv2d(x, 4, 3, .padding = ISO_SAME, .no_bias = true)));
    h = iso_dropout(iso_dense(iso_flatten(h), 10, .activation = ISO_RELU, .name = "d1"), 0.4);
    return iso_model_create(g, x, iso_dense(h, 3, .name = "d2"));
}

static iso_callback *saver(void)
{
    const char *path = in_folder(run.folder, "ckpt/at.weights.h5");
    if (!strcmp(run.saver, "backup"))
        return iso_backup_and_restore(in_folder(run.folder, "ckpt"), .keep_backup = true);
    if (!strcmp(run.saver, "best"))
        return iso_model_checkpoint(path, .monitor = "loss", .save_best_only = true);
    if (!strcmp(run.saver, "named"))
        path = in_folder(run.folder, "ckpt/{epoch}-{val_loss:.3f}.weights.h5");
    return !strcmp(run.saver, "none") ? NULL : iso_model_checkpoint(path, .save_freq = 0);
}

static iso_status find(iso_saved_file **file)
{
    if (!strcmp(run.saver, "checkpoint"))
        return iso_checkpoint_find(run.ctx, in_folder(run.folder, "ckpt"), "at.weights.h5", file, NULL);
    if (!strcmp(run.saver, "named"))
        return iso_checkpoint_find(run.ctx, in_folder(run.folder, "ckpt"),
                                   "{epoch}-{val_loss:.3f}.weights.h5", file, NULL);
    return ISO_OK;
}

static iso_status fit(iso_model *model, iso_dataset *training, iso_dataset *validation)
{
    iso_saved_file *from = NULL;
    iso_status status = find(&from);
    if (status != ISO_OK)
        return status;
    iso_callback *list[] = {
        iso_early_stopping(.monitor = "val_loss", .patience = EPOCHS, .restore_best_weights = true),
        iso_callback_create(.train_begin = train_begin, .epoch_begin = epoch_begin, .epoch_end = epoch_end,
                            .batch_begin = batch_begin, .batch_end = batch_end, .collective = true),
        iso_history_file(in_folder(run.folder, "history.json")),
        iso_csv_logger(in_folder(run.folder, "log.csv")),
        iso_tensorboard(in_folder(run.folder, "events"), .update_freq = 1),
        saver(),
        NULL};
    return iso_fit(model, training, .epochs = EPOCHS, .validation = validation, .callbacks = list,
                   .resume_file = from, .verbose = ISO_ZERO);
}

static iso_status print_fingerprint(iso_model *model)
{
    iso_fingerprint print;
    iso_status status = iso_graph_fingerprint(iso_model_graph(model), &print);
    FILE *file =
        status == ISO_OK && iso_is_chief(run.ctx) ? fopen(in_folder(run.folder, "print"), "w") : NULL;
    for (size_t i = 0; file && i < sizeof print; i++)
        fprintf(file, "%02x", ((const unsigned char *)&print)[i]);
    if (file)
        fclose(file);
    return status;
}

static iso_status train(iso_model *model)
{
    iso_dataset *data[4] = {NULL};
    static const char *const uses[] = {"training", "validation", "test", "predict"};
    float outputs[ROWS * 3];
    iso_status status = ISO_OK;
    for (int i = 0; i < 4; i++)
        ISO_TRY(make_data(uses[i], &data[i]));
    ISO_TRY(iso_compile(model, .optimizer = iso_adam(1e-2), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                        .metrics = {ISO_METRIC_SPARSE_ACCURACY}));
    ISO_TRY(iso_stop_on_signals(run.ctx));
    if (!strcmp(run.moment, "set-up"))
        strike();
    ISO_TRY(fit(model, data[0], data[1]));
    ISO_TRY(iso_evaluate(model, data[2], .verbose = ISO_ZERO));
    ISO_TRY(iso_predict(model, data[3], .outputs = {outputs}, .verbose = ISO_ZERO));
    ISO_TRY(print_fingerprint(model));
done:
    for (int i = 0; i < 4; i++)
        iso_dataset_destroy(data[i]);
    return status;
}

static void read_arguments(int argc, char **argv)
{
    run.folder = argv[1];
    run.saver = argv[2];
    if (argc < 7)
        return;
    run.moment = argv[3];
    if (!strncmp(run.moment, "batch-", 6))
        run.batch = atoi(run.moment + 6);
    run.epoch = atoi(argv[4]);
    run.rank = strcmp(argv[5], "all") ? atoi(argv[5]) : -1;
    for (int i = 6; i < argc && run.n_signals < MOST_SIGNALS; i++)
        run.signals[run.n_signals++] = strcmp(argv[i], "job") ? atoi(argv[i]) : OF_JOB;
}

static iso_status evaluator(void)
{
    iso_status status = iso_stop_on_signals(run.ctx);
    strike();
    return status;
}

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &run.ctx);
    if (status == ISO_OK && argc < 3)
        status = iso_error(ISO_INVALID, "stops FOLDER SAVER [MOMENT EPOCH RANK SIGNAL...]");
    if (status == ISO_OK) {
        read_arguments(argc, argv);
        if (iso_role(run.ctx) == ISO_EVALUATOR)
            return iso_finish(run.ctx, evaluator());
        iso_model *model = make_model();
        status = train(model);
        iso_model_destroy(model);
    }
    return iso_finish(run.ctx, status);
}
