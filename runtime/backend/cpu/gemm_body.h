/* Matrix products by tiles; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"

/* Sums are over blocks of k, which are added: the bits of a row do not depend on how many rows there are. In large
 * products a panel of b is packed for each block, and stays in the L1 cache while all rows of a use it. */
enum { BLOCK_K = 256, PANEL = 2, LEAST_ROWS = 48, LEAST_B = 65536 };

INLINE void pack_panel(int64_t k, const float *b, int64_t b_k, int64_t columns, float *panel)
{
    for (int64_t i = 0; i < k; i++, b += b_k, panel += PANEL * VL) {
        vf_store(panel, vf_get(b, columns));
        vf_store(panel + VL, columns > VL ? vf_get(b + VL, columns - VL) : vf_zero());
    }
}

/* The block of k that begins at `k`. */
INLINE iso_tile tile_block(const iso_tile *whole, int64_t k)
{
    iso_tile t = *whole;
    t.k = whole->k - k < BLOCK_K ? whole->k - k : BLOCK_K;
    t.a += k * t.a_k;
    t.b += k * t.b_k;
    t.add = whole->add || k > 0;
    return t;
}

static void gemm_packed(const iso_tile *whole, int64_t rows, int64_t columns)
{
    float panel[BLOCK_K * PANEL * VL];
    for (int64_t k = 0; k < whole->k; k += BLOCK_K)
        for (int64_t j = 0; j < columns; j += PANEL * VL) {
            iso_tile t = tile_block(whole, k);
            int64_t n = columns - j < PANEL * VL ? columns - j : PANEL * VL;
            pack_panel(t.k, t.b + j, t.b_k, n, panel);
            t.b = panel;
            t.b_k = PANEL * VL;
            t.c += j;
            tile_all(&t, rows, n, PANEL);
        }
}

static void gemm_direct(const iso_tile *whole, int64_t rows, int64_t columns)
{
    const int width = tile_width(rows, (columns + VL - 1) / VL);
    for (int64_t k = 0; k < whole->k || k == 0; k += BLOCK_K) {
        const iso_tile t = tile_block(whole, k);
        tile_all(&t, rows, columns, width);
    }
}

void ISO_SIMD(gemm_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                        const float *b, int64_t b_k, bool add, float *c)
{
    iso_tile t = {.a = a, .b = b, .c = c, .a_row = a_row, .a_k = a_k, .b_k = b_k, .c_row = columns, .k = k};
    t.segments = t.planes = 1;
    t.add = add;
    if (rows < LEAST_ROWS || columns * k < LEAST_B)
        gemm_direct(&t, rows, columns);
    else
        gemm_packed(&t, rows, columns);
}

int64_t ISO_SIMD(lanes)(void)
{
    return VL;
}

/* ---- a wide b, packed once for all strips of rows ---- */

int64_t ISO_SIMD(gemm_strip_rows)(void)
{
    return tile_rows(PANEL);
}

int64_t ISO_SIMD(gemm_pack_size)(int64_t columns, int64_t k)
{
    const int64_t width = PANEL * VL;
    return (columns + width - 1) / width * width * k;
}

void ISO_SIMD(gemm_pack_f32)(int64_t columns, int64_t k, const float *b, int64_t b_k, float *packed)
{
    const int64_t width = PANEL * VL;
    for (int64_t j = 0; j < columns; j += width, packed += width * k)
        pack_panel(k, b + j, b_k, columns - j < width ? columns - j : width, packed);
}

/* Packs the part of a that a strip reads, in the order in which its tiles of `step` rows read it. */
INLINE void pack_strip(int64_t rows, int64_t step, int64_t k, const float *a, int64_t a_k, float *strip)
{
    for (int64_t i = 0; i < rows; i += step) {
        const int64_t n = rows - i < step ? rows - i : step;
        for (int64_t p = 0; p < k; p++, strip += step)
            for (int64_t x = 0; x < n; x += VL)
                vf_put(strip + x, vf_get(a + p * a_k + i + x, n - x), n - x);
    }
}

/* All of c, panel by panel of the packed b; row i of a begins a_next elements after row i - 1 where a tile does. */
INLINE void packed_all(const iso_tile *whole, int64_t rows, int64_t step, int64_t a_next, int64_t columns)
{
    const int64_t width = PANEL * VL;
    for (int64_t j = 0; j < columns; j += width) {
        const int64_t n = columns - j < width ? columns - j : width, vectors = (n + VL - 1) / VL;
        iso_tile t = *whole;
        t.last = (int)(n - (vectors - 1) * VL);
        t.b = whole->b + j * whole->k;
        for (int64_t i = 0; i < rows; i += step) {
            t.a = whole->a + i * a_next;
            t.c = whole->c + i * columns + j;
            tile_do(&t, rows - i < step ? rows - i : step, (int)vectors);
        }
    }
}

