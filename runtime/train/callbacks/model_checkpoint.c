/* Keras's ModelCheckpoint. */
#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/checkpoint/folder_watch.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/checkpoint_writer_impl.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/path_template_impl.h"

typedef struct model_checkpoint {
    iso_model_checkpoint_options options;
    char *path;          /* the option, copied */
    iso_monitor monitor; /* for save_best_only */
    iso_monitor marked;  /* for the pointer `best`; its name is NULL if none is wanted */
    iso_checkpoint_writer *writer;
    int seen;       /* batches since the last save */
    bool due, best; /* decided for this moment: whether to save, and whether it is the best */
} model_checkpoint;

/* ---- begin ---- */

enum {
    LONGEST_NAME = 255 - 17
}; /* of a file name, less the ".", ".saving-" and eight digits of its temporary name */

/* Names that could never be saved are reported before the first step. */
static iso_status check_name(const char *pattern, const char *path)
{
    const char *name = iso_file_name(path);
    size_t length = strlen(name);
    if (!iso_file_name_ends(path, ".weights.h5"))
        return iso_error(ISO_INVALID, "'%s' must end in '.weights.h5', which Keras wants too", pattern);
    if (name[0] == '.')
        return iso_error(ISO_INVALID, "'%s': a checkpoint's name must not begin with a dot", pattern);
    if (length > LONGEST_NAME)
        return iso_error(ISO_INVALID, "'%s': the name has %zu characters, at most %d are possible", pattern,
                         length, LONGEST_NAME);
    return ISO_OK;
}

/* Every name in the path must be a name in the logs. */
static iso_status check_path(const model_checkpoint *c, const iso_fit_state *state)
{
    iso_text name = {0};
    if (!c->path)
        return iso_error(ISO_INVALID, "ModelCheckpoint: the path is NULL");
    iso_status status = iso_path_template_format(c->path, 1, 1, &state->logs, &name);
    if (status == ISO_OK)
        status = check_name(c->path, iso_text_get(&name));
    iso_text_free(&name);
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "ModelCheckpoint: ");
}

/* Whether two epochs with equal values have the same name. Rounded values often are equal. */
static bool can_repeat(const model_checkpoint *c, const iso_logs *logs)
{
    iso_text name[2] = {{0}, {0}};
    for (int e = 0; e < 2; e++)
        iso_path_template_format(c->path, 1 + e, 1, logs, &name[e]);
    bool same = strcmp(iso_text_get(&name[0]), iso_text_get(&name[1])) == 0;
    iso_text_free(&name[0]);
    iso_text_free(&name[1]);
    return same;
}

/* The best checkpoint can be kept only if later ones have other names. */
static iso_status check_best(const model_checkpoint *c, const iso_fit_state *state)
{
    if (!c->marked.name || !can_repeat(c, &state->logs))
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "ModelCheckpoint: '%s' can be the name of several checkpoints, so the one with the best %s "
        "could be replaced by a worse one: put {epoch} into the name",
        c->path, c->marked.name);
}

enum { MOST_NAMES = 1000 };

/* Checks the names that follow from an epoch's number alone. A run that resumes does not know its first epoch
 * yet. On one rank. */
static iso_status check_names(const char *pattern, const iso_training *training)
{
    iso_status status = ISO_OK;
    bool known = !training->options.resume_file && !training->options.resume;
    int end = training->options.epochs, first = training->options.initial_epoch;
    for (int epoch = first; known && epoch < end && epoch - first < MOST_NAMES && status == ISO_OK; epoch++) {
        iso_text name = {0};
        known = iso_path_template_format(pattern, epoch + 1, 1, &(iso_logs){0}, &name) == ISO_OK;
        if (known)
            status = iso_file_check_name(iso_text_get(&name));
        iso_text_free(&name);
    }
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "ModelCheckpoint: ");
}

static iso_status begin_monitors(model_checkpoint *c, const iso_fit_state *state)
{
    double threshold = c->options.initial_value_threshold;
    iso_status status = ISO_OK;
    if (c->options.save_best_only)
        ISO_TRY(iso_monitor_begin(&c->monitor, state, false));
    if (c->options.save_best_only && threshold != 0) {
        c->monitor.has_best = true;
        c->monitor.best = iso_option_number(threshold, 0);
    }
    if (c->marked.name)
        ISO_TRY(iso_monitor_begin(&c->marked, state, true));
done:
    return status;
}

