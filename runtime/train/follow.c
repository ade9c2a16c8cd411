/* iso_follow. Rank 0 of the evaluator watches the folder and decides for all ranks what to do next; between two
 * looks all of them sleep, so that they do not take a core from workers on their host. */
#include "runtime/train/follow.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/folder_watch.h"
#include "runtime/session/roles.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/evaluations.h"
#include "runtime/train/model_impl.h"
#include "runtime/train/state_impl.h"

typedef struct follower {
    iso_model *model;
    iso_dataset *data;
    iso_context *ctx;
    const char *folder;
    iso_follow_options options;
    char *lines_path; /* which rank 0 opens */
    /* on rank 0 */
    iso_folder_watch *watch;
    iso_evaluations *lines; /* NULL: not opened yet */
    double since;           /* when the last checkpoint was evaluated */
    int epoch; /* the most of the evaluated checkpoints that are, or were during this run, in the folder */
    int n_evaluated;
    int n_skipped; /* without those that could not be read, which the watch counts */
    bool seen;     /* a complete checkpoint */
    bool told_signal;
    bool told_model;     /* that a checkpoint is of another model or precision */
    char complaint[512]; /* the last one about the folder */
} follower;

/* The next action of all ranks. */
typedef enum action { WAIT, EVALUATE, END } action;
typedef struct decision {
    int32_t action;
    uint64_t number, identity;
    char path[4096];
} decision;

__attribute__((format(printf, 2, 3))) static void say(const follower *f, const char *format, ...)
{
    char text[1024];
    va_list values;
    if (f->options.verbose == 0 || !iso_is_chief(f->ctx))
        return;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    printf("evaluator: %s\n", text);
    fflush(stdout);
}

/* ---- what to do next, on rank 0 ---- */

static void report_removed(void *user, const char *path)
{
    follower *f = user;
    f->n_skipped++;
    say(f, "'%s' was removed before it was evaluated; it is skipped", path);
}

/* A folder that cannot be listed now may be listed later; each reason is reported once. */
static iso_status look(follower *f)
{
    iso_status status = iso_folder_watch_look(f->watch, report_removed, f);
    if (status == ISO_NO_MEMORY)
        return status;
    const char *message = status == ISO_OK ? "" : iso_error_message();
    if (*message && strcmp(message, f->complaint) != 0)
        iso_warn("%s; the evaluator tries again", message);
    snprintf(f->complaint, sizeof f->complaint, "%s", message);
    return ISO_OK;
}

static iso_status open_lines(follower *f)
{
    return f->lines ? iso_evaluations_reopen(f->lines) : iso_evaluations_open(f->lines_path, &f->lines);
}

static void note_epoch(follower *f, int epoch)
{
    f->epoch = epoch > f->epoch ? epoch : f->epoch;
}

/* Whether it was removed, and its checkpoints with it; the next look notices that. */
static bool folder_is_gone(const follower *f)
{
    struct stat about;
    return stat(f->folder, &about) != 0 && errno == ENOENT;
}

/* Finds the next checkpoint that has no line yet. */
static iso_status find_next(follower *f, iso_folder_entry *next, bool *found)
{
    int epoch;
    *found = iso_folder_watch_next(f->watch, f->options.newest_only, next);
    if (!*found)
        return ISO_OK;
    f->seen = true;
    iso_status status = open_lines(f);
    if (status != ISO_OK) {
        *found = false;
        return folder_is_gone(f) ? ISO_OK : status;
    }
    while (*found && iso_evaluations_has(f->lines, next->name, next->identity, &epoch)) {
        note_epoch(f, epoch);
        iso_folder_watch_done(f->watch, next, f->options.newest_only);
        *found = iso_folder_watch_next(f->watch, f->options.newest_only, next);
    }
    return ISO_OK;
}

/* Whether no more checkpoints will come. *failed: the workers of this job ended with an error. */
static iso_status ask_end(follower *f, bool *ended, bool *failed)
{
    iso_status how;
    *failed = false;
    if (iso_job_has_workers(f->ctx)) {
        iso_status status = iso_workers_ended(f->ctx, ended, &how);
        *failed = *ended && how != ISO_OK;
        return status;
    }
    int epochs;
    *ended = iso_finished_read(f->folder, &epochs) && epochs >= f->options.epochs;
    return ISO_OK;
}

