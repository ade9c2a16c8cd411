/* Keras's TensorBoard: what is written when, and under which tag. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/session/roles.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/step_trace.h"
#include "runtime/train/tensorboard/event_file.h"
#include "runtime/train/tensorboard/parameters.h"
#include "runtime/train/tensorboard/trace_file.h"
#include "runtime/train/training_impl.h"

typedef struct tensorboard {
    iso_tensorboard_options options;
    char *train_folder, *validation_folder, *evaluator_folder;
    iso_event_file *train, *validation; /* on the chief; validation: made with its first value */
    iso_event_file *evaluator;          /* of iso_follow; made with its first value */
    iso_step_trace trace;
    double epoch_begin, batch_begin; /* seconds */
    int64_t steps_before;            /* total steps before the epoch; -1: the epoch began in another run */
    iso_status failed;               /* of the chief between batches, reported at the end of the epoch */
    char message[512];
} tensorboard;

/* ---- scalars ---- */

static iso_status add_scalar(iso_event_file *file, const char *before, const char *name, const char *behind,
                             double value, int64_t step)
{
    char tag[256];
    snprintf(tag, sizeof tag, "%s%s%s", before, name, behind);
    return iso_event_file_scalar(file, tag, value, step);
}

static bool of_validation(const char *name)
{
    return strncmp(name, "val_", 4) == 0;
}

/* The epoch's training values. `rate` is the logs' value if a callback has changed the learning rate. */
static iso_status add_epoch(tensorboard *tb, const iso_fit_state *state, double rate)
{
    const iso_logs *logs = &state->logs;
    int64_t steps = state->training->cursor.trained - tb->steps_before;
    iso_status status = ISO_OK;
    for (int i = 0; i < logs->count; i++)
        if (!of_validation(logs->name[i]) && strcmp(logs->name[i], "learning_rate") != 0)
            ISO_TRY(add_scalar(tb->train, "epoch_", logs->name[i], "", logs->value[i], state->epoch));
    ISO_TRY(add_scalar(tb->train, "epoch_", "learning_rate", "", rate, state->epoch));
    if (tb->options.write_steps_per_second && tb->steps_before >= 0)
        ISO_TRY(add_scalar(tb->train, "epoch_", "steps_per_second", "",
                           (double)steps / (iso_clock() - tb->epoch_begin), state->epoch));
done:
    return status;
}

/* The epoch's validation values, by epoch and by the optimizer's iterations. */
static iso_status add_validation(tensorboard *tb, const iso_fit_state *state, int64_t iterations)
{
    const iso_logs *logs = &state->logs;
    iso_status status = ISO_OK;
    for (int i = 0; i < logs->count; i++) {
        if (!of_validation(logs->name[i]))
            continue;
        if (!tb->validation)
            ISO_TRY(iso_event_file_create(tb->validation_folder, &tb->validation));
        ISO_TRY(add_scalar(tb->validation, "evaluation_", logs->name[i] + 4, "_vs_iterations", logs->value[i],
                           iterations));
        ISO_TRY(add_scalar(tb->validation, "epoch_", logs->name[i] + 4, "", logs->value[i], state->epoch));
    }
done:
    return status;
}

static iso_status add_batch(tensorboard *tb, const iso_fit_state *state)
{
    const iso_logs *logs = &state->logs;
    int64_t step = iso_training_steps(state->training);
    iso_status status = ISO_OK;
    if (tb->options.write_steps_per_second)
        ISO_TRY(add_scalar(tb->train, "batch_", "steps_per_second", "", 1 / (iso_clock() - tb->batch_begin),
                           step));
    for (int i = 0; i < logs->count; i++)
        ISO_TRY(add_scalar(tb->train, "batch_", logs->name[i], "", logs->value[i], step));
done:
    return status;
}

/* ---- histograms ---- */

static iso_status write_histograms(tensorboard *tb, const iso_fit_state *state)
{
    iso_histogram *list = NULL;
    int count = 0;
    char tag[512];
    iso_status status = iso_graph_histograms(state->training->model->graph, &list, &count);
    for (int i = 0; tb->train && status == ISO_OK && i < count; i++) {
        snprintf(tag, sizeof tag, "%s/histogram", list[i].path);
        status = iso_event_file_histogram(tb->train, tag, &list[i], state->epoch);
    }
    iso_free(list);
    return status;
}

/* ---- hooks ---- */

