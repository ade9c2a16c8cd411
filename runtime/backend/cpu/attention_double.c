/* Attention in float64: OpenBLAS's products, and plain loops. */
#include <math.h>

#include "runtime/backend/cpu/onednn.h"
#include "runtime/base/random.h"

static void double_gemm(int64_t rows, int64_t columns, int64_t k, const double *a, int64_t a_row, int64_t a_k,
                        const double *b, int64_t b_k, bool add, double *c)
{
    bool transposed = a_k != 1 || a_row < k; /* a single row that is given as a column */
    iso_product product = {.m = rows, .n = columns, .k = k, .transpose_a = transposed};
    iso_openblas_dgemm_part(&product, a, transposed ? a_k : a_row, b, b_k, add, c);
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

static void double_softmax_row(int64_t n, const double *x, double *y)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += y[i] = exp(x[i] - largest);
    for (int64_t i = 0; i < n; i++)
        y[i] /= sum;
}

static void double_softmax(int64_t rows, int64_t n, const double *x, double *y)
{
    for (int64_t row = 0; row < rows; row++, x += n, y += n)
        double_softmax_row(n, x, y);
}

static void double_softmax_grad(int64_t rows, int64_t n, const double *y, const double *dy, double *dx)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n, dx += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += y[i] * dy[i];
        for (int64_t i = 0; i < n; i++)
            dx[i] = y[i] * (dy[i] - sum);
    }
}

static void double_dropout(int64_t n, uint64_t key, uint64_t step, uint64_t first, uint32_t threshold,
                           double scale, const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = iso_random_word(key, step, first + (uint64_t)i) >> 8 >= threshold ? x[i] * scale : 0;
}

#define REAL double
#define REAL_DTYPE ISO_F64
#define STORED double
#define STORED_DTYPE ISO_F64
#define real_gemm double_gemm
#define real_transpose double_transpose
#define real_affine double_affine
#define real_softmax double_softmax
#define real_softmax_grad double_softmax_grad
#define real_dropout double_dropout
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
                                             .run = attention_run};
const iso_kernel iso_cpu_attention_grad_double = {.op = "attention_grad",
                                                  .name = "blocks, cblas_dgemm",
                                                  .fits = double_fits,
                                                  .scratch = attention_grad_scratch,
                                                  .run = attention_grad_run};
