/* Finds the checkpoint from which a run resumes, and takes settings from it that options do not set. */
#include <inttypes.h>
#include <stdio.h>
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

static iso_status resume_find(iso_context *ctx, const iso_train_options *options, iso_resumption *from)
{
    iso_text backup = {0};
    iso_status status = ISO_OK;
    const char *how = options->resume;
    if (how && strcmp(how, "never") == 0)
        return ISO_OK;
    if (how && strcmp(how, "auto") != 0)
        return iso_checkpoint_open(ctx, "--resume", how, &from->file);
    if (options->backup) {
        iso_text_add(&backup, "%s/" ISO_BACKUP_NAME, options->backup);
        status = find_newest(ctx, iso_text_get(&backup), &from->file);
    }
    if (status == ISO_OK && !from->file && options->checkpoint)
        status = find_newest(ctx, options->checkpoint, &from->file);
    iso_text_free(&backup);
    return status;
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
    return from->mesh ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for the mesh '%s'", mesh);
}

static void say(const json_t *state, const iso_train_options *options, const char *path)
{
    int64_t epoch = json_integer_value(json_object_get(state, "epoch"));
    if (epoch >= options->epochs) {
        printf("%s: its training is complete: %" PRId64 " of %" PRId64
               " epochs; a larger --epochs continues it\n",
               path, epoch, options->epochs);
        return;
    }
    printf("resuming from %s: epoch %" PRId64 ", batch %" PRId64 " (step %" PRId64 ")\n", path, epoch + 1,
           (int64_t)json_integer_value(json_object_get(state, "batch")),
           (int64_t)json_integer_value(json_object_get(state, "step")));
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

static iso_status look_into(iso_context *ctx, const iso_train_options *options, iso_resumption *from)
{
    json_t *state = NULL;
    const char *path = iso_saved_file_path(from->file), *text = iso_saved_file_state(from->file);
    iso_status status = text ? iso_json_parse(path, text, strlen(text), &state) : ISO_OK;
    ISO_TRY(iso_agree(ctx, status));
    if (!json_object_get(state, "step")) {
        status = iso_agree(ctx, only_weights(ctx, options, from));
        goto done;
    }
    ISO_TRY(iso_agree(ctx, resume_take(ctx, state, options, from)));
    if (options->verbose && iso_is_chief(ctx))
        say(state, options, path);
done:
    json_decref(state);
    return status;
}

iso_status iso_resumption_find(iso_context *ctx, const iso_train_options *options, iso_resumption *from)
{
    iso_status status = resume_find(ctx, options, from);
    return status == ISO_OK && from->file ? look_into(ctx, options, from) : status;
}

void iso_resumption_free(iso_resumption *from)
{
    iso_saved_file_close(from->file);
    iso_free(from->mesh);
    json_decref(from->distribution);
}