static iso_status tensorboard_check(const iso_tensorboard_options *options)
{
    if (!options->path)
        return iso_error(ISO_INVALID, "TensorBoard was given no folder");
    if (options->update_freq < 0 || options->histogram_freq < 0 || options->profile_batch < 0)
        return iso_error(
            ISO_INVALID,
            "TensorBoard: update_freq %lld, histogram_freq %d and profile_batch %lld must not be "
            "negative",
            (long long)options->update_freq, options->histogram_freq, (long long)options->profile_batch);
    return ISO_OK;
}

static iso_status write_parameters(tensorboard *tb, const iso_fit_state *state)
{
    iso_text text = {0};
    iso_parameters_text(state, &text);
    iso_status status = text.failed
                            ? iso_no_memory("a table of hyperparameters")
                            : iso_event_file_text(tb->train, "hyperparameters", iso_text_get(&text), 0);
    iso_text_free(&text);
    return status == ISO_OK ? iso_event_file_flush(tb->train) : status;
}

/* Replaces {rank} and {role} in the path of a folder. */
static iso_status name_folder(const iso_context *ctx, iso_role_kind role, char **folder)
{
    char *name;
    iso_status status = iso_role_path(ctx, role, *folder, &name);
    if (status != ISO_OK)
        return status;
    iso_free(*folder);
    *folder = name;
    return ISO_OK;
}

static iso_status tensorboard_train_begin(void *user, iso_fit_state *state)
{
    tensorboard *tb = user;
    iso_status status = ISO_OK;
    ISO_TRY(tensorboard_check(&tb->options));
    tb->trace = (iso_step_trace){.step = tb->options.profile_batch};
    tb->failed = ISO_OK;
    tb->steps_before = -1;
    if (!iso_fit_is_chief(state))
        return ISO_OK;
    ISO_TRY(name_folder(state->training->ctx, iso_role(state->training->ctx), &tb->train_folder));
    ISO_TRY(name_folder(state->training->ctx, iso_role(state->training->ctx), &tb->validation_folder));
    ISO_TRY(iso_event_file_create(tb->train_folder, &tb->train));
    ISO_TRY(write_parameters(tb, state));
done: /* the user chose the folder, so a failure to write is an invalid argument */
    return status == ISO_IO ? ISO_INVALID : status;
}

static iso_status epoch_begin(void *user, iso_fit_state *state)
{
    tensorboard *tb = user;
    tb->steps_before = state->training->cursor.trained;
    tb->epoch_begin = iso_clock();
    return ISO_OK;
}

static iso_status batch_begin(void *user, iso_fit_state *state)
{
    tensorboard *tb = user;
    tb->batch_begin = iso_clock();
    return tb->options.profile_batch ? iso_step_trace_before(&tb->trace, state) : ISO_OK;
}

/* Only the chief can fail to write, and between batches all ranks must return the same status. */
static void keep_failure(tensorboard *tb, iso_status status)
{
    if (status == ISO_OK || tb->failed != ISO_OK)
        return;
    tb->failed = status;
    snprintf(tb->message, sizeof tb->message, "%s", iso_error_message());
}

static iso_status trace(tensorboard *tb, iso_fit_state *state)
{
    iso_text json = {0};
    bool ready = false;
    iso_status status = iso_step_trace_after(&tb->trace, state, &json, &ready);
    if (status == ISO_OK && ready && tb->train)
        keep_failure(tb, iso_trace_file_write(tb->train_folder, &json));
    iso_text_free(&json);
    return status;
}

static iso_status tensorboard_batch_end(void *user, iso_fit_state *state)
{
    tensorboard *tb = user;
    int64_t every = tb->options.update_freq;
    if (tb->train && every && iso_training_steps(state->training) % every == 0)
        keep_failure(tb, add_batch(tb, state));
    return tb->options.profile_batch ? trace(tb, state) : ISO_OK;
}

static iso_status read_iterations(const iso_fit_state *state, double *iterations)
{
    return iso_variable_read(iso_graph_find_variable(state->training->model->graph, "optimizer/iteration"),
                             iterations, 1);
}

static iso_status write_epoch(tensorboard *tb, const iso_fit_state *state, double rate, double iterations)
{
    iso_status status = ISO_OK;
    ISO_TRY(add_epoch(tb, state, rate));
    ISO_TRY(add_validation(tb, state, (int64_t)iterations));
    ISO_TRY(iso_event_file_flush(tb->train));
    if (tb->validation)
        ISO_TRY(iso_event_file_flush(tb->validation));
done:
    return status;
}

