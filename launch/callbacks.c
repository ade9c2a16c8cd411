/* The callbacks of a run, from options. */
#include <string.h>

#include "launch/train_impl.h"

static iso_callback *checkpoint(const iso_train_options *options)
{
    return iso_model_checkpoint(options->checkpoint, .save_freq = options->save_steps,
                                .keep = (int)options->keep, .best = options->save_best,
                                .mpio = !strcmp(options->checkpoint_io, "mpio"),
                                .stop_on_error = !strcmp(options->checkpoint_errors, "stop"));
}

static iso_callback *backup(const iso_train_options *options)
{
    return iso_backup_and_restore(options->backup, .save_freq = options->save_steps,
                                  .mpio = !strcmp(options->checkpoint_io, "mpio"),
                                  .stop_on_error = !strcmp(options->checkpoint_errors, "stop"));
}

void iso_run_callbacks(iso_context *ctx, const iso_train_options *options, double reading,
                       iso_callback *callbacks[ISO_MAX_RUN_CALLBACKS])
{
    int count = 0;
    if (options->history)
        callbacks[count++] = iso_history_file(options->history);
    if (options->timings)
        callbacks[count++] = iso_timings_file(ctx, options->timings, reading);
    if (options->checkpoint)
        callbacks[count++] = checkpoint(options);
    if (options->backup)
        callbacks[count++] = backup(options);
    callbacks[count] = NULL;
}
