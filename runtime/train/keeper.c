/* A saver and what it saves of a training; what became of each save is told by the chief. */
#include "runtime/train/keeper_impl.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks/monitor_impl.h"

struct iso_keeper {
    iso_context *ctx;
    iso_keeper_options options;
    iso_model_contents *contents;
    iso_saver *saver;
    char told[1024]; /* what was told last of a save: it is told once */
    int64_t saves, failed;
};

iso_status iso_keeper_create(iso_model *model, const iso_keeper_options *options, iso_keeper **out)
{
    iso_context *ctx = iso_graph_context(model->graph);
    iso_keeper *keeper = iso_new(sizeof *keeper);
    iso_status status = ISO_OK;
    if (keeper) {
        *keeper = (iso_keeper){.ctx = ctx, .options = *options};
        status = iso_model_contents_create(model, options->weights_only, &keeper->contents);
    } else {
        status = iso_error(ISO_NO_MEMORY, "no memory to write checkpoints");
    }
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_saver_create(ctx, &keeper->saver, .keep = options->keep, .mpio = options->mpio,
                             .waits = options->waits));
    *out = keeper;
    return ISO_OK;
done:
    iso_keeper_destroy(keeper);
    return status;
}

void iso_keeper_destroy(iso_keeper *keeper)
{
    if (!keeper)
        return;
    iso_saver_destroy(keeper->saver);
    iso_model_contents_destroy(keeper->contents);
    iso_free(keeper);
}

iso_status iso_keeper_adopt(iso_keeper *keeper, const char *who, const char *pattern)
{
    iso_status status = iso_saver_try(keeper->saver, pattern);
    return status == ISO_OK ? iso_saver_adopt(keeper->saver, pattern)
                            : iso_error_prefix(status, "%s: '%s': ", who, pattern);
}

static bool speaks(const iso_keeper *keeper)
{
    return !keeper->ctx || iso_is_chief(keeper->ctx);
}

/* What a save that failed means: a warning, or the end. */
static iso_status tell(iso_keeper *keeper, iso_status status, const char *message)
{
    if (status == ISO_OK)
        return ISO_OK;
    keeper->failed++;
    snprintf(keeper->told, sizeof keeper->told, "%s", message);
    if (keeper->options.stop_on_error)
        return iso_error(status, "%s", message);
    if (speaks(keeper))
        iso_warn("%s; training goes on", message);
    return ISO_OK;
}

/* How the last save ended. One that is written may have something to say too: an old one that cannot be
 * removed. */
static iso_status tell_end(iso_keeper *keeper, iso_status status)
{
    const char *message = iso_saver_message(keeper->saver);
    if (status == ISO_OK && message[0] && strcmp(message, keeper->told) != 0) {
        snprintf(keeper->told, sizeof keeper->told, "%s", message);
        if (speaks(keeper))
            iso_warn("%s", message);
    }
    return tell(keeper, status, message);
}

iso_status iso_keeper_save(iso_keeper *keeper, iso_training *training, const char *path, bool best)
{
    iso_status last = ISO_OK;
    keeper->saves++;
    if (keeper->options.verbose)
        iso_fit_say(&training->state, "epoch %d: saving %s", training->state.epoch + 1, path);
    iso_status status = iso_model_contents_save(keeper->contents, training, keeper->saver, path, best, &last);
    char message[1024];
    snprintf(message, sizeof message, "%s", status == ISO_OK ? "" : iso_error_message());
    /* Where each save is waited for, the saver's message is that of this one, which is told below. */
    bool waits = keeper->options.waits || keeper->options.mpio;
    iso_status before = waits && status != ISO_OK ? ISO_OK : tell_end(keeper, last);
    iso_status now = tell(keeper, status, message);
    return now != ISO_OK ? now : before;
}

void iso_keeper_poll(iso_keeper *keeper)
{
    iso_saver_poll(keeper->saver);
}

iso_status iso_keeper_wait(iso_keeper *keeper)
{
    return tell_end(keeper, iso_saver_wait(keeper->saver));
}

void iso_keeper_tell_none_kept(const iso_keeper *keeper, const char *pattern)
{
    if (keeper->saves > 0 && keeper->saves == keeper->failed && speaks(keeper))
        iso_warn("no checkpoint '%s' was kept: none of %lld could be written", pattern,
                 (long long)keeper->saves);
}
