/* Whether a text may be shown on a terminal. For this library; no public header includes it. Local. */
#ifndef ISO_BASE_PRINTABLE_H
#define ISO_BASE_PRINTABLE_H

#include <stdbool.h>

/* The text is UTF-8 without control characters, neither ASCII's nor those that UTF-8 encodes as C2 80 to C2 9F. */
bool iso_text_is_printable(const char *text);

#endif
