/* Saves a training's state with a saver; the chief reports the result of each save. */
#include "runtime/checkpoint/saver.h"
#include "runtime/train/checkpoint_writer_impl.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/deferred_weights.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks/monitor_impl.h"

/* A checkpoint of this training. */
typedef struct written_file {
    char *path; /* NULL: none */
    int64_t step;
} written_file;

struct iso_checkpoint_writer {
    iso_context *ctx;
    iso_checkpoint_writer *next; /* of the same training */
    written_file begun, complete;
    bool pending, committed; /* the save that was begun last: its end is not known yet; it is committed */
    iso_checkpoint_writer_options options;
    iso_state_dict *contents;
    iso_saver *saver;
    bool warned;         /* of the failure of the last save, before all ranks know its end */
    char reported[1024]; /* the last message about a save, which is reported once */
    int64_t n_saves, failed;
};

iso_status iso_checkpoint_writer_create(iso_training *training, const iso_checkpoint_writer_options *options,
                                        iso_checkpoint_writer **out)
{
    iso_context *ctx = training->ctx;
    iso_checkpoint_writer *writer = iso_new(sizeof *writer);
    iso_status status = ISO_OK;
    if (writer) {
        *writer = (iso_checkpoint_writer){.ctx = ctx, .options = *options};
        status = iso_state_dict_create(training->model, options->weights_only, &writer->contents);
    } else {
        status = iso_error(ISO_NO_MEMORY, "no memory to write checkpoints");
    }
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_saver_create(ctx, &writer->saver, .keep = options->keep, .mpio = options->mpio,
                             .waits = options->waits, .numbers = &training->numbers));
    writer->next = training->writers;
    training->writers = writer;
    *out = writer;
    return ISO_OK;
done:
    iso_checkpoint_writer_destroy(writer);
    return status;
}

void iso_checkpoint_writer_destroy(iso_checkpoint_writer *writer)
{
    if (!writer)
        return;
    iso_saver_destroy(writer->saver);
    iso_state_dict_destroy(writer->contents);
    iso_free(writer->begun.path);
    iso_free(writer->complete.path);
    iso_free(writer);
}

iso_status iso_checkpoint_writer_adopt(iso_checkpoint_writer *writer, const char *who, const char *pattern)
{
    iso_status status = iso_saver_try(writer->saver, pattern);
    return status == ISO_OK ? iso_saver_adopt(writer->saver, pattern)
                            : iso_error_prefix(status, "%s: '%s': ", who, pattern);
}

static bool speaks(const iso_checkpoint_writer *writer)
{
    return iso_is_chief(writer->ctx);
}

static void warn_of_failure(iso_checkpoint_writer *writer, const char *message)
{
    if (speaks(writer) && !writer->warned)
        iso_warn("%s; training goes on", message);
    writer->warned = true;
}

/* Handles a failed save: a warning, or an error if the options say so. */
static iso_status tell(iso_checkpoint_writer *writer, iso_status status, const char *message)
{
    if (status == ISO_OK)
        return ISO_OK;
    writer->failed++;
    snprintf(writer->reported, sizeof writer->reported, "%s", message);
    if (writer->options.stop_on_error)
        return iso_error(status, "%s", writer->reported);
    warn_of_failure(writer, writer->reported);
    writer->warned = false;
    return ISO_OK;
}

/* Reports the result of the last save. A successful one may have a message too, such as an old file that
 * could not be removed. */
static iso_status tell_end(iso_checkpoint_writer *writer, iso_status status)
{
    const char *message = iso_saver_message(writer->saver);
    if (status == ISO_OK && message[0] && strcmp(message, writer->reported) != 0) {
        snprintf(writer->reported, sizeof writer->reported, "%s", message);
        if (speaks(writer))
            iso_warn("%s", message);
    }
    return tell(writer, status, iso_error_message());
}

/* The save that was begun has ended. */
static void note_end(iso_checkpoint_writer *writer, iso_status status)
{
    if (writer->pending)
        writer->committed = status == ISO_OK;
    writer->pending = false;
    if (!writer->begun.path)
        return;
    if (status == ISO_OK) {
        iso_free(writer->complete.path);
        writer->complete = writer->begun;
    } else
        iso_free(writer->begun.path);
    writer->begun.path = NULL;
}

