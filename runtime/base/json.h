/* JSON from outside (read by jansson), and where in its text each value stands. For this library and
 * `launch`; no public header includes it. */
#ifndef ISO_BASE_JSON_H
#define ISO_BASE_JSON_H

#include <jansson.h>

#include <stdbool.h>

#include "runtime/base/row.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

/* Adds a value in the form that jansson's flags say; numbers have 17 digits, and so are exact. The text fails
 * where the value is NULL (one that could not be made) or there is no memory. */
void iso_json_add(iso_text *text, const json_t *value, size_t flags);
/* A number as a value. JSON has no NaN and infinities: these are texts ("nan", "inf", "-inf"). */
json_t *iso_json_number(double value);
/* The value of a setting: a real, an integer, a boolean or null. */
json_t *iso_setting_json(const iso_setting *setting, double value);
/* For texts that are written piece by piece: adds a number, likewise. */
void iso_json_add_number(iso_text *text, double value);
/* And a text in quotes, with what JSON wants escaped. Bytes that are no UTF-8 stay as they are. */
void iso_json_add_text(iso_text *text, const char *value);
/* Reads such a number; false where the value is none. */
bool iso_json_get_number(const json_t *value, double *number);

/* Parses a text that need not end with a zero. ISO_INVALID "NAME, line 3, column 7: ..." where it is no JSON,
 * where an object has a key twice, and where something follows it. *root is freed with json_decref(). */
iso_status iso_json_parse(const char *name, const char *text, size_t size, json_t **root);
/* The place of a value in a text that iso_json_parse() has taken. `number`: its place among all values of the
 * document, each before those within it, keys not counted: the root is 0. Lines and columns (in characters)
 * begin at 1. */
void iso_json_place(const char *text, size_t size, int number, int *line, int *column);

#endif
