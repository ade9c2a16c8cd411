/* Sums and maxima of two arrays, for reductions between slots. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

void ISO_SIMD(sum_f32)(int64_t n, const float *x, const float *y, float *z)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(z + i, vf_load(x + i) + vf_load(y + i));
    if (i < n)
        vf_store_n(z + i, vf_load_n(x + i, n - i) + vf_load_n(y + i, n - i), n - i);
}

void ISO_SIMD(sum_f64)(int64_t n, const double *x, const double *y, double *z)
{
    int64_t i = 0;
    for (; i + VL / 2 <= n; i += VL / 2)
        vd_store(z + i, vd_load(x + i) + vd_load(y + i));
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}

void ISO_SIMD(max_f32)(int64_t n, const float *x, const float *y, float *z)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf a = vf_load(x + i), b = vf_load(y + i);
        vf_store(z + i, vf_select(vf_unordered(a, a), a, vf_select(vf_gt(a, b), a, b)));
    }
    for (; i < n; i++)
        z[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
}
