/* Conversion between element types, and the gather of rows that are in memory. */
#ifndef ISO_DATA_CONVERT_ROWS_IMPL_H
#define ISO_DATA_CONVERT_ROWS_IMPL_H

#include "runtime/base/types.h"

/* A part of every row. */
typedef struct iso_row_part {
    const iso_shape *shape; /* of a row */
    const iso_box *box;
} iso_row_part;

/* Rows of something: the numbers in `index`, or begin, begin + 1, ... where index is NULL. */
typedef struct iso_rows {
    const int64_t *index;
    int64_t begin;
    int64_t count;
    int64_t epoch;            /* for which they are wanted: a map's function may ask */
    const iso_row_part *part; /* what is wanted of each; NULL: all of it */
} iso_rows;

static inline int64_t iso_rows_at(const iso_rows *rows, int64_t i)
{
    return rows->index ? rows->index[i] : rows->begin + i;
}

/* to[i] = from[i]. Returns -1, or the number of the first element that the type `to` cannot hold: a fraction,
 * a NaN or a value out of range where an integer is wanted. Integers become the nearest float. */
int64_t iso_convert(iso_dtype from, const void *source, iso_dtype to, void *target, int64_t count);

/* Gathers rows of `elements` elements each (or their part) out of a dense array at `base` into `out`, dense,
 * converted. Returns -1, or the number (in base) of the row that holds a bad element, whose position in the
 * row goes to *element. */
int64_t iso_gather(iso_dtype from, const void *base, int64_t elements, const iso_rows *rows, iso_dtype to,
                   void *out, int64_t *element);

/* The value as people write it: "nan", "3.5", "-7". */
void iso_element_text(iso_dtype dtype, const void *element, char *text, size_t size);

#endif
