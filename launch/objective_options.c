/* Losses and metrics with their settings, and weights of classes, from text. */
#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "launch/settings.h"
#include "launch/train_impl.h"
#include "runtime/base/options.h"
#include "runtime/train/loss.h"

/* The option that is read, and its value. */
typedef struct reading {
    const char *option, *whole;
} reading;

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
    const bool yes = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!yes && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return iso_error(ISO_INVALID, "%s '%s': it must be true, false, 1 or 0", what, value);
    iso_setting_set(setting, settings, yes);
    return ISO_OK;
}

static iso_status set_real(const iso_setting *setting, const char *what, const char *value, void *settings)
{
    double number = 0;
    iso_status status = iso_argument_real(what, value, -DBL_MAX, DBL_MAX, &number);
    if (status == ISO_OK)
        iso_setting_set(setting, settings, number == 0 ? ISO_ZERO : number);
    return status;
}

static iso_status set_value(const reading *r, const iso_setting *setting, const char *of, const char *value,
                            void *settings)
{
    char what[3 * ISO_LONGEST_SETTING];
    snprintf(what, sizeof what, "--%s: %s of %s", r->option, iso_setting_keras(setting), of);
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

/* ---- a name with settings ---- */

static const iso_setting *find_setting(const iso_setting *rows, const char *name)
{
    while (rows && rows->name && strcmp(iso_setting_keras(rows), name) != 0)
        rows++;
    return rows && rows->name ? rows : NULL;
}

static iso_status unknown_setting(const reading *r, const char *of, const iso_setting *rows, const char *name)
{
    iso_text names = {0};
    for (; rows && rows->name; rows++)
        iso_text_add(&names, "%s%s", names.length ? ", " : "", iso_setting_keras(rows));
    iso_status status = iso_error(ISO_INVALID, "--%s '%s': %s has no setting '%s'%s%s", r->option, r->whole,
                                  of, name, names.length ? "; there are: " : "", iso_text_get(&names));
    iso_text_free(&names);
    return status;
}

static iso_status read_settings(const reading *r, const char *of, const iso_setting *rows, const char *text,
                                void *settings)
{
    char name[ISO_LONGEST_SETTING], value[ISO_LONGEST_SETTING];
    uint64_t given = 0; /* a bit for each row */
    iso_status status = ISO_OK;
    while (*text) {
        ISO_TRY(iso_settings_take(r->option, r->whole, &text, name, value));
        const iso_setting *setting = find_setting(rows, name);
        ISO_TRY(setting ? set_value(r, setting, of, value, settings) : unknown_setting(r, of, rows, name));
        const uint64_t bit = (uint64_t)1 << (setting - rows);
        if (given & bit)
            ISO_TRY(
                iso_error(ISO_INVALID, "--%s '%s': %s of %s is given twice", r->option, r->whole, name, of));
        given |= bit;
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

/* Splits "name(settings),..." at *at, which goes on behind the comma. name: [ISO_LONGEST_SETTING] */
static iso_status take_name(const reading *r, const char **at, char *name, char *settings, size_t size)
{
    size_t length = strcspn(*at, ",(");
    const char *open = *at + length, *end = end_of_settings(open);
    snprintf(name, ISO_LONGEST_SETTING, "%.*s", (int)length, *at);
    if (!end || end - open >= (int)size)
        return iso_error(ISO_INVALID, "--%s '%s': settings should be %s(name=value,...)", r->option, r->whole,
                         name);
    snprintf(settings, size, "%.*s", *open == '(' ? (int)(end - open - 2) : 0, open + 1);
    *at = end + (*end == ',');
    return ISO_OK;
}

/* ---- metrics ---- */

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
static iso_status read_metric(const reading *r, const char **at, iso_metric *metric, const char **title,
                              iso_metric_settings *settings)
{
    char name[ISO_LONGEST_SETTING], text[8 * ISO_LONGEST_SETTING];
    iso_status status = ISO_OK;
    ISO_TRY(take_name(r, at, name, text, sizeof text));
    status = iso_metric_find(name, metric);
    if (status != ISO_OK)
        return iso_error_prefix(status, "--%s '%s': ", r->option, r->whole);
    *title = iso_metric_spelling(*metric, name);
    status = read_settings(r, name, iso_metric_type_of(*metric)->row.setting, text, settings);
done:
    return status;
}

iso_status iso_metrics_parse(const char *text, iso_metric *metrics, const char **names,
                             iso_metric_settings *settings)
{
    const reading r = {"metrics", text};
    int count = 0;
    iso_status status = ISO_OK;
    for (const char *at = text; *at && status == ISO_OK; count++) {
        if (count == ISO_MAX_METRICS)
            return iso_error(ISO_INVALID, "--%s '%s': %d metrics, at most %d are possible", r.option, text,
                             count_listed(text), ISO_MAX_METRICS);
        status = read_metric(&r, &at, &metrics[count], &names[count], &settings[count]);
    }
    return status;
}

/* ---- the loss ---- */

iso_status iso_loss_parse(const char *text, iso_output_options *output)
{
    const reading r = {"loss", text};
    char name[ISO_LONGEST_SETTING], own[8 * ISO_LONGEST_SETTING];
    const char *at = text;
    iso_output_options read = *output;
    iso_status status = ISO_OK;
    ISO_TRY(take_name(&r, &at, name, own, sizeof own));
    status = iso_loss_find(*at ? text : name, &read.loss);
    if (status != ISO_OK)
        return iso_error_prefix(status, "--loss '%s': ", text);
    iso_loss_reset_settings(&read);
    ISO_TRY(read_settings(&r, name, iso_loss_type_of(read.loss)->row.setting, own, &read));
    *output = read;
done:
    return status;
}

/* ---- weights of classes ---- */

iso_status iso_class_weights_parse(const char *text, double *weights, int *count)
{
    static const char option[] = "class-weight";
    bool given[ISO_MAX_CLASS_WEIGHTS] = {false};
    char name[ISO_LONGEST_SETTING], value[ISO_LONGEST_SETTING];
    iso_status status = ISO_OK;
    if (!*text)
        return iso_error(ISO_INVALID, "--%s is empty", option);
    *count = 0;
    for (const char *at = text; *at;) {
        int64_t id = 0;
        ISO_TRY(iso_settings_take(option, text, &at, name, value));
        ISO_TRY(iso_argument_count("--class-weight: a class", name, 0, ISO_MAX_CLASS_WEIGHTS - 1, &id));
        if (given[id])
            ISO_TRY(iso_error(ISO_INVALID, "--%s '%s': class %d is given twice", option, text, (int)id));
        given[id] = true;
        ISO_TRY(iso_argument_real("--class-weight: a weight", value, 0, 1e30, &weights[id]));
        *count = id >= *count ? (int)id + 1 : *count;
    }
    for (int i = 0; i < *count; i++)
        weights[i] = given[i] ? weights[i] : 1;
done:
    return status;
}