static void decide_on(follower *f, const iso_folder_entry *next, decision *out)
{
    if (f->options.newest_only) {
        int older = iso_folder_watch_done(f->watch, next, true) - 1;
        f->n_skipped += older;
        if (older > 0)
            say(f, "%d older %s skipped", older, older == 1 ? "checkpoint is" : "checkpoints are");
    }
    out->action = EVALUATE;
    out->number = next->number;
    out->identity = next->identity;
    snprintf(out->path, sizeof out->path, "%s", next->path);
}

/* The end is asked for before the look, so that the look sees all that was written before the end. */
static iso_status decide(follower *f, decision *out)
{
    bool ended = false, failed = false, found = false;
    iso_folder_entry next;
    iso_status status;
    *out = (decision){.action = WAIT};
    ISO_TRY(ask_end(f, &ended, &failed));
    ISO_TRY(look(f));
    ISO_TRY(find_next(f, &next, &found));
    bool reached = f->options.epochs > 0 && f->epoch >= f->options.epochs;
    if (failed || (!found && (ended || reached))) {
        out->action = END;
        iso_folder_watch_warn_torn(f->watch, true);
        if (ended && !failed && !f->seen)
            iso_warn("training has ended, and the evaluator has seen no complete checkpoint in '%s'; is it "
                     "the folder of the workers' --checkpoint?",
                     f->folder);
    } else if (found)
        decide_on(f, &next, out);
    else if (f->options.timeout > 0 && iso_clock() - f->since > f->options.timeout)
        status = iso_error(ISO_FAILED, "no new checkpoint has appeared in '%s' for %g seconds", f->folder,
                           f->options.timeout);
done:
    return status;
}

/* ---- one checkpoint, on all ranks ---- */

/* Only the chief knows whether there are lines. */
static iso_status stopped(follower *f)
{
    bool none = iso_is_chief(f->ctx) && (!f->lines || iso_evaluations_count(f->lines) == 0);
    return iso_stopped(f->ctx, none ? "" : f->lines_path);
}

static void mark_done(follower *f, const decision *what)
{
    iso_folder_entry one = {.path = what->path};
    iso_folder_watch_done(f->watch, &one, false);
}

static void skip_removed(follower *f, const decision *what, const char *when)
{
    f->n_skipped++;
    say(f, "'%s' was removed while it was %s; it is skipped", what->path, when);
}

/* A checkpoint that cannot be read is not the end of following. */
static iso_status skip(follower *f, const decision *what, iso_status why)
{
    if (why != ISO_INVALID && why != ISO_IO)
        return why;
    if (iso_is_chief(f->ctx)) {
        iso_folder_entry one = {.path = what->path};
        if (iso_folder_watch_failed(f->watch, &one))
            iso_warn("the evaluator skips a checkpoint: %s", iso_error_message());
        else
            skip_removed(f, what, "read");
    }
    return ISO_OK;
}

/* The training's position in a checkpoint; without one (weights alone) the epoch is -1, and the step is the commit
 * record's number. The first checkpoint of another precision or other settings is reported. */
static iso_status read_position(follower *f, const iso_saved_file *file, iso_evaluation *out)
{
    json_t *state = NULL;
    iso_status status = iso_state_parse(file, &state);
    const json_t *epoch = json_object_get(state, "epoch"), *step = json_object_get(state, "step");
    if (json_is_integer(step)) /* the number is greater if the folder had newer checkpoints */
        out->step = json_integer_value(step);
    out->epoch = json_is_integer(epoch) ? (int)json_integer_value(epoch) : -1;
    out->batch = json_integer_value(json_object_get(state, "batch"));
    if (status == ISO_OK && state && iso_is_chief(f->ctx) && !f->told_model)
        status = iso_state_warn_of_model(iso_saved_file_path(file), state, f->model, &f->told_model);
    json_decref(state);
    return status;
}

