/* Keras's BackupAndRestore. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks/monitor_impl.h"
#include "runtime/train/checkpoint_writer_impl.h"
#include "runtime/train/checkpoints.h"

typedef struct backup {
    iso_backup_and_restore_options options;
    char *folder, *path;
    iso_checkpoint_writer *writer;
    int64_t seen; /* batches since the last save */
    bool foreign; /* the folder's backup, if any, is not of this training */
} backup;

/* Training continues from the backup of an earlier run, even if fit was given something else to continue
 * from. The backup is read after all callbacks have begun, so that none resets the state that it gets
 * back. */
static iso_status backup_find(const backup *b, iso_training *training)
{
    iso_saved_file *file = training->options.resume_file;
    if (b->options.begins_anew)
        return ISO_OK;
    if (file && strcmp(iso_saved_file_path(file), b->path) == 0)
        return ISO_OK;
    iso_status status = iso_checkpoint_newest(training->ctx, "the backup", b->folder, ISO_BACKUP_NAME, &file);
    if (status != ISO_OK || !file)
        return status;
    iso_saved_file_close(training->options.resume_file);
    training->options.resume_file = file;
    training->options.resume = NULL;
    return ISO_OK;
}

static iso_status backup_begin(void *user, iso_fit_state *state)
{
    backup *b = user;
    const iso_backup_and_restore_options *o = &b->options;
    iso_status status;
    if (!b->folder || !b->folder[0] || o->save_freq < 0) /* the same on every rank */
        return iso_error(
            ISO_INVALID,
            "BackupAndRestore: folder '%s' and save_freq %lld; a name, and 0 or more, are wanted",
            b->folder ? b->folder : "", (long long)o->save_freq);
    ISO_TRY(iso_checkpoint_writer_create(state->training,
                                         &(iso_checkpoint_writer_options){.mpio = o->mpio,
                                                                          .waits = o->waits,
                                                                          .stop_on_error = o->stop_on_error},
                                         &b->writer));
    b->foreign = o->begins_anew;
    ISO_TRY(backup_find(b, state->training));
    ISO_TRY(iso_checkpoint_writer_adopt(b->writer, "BackupAndRestore", b->path));
done:
    return status;
}

static iso_status backup_save(backup *b, iso_fit_state *state)
{
    if (state->training->diverged)
        return ISO_OK;
    b->foreign = false;
    return iso_checkpoint_writer_save(b->writer, state->training, b->path, false);
}

static iso_status save_now(void *user, iso_fit_state *state, iso_text *file)
{
    backup *b = user;
    iso_text_add(file, "%s", b->path);
    return iso_checkpoint_writer_save_now(b->writer, state->training, b->path);
}

static iso_status after_batch(void *user, iso_fit_state *state)
{
    backup *b = user;
    iso_checkpoint_writer_poll(b->writer, state->training);
    if (b->options.save_freq == 0 || ++b->seen < b->options.save_freq)
        return ISO_OK;
    b->seen = 0;
    return backup_save(b, state);
}

static iso_status after_epoch(void *user, iso_fit_state *state)
{
    backup *b = user;
    return b->options.save_freq == 0 ? backup_save(b, state) : ISO_OK;
}

/* The training is complete, so its backup is removed. Other files in the folder stay. */
void iso_backup_remove(const char *folder)
{
    static const char *const names[] = {ISO_BACKUP_NAME, "latest"};
    char path[4096];
    if (ISO_ANY_NULL(folder))
        return;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static iso_status end(void *user, iso_fit_state *state)
{
    backup *b = user;
    bool kept = b->options.keep_backup || b->foreign || state->training->diverged;
    iso_status status = iso_checkpoint_writer_wait(b->writer);
    if (status == ISO_OK && !kept && iso_fit_is_chief(state))
        iso_backup_remove(b->folder);
    return status;
}

static void backup_destroy(void *user)
{
    backup *b = user;
    if (!b)
        return;
    iso_checkpoint_writer_destroy(b->writer);
    iso_free(b->folder);
    iso_free(b->path);
    iso_free(b);
}

#define SETTING(kind, member) ISO_SETTING(iso_backup_and_restore_options, kind, member, 0)
static const iso_setting settings[] = {SETTING(COUNT, save_freq),
                                       SETTING(FLAG, keep_backup),
                                       SETTING(FLAG, mpio),
                                       SETTING(FLAG, waits),
                                       SETTING(FLAG, stop_on_error),
                                       SETTING(FLAG, begins_anew),
                                       {0}};

iso_callback *iso_backup_and_restore_with(const iso_backup_and_restore_options *given, size_t size)
{
    backup *b = iso_new(sizeof *b);
    if (!b)
        return iso_callback_no_memory();
    iso_options_copy(&b->options, sizeof b->options, given, size);
    if (b->options.folder) {
        b->folder = iso_strdup(b->options.folder);
        b->path = iso_file_join(b->options.folder, ISO_BACKUP_NAME);
        if (!b->folder || !b->path) {
            backup_destroy(b);
            return iso_callback_no_memory();
        }
    }
    iso_callback_same same = {.name = "backup_and_restore", .settings = settings, .options = &b->options};
    iso_callback *callback = iso_callback_built_in(.train_begin = backup_begin, .train_end = end,
                                                   .epoch_end = after_epoch, .batch_end = after_batch,
                                                   .collective = true, .user = b, .destroy = backup_destroy);
    if (callback->status == ISO_OK) { /* otherwise it is a constant, and b has been freed */
        callback->last = callback->sends_weights = true;
        callback->logs = "";
        callback->save_now = save_now;
        callback->backup = true;
    }
    return iso_callback_set_same(callback, &same);
}
