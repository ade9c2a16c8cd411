/* Keras's ModelCheckpoint. */
#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/checkpoint/folder_watch.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks/best_impl.h"
#include "runtime/train/checkpoint_writer_impl.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/path_template_impl.h"

typedef struct model_checkpoint {
    iso_model_checkpoint_options options;
    char *path;      /* the option, copied */
    char *folder;    /* of the files; NULL: they are in several, and nothing is looked for in these */
    iso_best best;   /* used if only the best are saved */
    iso_best marked; /* used if the pointer `best` is wanted */
    iso_checkpoint_writer *writer;
    int seen;     /* batches since the last save */
    iso_text due; /* decided for this moment: the path of the file to save; empty: none */
    bool marks;   /* the file is to be the best */
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

static bool path_fits(const model_checkpoint *c, const iso_logs *logs)
{
    iso_text name = {0};
    iso_status status = iso_path_template_format(c->path, 1, 1, logs, &name);
    iso_text_free(&name);
    return status == ISO_OK;
}

/* Every name in the path must be a name in the logs, at the time of the save. */
static iso_status check_path(const model_checkpoint *c, const iso_fit_state *state)
{
    iso_text name = {0};
    iso_logs at_end = iso_training_expected_logs(state->training);
    if (!c->path)
        return iso_error(ISO_INVALID, "ModelCheckpoint: the path is NULL");
    if (path_fits(c, &at_end) && !path_fits(c, &state->logs))
        return iso_error(ISO_INVALID,
                         "ModelCheckpoint: file name '%s': it names a value of validation, which is known at "
                         "the end of an "
                         "epoch only; with --save-freq N (.save_freq) files are saved before that",
                         c->path);
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
    if (!c->marked.used || !can_repeat(c, &state->logs))
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "ModelCheckpoint: '%s' can be the name of several checkpoints, so the one with the best %s "
        "could be replaced by a worse one: put {epoch} into the name",
        c->path, c->marked.monitor.name);
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
    ISO_TRY(iso_best_begin(&c->best, state, false));
    if (c->best.used && threshold != 0) {
        c->best.monitor.has_best = true;
        c->best.monitor.best = iso_option_number(threshold, 0);
    }
    ISO_TRY(iso_best_begin(&c->marked, state, true));
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

/* Waits for the save of a better checkpoint, if one is in progress: the next values are compared with its value
 * only if it is committed. Collective. */
static iso_status settle(model_checkpoint *c)
{
    if (!c->best.saving && !c->marked.saving)
        return ISO_OK;
    iso_status status = iso_checkpoint_writer_wait(c->writer);
    bool committed = iso_checkpoint_writer_committed(c->writer);
    iso_best_save_ends(&c->best, committed);
    iso_best_save_ends(&c->marked, committed);
    return status;
}

/* Whether it is time for a save: after each epoch, or after so many batches. */
static bool is_time(model_checkpoint *c, iso_moment moment)
{
    int64_t often = c->options.save_freq;
    if (moment == ISO_EPOCH_END || often == 0)
        return moment == ISO_EPOCH_END && often == 0;
    bool time = ++c->seen >= often;
    c->seen = time ? 0 : c->seen;
    return time;
}

/* The name of the file that is due; NULL: it is in one of several folders. */
static const char *due_name(const model_checkpoint *c)
{
    return c->folder ? iso_file_name(iso_text_get(&c->due)) : NULL;
}

/* As in Keras, a file is saved if the value cannot be compared. */
static iso_status decide_to_save(model_checkpoint *c, const iso_fit_state *state, bool time, bool marks)
{
    double value = NAN, marked = NAN;
    bool missing = false;
    uint64_t number = iso_checkpoint_writer_number(c->writer, state->training);
    iso_status status = ISO_OK;
    c->marks = marks && iso_best_improves(&c->marked, state, &marked, &missing);
    if (!c->marks && !time)
        return ISO_OK;
    bool better = c->best.used && iso_best_improves(&c->best, state, &value, &missing);
    if (c->best.used && !better && !missing)
        return ISO_OK;
    ISO_TRY(iso_path_template_format(c->path, state->epoch + 1, state->batch + 1, &state->logs, &c->due));
    if (better)
        ISO_TRY(iso_best_save_begins(&c->best, value, due_name(c), number));
    if (c->marks)
        ISO_TRY(iso_best_save_begins(&c->marked, marked, due_name(c), number));
done:
    return status;
}

/* The best epoch so far gets a checkpoint, whatever the save frequency. Weights that diverged get none. */
static iso_status decide(void *user, const iso_fit_state *state, iso_moment moment)
{
    model_checkpoint *c = user;
    iso_text_free(&c->due);
    if ((moment != ISO_BATCH_END && moment != ISO_EPOCH_END) || state->training->diverged)
        return ISO_OK;
    bool time = is_time(c, moment), marks = moment == ISO_EPOCH_END && c->marked.used;
    if (!time && !marks)
        return ISO_OK;
    iso_status before = settle(c), now = decide_to_save(c, state, time, marks);
    return before != ISO_OK ? before : now;
}

static iso_status model_checkpoint_save(model_checkpoint *c, iso_fit_state *state)
{
    return c->due.length
               ? iso_checkpoint_writer_save(c->writer, state->training, iso_text_get(&c->due), c->marks)
               : ISO_OK;
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
    iso_checkpoint_writer_poll(c->writer, state->training);
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
                 json_pack("{s:i, s:o, s:o}", "seen", c->seen, "monitor", iso_best_state(&c->best), "marked",
                           iso_best_state(&c->marked)),
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
    ISO_TRY(iso_best_restore(&c->best, json_object_get(root, "monitor")));
    ISO_TRY(iso_best_restore(&c->marked, json_object_get(root, "marked")));
done:
    json_decref(root);
    return status;
}

/* The run that wrote the state may have ended before it moved the pointer `best`. */
static iso_status resumed(void *user, iso_fit_state *state)
{
    model_checkpoint *c = user;
    iso_context *ctx = state->training->ctx;
    iso_status status = ISO_OK;
    ISO_TRY(iso_best_find(&c->best, ctx, c->folder));
    ISO_TRY(iso_best_find(&c->marked, ctx, c->folder));
    if (c->marked.kept.name && iso_is_chief(ctx))
        iso_checkpoint_writer_mark(c->writer, c->folder, c->marked.kept.name);
done:
    return status;
}

/* ---- creation ---- */

static void model_checkpoint_destroy(void *user)
{
    model_checkpoint *c = user;
    if (!c)
        return;
    iso_checkpoint_writer_destroy(c->writer);
    iso_best_free(&c->best);
    iso_best_free(&c->marked);
    iso_text_free(&c->due);
    iso_free(c->folder);
    iso_free(c->path);
    iso_free(c);
}

static bool copy_texts(model_checkpoint *c)
{
    const iso_model_checkpoint_options *o = &c->options;
    if (o->path && (!(c->path = iso_strdup(o->path)) || !(c->folder = iso_file_folder(o->path))))
        return false;
    if (c->folder && strchr(c->folder, '{')) {
        iso_free(c->folder);
        c->folder = NULL;
    }
    return iso_best_init(&c->best, o->save_best_only, o->monitor, o->mode) &&
           iso_best_init(&c->marked, o->best != NULL, o->best, o->best_mode);
}

#define SETTING(kind, member) ISO_SETTING(iso_model_checkpoint_options, kind, member, 0)
static const iso_setting settings[] = {SETTING(INT, mode),
                                       SETTING(FLAG, save_best_only),
                                       SETTING(FLAG, save_weights_only),
                                       SETTING(REAL, initial_value_threshold),
                                       SETTING(COUNT, save_freq),
                                       SETTING(INT, keep),
                                       SETTING(INT, best_mode),
                                       SETTING(FLAG, mpio),
                                       SETTING(FLAG, waits),
                                       SETTING(FLAG, stop_on_error),
                                       {0}};

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
    iso_callback_same same = {.name = "model_checkpoint",
                              .settings = settings,
                              .options = &c->options,
                              .monitor = c->best.monitor.name,
                              .best = c->marked.used ? c->marked.monitor.name : NULL};
    iso_callback *callback =
        iso_callback_built_in(.train_begin = model_checkpoint_begin, .train_end = end,
                              .epoch_end = after_epoch, .batch_end = after_batch, .collective = true,
                              .user = c, .destroy = model_checkpoint_destroy, .kind = "model_checkpoint",
                              .save = keep_state, .restore = take_state);
    if (callback->status == ISO_OK) { /* otherwise it is a constant */
        callback->last = callback->sends_weights = true;
        callback->logs = "";
        callback->decide = decide;
        if (!c->options.save_best_only && !c->options.save_weights_only)
            callback->save_now = save_now;
        callback->resumed = resumed;
    }
    return iso_callback_set_same(callback, &same);
}
