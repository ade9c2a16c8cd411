/* The gather of rows that are in memory, converted. */
#ifndef ISO_DATA_CONVERT_ROWS_IMPL_H
#define ISO_DATA_CONVERT_ROWS_IMPL_H

#include "runtime/base/convert.h"

/* A part of every row. */
typedef struct iso_row_part {
    const iso_shape *shape; /* of a row */
    const iso_box *box;
} iso_row_part;

/* Row numbers: those in `index`, or begin, begin + 1, ... if index is NULL. */
typedef struct iso_rows {
    const int64_t *index;
    int64_t begin;
    int64_t count;
    int64_t epoch;            /* for which they are read: a map's function may use it */
    const iso_row_part *part; /* the part of each row; NULL: whole rows */
} iso_rows;

static inline int64_t iso_rows_at(const iso_rows *rows, int64_t i)
{
    return rows->index ? rows->index[i] : rows->begin + i;
}

/* The number of rows, from i on, that are consecutive; at most `most`. */
static inline int64_t iso_rows_consecutive(const iso_rows *rows, int64_t i, int64_t most)
{
    int64_t count = 1;
    while (count < most && i + count < rows->count &&
           iso_rows_at(rows, i + count) == iso_rows_at(rows, i) + count)
        count++;
    return count;
}

/* Gathers rows of `elements` elements each (or a part of each) from a dense array at `base` into `out`, dense
 * and converted. Returns -1, or the number (in base) of the row with an element that does not fit; *element:
 * its position in the row. */
int64_t iso_gather(iso_dtype from, const void *base, int64_t elements, const iso_rows *rows, iso_dtype to,
                   void *out, int64_t *element);

/* The value as text: "nan", "3.5", "-7". */
void iso_element_text(iso_dtype dtype, const void *element, char *text, size_t size);

#endif
