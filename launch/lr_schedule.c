/* Learning-rate schedules as text. */
#include <stdio.h>
#include <string.h>

#include "launch/settings.h"
#include "launch/train_options.h"
#include "runtime/graph/schedules/rule.h"

static const char option[] = "schedule";

static iso_status read_piecewise(const char *whole, const char *rest, iso_schedule *schedule)
{
    char boundary[ISO_LONGEST_SETTING], value[ISO_LONGEST_SETTING];
    iso_status status = ISO_OK;
    while (*rest) {
        int n = schedule->n_boundaries;
        if (n == ISO_MAX_PIECES)
            return iso_error(ISO_INVALID, "--schedule '%s': more than %d boundaries", whole, ISO_MAX_PIECES);
        ISO_TRY(iso_settings_take(option, whole, &rest, boundary, value));
        ISO_TRY(iso_argument_count("--schedule: boundary", boundary, 0, 0x1p40, &schedule->boundaries[n]));
        ISO_TRY(iso_argument_real("--schedule: rate", value, 0, 1e9, &schedule->value[n + 1]));
        schedule->n_boundaries++;
    }
    if (!schedule->n_boundaries)
        return iso_error(ISO_INVALID, "--schedule '%s': needs a boundary, such as 1000=0.01", whole);
done:
    return status;
}

/* Keras ignores warmup_steps without a target. */
static iso_status schedule_check(const char *whole, const iso_schedule *schedule)
{
    iso_status status = iso_schedule_check(schedule);
    if (status != ISO_OK)
        return iso_error_prefix(status, "--schedule '%s': ", whole);
    if (schedule->warmup_steps > 0 && schedule->warmup_target == 0)
        return iso_error(ISO_INVALID,
                         "--schedule '%s': warmup_steps needs warmup_target, the learning rate after the "
                         "warm-up",
                         whole);
    return ISO_OK;
}

iso_status iso_schedule_parse(const char *text, iso_schedule *schedule)
{
    iso_schedule read = {0};
    const iso_descriptor *row;
    char kind[ISO_LONGEST_SETTING];
    size_t length = strcspn(text, ":");
    const char *rest = text + length + (text[length] == ':');
    snprintf(kind, sizeof kind, "%.*s",
             (int)(length < ISO_LONGEST_SETTING ? length : ISO_LONGEST_SETTING - 1), text);
    iso_status status = iso_descriptor_find(iso_schedule_rows, "schedule", kind, &row);
    if (status != ISO_OK)
        return iso_error_prefix(status, "--schedule '%s': ", text);
    const iso_schedule_rule *rule = (const iso_schedule_rule *)(const void *)row;
    read.kind = rule->kind;
    for (const iso_setting *s = rule->row.setting; s && s->name; s++)
        iso_setting_set(s, &read, s->fallback);
    if (rule->piecewise)
        status = read_piecewise(text, rest, &read);
    else /* all settings but the first, which is the optimizer's learning rate */
        status = iso_settings_read_rows(option, text, rest, rule->row.setting ? rule->row.setting + 1 : NULL,
                                        (iso_count_range){0}, rule->needed, &read);
    if (status == ISO_OK)
        status = schedule_check(text, &read);
    if (status == ISO_OK)
        *schedule = read;
    return status;
}
