/* Matrix products of attention by AMX: see amx.h. */
#include "runtime/backend/cpu/amx.h"

#if defined(__x86_64__)
#include <string.h>

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tiles_amx.h"

/* A block of a, [64, 256], and a panel of b, [256, 32], as tiles: they stay in the L2 cache. */
enum { BLOCK_ROWS = 64, BLOCK_K = 256, PANEL = 2 * SIDE };

/* What rounding to bfloat16 has taken from x. */
static __m512 rest(__m512 x)
{
    __m512i near = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
    return _mm512_sub_ps(x, (__m512)_mm512_slli_epi32(near, 16));
}

/* Rows [0, k) of x, `step` apart, of which n columns are real, as one tile of pairs, and what rounding takes as
 * another one (NULL: not needed). Other elements are 0. */
static void pack_pairs(int64_t k, int64_t n, const float *x, int64_t step, uint16_t *tile, uint16_t *rests)
{
    for (int64_t i = 0; i < DEPTH; i += 2) {
        __m512 low = get(x + i * step, i < k ? n : 0), high = get(x + (i + 1) * step, i + 1 < k ? n : 0);
        _mm512_store_si512(tile + i * SIDE, paired(rounded(low, high)));
        if (rests)
            _mm512_store_si512(rests + i * SIDE, paired(rounded(rest(low), rest(high))));
    }
}

/* Rows [0, n) of x, `step` apart, of which k columns are real, as two tiles in the same way. */
static void pack_rows(int64_t n, int64_t k, const float *x, int64_t step, uint16_t *tile, uint16_t *rests)
{
    for (int64_t i = 0; i < SIDE; i++, x += step) {
        __m512 low = get(x, i < n ? k : 0), high = get(x + SIDE, i < n ? k - SIDE : 0);
        _mm512_store_si512(tile + i * DEPTH, rounded(low, high));
        _mm512_store_si512(rests + i * DEPTH, rounded(rest(low), rest(high)));
    }
}

/* The same of x whose columns stand `step` apart: pairs of its columns, transposed as if they were floats. */
static void pack_columns(int64_t n, int64_t k, const float *x, int64_t step, uint16_t *tile, uint16_t *rests)
{
    _Alignas(64) uint16_t transposed[2][TILE];
    uint16_t *const to[] = {tile, rests};
    pack_pairs(k, n, x, step, transposed[0], transposed[1]);
    for (int i = 0; i < 2; i++)
        transpose_f32_avx512(SIDE, SIDE, (const float *)(const void *)transposed[i], SIDE,
                             (float *)(void *)to[i], SIDE);
}

typedef struct operands {
    int64_t a_row, a_k, b_k, columns; /* columns: of c */
    const float *a, *b;
    float *c;
} operands;

/* Tiles of a [rows, k], one block of 16 rows after the other: each tile with that of its rests. */
static void pack_a(const operands *o, int64_t rows, int64_t k, uint16_t *tiles)
{
    for (int64_t i = 0; i < rows; i += SIDE)
        for (int64_t j = 0; j < k; j += DEPTH, tiles += 2 * TILE) {
            const float *from = o->a + i * o->a_row + j * o->a_k;
            int64_t n = least(rows - i, SIDE), depth = least(k - j, DEPTH);
            if (o->a_k == 1)
                pack_rows(n, depth, from, o->a_row, tiles, tiles + TILE);
            else
                pack_columns(n, depth, from, o->a_k, tiles, tiles + TILE);
        }
}

/* Tiles of b [k, columns], one block of 16 columns after the other. */
static void pack_b(const operands *o, int64_t k, int64_t columns, uint16_t *tiles)
{
    for (int64_t j = 0; j < columns; j += SIDE)
        for (int64_t i = 0; i < k; i += DEPTH, tiles += TILE)
            pack_pairs(least(k - i, DEPTH), least(columns - j, SIDE), o->b + i * o->b_k + j, o->b_k, tiles,
                       NULL);
}

