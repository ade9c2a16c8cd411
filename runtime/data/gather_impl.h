/* The body of iso_gather_u8_f32_*: included once for each instruction set, which defines GATHER_NAME. */
#include "runtime/data/convert_impl.h"

typedef uint8_t u8x16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef float f32x16 __attribute__((vector_size(64), aligned(4), may_alias));

enum { CACHE_LINE = 64, ROWS_AHEAD = 3 };

/* A permuted row is a surprise to the processor's own prefetcher, so its lines are asked for some rows beforehand. */
static inline void ask_for(const uint8_t *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch(row + i);
}

static inline void convert_row(const uint8_t *row, int64_t elements, float *out)
{
    int64_t i = 0;
#ifdef __AVX2__
    for (; i + 16 <= elements; i += 16)
        *(f32x16 *)(out + i) = __builtin_convertvector(*(const u8x16 *)(row + i), f32x16);
#endif
    for (; i < elements; i++)
        out[i] = row[i];
}

void GATHER_NAME(const uint8_t *base, int64_t elements, const iso_rows *rows, float *out)
{
    for (int64_t i = 0; i < rows->count && i < ROWS_AHEAD; i++)
        ask_for(base + iso_rows_at(rows, i) * elements, elements);
    for (int64_t i = 0; i < rows->count; i++) {
        if (i + ROWS_AHEAD < rows->count)
            ask_for(base + iso_rows_at(rows, i + ROWS_AHEAD) * elements, elements);
        convert_row(base + iso_rows_at(rows, i) * elements, elements, out + i * elements);
    }
}
