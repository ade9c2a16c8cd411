#include "runtime/base/json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/options.h"
#include "runtime/base/printable.h"

static const char *name_of(double value)
{
    return isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

json_t *iso_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_string(name_of(value));
}

void iso_json_add(iso_text *text, json_t *value, size_t flags)
{
    char *dumped = value ? json_dumps(value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    text->failed |= !dumped;
    iso_text_add(text, "%s", dumped ? dumped : "");
    free(dumped);
    json_decref(value);
}

char *iso_json_shown(const json_t *value, char *text, size_t size)
{
    char *dump = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
    const char *shown = dump ? dump : "null";
    if (json_is_real(value))
        snprintf(text, size, "%.9g", json_real_value(value)); /* not "100.0" */
    else if (strlen(shown) < size)
        snprintf(text, size, "%s", shown);
    else
        snprintf(text, size, "%.*s...", (int)size - 4, shown);
    iso_text_disarm(text);
    free(dump);
    return text;
}

/* null: none of them is set */
static json_t *list_of_bits(uint64_t bits)
{
    json_t *list = bits ? json_array() : json_null();
    for (int i = 0; i < ISO_SETTING_BITS_END; i++)
        if (bits >> i & 1)
            json_array_append_new(list, json_integer(i));
    return list;
}

json_t *iso_setting_json(const iso_setting *setting, double value)
{
    switch (setting->kind) {
    case ISO_SETTING_REAL:
        return json_real(value);
    case ISO_SETTING_OPTIONAL:
        return value == 0 ? json_null() : json_real(value);
    case ISO_SETTING_COUNT:
    case ISO_SETTING_INT:
        return json_integer((json_int_t)value);
    case ISO_SETTING_NULLABLE:
        return value == 0 ? json_null() : json_real(value == ISO_ZERO ? 0 : value);
    case ISO_SETTING_INDEX:
        return value == 0 ? json_null() : json_integer(value == ISO_ZERO ? 0 : (json_int_t)value);
    case ISO_SETTING_CHOICE:
        return json_string(setting->words[(int)value]);
    case ISO_SETTING_BITS:
        return list_of_bits((uint64_t)value);
    case ISO_SETTING_FLAG:
    case ISO_SETTING_NOT:
        break;
    }
    return json_boolean(value != 0);
}

void iso_json_add_text(iso_text *text, const char *value)
{
    iso_text_add(text, "\"");
    while (*value) {
        size_t plain = 0;
        while ((unsigned char)value[plain] >= ' ' && value[plain] != '"' && value[plain] != '\\')
            plain++;
        iso_text_add(text, "%.*s", (int)plain, value);
        value += plain;
        if (*value == '"' || *value == '\\')
            iso_text_add(text, "\\%c", *value++);
        else if (*value)
            iso_text_add(text, "\\u%04x", (unsigned)(unsigned char)*value++);
    }
    iso_text_add(text, "\"");
}

void iso_json_key(iso_text *text, const char *key)
{
    if (text->length && !strchr("{[", text->data[text->length - 1]))
        iso_text_add(text, ", ");
    if (key) {
        iso_json_add_text(text, key);
        iso_text_add(text, ": ");
    }
}

void iso_json_put_number(iso_text *text, const char *key, double value)
{
    if (isfinite(value))
        iso_json_put(text, key, "%.17g", value);
    else
        iso_json_put_text(text, key, name_of(value));
}

void iso_json_put_text(iso_text *text, const char *key, const char *value)
{
    iso_json_key(text, key);
    iso_json_add_text(text, value);
}

bool iso_json_get_number(const json_t *value, double *number)
{
    const char *text = json_string_value(value);
    bool named = text && (!strcmp(text, "nan") || !strcmp(text, "inf") || !strcmp(text, "-inf"));
    if (!json_is_number(value) && !named)
        return false;
    *number = named ? strtod(text, NULL) : json_number_value(value);
    return true;
}

enum { MOST_VALUES = 4 << 20 }; /* of a document: jansson needs up to 80 bytes for each */

/* The position after the string that begins at text[at]. */
static size_t skip_string(const char *text, size_t size, size_t at)
{
    for (at++; at < size && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at + 1;
}

/* The root, and what follows a bracket or a comma; empty lists and objects count twice. */
static size_t count_values(const char *text, size_t size)
{
    size_t count = 1;
    for (size_t at = 0; at < size;) {
        if (text[at] == '"') {
            at = skip_string(text, size, at);
            continue;
        }
        count += text[at] == '{' || text[at] == '[' || text[at] == ',';
        at++;
    }
    return count;
}

iso_status iso_json_parse(const char *name, const char *text, size_t size, json_t **root)
{
    json_error_t error;
    if (count_values(text, size) > MOST_VALUES)
        return iso_error(ISO_INVALID, "%s: it has more than %d values", name, MOST_VALUES);
    json_t *parsed = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    char *quoted = parsed ? NULL : strstr(error.text, " near '");
    if (quoted && !iso_text_is_printable(quoted))
        *quoted = 0; /* control characters of the file would reach a terminal */
    if (!parsed)
        return iso_error(json_error_code(&error) == json_error_out_of_memory ? ISO_NO_MEMORY : ISO_INVALID,
                         "%s, line %d, column %d: %s", name, error.line, error.column, error.text);
    *root = parsed;
    return ISO_OK;
}

static bool is_key(const char *text, size_t size, size_t behind)
{
    while (behind < size && strchr(" \t\r\n", text[behind]))
        behind++;
    return behind < size && text[behind] == ':';
}

/* The position at which value `number` begins. The text is known to be valid JSON: a value begins at any
 * character that is not a space, a separator or part of a key. */
static size_t json_find(const char *text, size_t size, int number)
{
    size_t at = 0;
    while (at < size) {
        size_t begin = at;
        bool value = true;
        if (text[at] && strchr(" \t\r\n,:]}", text[at])) {
            at++;
            value = false;
        } else if (text[at] == '"') {
            at = skip_string(text, size, at);
            value = !is_key(text, size, at);
        } else if (text[at] == '[' || text[at] == '{') {
            at++;
        } else {
            while (at < size && text[at] && !strchr(" \t\r\n,:[]{}\"", text[at]))
                at++;
        }
        if (value && number-- == 0)
            return begin;
    }
    return size;
}

void iso_json_position(const char *text, size_t size, int number, int *line, int *column)
{
    size_t end = json_find(text, size, number);
    *line = *column = 1;
    for (size_t i = 0; i < end; i++) {
        bool continues = ((unsigned char)text[i] & 0xC0) == 0x80; /* within a UTF-8 character */
        *column += !continues;
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        }
    }
}
