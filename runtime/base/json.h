/* JSON from outside (read by jansson), and the position of each value in its text. For this library and
 * `launch`; no public header includes it. */
#ifndef ISO_BASE_JSON_H
#define ISO_BASE_JSON_H

#include <jansson.h>

#include <stdbool.h>

#include "runtime/base/descriptor.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

/* Adds a value in the form given by jansson's flags, and frees it; numbers have 17 digits and are therefore
 * exact. The text fails if the value is NULL (its creation failed) or when out of memory. */
void iso_json_add(iso_text *text, json_t *value, size_t flags);
/* Writes a value as messages show it: numbers with 9 digits, members sorted, '?' for bytes that must not be shown;
 * cut if it is long ("..."). NULL is null. Returns text, [size], at least 4. */
char *iso_json_shown(const json_t *value, char *text, size_t size);
/* A number as a value. JSON has no NaN or infinity: these become texts ("nan", "inf", "-inf"). */
json_t *iso_json_number(double value);
/* The value of a setting: a real, an integer, a boolean or null. */
json_t *iso_setting_json(const iso_setting *setting, double value);
/* Adds a text in quotes, with the characters escaped that JSON requires. Bytes that are not UTF-8 are
 * kept. */
void iso_json_add_text(iso_text *text, const char *value);

/* JSON written part by part, for texts that are long or must keep their form. Begins a member of an object, or
 * an element of a list (key NULL), with a comma if it is not the first. The caller adds the value and closes
 * what it opens. */
void iso_json_key(iso_text *text, const char *key);
/* A member with its value: formatted, a number as iso_json_number() has it, a text in quotes. */
#define iso_json_put(text, key, ...) (iso_json_key(text, key), iso_text_add(text, __VA_ARGS__))
void iso_json_put_number(iso_text *text, const char *key, double value);
void iso_json_put_text(iso_text *text, const char *key, const char *value);

/* Reads such a number; false if the value is not one. */
bool iso_json_get_number(const json_t *value, double *number);

/* Parses a text that need not end with a zero. ISO_INVALID "NAME, line 3, column 7: ..." if it is not
 * JSON, if an object has a key twice, or if something follows it; also if it has more than 4 million values.
 * *root is freed with json_decref(). */
iso_status iso_json_parse(const char *name, const char *text, size_t size, json_t **root);
/* The position of a value in a text that iso_json_parse() has accepted. `number`: its index among all
 * values of the document, each before those inside it, keys not counted: the root is 0. Lines and columns
 * (in characters) begin at 1. */
void iso_json_position(const char *text, size_t size, int number, int *line, int *column);

#endif
