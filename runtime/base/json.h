/* JSON from outside (read by jansson), and where in its text each value stands. For this library and
 * `launch`; no public header includes it. */
#ifndef ISO_BASE_JSON_H
#define ISO_BASE_JSON_H

#include <jansson.h>

#include "runtime/base/status.h"

/* Parses a text that need not end with a zero. ISO_INVALID "NAME, line 3, column 7: ..." where it is no JSON,
 * where an object has a key twice, and where something follows it. *root is freed with json_decref(). */
iso_status iso_json_parse(const char *name, const char *text, size_t size, json_t **root);
/* The place of a value in a text that iso_json_parse() has taken. `number`: its place among all values of the
 * document, each before those within it, keys not counted: the root is 0. Lines and columns (in characters)
 * begin at 1. */
void iso_json_place(const char *text, size_t size, int number, int *line, int *column);

#endif
