/* Keras's EarlyStopping. */
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/model.h"
#include "runtime/train/snapshot.h"

typedef struct early_stopping {
    iso_early_stopping_options options;
    iso_monitor monitor;
    double baseline;
    bool has_baseline;
    int wait;          /* epochs without an improvement */
    int stopped_epoch; /* epoch (from 0) after which training was stopped; 0: it was not */
    int best_epoch;
    iso_fit_state *state; /* the training's; lent */
    iso_snapshot *best;   /* weights of best_epoch; NULL: none yet */
} early_stopping;

static iso_status early_stopping_check(const early_stopping *stopping)
{
    const iso_early_stopping_options *options = &stopping->options;
    if (options->patience < 0)
        return iso_error(ISO_INVALID, "early stopping: patience is %d, it must not be negative",
                         options->patience);
    if (options->start_from_epoch < 0)
        return iso_error(ISO_INVALID, "early stopping: start_from_epoch is %d, it must not be negative",
                         options->start_from_epoch);
    return ISO_OK;
}

static iso_status early_stopping_train_begin(void *user, iso_fit_state *state)
{
    early_stopping *stopping = user;
    iso_status status = early_stopping_check(stopping);
    stopping->wait = stopping->stopped_epoch = stopping->best_epoch = 0;
    stopping->state = state;
    return status == ISO_OK ? iso_monitor_begin(&stopping->monitor, state, false) : status;
}

static iso_status keep_weights(early_stopping *stopping, int epoch)
{
    stopping->best_epoch = epoch;
    if (!stopping->options.restore_best_weights)
        return ISO_OK;
    return stopping->best ? iso_snapshot_take(stopping->best)
                          : iso_snapshot_create(iso_model_graph(stopping->state->model), &stopping->best);
}

/* The weights of the first watched epoch are kept whatever its value. The count of epochs restarts only when
 * an epoch has improved and also beats the baseline. */
static iso_status early_stopping_epoch_end(void *user, iso_fit_state *state)
{
    early_stopping *stopping = user;
    iso_monitor *monitor = &stopping->monitor;
    double value;
    bool watched = iso_monitor_read(monitor, state, &value);
    if (!watched || state->epoch < stopping->options.start_from_epoch)
        return ISO_OK;
    stopping->wait++;
    if (iso_monitor_improve(monitor, value)) {
        if (!stopping->has_baseline || iso_monitor_is_better(monitor, value, stopping->baseline))
            stopping->wait = 0;
        return keep_weights(stopping, state->epoch);
    }
    if (stopping->wait >= stopping->options.patience && state->epoch > 0) {
        stopping->stopped_epoch = state->epoch;
        state->stop = true;
    }
    return ISO_OK;
}

static iso_status early_stopping_train_end(void *user, iso_fit_state *state)
{
    early_stopping *stopping = user;
    bool says = stopping->options.verbose > 0;
    if (says && stopping->stopped_epoch > 0)
        iso_fit_print(state, "Epoch %d: stopped early, %s was best in epoch %d", stopping->stopped_epoch + 1,
                      stopping->monitor.name, stopping->best_epoch + 1);
    if (!stopping->best)
        return ISO_OK;
    if (says)
        iso_fit_print(state, "The weights are those of epoch %d", stopping->best_epoch + 1);
    return iso_snapshot_put(stopping->best);
}

/* ---- state ---- */

static iso_status early_stopping_save(void *user, iso_text *json)
{
    const early_stopping *stopping = user;
    json_t *state =
        json_pack("{s:i, s:i, s:i, s:b}", "best_epoch", stopping->best_epoch, "wait", stopping->wait,
                  "stopped_epoch", stopping->stopped_epoch, "weights", stopping->best != NULL);
    iso_monitor_save(&stopping->monitor, state);
    iso_json_add(json, state, 0);
    return ISO_OK;
}

/* If the checkpoint has weights, allocates memory for them: iso_callbacks_shards() then offers it to be
 * filled. */
static iso_status restore_counts(early_stopping *stopping, const json_t *state)
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_state_count(state, "best_epoch", &stopping->best_epoch));
    ISO_TRY(iso_state_count(state, "wait", &stopping->wait));
    ISO_TRY(iso_state_count(state, "stopped_epoch", &stopping->stopped_epoch));
    if (stopping->options.restore_best_weights && json_is_true(json_object_get(state, "weights")) &&
        !stopping->best)
        ISO_TRY(iso_snapshot_create(iso_model_graph(stopping->state->model), &stopping->best));
    /* a training that was stopped stays stopped, unless the patience is greater now */
    if (stopping->stopped_epoch > 0 && stopping->wait >= stopping->options.patience)
        stopping->state->stop = true;
    else
        stopping->stopped_epoch = 0;
done:
    return status;
}

/* The epochs without an improvement, and the best weights, go with the best value. */
static iso_status restore(void *user, const char *json)
{
    early_stopping *stopping = user;
    json_t *state = NULL;
    bool other;
    iso_status status = ISO_OK;
    ISO_TRY(iso_json_parse("its state", json, strlen(json), &state));
    ISO_TRY(iso_monitor_restore(&stopping->monitor, state, &other));
    if (!other)
        ISO_TRY(restore_counts(stopping, state));
done:
    json_decref(state);
    return status;
}

static iso_status shards(void *user, const char *path, iso_state_shards *list)
{
    early_stopping *stopping = user;
    return stopping->best ? iso_snapshot_shards(stopping->best, path, list) : ISO_OK;
}

static void early_stopping_destroy(void *user)
{
    early_stopping *stopping = user;
    iso_snapshot_destroy(stopping->best);
    iso_monitor_free(&stopping->monitor);
    iso_free(stopping);
}

#define SETTING(kind, member) ISO_SETTING(iso_early_stopping_options, kind, member, 0)
static const iso_setting settings[] = {SETTING(INT, patience),
                                       SETTING(REAL, min_delta),
                                       SETTING(INT, mode),
                                       SETTING(REAL, baseline),
                                       SETTING(FLAG, restore_best_weights),
                                       SETTING(INT, start_from_epoch),
                                       {0}};

iso_callback *iso_early_stopping_with(const iso_early_stopping_options *given, size_t size)
{
    early_stopping *stopping = iso_new(sizeof *stopping);
    if (!stopping)
        return iso_callback_no_memory();
    iso_early_stopping_options *options = &stopping->options;
    iso_options_copy(options, sizeof *options, given, size);
    stopping->has_baseline = options->baseline != 0;
    stopping->baseline = iso_option_number(options->baseline, 0);
    options->patience = (int)iso_option_number(options->patience, 0);
    options->start_from_epoch = (int)iso_option_number(options->start_from_epoch, 0);
    if (!iso_monitor_init(&stopping->monitor, "early stopping", options->monitor, options->mode,
                          iso_option_number(options->min_delta, 0))) {
        early_stopping_destroy(stopping);
        return iso_callback_no_memory();
    }
    options->monitor = stopping->monitor.name;
    iso_callback_same same = {
        .name = "early_stopping", .settings = settings, .options = options, .monitor = options->monitor};
    iso_callback *callback =
        iso_callback_built_in(.train_begin = early_stopping_train_begin,
                              .epoch_end = early_stopping_epoch_end, .train_end = early_stopping_train_end,
                              .user = stopping, .destroy = early_stopping_destroy, .kind = "early_stopping",
                              .save = early_stopping_save, .restore = restore, .shards = shards);
    return iso_callback_set_same(iso_callback_logs(callback, ""), &same);
}