/* path NULL: the save did not begin. Without memory for the path it is forgotten. */
static void note_begin(iso_checkpoint_writer *writer, const iso_training *training, const char *path)
{
    writer->begun = (written_file){path ? iso_strdup(path) : NULL, training->cursor.trained};
    writer->pending = path != NULL;
    writer->committed = false;
}

iso_status iso_checkpoint_writer_wait(iso_checkpoint_writer *writer)
{
    iso_status status = iso_saver_wait(writer->saver);
    note_end(writer, status);
    return tell_end(writer, status);
}

iso_status iso_checkpoint_writer_save(iso_checkpoint_writer *writer, iso_training *training, const char *path,
                                      bool best)
{
    iso_status status;
    ISO_TRY(iso_training_check_replicas(training));
    ISO_TRY(iso_checkpoint_writer_wait(writer));
    iso_graph_send_deferred_weights(training->model->graph);
    writer->n_saves++;
    if (writer->options.verbose)
        iso_fit_print(&training->state, "epoch %d: saving %s", training->state.epoch + 1, path);
    status = iso_state_dict_save(writer->contents, training, writer->saver, path, best);
    note_begin(writer, training, status == ISO_OK ? path : NULL);
    bool waits = writer->options.waits || writer->options.mpio; /* the save has ended */
    if (status == ISO_OK)
        return waits ? tell_end(writer, ISO_OK) : ISO_OK;
    return tell(writer, status, iso_error_message());
done:
    return status;
}

bool iso_checkpoint_writer_committed(const iso_checkpoint_writer *writer)
{
    return writer->committed;
}

uint64_t iso_checkpoint_writer_number(const iso_checkpoint_writer *writer, const iso_training *training)
{
    return iso_saver_number(writer->saver, (uint64_t)training->cursor.trained);
}

void iso_checkpoint_writer_mark(iso_checkpoint_writer *writer, const char *folder, const char *name)
{
    if (iso_saver_mark(writer->saver, folder, name) != ISO_OK)
        iso_warn("the best checkpoint is '%s': %s; the next save tries again", name, iso_error_message());
}

void iso_checkpoint_writer_poll(iso_checkpoint_writer *writer, const iso_training *training)
{
    iso_saver_poll(writer->saver);
    if (!iso_saver_has_failed(writer->saver))
        return;
    if (writer->options.stop_on_error) {
        iso_stop_want(writer->ctx);
        return;
    }
    if (!writer->warned)
        iso_progress_break(training->progress);
    warn_of_failure(writer, iso_saver_message(writer->saver));
}

iso_status iso_checkpoint_writers_wait(const iso_training *training)
{
    iso_status status = ISO_OK;
    for (iso_checkpoint_writer *writer = training->writers; writer; writer = writer->next)
        ISO_TRY(iso_checkpoint_writer_wait(writer));
done:
    return status;
}

/* A save that fails here is reported by its writer; it is not the error to return now. */
const char *iso_checkpoint_writers_newest(const iso_training *training, int64_t *step)
{
    const char *path = NULL;
    *step = 0;
    for (iso_checkpoint_writer *writer = training->writers; writer; writer = writer->next) {
        iso_checkpoint_writer_wait(writer);
        if (!writer->complete.path || writer->complete.step < *step)
            continue;
        path = writer->complete.path;
        *step = writer->complete.step;
    }
    return path;
}

iso_status iso_checkpoint_writer_save_now(iso_checkpoint_writer *writer, iso_training *training,
                                          const char *path)
{
    bool stop_on_error = writer->options.stop_on_error;
    iso_status status = iso_checkpoint_writer_wait(writer); /* a failure of an earlier save is only told */
    writer->options.stop_on_error = true;
    if (status == ISO_OK || !stop_on_error)
        status = iso_checkpoint_writer_save(writer, training, path, false);
    if (status == ISO_OK)
        status = iso_checkpoint_writer_wait(writer);
    writer->options.stop_on_error = stop_on_error;
    return status;
}

void iso_checkpoint_writer_report_none_kept(const iso_checkpoint_writer *writer, const char *pattern)
{
    if (writer->n_saves > 0 && writer->n_saves == writer->failed && speaks(writer))
        iso_warn("no checkpoint '%s' was kept: none of %lld could be written", pattern,
                 (long long)writer->n_saves);
}
