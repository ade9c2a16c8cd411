/* Elements as files have them, and their conversion into those that Isogrid computes with. */
#ifndef ISO_CHECKPOINT_ELEMENT_H
#define ISO_CHECKPOINT_ELEMENT_H

#include "runtime/base/types.h"

/* How an element lies in a file: little-endian, in so many bits. */
typedef enum iso_element {
    ISO_ELEMENT_F16,
    ISO_ELEMENT_BF16,
    ISO_ELEMENT_F32,
    ISO_ELEMENT_F64,
    ISO_ELEMENT_I8,
    ISO_ELEMENT_I16,
    ISO_ELEMENT_I32,
    ISO_ELEMENT_I64,
    ISO_ELEMENT_U8,
    ISO_ELEMENT_U16,
    ISO_ELEMENT_U32,
    ISO_ELEMENT_U64,
    ISO_ELEMENT_BOOL,
    ISO_ELEMENTS,
} iso_element;

size_t iso_element_size(iso_element element);
const char *iso_element_name(iso_element element);
/* The type that holds all its values (of ISO_ELEMENT_U64: those below 2^63). */
iso_dtype iso_element_dtype(iso_element element);
/* The element as which a type lies in memory: of all machines that Isogrid runs on, little-endian. */
iso_element iso_element_of(iso_dtype dtype);

/* Converts n elements. Floats are rounded to narrower ones, integers to floats; what does not fit otherwise
 * (2^40 or 0.5 in an int32, 1e300 in a float32) stops it: returns the number of the first such element, -1
 * where all fit. */
int64_t iso_element_convert(iso_element from, const void *in, int64_t n, iso_dtype to, void *out);

#endif
