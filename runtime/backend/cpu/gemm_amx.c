/* Matrix products by AMX: see amx.h. The unit multiplies a tile of 16 rows and 32 columns of bfloat16 by one of 32
 * rows and 16 columns, whose rows stand in pairs, and adds to 16 x 16 sums in float32 (Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 1, chapter 18, and TDPBF16PS in volume 2). */
#include "runtime/backend/cpu/amx.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "runtime/backend/cpu/functions.h"

enum { SIDE = 16, DEPTH = 2 * SIDE, TILE = SIDE * DEPTH /* elements in bfloat16 */, ROW = 64 /* bytes */ };
/* A block of a, [64, 256], and a panel of b, [256, 32], as tiles: they stay in the L2 cache. */
enum { BLOCK_ROWS = 64, BLOCK_K = 256, PANEL = 2 * SIDE };

/* GCC 12 does not know that the instructions for tiles read and write memory. What is written before this call is
 * in memory for the next one of them, and what they have written is read after it. */
static void order_memory(void)
{
    __asm__ volatile("" ::: "memory");
}

/* All eight tiles have 16 rows of 64 bytes. */
static void configure(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } __attribute__((aligned(64))) tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = ROW;
        tiles.rows[i] = SIDE;
    }
    order_memory();
    _tile_loadconfig(&tiles);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The lanes [0, n) of a vector; n may be larger than 16, or negative. */
static __mmask16 lanes(int64_t n)
{
    return (__mmask16)(n >= SIDE ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

/* 32 elements in bfloat16: those of `low` come first. */
static __m512i rounded(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Two rows of 16 elements as pairs: the even elements are of `low`. */
static __m512i paired(__m512i rows)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, rows);
}

/* What rounding to bfloat16 has taken from x. */
static __m512 rest(__m512 x)
{
    __m512i near = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
    return _mm512_sub_ps(x, (__m512)_mm512_slli_epi32(near, 16));
}

/* The first n elements; the others are 0. */
static __m512 get(const float *x, int64_t n)
{
    return _mm512_maskz_loadu_ps(lanes(n), n > 0 ? x : &(const float){0});
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

/* Adds the products of the tiles in 4, 5 and in 6, 7. */
static void multiply_tiles(void)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* c [32, 32], rows `step` elements apart, = or += the product of two blocks of rows of a, whose tiles are a_next
 * elements apart, and two of columns of b. */
static void multiply(int64_t depth, const uint16_t *a, int64_t a_next, const uint16_t *b, int64_t b_next,
                     bool add, float *c, int64_t step)
{
    float *const below = c + SIDE * step;
    const int64_t bytes = step * (int64_t)sizeof *c;
    order_memory();
    if (add) {
        _tile_loadd(0, c, bytes);
        _tile_loadd(1, c + SIDE, bytes);
        _tile_loadd(2, below, bytes);
        _tile_loadd(3, below + SIDE, bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
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
    _tile_stored(0, c, bytes);
    _tile_stored(1, c + SIDE, bytes);
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + SIDE, bytes);
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
