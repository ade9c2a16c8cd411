/* Attention in float64: OpenBLAS's products, and plain loops. */
#include <float.h>
#include <math.h>

#include "runtime/backend/cpu/onednn.h"
#include "runtime/base/random.h"

static void double_gemm(int64_t rows, int64_t columns, int64_t k, const double *a, int64_t a_row, int64_t a_k,
                        const double *b, int64_t b_k, bool add, double *c)
{
    bool transposed = a_k != 1 || a_row < k; /* a single row that is given as a column */
    iso_product product = {.m = rows,
                           .n = columns,
                           .k = k,
                           .transpose_a = transposed,
                           .lda = transposed ? a_k : a_row,
                           .ldb = b_k};
    iso_openblas_dgemm(&product, a, b, add, c);
}

static void double_transpose(int64_t rows, int64_t columns, const double *x, int64_t x_row, double *y,
                             int64_t y_row)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            y[j * y_row + i] = x[i * x_row + j];
}

static void double_affine(int64_t n, double scale, double shift, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * scale + shift;
}

static void double_softmax_part(int64_t rows, int64_t n, double *x, double *max, double *sum, double *decay)
{
    for (int64_t row = 0; row < rows; row++, x += n) {
        double largest = max[row], of_part = 0;
        for (int64_t i = 0; i < n; i++)
            largest = fmax(largest, x[i]);
        for (int64_t i = 0; i < n; i++)
            of_part += x[i] = exp(x[i] - largest);
        decay[row] = exp(max[row] - largest);
        sum[row] = sum[row] * decay[row] + of_part;
        max[row] = largest;
    }
}

static void double_softmax_part_slopes(int64_t rows, int64_t n, const double *y, const double *dy,
                                       const double *decay, double *slopes)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += y[i] * dy[i];
        slopes[row] = slopes[row] * decay[row] + sum;
    }
}

static void double_softmax_part_grad(int64_t rows, int64_t n, const double *scale, const double *slopes,
                                     double *y, double *dy)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n)
        for (int64_t i = 0; i < n; i++) {
            y[i] *= scale[row];
            dy[i] = y[i] * (dy[i] - slopes[row]);
        }
}

static void double_dropout(int64_t n, uint64_t key, uint64_t step, uint64_t first, uint32_t threshold,
                           double scale, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = iso_random_word(key, step, first + (uint64_t)i) >> 8 >= threshold ? x[i] * scale : 0;
}

static void double_tanh(int64_t n, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = tanh(x[i]);
}

static void double_tanh_grad(int64_t n, const double *y, const double *dy, double *dx)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

#define REAL double
#define REAL_DTYPE ISO_F64
#define REAL_MAX DBL_MAX
#define BLOCK_KEYS 256
#define STORED double
#define STORED_DTYPE ISO_F64
#define real_gemm double_gemm
#define real_transpose double_transpose
#define real_affine double_affine
#define real_softmax_part double_softmax_part
#define real_softmax_part_slopes double_softmax_part_slopes
#define real_softmax_part_grad double_softmax_part_grad
#define real_dropout double_dropout
#define real_tanh double_tanh
#define real_tanh_grad double_tanh_grad
#include "runtime/backend/cpu/attention_body.h"

/* The products of a head are within OpenBLAS's sizes if its arrays are. */
static bool double_fits(const iso_kernel_call *call)
{
    iso_attention a = iso_attention_of(call);
    iso_product largest = {.m = a.keys, .n = a.heads * (a.k > a.v ? a.k : a.v), .k = a.rows};
    return attention_fits(call) && iso_openblas_takes(&largest);
}

const iso_kernel iso_cpu_attention_double = {.op = "attention",
                                             .name = "blocks, cblas_dgemm",
                                             .fits = double_fits,
                                             .scratch = attention_scratch,
                                             .run = attention_run,
                                             .blocks = attention_blocks,
                                             .run_block = attention_run_block};
const iso_kernel iso_cpu_attention_grad_double = {.op = "attention_grad",
                                                  .name = "blocks, cblas_dgemm",
                                                  .fits = double_fits,
                                                  .scratch = attention_grad_scratch,
                                                  .run = attention_grad_run,
                                                  .blocks = attention_grad_blocks,
                                                  .run_block = attention_grad_run_block};
