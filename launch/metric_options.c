/* Metrics with their settings from text. */
#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "launch/settings.h"
#include "launch/train_impl.h"
#include "runtime/base/options.h"
#include "runtime/train/loss.h"

static const char option[] = "metrics";

/* ---- one setting ---- */

static iso_status set_word(const iso_setting *setting, const char *what, const char *value, void *settings)
{
    iso_text words = {0};
    for (int i = 0; setting->words[i]; i++) {
        if (strcmp(setting->words[i], value) == 0) {
            iso_setting_set(setting, settings, i);
            iso_text_free(&words);
            return ISO_OK;
        }
        iso_text_add(&words, "%s%s", i ? ", " : "", setting->words[i]);
    }
    iso_status status =
        iso_error(ISO_INVALID, "%s '%s': it must be one of %s", what, value, iso_text_get(&words));
    iso_text_free(&words);
    return status;
}

/* "0+2": a set of numbers. */
static iso_status set_bits(const iso_setting *setting, const char *what, const char *value, void *settings)
{
    char number[ISO_LONGEST_SETTING];
    uint64_t bits = 0;
    int64_t bit;
    iso_status status = ISO_OK;
    for (const char *at = value;; at++) {
        size_t length = strcspn(at, "+");
        snprintf(number, sizeof number, "%.*s", (int)length, at);
        ISO_TRY(iso_argument_count(what, number, 0, ISO_SETTING_BITS_END - 1, &bit));
        if (bits >> bit & 1)
            ISO_TRY(iso_error(ISO_INVALID, "%s '%s': %s is there twice", what, value, number));
        bits |= (uint64_t)1 << bit;
        at += length;
        if (!*at)
            break;
    }
    iso_setting_set(setting, settings, (double)bits);
done:
    return status;
}

static iso_status set_whole(const iso_setting *setting, const char *what, const char *value, void *settings)
{
    int64_t number = 0;
    double least = setting->kind == ISO_SETTING_INDEX ? -INT_MAX : setting->fallback > 0;
    iso_status status = iso_argument_count(what, value, least, INT_MAX, &number);
    if (status == ISO_OK)
        iso_setting_set(setting, settings, number == 0 ? ISO_ZERO : (double)number);
    return status;
}

static iso_status set_flag(const iso_setting *setting, const char *what, const char *value, void *settings)
{
    int64_t flag = strcmp(value, "true") == 0;
    iso_status status = ISO_OK;
    if (!flag && strcmp(value, "false") != 0)
        status = iso_argument_count(what, value, 0, 1, &flag);
    iso_setting_set(setting, settings, (double)flag);
    return status;
}

static iso_status set_real(const iso_setting *setting, const char *what, const char *value, void *settings)
{
    double number = 0;
    iso_status status = iso_argument_real(what, value, -DBL_MAX, DBL_MAX, &number);
    if (status == ISO_OK)
        iso_setting_set(setting, settings, number == 0 ? ISO_ZERO : number);
    return status;
}

static iso_status set_value(const iso_setting *setting, const char *metric, const char *value, void *settings)
{
    char what[3 * ISO_LONGEST_SETTING];
    snprintf(what, sizeof what, "--%s: %s of %s", option, iso_setting_keras(setting), metric);
    switch (setting->kind) {
    case ISO_SETTING_CHOICE:
        return set_word(setting, what, value, settings);
    case ISO_SETTING_BITS:
        return set_bits(setting, what, value, settings);
    case ISO_SETTING_INT:
    case ISO_SETTING_INDEX:
        return set_whole(setting, what, value, settings);
    case ISO_SETTING_FLAG:
    case ISO_SETTING_NOT:
        return set_flag(setting, what, value, settings);
    default:
        return set_real(setting, what, value, settings);
    }
}

/* ---- the list ---- */

static const iso_setting *find_setting(const iso_setting *rows, const char *name)
{
    while (rows && rows->name && strcmp(iso_setting_keras(rows), name) != 0)
        rows++;
    return rows && rows->name ? rows : NULL;
}

static iso_status unknown_setting(const char *whole, const char *metric, const iso_setting *rows,
                                  const char *name)
{
    iso_text names = {0};
    for (; rows && rows->name; rows++)
        iso_text_add(&names, "%s%s", names.length ? ", " : "", iso_setting_keras(rows));
    iso_status status = iso_error(ISO_INVALID, "--%s '%s': %s has no setting '%s'%s%s", option, whole, metric,
                                  name, names.length ? "; there are: " : "", iso_text_get(&names));
    iso_text_free(&names);
    return status;
}

static iso_status read_settings(const char *whole, const char *metric, const iso_setting *rows,
                                const char *text, iso_metric_settings *settings)
{
    char name[ISO_LONGEST_SETTING], value[ISO_LONGEST_SETTING];
    iso_status status = ISO_OK;
    while (*text) {
        ISO_TRY(iso_settings_take(option, whole, &text, name, value));
        const iso_setting *setting = find_setting(rows, name);
        ISO_TRY(setting ? set_value(setting, metric, value, settings)
                        : unknown_setting(whole, metric, rows, name));
    }
done:
    return status;
}

/* The end of "(k=3)", where the text may begin; NULL: the parenthesis is not closed, or something follows it. */
static const char *end_of_settings(const char *at)
{
    if (*at != '(')
        return at;
    const char *close = strchr(at, ')');
    return close && (close[1] == ',' || !close[1]) ? close + 1 : NULL;
}

static int count_listed(const char *text)
{
    int count = 1, depth = 0;
    for (; *text; text++) {
        depth += (*text == '(') - (*text == ')');
        count += depth == 0 && text[0] == ',' && text[1];
    }
    return count;
}

/* Reads one metric at *at, which goes on behind it. */
static iso_status read_metric(const char *whole, const char **at, iso_metric *metric, const char **title,
                              iso_metric_settings *settings)
{
    char name[ISO_LONGEST_SETTING], text[8 * ISO_LONGEST_SETTING] = "";
    size_t length = strcspn(*at, ",(");
    const char *open = *at + length, *end = end_of_settings(open);
    snprintf(name, sizeof name, "%.*s", (int)length, *at);
    iso_status status = iso_metric_find(name, metric);
    if (status != ISO_OK)
        return iso_error_prefix(status, "--%s '%s': ", option, whole);
    if (!end || end - open >= (int)sizeof text)
        return iso_error(ISO_INVALID, "--%s '%s': settings should be %s(name=value,...)", option, whole,
                         name);
    if (*open == '(')
        snprintf(text, sizeof text, "%.*s", (int)(end - open - 2), open + 1);
    *title = iso_metric_spelling(*metric, name);
    *at = end + (*end == ',');
    return read_settings(whole, name, iso_metric_type_of(*metric)->row.setting, text, settings);
}

iso_status iso_metrics_parse(const char *text, iso_metric *metrics, const char **names,
                             iso_metric_settings *settings)
{
    int count = 0;
    iso_status status = ISO_OK;
    for (const char *at = text; *at && status == ISO_OK; count++) {
        if (count == ISO_MAX_METRICS)
            return iso_error(ISO_INVALID, "--%s '%s': %d metrics, at most %d are possible", option, text,
                             count_listed(text), ISO_MAX_METRICS);
        status = read_metric(text, &at, &metrics[count], &names[count], &settings[count]);
    }
    return status;
}
