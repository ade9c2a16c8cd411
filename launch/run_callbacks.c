/* The callbacks of a run, from options. */
#include <string.h>

#include "launch/train_impl.h"
#include "runtime/train/resumption.h"

/* value: NULL if the option is not given. */
static bool is(const char *value, const char *word)
{
    return value && !strcmp(value, word);
}

static iso_callback *checkpoint(const iso_train_options *options)
{
    return iso_model_checkpoint(options->checkpoint, .save_freq = options->save_steps,
                                .keep = (int)options->keep, .best = options->save_best,
                                .mpio = is(options->checkpoint_io, "mpio"),
                                .stop_on_error = is(options->checkpoint_errors, "stop"));
}

/* If the model is saved after training, the backup is kept until then (launch/train.c). */
static iso_callback *backup(const iso_train_options *options, const iso_resumption *from)
{
    return iso_backup_and_restore(
        options->backup, .save_freq = options->save_steps, .keep_backup = options->save != NULL,
        .begins_anew = is(options->resume, "never") || from->leaves_backup,
        .mpio = is(options->checkpoint_io, "mpio"), .stop_on_error = is(options->checkpoint_errors, "stop"));
}

/* Uses the texts of callback_options, because the options may have been copied since they were parsed. */
static iso_callback *early_stopping(const iso_run_callback_options *callback_options, bool says)
{
    iso_early_stopping_options options = callback_options->stopping;
    options.verbose = says;
    options.monitor = callback_options->stopping_monitor[0] ? callback_options->stopping_monitor : NULL;
    return iso_early_stopping_with(&options, sizeof options);
}

static iso_callback *reduce_lr_on_plateau(const iso_run_callback_options *callback_options, bool says)
{
    iso_reduce_lr_on_plateau_options options = callback_options->plateau;
    options.verbose = says;
    options.monitor = callback_options->plateau_monitor[0] ? callback_options->plateau_monitor : NULL;
    return iso_reduce_lr_on_plateau_with(&options, sizeof options);
}

static iso_callback *tensorboard(const iso_train_options *options)
{
    iso_tensorboard_options filled = options->callback_options.tensorboard;
    filled.path = options->tensorboard;
    return iso_tensorboard_with(&filled, sizeof filled);
}

/* Callbacks that change the learning rate come before those that log it. */
void iso_run_callbacks(iso_context *ctx, const iso_train_options *options, const iso_resumption *from,
                       double reading, iso_callback *callbacks[ISO_MAX_RUN_CALLBACKS])
{
    int count = 0;
    if (from->line)
        callbacks[count++] = iso_resumption_line(from->line);
    if (options->terminate_on_nan)
        callbacks[count++] = iso_terminate_on_nan(.raise_error = false);
    if (options->reduce_lr_on_plateau)
        callbacks[count++] = reduce_lr_on_plateau(&options->callback_options, options->verbose > 0);
    if (options->early_stopping)
        callbacks[count++] = early_stopping(&options->callback_options, options->verbose > 0);
    if (options->history)
        callbacks[count++] = iso_history_file(options->history);
    if (options->csv)
        callbacks[count++] = iso_csv_logger(options->csv);
    if (options->tensorboard)
        callbacks[count++] = tensorboard(options);
    if (options->profile)
        callbacks[count++] = iso_profile(options->profile, .step = options->profile_step,
                                         .launches = options->profile_launches);
    if (options->timings)
        callbacks[count++] = iso_timings_file(ctx, options->timings, reading);
    if (options->checkpoint)
        callbacks[count++] = checkpoint(options);
    if (options->backup)
        callbacks[count++] = backup(options, from);
    callbacks[count] = NULL;
}
