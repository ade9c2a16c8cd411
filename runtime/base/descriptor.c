#include "runtime/base/descriptor.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/options.h"

const iso_setting *iso_setting_of(const iso_setting *settings, const char *name)
{
    while (settings->name && strcmp(settings->name, name) != 0)
        settings++;
    return settings->name ? settings : NULL;
}

const char *iso_setting_keras(const iso_setting *setting)
{
    return setting->keras ? setting->keras : setting->name;
}

double iso_setting_get(const iso_setting *setting, const void *values)
{
    const char *member = (const char *)values + setting->offset;
    switch (setting->kind) {
    case ISO_SETTING_REAL:
    case ISO_SETTING_OPTIONAL:
    case ISO_SETTING_NULLABLE:
        return *(const double *)(const void *)member;
    case ISO_SETTING_COUNT:
        return (double)*(const int64_t *)(const void *)member;
    case ISO_SETTING_INT:
    case ISO_SETTING_INDEX:
    case ISO_SETTING_CHOICE:
        return *(const int *)(const void *)member;
    case ISO_SETTING_BITS:
        return (double)*(const uint64_t *)(const void *)member;
    case ISO_SETTING_NOT:
        return !*(const bool *)member;
    case ISO_SETTING_FLAG:
        break;
    }
    return *(const bool *)member;
}

double iso_setting_option(const iso_setting *setting, const void *options)
{
    double value = iso_setting_get(setting, options);
    switch (setting->kind) {
    case ISO_SETTING_NULLABLE:
    case ISO_SETTING_INDEX:
    case ISO_SETTING_BITS:
    case ISO_SETTING_FLAG:
    case ISO_SETTING_NOT:
        return value;
    default:
        return iso_option_number(value, setting->fallback);
    }
}

static double row_within(double value, double most)
{
    return value > most ? most : value < -most ? -most : value == value ? value : 0;
}

void iso_setting_set(const iso_setting *setting, void *values, double value)
{
    char *member = (char *)values + setting->offset;
    switch (setting->kind) {
    case ISO_SETTING_REAL:
    case ISO_SETTING_OPTIONAL:
    case ISO_SETTING_NULLABLE:
        *(double *)(void *)member = value;
        break;
    case ISO_SETTING_COUNT:
        *(int64_t *)(void *)member = (int64_t)row_within(value, 0x1p53);
        break;
    case ISO_SETTING_INT:
    case ISO_SETTING_INDEX:
    case ISO_SETTING_CHOICE:
        *(int *)(void *)member = value == ISO_ZERO ? ISO_ZERO : (int)row_within(value, INT_MAX);
        break;
    case ISO_SETTING_BITS:
        *(uint64_t *)(void *)member = (uint64_t)row_within(value > 0 ? value : 0, 0x1p53);
        break;
    case ISO_SETTING_FLAG:
        *(bool *)member = value != 0;
        break;
    case ISO_SETTING_NOT:
        *(bool *)member = value == 0;
        break;
    }
}

void iso_settings_zero(const iso_setting *settings, void *values)
{
    for (const iso_setting *setting = settings; setting->name; setting++)
        if (iso_setting_get(setting, values) == ISO_ZERO)
            iso_setting_set(setting, values, 0);
}

void iso_descriptor_add_names(const iso_descriptor *const *rows, bool keras, iso_text *text)
{
    const char *comma = "";
    for (; *rows; rows++) {
        const char *name = keras ? (*rows)->keras : (*rows)->name;
        if (name)
            iso_text_add(text, "%s%s", comma, name);
        comma = name ? ", " : comma;
    }
}

const iso_descriptor *iso_descriptor_of(const iso_descriptor *const *rows, const char *name)
{
    while (*rows && strcmp((*rows)->name, name) != 0)
        rows++;
    return *rows;
}

const iso_descriptor *iso_descriptor_of_keras(const iso_descriptor *const *rows, const char *class_name)
{
    char snake[80];
    for (; *rows; rows++) {
        if (!(*rows)->keras)
            continue;
        iso_text_snake_case((*rows)->keras, snake, sizeof snake);
        if (strcmp((*rows)->keras, class_name) == 0 || strcmp(snake, class_name) == 0)
            break;
    }
    return *rows;
}

iso_status iso_descriptor_unknown(const char *what, const char *name, const char *const *names, int count,
                                  const char *const *listed, int n_listed)
{
    iso_text text = {0};
    if (!iso_text_add_near(&text, name, names, count))
        iso_text_add_nearest(&text, name, listed, n_listed);
    iso_status status = iso_error(ISO_INVALID, "unknown %s '%s'%s", what, name, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_status iso_descriptor_find(const iso_descriptor *const *rows, const char *what, const char *name,
                               const iso_descriptor **row)
{
    const char *names[ISO_MAX_ROWS];
    int count = 0;
    const iso_descriptor *found = iso_descriptor_of(rows, name);
    if (found) {
        *row = found;
        return ISO_OK;
    }
    for (; rows[count] && count < ISO_MAX_ROWS; count++)
        names[count] = rows[count]->name;
    return iso_descriptor_unknown(what, name, names, count, names, count);
}
