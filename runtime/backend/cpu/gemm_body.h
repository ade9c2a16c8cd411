/* Matrix products by tiles; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"

void ISO_SIMD(gemm_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                        const float *b, int64_t b_k, float *c)
{
    iso_tile t = {.a = a, .b = b, .c = c, .a_row = a_row, .a_k = a_k, .b_k = b_k, .c_row = columns, .k = k};
    t.segments = t.planes = 1;
    tile_all(&t, rows, columns, tile_width(rows, (columns + VL - 1) / VL));
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
