/* Options of callbacks whose values are lists of settings. */
#include <string.h>

#include "launch/settings.h"
#include "launch/train_options.h"

static iso_status parse_mode(const char *option, const char *text, iso_mode *mode)
{
    static const char *const names[] = {"auto", "min", "max"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *mode = (iso_mode)i;
            return ISO_OK;
        }
    return iso_error(ISO_INVALID, "--%s: mode is '%s', it must be auto, min or max", option, text);
}

/* A number that was given; 0 is ISO_ZERO, because 0 means the default in options of calls. */
static double explicit_zero(double value)
{
    return value == 0 ? ISO_ZERO : value;
}

static int explicit_zero_count(int64_t value)
{
    return value == 0 ? ISO_ZERO : value > INT32_MAX ? INT32_MAX : (int)value;
}

static iso_status parse_stopping(const char *text, iso_run_callback_options *out)
{
    iso_early_stopping_options *stopping = &out->stopping;
    int64_t patience = 0, start = 0;
    char mode[ISO_LONGEST_SETTING] = "auto";
    iso_named_value settings[] = {{.name = "monitor", .text = out->stopping_monitor},
                                  {.name = "patience", .count = &patience},
                                  {.name = "min_delta", .real = &stopping->min_delta},
                                  {.name = "mode", .text = mode},
                                  {.name = "baseline", .real = &stopping->baseline, .any_number = true},
                                  {.name = "restore_best_weights", .flag = &stopping->restore_best_weights},
                                  {.name = "start_from_epoch", .count = &start}};
    iso_status status = ISO_OK;
    ISO_TRY(iso_settings_read("early-stopping", text, text, settings, 7, 0));
    ISO_TRY(parse_mode("early-stopping", mode, &stopping->mode));
    if (settings[4].given)
        stopping->baseline = explicit_zero(stopping->baseline);
    stopping->patience = explicit_zero_count(patience);
    stopping->start_from_epoch = explicit_zero_count(start);
done:
    return status;
}

static iso_status parse_plateau(const char *text, iso_run_callback_options *out)
{
    iso_reduce_lr_on_plateau_options *plateau = &out->plateau;
    int64_t patience = 0, cooldown = 0;
    char mode[ISO_LONGEST_SETTING] = "auto";
    iso_named_value settings[] = {{.name = "monitor", .text = out->plateau_monitor},
                                  {.name = "factor", .real = &plateau->factor},
                                  {.name = "patience", .count = &patience},
                                  {.name = "min_delta", .real = &plateau->min_delta},
                                  {.name = "mode", .text = mode},
                                  {.name = "cooldown", .count = &cooldown},
                                  {.name = "min_lr", .real = &plateau->min_lr}};
    iso_status status = ISO_OK;
    ISO_TRY(iso_settings_read("reduce-lr-on-plateau", text, text, settings, 7, 0));
    ISO_TRY(parse_mode("reduce-lr-on-plateau", mode, &plateau->mode));
    if (plateau->factor >= 1)
        ISO_TRY(iso_error(ISO_INVALID, "--reduce-lr-on-plateau: factor is %g, it must be below 1",
                          plateau->factor));
    if (settings[1].given)
        plateau->factor = explicit_zero(plateau->factor);
    if (settings[2].given)
        plateau->patience = explicit_zero_count(patience);
    if (settings[3].given)
        plateau->min_delta = explicit_zero(plateau->min_delta);
    plateau->cooldown = explicit_zero_count(cooldown);
done:
    return status;
}

static iso_status parse_tensorboard(const char *text, iso_tensorboard_options *out)
{
    int64_t histograms = 0;
    iso_named_value settings[] = {{.name = "update_freq", .count = &out->update_freq},
                                  {.name = "histogram_freq", .count = &histograms},
                                  {.name = "write_steps_per_second", .flag = &out->write_steps_per_second},
                                  {.name = "profile_batch", .count = &out->profile_batch}};
    iso_status status = iso_settings_read("tensorboard-options", text, text, settings, 4, 0);
    out->histogram_freq = histograms > INT32_MAX ? INT32_MAX : (int)histograms;
    return status;
}

iso_status iso_run_callback_options_parse(const iso_train_options *options,
                                          iso_run_callback_options *callback_options)
{
    iso_run_callback_options read = {.stopping_monitor = ""};
    iso_status status = ISO_OK;
    if (options->tensorboard_options && !options->tensorboard)
        return iso_error(ISO_INVALID, "--tensorboard-options needs --tensorboard");
    if (options->profile_step && !options->profile)
        return iso_error(ISO_INVALID, "--profile-step needs --profile");
    if (options->profile_launches && !options->profile)
        return iso_error(ISO_INVALID, "--profile-launches needs --profile");
    if (options->early_stopping)
        ISO_TRY(parse_stopping(options->early_stopping, &read));
    if (options->reduce_lr_on_plateau)
        ISO_TRY(parse_plateau(options->reduce_lr_on_plateau, &read));
    if (options->tensorboard_options)
        ISO_TRY(parse_tensorboard(options->tensorboard_options, &read.tensorboard));
    *callback_options = read;
done:
    return status;
}
