#include "launch/settings.h"

#include <assert.h>
#include <float.h>
#include <stdio.h>
#include <string.h>

iso_status iso_settings_take(const char *option, const char *whole, const char **rest, char *name,
                             char *value)
{
    size_t length = strcspn(*rest, ",");
    const char *equals = memchr(*rest, '=', length);
    size_t before = equals ? (size_t)(equals - *rest) : 0;
    if (!before || before >= ISO_LONGEST_SETTING || length - before - 1 >= ISO_LONGEST_SETTING)
        return iso_error(ISO_INVALID, "--%s '%s': '%.*s' should be name=value", option, whole, (int)length,
                         *rest);
    memcpy(name, *rest, before);
    name[before] = '\0';
    memcpy(value, equals + 1, length - before - 1);
    value[length - before - 1] = '\0';
    *rest += length;
    *rest += **rest == ',';
    return ISO_OK;
}

enum { MOST_ROWS = 64 };

static iso_status choose(const char *what, const iso_named_value *setting, const char *value)
{
    iso_text words = {0};
    for (int i = 0; setting->words[i]; i++) {
        if (strcmp(value, setting->words[i]) == 0) {
            *setting->choice = i;
            iso_text_free(&words);
            return ISO_OK;
        }
        iso_text_add(&words, "%s%s", i ? ", " : "", setting->words[i]);
    }
    iso_status status = iso_error(ISO_INVALID, "%s: '%s' is none of %s", what, value, iso_text_get(&words));
    iso_text_free(&words);
    return status;
}

static iso_status set(const char *option, iso_named_value *setting, const char *value)
{
    char what[2 * ISO_LONGEST_SETTING];
    int64_t number = 0;
    snprintf(what, sizeof what, "--%s: %s", option, setting->name);
    if (setting->given)
        return iso_error(ISO_INVALID, "%s is given twice", what);
    setting->given = true;
    if (setting->text) {
        snprintf(setting->text, ISO_LONGEST_SETTING, "%s", value);
        return *value ? ISO_OK : iso_error(ISO_INVALID, "%s is empty", what);
    }
    if (setting->choice)
        return choose(what, setting, value);
    bool any = setting->any_number;
    if (setting->real)
        return iso_argument_real(what, value, any ? -DBL_MAX : 0, any ? DBL_MAX : 1e9, setting->real);
    if (setting->count && setting->range.most)
        return iso_argument_count(what, value, (double)setting->range.least, (double)setting->range.most,
                                  setting->count);
    if (setting->count)
        return iso_argument_count(what, value, any ? -0x1p40 : 0, 0x1p40, setting->count);
    iso_status status = iso_argument_count(what, value, 0, 1, &number);
    *setting->flag = number != 0;
    return status;
}

static iso_status settings_unknown(const char *option, const char *whole, const iso_named_value *settings,
                                   int count, const char *name)
{
    const char *names[MOST_ROWS];
    iso_text near = {0};
    for (int i = 0; i < count && i < MOST_ROWS; i++)
        names[i] = settings[i].name;
    iso_text_add_nearest(&near, name, names, count < MOST_ROWS ? count : MOST_ROWS);
    iso_status status =
        iso_error(ISO_INVALID, "--%s '%s': unknown '%s'%s", option, whole, name, iso_text_get(&near));
    iso_text_free(&near);
    return status;
}

iso_status iso_settings_read(const char *option, const char *whole, const char *rest,
                             iso_named_value *settings, int count, int needed)
{
    char name[ISO_LONGEST_SETTING], value[ISO_LONGEST_SETTING];
    iso_status status = ISO_OK;
    while (*rest) {
        int i = 0;
        ISO_TRY(iso_settings_take(option, whole, &rest, name, value));
        while (i < count && strcmp(settings[i].name, name) != 0)
            i++;
        ISO_TRY(i < count ? set(option, &settings[i], value)
                          : settings_unknown(option, whole, settings, count, name));
    }
    for (int i = 0; i < needed; i++)
        if (!settings[i].given)
            ISO_TRY(iso_error(ISO_INVALID, "--%s '%s': needs %s", option, whole, settings[i].name));
done:
    return status;
}

iso_status iso_settings_read_rows(const char *option, const char *whole, const char *rest,
                                  const iso_setting *rows, iso_count_range counts, int needed, void *values)
{
    iso_named_value read[MOST_ROWS] = {{0}};
    int count = 0;
    for (; rows && rows[count].name; count++) {
        assert(count < MOST_ROWS);
        void *member = (char *)values + rows[count].offset;
        read[count].name = rows[count].name;
        read[count].flag = rows[count].kind == ISO_SETTING_FLAG ? member : NULL;
        read[count].count = rows[count].kind == ISO_SETTING_COUNT ? member : NULL;
        read[count].choice = rows[count].kind == ISO_SETTING_CHOICE ? member : NULL;
        read[count].words = rows[count].words;
        read[count].range = counts;
        if (rows[count].fallback == 0) /* it stands for what the model says */
            read[count].range.least = 0;
        read[count].any_number = true;
        read[count].real = read[count].flag || read[count].count || read[count].choice ? NULL : member;
    }
    return iso_settings_read(option, whole, rest, read, count, needed);
}
