/* Products of bfloat16 with few contracted rows: see bf16_parts.h. */
#include "runtime/backend/cpu/bf16_parts.h"

#if defined(__x86_64__)
#include "runtime/backend/cpu/avx512.h"

/* A block of sums: 6 rows of 4 vectors leave registers for 4 vectors of b and one element of a. A panel of b, and the
 * strip of a, stay in the L1 cache if k is small. */
enum { LANES = 16, VECTORS = 4, PANEL = LANES * VECTORS, ROWS = 6 };

/* Words of a packed operand of so many columns: a word holds an element of row 2i, and below it one of row 2i + 1. */
static int64_t words_of(int64_t k, int64_t columns)
{
    return (k + 1) / 2 * columns;
}

/* Columns of a strip for `rows` rows of c: the last block reads whole ROWS. */
static int64_t strip_columns(int64_t rows)
{
    return multiple(multiple(rows, ROWS), LANES);
}

size_t iso_bf16_packed_bytes(const iso_product *p)
{
    return (size_t)words_of(p->k, multiple(p->n, PANEL)) * sizeof(uint32_t);
}

size_t iso_bf16_strip_bytes(const iso_product *p, int64_t rows)
{
    return (size_t)words_of(p->k, strip_columns(rows)) * sizeof(uint32_t);
}

/* Packs x [k, columns], whose rows are `step` apart, into words of `width` columns; the other columns are 0. */
static void pack(int64_t k, int64_t columns, const uint16_t *x, int64_t step, int64_t width, uint32_t *words)
{
    for (int64_t i = 0; i < k; i += 2, words += width)
        for (int64_t j = 0; j < width; j += LANES) {
            __mmask16 there = lanes(columns - j);
            const uint16_t *from = x + i * step + (there ? j : 0);
            __m256i even = _mm256_maskz_loadu_epi16(there, from);
            __m256i odd = i + 1 < k ? _mm256_maskz_loadu_epi16(there, from + step) : _mm256_setzero_si256();
            _mm512_store_si512(words + j, _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                                                          _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16)));
        }
}

void iso_bf16_parts_begin(const iso_product *p, const uint16_t *b, void *packed)
{
    uint32_t *words = packed;
    for (int64_t j = 0; j < p->n; j += PANEL, words += words_of(p->k, PANEL))
        pack(p->k, least(p->n - j, PANEL), b + j, p->n, PANEL, words);
}

typedef struct block {
    int64_t pairs, width; /* of k; columns of the strip */
    const uint32_t *a, *b;
    int64_t rows, columns, step; /* of the sums that are kept */
    bool add;
} block;

/* ROWS rows of a panel; those after `rows` are not kept. */
static void multiply(const block *t, float *c)
{
    __m512 sum[ROWS][VECTORS];
    const uint32_t *a = t->a, *b = t->b;
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = _mm512_setzero_ps();
    for (int64_t i = 0; i < t->pairs; i++, a += t->width, b += PANEL) {
        __m512i factor[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            factor[v] = _mm512_load_si512(b + v * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++) {
            const __m512i row = _mm512_set1_epi32((int)a[r]);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)row, (__m512bh)factor[v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++) {
        if (r >= t->rows)
            return;
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            const __mmask16 kept = lanes(t->columns - v * LANES);
            float *to = c + r * t->step + (kept ? v * LANES : 0);
            if (t->add)
                sum[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(kept, to), sum[r][v]);
            _mm512_mask_storeu_ps(to, kept, sum[r][v]);
        }
    }
}

/* The columns [first, columns) of a panel, of which c has no others. */
static void multiply_end(block t, int64_t first, float *c)
{
    float whole[ROWS * PANEL];
    const int64_t step = t.step, end = least(t.columns, PANEL);
    const bool add = t.add;
    t.step = PANEL;
    t.add = false;
    multiply(&t, whole);
    for (int64_t r = 0; r < t.rows && r < ROWS; r++)
        for (int64_t j = first; j < end; j++) {
            float *to = c + r * step + (j - first), sum = whole[r * PANEL + j];
            *to = add ? *to + sum : sum;
        }
}

void iso_bf16_part(const iso_product *p, int64_t most_rows, const uint16_t *a, const void *packed,
                   const int64_t *offset, const int64_t *extent, bool add, float *c, void *strip)
{
    const int64_t end = offset[1] + extent[1], width = strip_columns(most_rows);
    for (int64_t i = 0; i < extent[0]; i += most_rows) {
        const int64_t rows = least(extent[0] - i, most_rows);
        pack(p->k, rows, a + offset[0] + i, p->m, width, strip);
        for (int64_t j = offset[1] / PANEL * PANEL; j < end; j += PANEL)
            for (int64_t row = 0; row < rows; row += ROWS) {
                const block t = {.pairs = (p->k + 1) / 2,
                                 .width = width,
                                 .a = (const uint32_t *)strip + row,
                                 .b = (const uint32_t *)packed + words_of(p->k, j),
                                 .rows = rows - row,
                                 .columns = end - j,
                                 .step = extent[1],
                                 .add = add};
                float *to = c + (i + row) * extent[1];
                if (j >= offset[1])
                    multiply(&t, to + (j - offset[1]));
                else
                    multiply_end(t, offset[1] - j, to);
            }
    }
}
#else
size_t iso_bf16_packed_bytes(const iso_product *p)
{
    (void)p;
    return 0;
}

size_t iso_bf16_strip_bytes(const iso_product *p, int64_t rows)
{
    (void)p, (void)rows;
    return 0;
}

void iso_bf16_parts_begin(const iso_product *p, const uint16_t *b, void *packed)
{
    (void)p, (void)b, (void)packed;
}

void iso_bf16_part(const iso_product *p, int64_t rows, const uint16_t *a, const void *packed,
                   const int64_t *offset, const int64_t *extent, bool add, float *c, void *strip)
{
    (void)p, (void)rows, (void)a, (void)packed, (void)offset, (void)extent, (void)add, (void)c, (void)strip;
}
#endif
