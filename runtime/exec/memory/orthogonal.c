/* Orthogonal initial weights (Saxe, McClelland and Ganguli 2013, arXiv 1312.6120): the orthonormal factor of
 * a random normal matrix, with the signs that make it uniform among all rotations (Mezzadri 2007, "How to
 * generate random matrices from the classical compact groups"). */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/random_arrays.h"
#include "runtime/exec/memory/runtime_impl.h"

static double product(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Makes a vector orthogonal to the vectors before it (Gram and Schmidt) and normalizes it. This is done twice
 * because of rounding (Kahan and Parlett: twice is enough). The diagonal of the other factor is then
 * positive, which gives the signs that are wanted. */
static void orthonormalize(int64_t n, const double *before, int64_t count, double *v)
{
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < count; k++) {
            double along = product(n, before + k * n, v);
            for (int64_t i = 0; i < n; i++)
                v[i] -= along * before[k * n + i];
        }
    double length = sqrt(product(n, v, v));
    for (int64_t i = 0; i < n; i++)
        v[i] /= length;
}

/* v: [vectors, n] -> its transpose */
static void transpose(int64_t vectors, int64_t n, const double *v, double *q)
{
    for (int64_t k = 0; k < vectors; k++)
        for (int64_t i = 0; i < n; i++)
            q[i * vectors + k] = v[k * n + i];
}

iso_status iso_orthogonal(uint64_t key, int64_t rows, int64_t columns, double **q)
{
    int64_t vectors = rows < columns ? rows : columns, n = rows < columns ? columns : rows;
    double *v = calloc((size_t)(vectors * n), sizeof *v), *transposed = v;
    if (v && rows > columns)
        transposed = calloc((size_t)(vectors * n), sizeof *v);
    if (!v || !transposed) {
        free(v);
        return iso_no_memory("an orthogonal matrix of %lld x %lld", (long long)rows, (long long)columns);
    }
    for (int64_t k = 0; k < vectors; k++)
        iso_random_fill_normal(key, (uint64_t)(k * n), 1, n, v + k * n);
    for (int64_t k = 0; k < vectors; k++)
        orthonormalize(n, v, k, v + k * n);
    if (transposed != v) {
        transpose(vectors, n, v, transposed);
        free(v);
    }
    *q = transposed;
    return ISO_OK;
}