/* c [32, 32], rows `step` elements apart, = or += the product of two blocks of rows of a, whose tiles are a_next
 * elements apart, and two of columns of b. */
static void multiply(int64_t depth, const uint16_t *a, int64_t a_next, const uint16_t *b, int64_t b_next,
                     bool add, float *c, int64_t step)
{
    const int64_t bytes = step * (int64_t)sizeof *c;
    order_memory();
    begin_sums(add, c, bytes);
    for (int64_t i = 0; i < depth; i++, a += 2 * TILE, b += TILE) {
        _tile_loadd(6, b, ROW);
        _tile_loadd(7, b + b_next, ROW);
        _tile_loadd(4, a + TILE, ROW); /* the small numbers first */
        _tile_loadd(5, a + TILE + a_next, ROW);
        multiply_tiles();
        _tile_loadd(4, a, ROW);
        _tile_loadd(5, a + a_next, ROW);
        multiply_tiles();
    }
    end_sums(c, bytes);
    order_memory();
}

/* The same of a part of c [rows, columns], which is smaller. */
static void multiply_part(int64_t depth, const uint16_t *a, int64_t a_next, const uint16_t *b, int64_t b_next,
                          bool add, float *c, int64_t step, int64_t rows, int64_t columns)
{
    _Alignas(64) float whole[PANEL * PANEL];
    for (int64_t i = 0; add && i < rows; i++) {
        _mm512_store_ps(whole + i * PANEL, get(c + i * step, columns));
        _mm512_store_ps(whole + i * PANEL + SIDE, get(c + i * step + SIDE, columns - SIDE));
    }
    multiply(depth, a, rows > SIDE ? a_next : 0, b, columns > SIDE ? b_next : 0, add, whole, PANEL);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * step, whole + i * PANEL, (size_t)columns * sizeof *c);
}

/* c [rows, columns] = or += a b: rows <= BLOCK_ROWS, k <= BLOCK_K. */
static void multiply_block(const operands *o, int64_t rows, int64_t columns, int64_t k, bool add)
{
    _Alignas(64) uint16_t a[2 * BLOCK_ROWS * BLOCK_K], b[BLOCK_K * PANEL];
    const int64_t depth = (k + DEPTH - 1) / DEPTH, b_next = depth * TILE, a_next = 2 * b_next;
    pack_a(o, rows, k, a);
    for (int64_t j = 0; j < columns; j += PANEL) {
        operands panel = *o;
        panel.b += j;
        int64_t width = least(columns - j, PANEL);
        pack_b(&panel, k, width, b);
        for (int64_t i = 0; i < rows; i += PANEL) {
            const uint16_t *from = a + i / SIDE * a_next;
            float *c = o->c + i * o->columns + j;
            int64_t height = least(rows - i, PANEL);
            if (height == PANEL && width == PANEL)
                multiply(depth, from, a_next, b, b_next, add, c, o->columns);
            else
                multiply_part(depth, from, a_next, b, b_next, add, c, o->columns, height, width);
        }
    }
}

void iso_amx_gemm(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                  const float *b, int64_t b_k, bool add, float *c)
{
    if (k == 0 && !add)
        memset(c, 0, (size_t)(rows * columns) * sizeof *c);
    configure();
    for (int64_t j = 0; j < k; j += BLOCK_K)
        for (int64_t i = 0; i < rows; i += BLOCK_ROWS) {
            operands o = {.a_row = a_row, .a_k = a_k, .b_k = b_k, .columns = columns};
            o.a = a + i * a_row + j * a_k;
            o.b = b + j * b_k;
            o.c = c + i * columns;
            multiply_block(&o, least(rows - i, BLOCK_ROWS), columns, least(k - j, BLOCK_K), add || j > 0);
        }
    _tile_release(); /* the system need not save the tiles of this thread */
}
#else
void iso_amx_gemm(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                  const float *b, int64_t b_k, bool add, float *c)
{
    (void)rows, (void)columns, (void)k, (void)a, (void)a_row, (void)a_k, (void)b, (void)b_k, (void)add,
        (void)c;
}
#endif
