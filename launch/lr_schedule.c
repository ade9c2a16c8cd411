/* Learning-rate schedules as text. */
#include <stdio.h>
#include <string.h>

#include "launch/settings.h"
#include "launch/train_options.h"

static const char option[] = "schedule";

static iso_status read_exponential(const char *whole, const char *rest, iso_schedule *schedule)
{
    iso_named_value settings[] = {{.name = "decay_steps", .count = &schedule->decay_steps},
                                  {.name = "decay_rate", .real = &schedule->rate},
                                  {.name = "staircase", .flag = &schedule->staircase}};
    schedule->kind = ISO_SCHEDULE_EXPONENTIAL;
    return iso_settings_read(option, whole, rest, settings, 3, 2);
}

static iso_status read_cosine(const char *whole, const char *rest, iso_schedule *schedule)
{
    iso_named_value settings[] = {{.name = "decay_steps", .count = &schedule->decay_steps},
                                  {.name = "alpha", .real = &schedule->alpha},
                                  {.name = "warmup_steps", .count = &schedule->warmup_steps},
                                  {.name = "warmup_target", .real = &schedule->warmup_target}};
    schedule->kind = ISO_SCHEDULE_COSINE;
    return iso_settings_read(option, whole, rest, settings, 4, 1);
}

static iso_status read_piecewise(const char *whole, const char *rest, iso_schedule *schedule)
{
    char boundary[ISO_LONGEST_SETTING], value[ISO_LONGEST_SETTING];
    iso_status status = ISO_OK;
    schedule->kind = ISO_SCHEDULE_PIECEWISE;
    while (*rest) {
        int n = schedule->n_boundaries;
        if (n == ISO_MAX_PIECES)
            return iso_error(ISO_INVALID, "--schedule '%s': more than %d boundaries", whole, ISO_MAX_PIECES);
        ISO_TRY(iso_settings_take(option, whole, &rest, boundary, value));
        ISO_TRY(iso_argument_count("--schedule: boundary", boundary, 0, 0x1p40, &schedule->boundaries[n]));
        ISO_TRY(iso_argument_real("--schedule: rate", value, 0, 1e9, &schedule->value[n + 1]));
        if (n && schedule->boundaries[n] <= schedule->boundaries[n - 1])
            return iso_error(ISO_INVALID, "--schedule '%s': boundary %s does not come after the one before",
                             whole, boundary);
        schedule->n_boundaries++;
    }
    if (!schedule->n_boundaries)
        return iso_error(ISO_INVALID, "--schedule '%s': needs a boundary, such as 1000=0.01", whole);
done:
    return status;
}

iso_status iso_schedule_parse(const char *text, iso_schedule *schedule)
{
    static const char *const names[] = {"constant", "exponential", "cosine", "piecewise"};
    iso_schedule read = {0};
    iso_status status;
    size_t length = strcspn(text, ":");
    const char *rest = text + length + (text[length] == ':');
    char kind[ISO_LONGEST_SETTING];
    snprintf(kind, sizeof kind, "%.*s",
             (int)(length < ISO_LONGEST_SETTING ? length : ISO_LONGEST_SETTING - 1), text);
    if (!strcmp(kind, "constant") && !*rest) {
        status = ISO_OK;
    } else if (!strcmp(kind, "exponential")) {
        status = read_exponential(text, rest, &read);
    } else if (!strcmp(kind, "cosine")) {
        status = read_cosine(text, rest, &read);
    } else if (!strcmp(kind, "piecewise")) {
        status = read_piecewise(text, rest, &read);
    } else {
        iso_text near = {0};
        iso_text_add_nearest(&near, kind, names, 4);
        status = iso_error(ISO_INVALID, "--schedule '%s': unknown schedule%s", text, iso_text_get(&near));
        iso_text_free(&near);
    }
    if (status == ISO_OK)
        *schedule = read;
    return status;
}