static iso_status model_checkpoint_check(const model_checkpoint *c, const iso_fit_state *state)
{
    if (c->options.save_freq < 0 || c->options.keep < 0)
        return iso_error(ISO_INVALID, "ModelCheckpoint: save_freq %lld and keep %d must not be negative",
                         (long long)c->options.save_freq, c->options.keep);
    iso_status status = check_path(c, state);
    return status == ISO_OK ? check_best(c, state) : status;
}

/* Tells those who follow the folder that the training has ended, or goes on. On the chief; a failure is no
 * reason to end training. */
static void mark_end(const model_checkpoint *c, const iso_fit_state *state, bool ended)
{
    const iso_training_cursor *at = &state->training->cursor;
    char *folder = iso_file_folder(c->path);
    iso_status status = !folder ? iso_no_memory("the folder of '%s'", c->path)
                        : ended ? iso_finished_write(folder, at->epoch, state->epochs, at->trained)
                                : iso_finished_remove(folder);
    if (status != ISO_OK)
        iso_warn("an evaluator would not know whether the training has ended: %s", iso_error_message());
    iso_free(folder);
}

static iso_status model_checkpoint_begin(void *user, iso_fit_state *state)
{
    model_checkpoint *c = user;
    const iso_model_checkpoint_options *o = &c->options;
    iso_context *ctx = state->training->ctx;
    iso_fit_state reported = *state;
    reported.logs = iso_training_expected_logs(state->training);
    if (o->save_freq > 0) /* between batches there are no values of validation */
        reported.logs.count = iso_model_value_count(state->model);
    iso_status status;
    ISO_TRY(model_checkpoint_check(c, &reported)); /* the same on every rank */
    ISO_TRY(begin_monitors(c, state));
    ISO_TRY(
        iso_checkpoint_writer_create(state->training,
                                     &(iso_checkpoint_writer_options){.weights_only = o->save_weights_only,
                                                                      .mpio = o->mpio,
                                                                      .waits = o->waits,
                                                                      .stop_on_error = o->stop_on_error,
                                                                      .verbose = o->verbose > 0,
                                                                      .keep = o->keep},
                                     &c->writer));
    ISO_TRY(iso_checkpoint_writer_adopt(c->writer, "ModelCheckpoint", c->path));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? check_names(c->path, state->training) : ISO_OK));
    if (iso_is_chief(ctx))
        mark_end(c, state, false);
done:
    return status;
}

/* ---- saving ---- */

/* Whether a value is the best so far; if so, it becomes the best. NaN never is. */
static bool improves(iso_monitor *monitor, double value)
{
    return !isnan(value) && iso_monitor_improve(monitor, value);
}

/* Whether the callback saves. As in Keras, it saves if a value cannot be compared. */
static bool is_wanted(model_checkpoint *c, const iso_fit_state *state)
{
    double value;
    return !c->options.save_best_only || !iso_monitor_read(&c->monitor, state, &value) ||
           improves(&c->monitor, value);
}

static bool is_marked(model_checkpoint *c, const iso_fit_state *state)
{
    double value;
    return c->marked.name && iso_monitor_read(&c->marked, state, &value) && improves(&c->marked, value);
}

/* The best epoch so far gets a checkpoint, whatever the save frequency. */
static void decide(void *user, const iso_fit_state *state, iso_moment moment)
{
    model_checkpoint *c = user;
    int64_t often = c->options.save_freq;
    if (moment != ISO_BATCH_END && moment != ISO_EPOCH_END)
        return;
    c->best = moment == ISO_EPOCH_END && is_marked(c, state);
    c->due = moment == ISO_EPOCH_END ? c->best || often == 0 : often > 0 && ++c->seen >= often;
    if (c->due && moment == ISO_BATCH_END)
        c->seen = 0;
    c->due = c->due && is_wanted(c, state);
}

static iso_status model_checkpoint_save(model_checkpoint *c, iso_fit_state *state)
{
    iso_text path = {0};
    if (!c->due)
        return ISO_OK;
    iso_status status =
        iso_path_template_format(c->path, state->epoch + 1, state->batch + 1, &state->logs, &path);
    if (status == ISO_OK)
        status = iso_checkpoint_writer_save(c->writer, state->training, iso_text_get(&path), c->best);
    iso_text_free(&path);
    return status;
}

