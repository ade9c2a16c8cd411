/* Finds the checkpoint from which a run resumes, and takes settings from it that options do not set. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/session/tuning_choices.h"
#include "runtime/train/resumption.h"

/* The newest checkpoint whose path matches "folder/name.weights.h5"; NULL: none. */
static iso_status find_newest(iso_context *ctx, const char *pattern, iso_saved_file **file)
{
    char *folder = iso_file_folder(pattern);
    iso_status status = iso_agree(ctx, folder ? ISO_OK : iso_no_memory("the folder of '%s'", pattern));
    if (status == ISO_OK)
        status = iso_checkpoint_newest(ctx, "--resume auto", folder, iso_file_name(pattern), file);
    iso_free(folder);
    return status;
}

static iso_status read_state(const iso_saved_file *file, json_t **state)
{
    const char *text = iso_saved_file_state(file);
    return text ? iso_json_parse(iso_saved_file_path(file), text, strlen(text), state) : ISO_OK;
}

/* The steps of the training that a file holds; -1: it holds none. */
static int64_t steps_of(const iso_saved_file *file)
{
    json_t *state = NULL;
    iso_status status = read_state(file, &state);
    const json_t *step = json_object_get(state, "step");
    int64_t steps = status == ISO_OK && step ? json_integer_value(step) : -1;
    json_decref(state);
    return steps;
}

/* A training numbers its checkpoints and its backups together, and above those that it found. */
static bool is_newer(const iso_saved_file *checkpoint, const iso_saved_file *backup)
{
    uint64_t number[2] = {0, 0};
    iso_saved_file_committed(checkpoint, &number[0]);
    iso_saved_file_committed(backup, &number[1]);
    return steps_of(checkpoint) >= 0 && number[0] > number[1];
}

/* Takes the newer one of the backup and the newest checkpoint. *older: the backup, if a checkpoint is newer. */
static iso_status find_auto(iso_context *ctx, const iso_train_options *options, iso_resumption *from,
                            iso_saved_file **older)
{
    iso_saved_file *backup = NULL;
    iso_text name = {0};
    iso_status status = ISO_OK;
    if (options->backup) {
        iso_text_add(&name, "%s/" ISO_BACKUP_NAME, options->backup);
        ISO_TRY(find_newest(ctx, iso_text_get(&name), &backup));
    }
    if (options->checkpoint)
        ISO_TRY(find_newest(ctx, options->checkpoint, &from->file));
    if (backup && from->file && is_newer(from->file, backup)) {
        from->leaves_backup = true;
        *older = backup;
    } else if (backup) {
        iso_saved_file_close(from->file);
        from->file = backup;
    }
    backup = NULL;
done:
    iso_saved_file_close(backup);
    iso_text_free(&name);
    return status;
}

static iso_status resume_find(iso_context *ctx, const iso_train_options *options, iso_resumption *from,
                              iso_saved_file **older)
{
    const char *how = options->resume;
    if (how && strcmp(how, "never") == 0)
        return ISO_OK;
    if (how && strcmp(how, "auto") != 0)
        return iso_checkpoint_open(ctx, "--resume", how, &from->file);
    return find_auto(ctx, options, from, older);
}

/* The run uses the checkpoint's mesh and seed unless options set them. */
static iso_status resume_take(iso_context *ctx, const json_t *state, const iso_train_options *options,
                              iso_resumption *from)
{
    const char *mesh = json_string_value(json_object_get(state, "mesh"));
    const char *seed = json_string_value(json_object_get(state, "seed"));
    iso_status status =
        iso_tuning_choices_resume(ctx, iso_saved_file_path(from->file), json_object_get(state, "tuning"));
    if (status != ISO_OK)
        return status;
    if (seed && !iso_option(ctx, "seed", NULL))
        iso_set_seed(ctx, strtoull(seed, NULL, 16));
    from->distribution = json_incref(json_object_get(state, "distribution"));
    if (!mesh || !mesh[0] || options->mesh)
        return ISO_OK;
    from->mesh = iso_strdup(mesh);
    return from->mesh ? ISO_OK : iso_no_memory("the mesh '%s'", mesh);
}

static iso_status make_line(const json_t *state, const iso_train_options *options,
                            const iso_saved_file *older, iso_resumption *from)
{
    const char *path = iso_saved_file_path(from->file);
    int64_t epoch = json_integer_value(json_object_get(state, "epoch"));
    iso_text line = {0};
    if (epoch >= options->epochs)
        iso_text_add(&line,
                     "%s: its training is complete: %" PRId64 " of %" PRId64
                     " epochs; a larger --epochs continues it",
                     path, epoch, options->epochs);
    else
        iso_text_add(&line, "resuming from %s: epoch %" PRId64 ", batch %" PRId64 " (step %" PRId64 ")", path,
                     epoch + 1, (int64_t)json_integer_value(json_object_get(state, "batch")),
                     (int64_t)json_integer_value(json_object_get(state, "step")));
    if (older)
        iso_text_add(&line, "; the backup %s (step %" PRId64 ") is older", iso_saved_file_path(older),
                     steps_of(older));
    if (line.failed) {
        iso_text_free(&line);
        return iso_no_memory("the line on %s", path);
    }
    from->line = line.data;
    return ISO_OK;
}

/* If only a file of --save is left in the folder of the checkpoints, there is nothing to resume from. */
static iso_status only_weights(iso_context *ctx, const iso_train_options *options, iso_resumption *from)
{
    bool asked_for = options->resume && strcmp(options->resume, "auto") != 0;
    if (asked_for)
        return iso_error(ISO_INVALID, "--resume: %s holds no training state; load weights with --weights",
                         iso_saved_file_path(from->file));
    if (iso_is_chief(ctx))
        iso_warn("--resume auto skips\n'%s' holds weights but no training state",
                 iso_saved_file_path(from->file));
    iso_resumption_free(from);
    *from = (iso_resumption){.file = NULL};
    return ISO_OK;
}

/* older: a backup that is not used; NULL: none. */
static iso_status look_into(iso_context *ctx, const iso_train_options *options, iso_resumption *from,
                            const iso_saved_file *older)
{
    json_t *state = NULL;
    iso_status status;
    ISO_TRY(iso_agree(ctx, read_state(from->file, &state)));
    if (!json_object_get(state, "step")) {
        status = iso_agree(ctx, only_weights(ctx, options, from));
        goto done;
    }
    ISO_TRY(iso_agree(ctx, iso_resumption_check_committed(from->file)));
    ISO_TRY(iso_agree(ctx, resume_take(ctx, state, options, from)));
    if (options->verbose)
        ISO_TRY(iso_agree(ctx, make_line(state, options, older, from)));
done:
    json_decref(state);
    return status;
}

iso_status iso_resumption_find(iso_context *ctx, const iso_train_options *options, iso_resumption *from)
{
    iso_saved_file *older = NULL;
    iso_status status = resume_find(ctx, options, from, &older);
    if (status == ISO_OK && from->file)
        status = look_into(ctx, options, from, older);
    iso_saved_file_close(older);
    return status;
}

void iso_resumption_free(iso_resumption *from)
{
    iso_saved_file_close(from->file);
    iso_free(from->mesh);
    iso_free(from->line);
    json_decref(from->distribution);
}
