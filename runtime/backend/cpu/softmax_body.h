/* Softmax and related functions over consecutive rows; see functions.h. Rows are summed lane by lane, then
 * over the lanes by halves. */
#include <math.h>

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/math.h"

/* The first n elements at p, with `other` in the remaining lanes. */
INLINE vf get_or(const float *p, int64_t n, vf other)
{
    return n >= VL ? vf_load(p) : vf_first(vf_load_n(p, n), n, other);
}

INLINE float largest_of(int64_t n, const float *x)
{
    const vf least = vf_set(-INFINITY);
    vf largest = least;
    for (int64_t i = 0; i < n; i += VL)
        largest = vf_max(get_or(x + i, n - i, least), largest);
    return vf_max_lane(largest);
}

/* The sum of exp(x - largest); the terms are written to y unless it is NULL. */
INLINE float sum_of_exp(int64_t n, const float *x, float largest, float *y)
{
    const vf least = vf_set(-INFINITY);
    vf sum = vf_zero();
    for (int64_t i = 0; i < n; i += VL) {
        vf e = vf_exp(get_or(x + i, n - i, least) - largest);
        if (n - i < VL)
            e = vf_first(e, n - i, vf_zero());
        sum += e;
        if (y)
            vf_put(y + i, e, n - i);
    }
    return vf_sum(sum);
}

void ISO_SIMD(softmax_f32)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (int64_t row = 0; row < rows; row++, x += n, y += n) {
        float scale = 1 / sum_of_exp(n, x, largest_of(n, x), y);
        for (int64_t i = 0; i < n; i += VL)
            vf_put(y + i, vf_get(y + i, n - i) * scale, n - i);
    }
}

void ISO_SIMD(log_sum_exp_f32)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (int64_t row = 0; row < rows; row++, x += n) {
        float largest = largest_of(n, x), sum = sum_of_exp(n, x, largest, NULL);
        y[row] = largest + logf(sum);
    }
}

void ISO_SIMD(log_softmax_f32)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (int64_t row = 0; row < rows; row++, x += n, y += n) {
        float largest = largest_of(n, x), rest = logf(sum_of_exp(n, x, largest, NULL));
        for (int64_t i = 0; i < n; i += VL)
            vf_put(y + i, vf_get(x + i, n - i) - largest - rest, n - i);
    }
}

void ISO_SIMD(class_max_f32)(int64_t rows, int64_t n, const float *x, float *y)
{
    for (int64_t row = 0; row < rows; row++, x += n)
        y[row] = largest_of(n, x);
}

void ISO_SIMD(class_sum_exp_f32)(int64_t rows, int64_t n, const float *x, const float *max, float *y)
{
    for (int64_t row = 0; row < rows; row++, x += n)
        y[row] = sum_of_exp(n, x, max[row], NULL);
}

void ISO_SIMD(class_softmax_f32)(int64_t rows, int64_t n, const float *x, const float *max, const float *sum,
                                 float *y)
{
    for (int64_t row = 0; row < rows; row++, x += n, y += n) {
        vf largest = vf_set(max[row]), scale = vf_set(1 / sum[row]);
        for (int64_t i = 0; i < n; i += VL)
            vf_put(y + i, vf_exp(vf_get(x + i, n - i) - largest) * scale, n - i);
    }
}

void ISO_SIMD(softmax_grad_f32)(int64_t rows, int64_t n, const float *y, const float *dy, float *dx)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n, dx += n) {
        vf sum = vf_zero();
        for (int64_t i = 0; i < n; i += VL)
            sum = vf_fma(vf_get(y + i, n - i), vf_get(dy + i, n - i), sum);
        float all = vf_sum(sum);
        for (int64_t i = 0; i < n; i += VL)
            vf_put(dx + i, vf_get(y + i, n - i) * (vf_get(dy + i, n - i) - all), n - i);
    }
}

void ISO_SIMD(log_softmax_grad_f32)(int64_t rows, int64_t n, const float *y, const float *dy, float *dx)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n, dx += n) {
        vf sum = vf_zero();
        for (int64_t i = 0; i < n; i += VL)
            sum += vf_get(dy + i, n - i);
        vf all = vf_set(vf_sum(sum));
        for (int64_t i = 0; i < n; i += VL)
            vf_put(dx + i, vf_fnma(vf_exp(vf_get(y + i, n - i)), all, vf_get(dy + i, n - i)), n - i);
    }
}
