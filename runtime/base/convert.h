/* Conversion between element types, checked. Two others differ: the op cast saturates, and iso_element_set
 * truncates. */
#ifndef ISO_BASE_CONVERT_H
#define ISO_BASE_CONVERT_H

#include "runtime/base/types.h"

/* to[i] = from[i]. Returns -1, or the number of the first element that the type `to` cannot hold: a fraction,
 * a NaN or a value out of range, if `to` is an integer type. Integers become the nearest float. */
int64_t iso_convert(iso_dtype from, const void *source, iso_dtype to, void *target, int64_t count);

#endif