static void say_values(const follower *f, const iso_evaluation *one)
{
    char text[512] = "";
    size_t length = 0;
    for (int i = 0; i < one->logs.count && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s: %.4f", i ? " - " : "",
                                   one->logs.name[i], one->logs.value[i]);
    if (one->epoch >= 0 && one->batch > 0)
        say(f, "%s: epoch %d, batch %lld, step %lld: %s", one->checkpoint, one->epoch + 1,
            (long long)one->batch, (long long)one->step, text);
    else if (one->epoch >= 0)
        say(f, "%s: epoch %d, step %lld: %s", one->checkpoint, one->epoch, (long long)one->step, text);
    else
        say(f, "%s: step %lld: %s", one->checkpoint, (long long)one->step, text);
}

/* Local; on rank 0. */
static iso_status record(follower *f, const decision *what, const iso_evaluation *one)
{
    iso_status status = open_lines(f);
    if (status != ISO_OK && folder_is_gone(f)) {
        mark_done(f, what);
        skip_removed(f, what, "evaluated");
        return ISO_OK;
    }
    ISO_TRY(status);
    ISO_TRY(iso_evaluations_add(f->lines, one));
    for (iso_callback **c = f->options.callbacks; c && *c; c++)
        if ((*c)->evaluated)
            ISO_TRY((*c)->evaluated((*c)->options.user, f->ctx, one));
    say_values(f, one);
    mark_done(f, what);
    f->n_evaluated++;
    f->since = iso_clock();
    note_epoch(f, one->epoch);
done:
    return status;
}

static iso_status evaluate_loaded(follower *f, const decision *what, iso_evaluation *one)
{
    double values[ISO_MAX_VALUES] = {0};
    iso_status status =
        iso_evaluate(f->model, f->data, .loss = &values[0], .metrics = &values[1], .verbose = ISO_ZERO);
    if (status == ISO_INTERRUPTED)
        return stopped(f);
    if (status != ISO_OK)
        return status;
    one->logs = (iso_logs){f->model->n_values, f->model->value_name, values};
    return iso_agree(f->ctx, iso_is_chief(f->ctx) ? record(f, what, one) : ISO_OK);
}

static iso_status evaluate(follower *f, const decision *what)
{
    iso_saved_file *file = NULL;
    iso_evaluation one = {.checkpoint = strrchr(what->path, '/') + 1,
                          .identity = what->identity,
                          .step = (int64_t)what->number};
    iso_status status = iso_saved_file_open(f->ctx, what->path, &file);
    if (status == ISO_OK)
        status = iso_saved_file_verify(file);
    if (status != ISO_OK) {
        iso_saved_file_close(file);
        return skip(f, what, status);
    }
    ISO_TRY(iso_agree(f->ctx, read_position(f, file, &one)));
    status = iso_model_read_tensors(f->model, file, ISO_OPTIMIZER_LEFT);
    if (status == ISO_IO) {
        status = skip(f, what, status);
        goto done;
    }
    if (status == ISO_OK)
        status = evaluate_loaded(f, what, &one);
done:
    iso_saved_file_close(file);
    return status;
}

/* ---- the loop ---- */

static void rest(double seconds)
{
    nanosleep(&(struct timespec){(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)}, NULL);
}

static void say_end(const follower *f)
{
    if (!iso_is_chief(f->ctx))
        return;
    say(f, "the training in '%s' has ended: %d evaluated, %d skipped%s", f->folder, f->n_evaluated,
        f->n_skipped + iso_folder_watch_unread(f->watch),
        iso_folder_watch_may_have_missed(f->watch) ? " (others may have been removed between two polls)"
                                                   : "");
}

/* Says once why a signal does not end the evaluator. */
static void warn_of_signal(follower *f)
{
    const char *name = iso_stop_refused(f->ctx);
    if (!name || f->told_signal)
        return;
    f->told_signal = true;
    if (iso_is_chief(f->ctx))
        iso_warn(
            "the evaluator has got %s and goes on until the workers end; they save their state and stop if "
            "mpirun or one of them gets a signal",
            name);
}

