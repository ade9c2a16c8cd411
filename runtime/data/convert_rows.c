#include "runtime/data/convert_rows_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef int64_t (*convert_fn)(const void *source, void *target, int64_t count);

/* Every value of the source has a value, or a nearest one, in the target. */
#define TOTAL(name, from, to)                                                                                \
    static int64_t name(const void *source, void *target, int64_t count)                                     \
    {                                                                                                        \
        const from *restrict a = source;                                                                     \
        to *restrict b = target;                                                                             \
        for (int64_t i = 0; i < count; i++)                                                                  \
            b[i] = (to)a[i];                                                                                 \
        return -1;                                                                                           \
    }

/* Only whole values in [low, high] have one; the bounds are exact in the source's type. */
#define CHECKED(name, from, to, inside)                                                                      \
    static int64_t name(const void *source, void *target, int64_t count)                                     \
    {                                                                                                        \
        const from *restrict a = source;                                                                     \
        to *restrict b = target;                                                                             \
        for (int64_t i = 0; i < count; i++) {                                                                \
            from v = a[i];                                                                                   \
            if (!(inside) || (from)(to)v != v)                                                               \
                return i;                                                                                    \
            b[i] = (to)v;                                                                                    \
        }                                                                                                    \
        return -1;                                                                                           \
    }

#define IN_I32 v >= -0x1p31 && v < 0x1p31
#define IN_I64 v >= -0x1p63 && v < 0x1p63
#define IN_U8 v >= 0 && v <= 255
#define IN_BOOL v == 0 || v == 1

TOTAL(f32_f32, float, float)
TOTAL(f32_f64, float, double)
CHECKED(f32_i32, float, int32_t, IN_I32)
CHECKED(f32_i64, float, int64_t, IN_I64)
CHECKED(f32_u8, float, uint8_t, IN_U8)
CHECKED(f32_bool, float, uint8_t, IN_BOOL)
TOTAL(f64_f32, double, float)
TOTAL(f64_f64, double, double)
CHECKED(f64_i32, double, int32_t, IN_I32)
CHECKED(f64_i64, double, int64_t, IN_I64)
CHECKED(f64_u8, double, uint8_t, IN_U8)
CHECKED(f64_bool, double, uint8_t, IN_BOOL)
TOTAL(i32_f32, int32_t, float)
TOTAL(i32_f64, int32_t, double)
TOTAL(i32_i32, int32_t, int32_t)
TOTAL(i32_i64, int32_t, int64_t)
CHECKED(i32_u8, int32_t, uint8_t, IN_U8)
CHECKED(i32_bool, int32_t, uint8_t, IN_BOOL)
TOTAL(i64_f32, int64_t, float)
TOTAL(i64_f64, int64_t, double)
CHECKED(i64_i32, int64_t, int32_t, v >= INT32_MIN && v <= INT32_MAX)
TOTAL(i64_i64, int64_t, int64_t)
CHECKED(i64_u8, int64_t, uint8_t, IN_U8)
CHECKED(i64_bool, int64_t, uint8_t, IN_BOOL)
TOTAL(u8_f32, uint8_t, float)
TOTAL(u8_f64, uint8_t, double)
TOTAL(u8_i32, uint8_t, int32_t)
TOTAL(u8_i64, uint8_t, int64_t)
TOTAL(u8_u8, uint8_t, uint8_t)
CHECKED(u8_bool, uint8_t, uint8_t, IN_BOOL)

/* [from][to], in the order of iso_dtype. A bool is a byte that is 0 or 1. */
static const convert_fn table[ISO_BOOL + 1][ISO_BOOL + 1] = {
    [ISO_F32] = {NULL, f32_f32, f32_f64, f32_i32, f32_i64, f32_u8, f32_bool},
    [ISO_F64] = {NULL, f64_f32, f64_f64, f64_i32, f64_i64, f64_u8, f64_bool},
    [ISO_I32] = {NULL, i32_f32, i32_f64, i32_i32, i32_i64, i32_u8, i32_bool},
    [ISO_I64] = {NULL, i64_f32, i64_f64, i64_i32, i64_i64, i64_u8, i64_bool},
    [ISO_U8] = {NULL, u8_f32, u8_f64, u8_i32, u8_i64, u8_u8, u8_bool},
    [ISO_BOOL] = {NULL, u8_f32, u8_f64, u8_i32, u8_i64, u8_u8, u8_bool},
};

int64_t iso_convert(iso_dtype from, const void *source, iso_dtype to, void *target, int64_t count)
{
    return table[from][to](source, target, count);
}

enum { CACHE_LINE = 64, ROWS_AHEAD = 3, MOST_ASKED = 4096 };

/* The processor's prefetcher cannot predict permuted rows, so their lines are prefetched some rows ahead. */
static inline void ask_for(const char *row, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < MOST_ASKED; i += CACHE_LINE)
        __builtin_prefetch(row + i);
}

/* ---- gathering rows ---- */

/* How a row, or a part of one, is converted: `runs` stretches of `length` contiguous elements. */
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

/* Where a stretch begins in its row. */
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
static int64_t convert_row(const stretches *s, convert_fn convert, const char *from, size_t from_element,
                           char *to, size_t to_element)
{
    for (int64_t run = 0; run < s->n_runs; run++) {
        int64_t begin = begin_of(s, run);
        int64_t bad = convert(from + (size_t)begin * from_element, to, s->length);
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
    for (int64_t i = 0; i < rows->count && i < ROWS_AHEAD; i++)
        ask_for((const char *)base + (size_t)iso_rows_at(rows, i) * from_bytes, asked);
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t row = iso_rows_at(rows, i);
        if (i + ROWS_AHEAD < rows->count)
            ask_for((const char *)base + (size_t)iso_rows_at(rows, i + ROWS_AHEAD) * from_bytes, asked);
        int64_t bad =
            convert_row(&s, table[from][to], (const char *)base + (size_t)row * from_bytes,
                        iso_dtype_size(from), (char *)out + (size_t)i * to_bytes, iso_dtype_size(to));
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
        snprintf(text, size, "%.9g", real);
    } else {
        iso_convert(dtype, element, ISO_I64, &whole, 1);
        snprintf(text, size, "%" PRId64, whole);
    }
}
