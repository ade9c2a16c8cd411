/* Growing text, and suggestions of names near a misspelt one.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_BASE_TEXT_H
#define ISO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/build.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The text of a macro's value. */
#define ISO_TEXT_OF(value) ISO_TEXT_OF_(value)
#define ISO_TEXT_OF_(text) #text

/* {0} is an empty text. When out of memory, the text stays as it is and `failed` is set. */
typedef struct iso_text {
    char *data; /* NULL while empty; else terminated */
    size_t length;
    bool failed;
} iso_text;

ISO_API void iso_text_add(iso_text *text, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
ISO_API void iso_text_free(iso_text *text);
/* The characters, "" if there are none; they belong to the text until it changes. */
ISO_API const char *iso_text_get(const iso_text *text);

/* Writes "1.5 GB" and the like into text, for bytes and operations; returns the caller's own text. */
ISO_API char *iso_text_scaled(double value, const char *unit, char *text, size_t size);
/* Writes "12.3 ms" and the like into text, in s, ms or us; returns the caller's own text. */
ISO_API char *iso_text_seconds(double seconds, char *text, size_t size);

/* "GlobalAveragePooling2D" -> "global_average_pooling2d": a class's name in Keras's snake case
 * (to_snake_case of keras/src/utils/naming.py), truncated to `size`. */
ISO_API void iso_text_snake_case(const char *name, char *text, size_t size);

/* Adds "; did you mean 'a', 'b'?" with at most three names that are the nearest to `wrong` (by edit distance,
 * or one contains the other). If none is near, adds "; there are: a, b, c" if there are at most twelve. */
ISO_API bool iso_text_add_near(iso_text *text, const char *wrong, const char *const *names,
                               int count); /* never the list */
ISO_API void iso_text_add_nearest(iso_text *text, const char *wrong, const char *const *names, int count);
/* The same for options, which are given without dashes and printed with them. */
ISO_API void iso_text_add_nearest_options(iso_text *text, const char *wrong, const char *const *names,
                                          int count);

#ifdef __cplusplus
}
#endif
#endif
