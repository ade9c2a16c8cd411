/* Whether a text may be shown on a terminal. For this library; no public header includes it. Local. */
#ifndef ISO_BASE_PRINTABLE_H
#define ISO_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* The text is UTF-8 without control characters, neither ASCII's nor those that UTF-8 encodes as C2 80 to C2 9F. */
bool iso_text_is_printable(const char *text);
/* Copies a text for a message, with '?' for each byte that must not be shown; what has no room is cut off. Returns
 * `out`. */
const char *iso_text_printable(const char *text, char *out, size_t size);
/* Replaces each byte that must not be shown with '?', but keeps the ends of lines: for what is printed, which may
 * hold names of a file. */
void iso_text_disarm(char *text);

#endif