INLINE iso_tile packed_tile(int64_t columns, int64_t k, const float *packed, bool add, float *c)
{
    iso_tile whole = {.b = packed, .c = c, .b_k = PANEL * VL, .c_row = columns, .k = k};
    whole.segments = whole.planes = 1;
    whole.add = add;
    return whole;
}

void ISO_SIMD(gemm_strip_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_k,
                              const float *packed, float *strip, bool add, float *c)
{
    const int64_t step = tile_rows_of(rows, PANEL);
    iso_tile whole = packed_tile(columns, k, packed, add, c);
    pack_strip(rows, step, k, a, a_k, strip);
    whole.a = strip;
    whole.a_row = 1;
    whole.a_k = step;
    packed_all(&whole, rows, step, k, columns);
}

void ISO_SIMD(gemm_packed_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row,
                               const float *packed, bool add, float *c)
{
    iso_tile whole = packed_tile(columns, k, packed, add, c);
    whole.a = a;
    whole.a_row = a_row;
    whole.a_k = 1;
    packed_all(&whole, rows, tile_rows_of(rows, PANEL), a_row, columns);
}

/* ---- transposition, in squares of VL x VL: log2(VL) times all rows are interleaved, row i with row i + VL /
 * 2 ---- */
#if defined(__AVX512F__)
enum { LOG_VL = 4 };
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
enum { LOG_VL = 3 };
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
enum { LOG_VL = 2 };
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif

INLINE void transpose_square(const float *x, int64_t x_row, float *y, int64_t y_row)
{
    vf row[VL], next[VL];
    UNROLL
    for (int i = 0; i < VL; i++)
        row[i] = vf_load(x + i * x_row);
    UNROLL
    for (int step = 0; step < LOG_VL; step++) {
        UNROLL
        for (int i = 0; i < VL / 2; i++) {
            next[2 * i] = __builtin_shufflevector(row[i], row[i + VL / 2], LOW_HALVES);
            next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + VL / 2], HIGH_HALVES);
        }
        UNROLL
        for (int i = 0; i < VL; i++)
            row[i] = next[i];
    }
    UNROLL
    for (int i = 0; i < VL; i++)
        vf_store(y + i * y_row, row[i]);
}

INLINE void transpose_rest(int64_t rows, int64_t columns, const float *x, int64_t x_row, float *y,
                           int64_t y_row)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            y[j * y_row + i] = x[i * x_row + j];
}

void ISO_SIMD(transpose_f32)(int64_t rows, int64_t columns, const float *x, int64_t x_row, float *y,
                             int64_t y_row)
{
    const int64_t whole_rows = rows / VL * VL, whole_columns = columns / VL * VL;
    for (int64_t j = 0; j < whole_columns; j += VL)
        for (int64_t i = 0; i < whole_rows; i += VL)
            transpose_square(x + i * x_row + j, x_row, y + j * y_row + i, y_row);
    transpose_rest(whole_rows, columns - whole_columns, x + whole_columns, x_row, y + whole_columns * y_row,
                   y_row);
    transpose_rest(rows - whole_rows, columns, x + whole_rows * x_row, x_row, y + whole_rows, y_row);
}

/* ---- a b^T for few rows of a: computed as the transpose of b a^T; the lanes hold rows of a ---- */
INLINE int64_t whole_vectors(int64_t n)
{
    return (n + VL - 1) / VL * VL;
}

size_t ISO_SIMD(gemm_transposed_scratch)(int64_t rows, int64_t columns, int64_t k)
{
    return (size_t)(whole_vectors(rows) * (k + columns)) * sizeof(float);
}

void ISO_SIMD(gemm_transposed_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, const float *b,
                                   float *c, int64_t c_row, void *scratch)
{
    const int64_t lanes = whole_vectors(rows);
    float *transposed_a = scratch, *transposed_c = transposed_a + lanes * k;
    if (lanes > rows)
        memset(transposed_a, 0, (size_t)(lanes * k) * sizeof *transposed_a);
    ISO_SIMD(transpose_f32)(rows, k, a, k, transposed_a, lanes);
    iso_tile t = {.a = b,
                  .b = transposed_a,
                  .c = transposed_c,
                  .a_row = k,
                  .a_k = 1,
                  .b_k = lanes,
                  .c_row = lanes,
                  .k = k};
    t.segments = t.planes = 1;
    tile_all(&t, columns, lanes, tile_width(columns, lanes / VL));
    ISO_SIMD(transpose_f32)(columns, rows, transposed_c, lanes, c, c_row);
}