/* Collective work comes first, on every rank. */
static iso_status tensorboard_epoch_end(void *user, iso_fit_state *state)
{
    tensorboard *tb = user;
    double rate, iterations;
    iso_status status = ISO_OK;
    ISO_TRY(iso_model_learning_rate(state->model, &rate));
    ISO_TRY(read_iterations(state, &iterations));
    if (tb->options.histogram_freq && state->epoch % tb->options.histogram_freq == 0)
        ISO_TRY(write_histograms(tb, state));
    if (tb->failed != ISO_OK)
        return iso_error(tb->failed, "%s", tb->message);
    if (tb->train)
        status = write_epoch(tb, state, rate, iterations);
done:
    return status;
}

static void close_files(tensorboard *tb)
{
    iso_event_file_close(tb->train);
    iso_event_file_close(tb->validation);
    iso_event_file_close(tb->evaluator);
    tb->train = tb->validation = tb->evaluator = NULL;
}

static iso_status tensorboard_train_end(void *user, iso_fit_state *state)
{
    (void)state;
    close_files(user);
    return ISO_OK;
}

/* ---- following a training ---- */

/* The tags of validation, by the steps trained and, at the end of an epoch, by the epoch (from 0). */
static iso_status tensorboard_evaluated(void *user, iso_context *ctx, const iso_evaluation *one)
{
    tensorboard *tb = user;
    iso_status status = tensorboard_check(&tb->options);
    if (status == ISO_OK && !tb->evaluator)
        status = name_folder(ctx, ISO_EVALUATOR, &tb->evaluator_folder);
    if (status == ISO_OK && !tb->evaluator)
        status = iso_event_file_create(tb->evaluator_folder, &tb->evaluator);
    for (int i = 0; i < one->logs.count && status == ISO_OK; i++) {
        const char *name = one->logs.name[i];
        ISO_TRY(
            add_scalar(tb->evaluator, "evaluation_", name, "_vs_iterations", one->logs.value[i], one->step));
        if (one->epoch > 0 && one->batch == 0)
            ISO_TRY(add_scalar(tb->evaluator, "epoch_", name, "", one->logs.value[i], one->epoch - 1));
    }
    if (status == ISO_OK)
        status = iso_event_file_flush(tb->evaluator);
done:
    return status;
}

/* ---- creation ---- */

static void tensorboard_destroy(void *user)
{
    tensorboard *tb = user;
    close_files(tb);
    iso_free(tb->train_folder);
    iso_free(tb->validation_folder);
    iso_free(tb->evaluator_folder);
    iso_free(tb);
}

static char *folder_below(const char *path, const char *name)
{
    iso_text text = {0};
    iso_text_add(&text, "%s/%s", path ? path : "", name);
    char *folder = text.failed ? NULL : iso_strdup(iso_text_get(&text));
    iso_text_free(&text);
    return folder;
}

#define SETTING(kind, member) ISO_SETTING(iso_tensorboard_options, kind, member, 0)
static const iso_setting settings[] = {SETTING(COUNT, update_freq),
                                       SETTING(INT, histogram_freq),
                                       SETTING(FLAG, write_steps_per_second),
                                       SETTING(COUNT, profile_batch),
                                       {0}};

iso_callback *iso_tensorboard_with(const iso_tensorboard_options *given, size_t size)
{
    tensorboard *tb = iso_new(sizeof *tb);
    if (!tb)
        return iso_callback_no_memory();
    iso_options_copy(&tb->options, sizeof tb->options, given, size);
    const iso_tensorboard_options *options = &tb->options;
    tb->train_folder = folder_below(options->path, "train");
    tb->validation_folder = folder_below(options->path, "validation");
    tb->evaluator_folder = folder_below(options->path, "evaluator");
    if (!tb->train_folder || !tb->validation_folder || !tb->evaluator_folder) {
        tensorboard_destroy(tb);
        return iso_callback_no_memory();
    }
    bool batches = options->update_freq || options->profile_batch;
    /* the caller's text may be freed later; that there is none stays recognisable */
    tb->options.path = options->path && options->path[0] ? "" : NULL;
    iso_callback_same same = {.name = "tensorboard", .settings = settings, .options = options};
    iso_callback *callback =
        iso_callback_built_in(.train_begin = tensorboard_train_begin, .epoch_begin = epoch_begin,
                              .batch_begin = batches ? batch_begin : NULL,
                              .batch_end = batches ? tensorboard_batch_end : NULL,
                              .epoch_end = tensorboard_epoch_end, .train_end = tensorboard_train_end,
                              .collective = true, .user = tb, .destroy = tensorboard_destroy);
    if (callback->status == ISO_OK) /* otherwise it is a constant */
        callback->evaluated = tensorboard_evaluated;
    return iso_callback_set_same(iso_callback_sends_weights(iso_callback_logs(callback, "")), &same);
}
