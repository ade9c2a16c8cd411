#include "runtime/base/prefetch.h"
#include "runtime/data/convert_rows_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- gathering rows ---- */

/* The conversion of a row, or of a part of one: `runs` stretches of `length` contiguous elements. */
typedef struct stretches {
    int64_t length, n_runs;
    int rank; /* number of leading dimensions over which the runs iterate */
    const iso_row_part *part;
} stretches;

static stretches whole_row(int64_t elements)
{
    return (stretches){.length = elements, .n_runs = 1};
}

/* A stretch is all trailing dimensions of which the part has everything, and one more. */
static stretches part_of_row(const iso_row_part *part)
{
    stretches s = {.length = 1, .n_runs = 1, .rank = part->shape->rank, .part = part};
    bool whole = true;
    while (s.rank > 0 && whole) {
        s.rank--;
        s.length *= part->box->extent[s.rank];
        whole = part->box->extent[s.rank] == part->shape->dim[s.rank];
    }
    for (int d = 0; d < s.rank; d++)
        s.n_runs *= part->box->extent[d];
    return s;
}

/* The position in its row at which a stretch begins. */
static int64_t begin_of(const stretches *s, int64_t run)
{
    int64_t at = 0, stride = 1;
    if (!s->part)
        return 0;
    for (int d = s->part->shape->rank - 1; d >= 0; d--) {
        int64_t coordinate = s->part->box->offset[d];
        if (d < s->rank) {
            coordinate += run % s->part->box->extent[d];
            run /= s->part->box->extent[d];
        }
        at += coordinate * stride;
        stride *= s->part->shape->dim[d];
    }
    return at;
}

/* One row from `from` to `to`; -1, or the element of the row that does not fit. */
static int64_t convert_row(const stretches *s, iso_dtype from_dtype, const char *from, iso_dtype to_dtype,
                           char *to)
{
    size_t from_element = iso_dtype_size(from_dtype), to_element = iso_dtype_size(to_dtype);
    for (int64_t run = 0; run < s->n_runs; run++) {
        int64_t begin = begin_of(s, run);
        int64_t bad = iso_convert(from_dtype, from + (size_t)begin * from_element, to_dtype, to, s->length);
        if (bad >= 0)
            return begin + bad;
        to += (size_t)s->length * to_element;
    }
    return -1;
}

/* Images are stored as bytes, so the common case is bytes to float32. Wider vectors than the compiler's
 * default do not help (measured): the time goes into reading rows and writing four times their bytes. */
int64_t iso_gather(iso_dtype from, const void *base, int64_t elements, const iso_rows *rows, iso_dtype to,
                   void *out, int64_t *element)
{
    stretches s = rows->part ? part_of_row(rows->part) : whole_row(elements);
    size_t from_bytes = (size_t)elements * iso_dtype_size(from);
    size_t to_bytes = (size_t)(s.length * s.n_runs) * iso_dtype_size(to);
    size_t asked = rows->part ? 0 : from_bytes;
    const int64_t ahead = iso_rows_ahead(from_bytes);
    for (int64_t i = 0; i < rows->count && i < ahead; i++)
        iso_prefetch_row((const char *)base + (size_t)iso_rows_at(rows, i) * from_bytes, asked);
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t row = iso_rows_at(rows, i);
        if (i + ahead < rows->count)
            iso_prefetch_row((const char *)base + (size_t)iso_rows_at(rows, i + ahead) * from_bytes, asked);
        int64_t bad = convert_row(&s, from, (const char *)base + (size_t)row * from_bytes, to,
                                  (char *)out + (size_t)i * to_bytes);
        if (bad >= 0) {
            *element = bad;
            return row;
        }
    }
    return -1;
}

void iso_element_text(iso_dtype dtype, const void *element, char *text, size_t size)
{
    int64_t whole = 0;
    double real = 0;
    if (iso_dtype_is_float(dtype)) {
        iso_convert(dtype, element, ISO_F64, &real, 1);
        snprintf(text, size, "%.9g", isnan(real) ? NAN : real); /* never "-nan" */
    } else {
        iso_convert(dtype, element, ISO_I64, &whole, 1);
        snprintf(text, size, "%" PRId64, whole);
    }
}
