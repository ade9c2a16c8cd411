/* Matrix products by tiles; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"

/* Large products are done in blocks of k, with a panel of b copied together, that the rows of a pass in the
 * fastest cache. */
enum { BLOCK_K = 256, PANEL = 2, LEAST_ROWS = 48, LEAST_B = 65536 };

INLINE void pack_panel(int64_t k, const float *b, int64_t b_k, int64_t columns, float *panel)
{
    for (int64_t i = 0; i < k; i++, b += b_k, panel += PANEL * VL) {
        vf_store(panel, vf_get(b, columns));
        vf_store(panel + VL, columns > VL ? vf_get(b + VL, columns - VL) : vf_zero());
    }
}

static void gemm_blocked(const iso_tile *whole, int64_t rows, int64_t columns)
{
    float panel[BLOCK_K * PANEL * VL];
    for (int64_t k = 0; k < whole->k; k += BLOCK_K)
        for (int64_t j = 0; j < columns; j += PANEL * VL) {
            iso_tile t = *whole;
            t.k = whole->k - k < BLOCK_K ? whole->k - k : BLOCK_K;
            int64_t n = columns - j < PANEL * VL ? columns - j : PANEL * VL;
            pack_panel(t.k, whole->b + k * t.b_k + j, t.b_k, n, panel);
            t.a += k * t.a_k;
            t.b = panel;
            t.b_k = PANEL * VL;
            t.c += j;
            t.add = k > 0;
            tile_all(&t, rows, n, PANEL);
        }
}

void ISO_SIMD(gemm_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                        const float *b, int64_t b_k, float *c)
{
    iso_tile t = {.a = a, .b = b, .c = c, .a_row = a_row, .a_k = a_k, .b_k = b_k, .c_row = columns, .k = k};
    t.segments = t.planes = 1;
    if (rows < LEAST_ROWS || columns * k < LEAST_B)
        tile_all(&t, rows, columns, tile_width(rows, (columns + VL - 1) / VL));
    else
        gemm_blocked(&t, rows, columns);
}

/* 64 bytes of a line at a time, so that lines are written whole. */
void ISO_SIMD(transpose_f32)(int64_t rows, int64_t columns, const float *x, int64_t x_row, float *y,
                             int64_t y_row)
{
    enum { BLOCK = 16 };
    for (int64_t j = 0; j < columns; j += BLOCK)
        for (int64_t i = 0; i < rows; i += BLOCK)
            for (int64_t jj = j; jj < j + BLOCK && jj < columns; jj++)
                for (int64_t ii = i; ii < i + BLOCK && ii < rows; ii++)
                    y[jj * y_row + ii] = x[ii * x_row + jj];
}