static iso_status follow(follower *f)
{
    decision next = {.action = WAIT};
    iso_status status = ISO_OK;
    while (next.action != END) {
        ISO_TRY(iso_stop_agree(f->ctx));
        if (iso_stop_requested(f->ctx))
            return stopped(f);
        warn_of_signal(f);
        ISO_TRY(iso_agree(f->ctx, iso_is_chief(f->ctx) ? decide(f, &next) : ISO_OK));
        ISO_TRY(iso_broadcast(f->ctx, &next, sizeof next));
        if (next.action == EVALUATE)
            ISO_TRY(evaluate(f, &next));
        else if (next.action == WAIT)
            rest(f->options.period);
    }
    say_end(f);
done:
    return status;
}

/* Chooses the file of the lines: the history file of the callbacks, otherwise a file in the folder. */
static iso_status choose_lines(follower *f)
{
    const char *named = NULL;
    for (iso_callback **c = f->options.callbacks; c && *c && !named; c++)
        named = (*c)->lines;
    if (named)
        return iso_role_file(NULL, ISO_EVALUATOR, named, &f->lines_path);
    f->lines_path = iso_file_join(f->folder, "evaluator.json");
    return f->lines_path ? ISO_OK : iso_no_memory("the name of the file of evaluations");
}

/* Opens the file of the lines on rank 0. A file that the caller named is opened at once, so that an error is found
 * at once; one in the folder is opened when the folder exists. */
static iso_status begin(follower *f)
{
    struct stat about;
    iso_status status;
    f->since = iso_clock();
    f->epoch = -1;
    ISO_TRY(iso_folder_watch_create(f->folder, f->options.pattern, &f->watch));
    for (iso_callback **c = f->options.callbacks; c && *c; c++)
        if ((*c)->status != ISO_OK)
            ISO_TRY(iso_error((*c)->status, "no memory for a callback"));
    bool in_folder = strncmp(f->lines_path, f->folder, strlen(f->folder)) == 0;
    bool exists = stat(f->folder, &about) == 0;
    if (!in_folder || exists)
        ISO_TRY(open_lines(f));
    say(f, "follows the checkpoints in '%s'%s; its lines go to '%s'", f->folder,
        exists ? "" : ", which does not exist yet", f->lines_path);
done:
    return status;
}

static iso_status follow_check(follower *f)
{
    const iso_follow_options *o = &f->options;
    if (!f->folder)
        return iso_null_argument("iso_follow", "folder", 0);
    if (!*f->folder || strlen(f->folder) > 3800)
        return iso_error(ISO_INVALID, "follow: the folder has no name, or one that is too long");
    if (o->epochs < 0 || o->timeout < 0 || o->period < 0 || isnan(o->timeout) || isnan(o->period))
        return iso_error(ISO_INVALID, "follow: epochs %d, timeout %g and period %g must not be negative",
                         o->epochs, o->timeout, o->period);
    iso_status status = iso_callbacks_check(o->callbacks);
    return status == ISO_OK ? iso_model_check_data(f->model, f->data, "follow") : status;
}

iso_status iso_follow_with(iso_model *model, const char *folder, iso_dataset *data,
                           const iso_follow_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    follower f = {.model = model, .data = data, .folder = folder};
    iso_status status = ISO_INVALID;
    iso_options_copy(&f.options, sizeof f.options, given, size);
    if (!ISO_ANY_NULL(model)) {
        f.ctx = model->graph ? iso_graph_context(model->graph) : NULL;
        f.options.verbose = (int)iso_option_number(f.options.verbose, 1);
        f.options.period = f.options.period > 0 ? f.options.period : 1;
        status = iso_agree(f.ctx, follow_check(&f));
        if (status == ISO_OK)
            status = iso_agree(f.ctx, choose_lines(&f));
        if (status == ISO_OK)
            status = iso_agree(f.ctx, iso_is_chief(f.ctx) ? begin(&f) : ISO_OK);
        if (status == ISO_OK)
            status = follow(&f);
    }
    iso_callbacks_destroy(f.options.callbacks);
    iso_evaluations_close(f.lines);
    iso_folder_watch_destroy(f.watch);
    iso_free(f.lines_path);
    return status;
}