/* The file has the name of the current epoch. Values that are known only at its end are NaN in it. */
static iso_status save_now(void *user, iso_fit_state *state, iso_text *file)
{
    model_checkpoint *c = user;
    double value[2 * ISO_MAX_VALUES];
    iso_logs logs = iso_training_expected_logs(state->training);
    for (int i = 0; i < logs.count; i++)
        value[i] = iso_logs_get(&state->logs, logs.name[i]);
    logs.value = value;
    iso_status status = iso_path_template_format(c->path, state->epoch + 1, state->batch + 1, &logs, file);
    return status == ISO_OK ? iso_checkpoint_writer_save_now(c->writer, state->training, iso_text_get(file))
                            : status;
}

static iso_status after_batch(void *user, iso_fit_state *state)
{
    model_checkpoint *c = user;
    iso_checkpoint_writer_poll(c->writer);
    return model_checkpoint_save(c, state);
}

static iso_status after_epoch(void *user, iso_fit_state *state)
{
    return model_checkpoint_save(user, state);
}

static iso_status end(void *user, iso_fit_state *state)
{
    const model_checkpoint *c = user;
    iso_status status = iso_checkpoint_writer_wait(c->writer);
    iso_checkpoint_writer_report_none_kept(c->writer, c->path);
    if (iso_fit_is_chief(state))
        mark_end(c, state, true);
    return status;
}

/* ---- state in checkpoints ---- */

static iso_status keep_state(void *user, iso_text *json)
{
    const model_checkpoint *c = user;
    iso_json_add(json,
                 json_pack("{s:i, s:{s:o}, s:{s:o}}", "seen", c->seen, "monitor", "best",
                           iso_monitor_best(&c->monitor), "marked", "best", iso_monitor_best(&c->marked)),
                 0);
    return ISO_OK;
}

static iso_status take_state(void *user, const char *json)
{
    model_checkpoint *c = user;
    json_t *root;
    iso_status status = iso_json_parse("ModelCheckpoint's state", json, strlen(json), &root);
    if (status != ISO_OK)
        return status;
    ISO_TRY(iso_state_count(root, "seen", &c->seen));
    ISO_TRY(iso_monitor_restore(&c->monitor, json_object_get(root, "monitor")));
    ISO_TRY(iso_monitor_restore(&c->marked, json_object_get(root, "marked")));
done:
    json_decref(root);
    return status;
}

/* ---- creation ---- */

static void model_checkpoint_destroy(void *user)
{
    model_checkpoint *c = user;
    if (!c)
        return;
    iso_checkpoint_writer_destroy(c->writer);
    iso_monitor_free(&c->monitor);
    iso_monitor_free(&c->marked);
    iso_free(c->path);
    iso_free(c);
}

static bool copy_texts(model_checkpoint *c)
{
    const iso_model_checkpoint_options *o = &c->options;
    if (o->path && !(c->path = iso_strdup(o->path)))
        return false;
    return iso_monitor_init(&c->monitor, "ModelCheckpoint", o->monitor, o->mode, 0) &&
           (!o->best || iso_monitor_init(&c->marked, "ModelCheckpoint", o->best, o->best_mode, 0));
}

/* A hash of the options that all ranks must share. Names are compared where files get them. */
static uint64_t model_checkpoint_number_of(const iso_model_checkpoint_options *o)
{
    int64_t words[] = {o->mode,  o->save_best_only, o->save_weights_only, o->save_freq,
                       o->keep,  o->best_mode,      o->best != NULL,      o->mpio,
                       o->waits, o->stop_on_error};
    return iso_hash_bytes(iso_hash_text(0, o->monitor ? o->monitor : ""), words, sizeof words);
}

iso_callback *iso_model_checkpoint_with(const iso_model_checkpoint_options *given, size_t size)
{
    model_checkpoint *c = iso_new(sizeof *c);
    if (!c)
        return iso_callback_no_memory();
    iso_options_copy(&c->options, sizeof c->options, given, size);
    if (!copy_texts(c)) {
        model_checkpoint_destroy(c);
        return iso_callback_no_memory();
    }
    iso_callback *callback =
        iso_callback_create(.train_begin = model_checkpoint_begin, .train_end = end, .epoch_end = after_epoch,
                            .batch_end = after_batch, .collective = true, .user = c,
                            .destroy = model_checkpoint_destroy, .kind = "model_checkpoint",
                            .save = keep_state, .restore = take_state);
    if (callback->status == ISO_OK) { /* otherwise it is a constant */
        callback->last = callback->sends_weights = true;
        callback->logs = "";
        callback->decide = decide;
        if (!c->options.save_best_only && !c->options.save_weights_only)
            callback->save_now = save_now;
        callback->options_hash = model_checkpoint_number_of(&c->options);
    }
    return callback;
}
