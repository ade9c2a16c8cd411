/* The element types that files store, and conversion into Isogrid's types. */
#ifndef ISO_CHECKPOINT_STORAGE_TYPE_H
#define ISO_CHECKPOINT_STORAGE_TYPE_H

#include "runtime/base/types.h"

/* The storage of an element in a file: little-endian, with this many bits. */
typedef enum iso_storage_type {
    ISO_STORAGE_F16,
    ISO_STORAGE_BF16,
    ISO_STORAGE_F32,
    ISO_STORAGE_F64,
    ISO_STORAGE_I8,
    ISO_STORAGE_I16,
    ISO_STORAGE_I32,
    ISO_STORAGE_I64,
    ISO_STORAGE_U8,
    ISO_STORAGE_U16,
    ISO_STORAGE_U32,
    ISO_STORAGE_U64,
    ISO_STORAGE_BOOL,
    ISO_STORAGE_TYPES,
} iso_storage_type;

size_t iso_storage_type_size(iso_storage_type element);
const char *iso_storage_type_name(iso_storage_type element);
/* The type that holds all its values (for ISO_STORAGE_U64: those below 2^63). */
iso_dtype iso_storage_type_dtype(iso_storage_type element);
/* The storage of a type in memory: little-endian on all machines that Isogrid runs on. */
iso_storage_type iso_storage_type_of(iso_dtype dtype);

/* Converts n elements. Floats are rounded to narrower floats, and integers to floats. Any other value that
 * does not fit (2^40 or 0.5 in an int32, 1e300 in a float32) stops the conversion. Returns the number of the
 * first such element; -1: all fit. */
int64_t iso_storage_type_convert(iso_storage_type from, const void *in, int64_t n, iso_dtype to, void *out);
/* Converts n elements, of type ISO_F32 or ISO_F64, for storage as a float type: to the nearest, of two the even one.
 * A finite number that would become infinite stops the conversion. Returns its number; -1: all fit. */
int64_t iso_storage_type_store(iso_dtype from, const void *in, int64_t n, iso_storage_type to, void *out);
/* The float type of a name, as "float16"; ISO_STORAGE_TYPES: there is none. */
iso_storage_type iso_storage_type_float(const char *name);
/* Writes an element's value as text; returns the caller's own text. */
char *iso_storage_type_text(iso_storage_type type, const void *element, char *text, size_t size);
/* Whether no type of Isogrid holds the element: a uint64 of 2^63 or more. */
bool iso_storage_type_beyond(iso_storage_type type, const void *element);

#endif
