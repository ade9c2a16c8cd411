/* Matrix products by tiles; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"

/* Vectors in a tile's width. Measured on Sapphire Rapids over products of 10 to 784: wide tiles reload the
 * rows of a least. */
static int tile_width(int64_t rows, int64_t vectors)
{
    int most = VREGISTERS == 32 ? (rows % 6 == 0 || rows > 64 ? 4 : 2) : 2;
    return vectors < most ? (int)vectors : most;
}

void ISO_SIMD(gemm_f32)(int64_t rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                        const float *b, int64_t b_k, float *c)
{
    int64_t vectors = (columns + VL - 1) / VL;
    int width = tile_width(rows, vectors);
    int64_t step = tile_rows_of(rows, width ? width : 1);
    for (int64_t j = 0; j < vectors; j += width) {
        int64_t w = vectors - j < width ? vectors - j : width;
        int64_t left = columns - (j + w - 1) * VL;
        iso_tile t = {.a_row = a_row, .a_k = a_k, .b = b + j * VL, .b_k = b_k, .c_row = columns, .k = k};
        t.segments = t.planes = 1;
        t.last = left < VL ? (int)left : VL;
        for (int64_t i = 0; i < rows; i += step) {
            t.a = a + i * a_row;
            t.c = c + i * columns + j * VL;
            tile_do(&t, rows - i < step ? rows - i : step, (int)w);
        }
    }
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
