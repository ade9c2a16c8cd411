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

/* exp(x) of x <= 0, with the bits of vf_exp(); 0 where that is below the smallest normal number: an instruction whose
 * result is denormal takes a hundred times as long, and scores that are masked are that low. The result is normal, so
 * that it is scaled by its exponent alone. */
INLINE vf exp_or_zero(vf x)
{
    const vf least = vf_set(-87.3f);
    vf n, p = vf_exp_parts(vf_max(least, x), &n); /* a NaN stays */
    return vf_select(vf_gt(least, x), vf_zero(), (vf)((vi)p + (vi_from(n) << 23)));
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
        vf e = exp_or_zero(get_or(x + i, n - i, least) - largest);
        if (n - i < VL)
            e = vf_first(e, n - i, vf_zero());
        sum += e;
        if (y)
            vf_put(y + i, e, n - i);
    }
    return vf_sum(sum);
}

/* ---- rows of few classes: VL rows at once, each in its lane. Additions are in the order of a single row, so the
 * bits are the same ---- */
enum { FEW_CLASSES = 32 };

typedef struct few_rows {
    vf class[FEW_CLASSES]; /* [class][row] */
    vf lane[VL];           /* of a row's sum; class i is added to lane i % VL */
} few_rows;

/* The number of leading rows that are computed VL at once. */
INLINE int64_t rows_at_once(int64_t rows, int64_t n)
{
    return n <= FEW_CLASSES ? rows / VL * VL : 0;
}

INLINE void few_get(int64_t n, const float *x, vf *class)
{
    float *to = (float *)class;
    for (int64_t row = 0; row < VL; row++)
        for (int64_t i = 0; i < n; i++)
            to[i * VL + row] = x[row * n + i];
}

INLINE void few_put(int64_t n, const vf *class, float *y)
{
    const float *from = (const float *)class;
    for (int64_t row = 0; row < VL; row++)
        for (int64_t i = 0; i < n; i++)
            y[row * n + i] = from[i * VL + row];
}

INLINE vf few_largest(int64_t n, const few_rows *f)
{
    vf largest = vf_set(-INFINITY);
    for (int64_t i = 0; i < n; i++)
        largest = vf_max(f->class[i], largest);
    return largest;
}

INLINE void few_begin_sum(few_rows *f)
{
    for (int i = 0; i < VL; i++)
        f->lane[i] = vf_zero();
}

/* By halves, as vf_sum(). */
INLINE vf few_sum(few_rows *f)
{
    for (int half = VL / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            f->lane[i] += f->lane[i + half];
    return f->lane[0];
}

/* Turns the classes into exp(x - largest), and returns their sums. */
INLINE vf few_exp(int64_t n, vf largest, few_rows *f)
{
    few_begin_sum(f);
    for (int64_t i = 0; i < n; i++) {
        f->class[i] = exp_or_zero(f->class[i] - largest);
        f->lane[i % VL] += f->class[i];
    }
    return few_sum(f);
}

static void few_softmax(int64_t n, const float *x, float *y)
{
    few_rows f;
    few_get(n, x, f.class);
    vf scale = 1 / few_exp(n, few_largest(n, &f), &f);
    for (int64_t i = 0; i < n; i++)
        f.class[i] *= scale;
    few_put(n, f.class, y);
}

static void few_log_sum_exp(int64_t n, const float *x, float *y)
{
    few_rows f;
    float sum[VL];
    few_get(n, x, f.class);
    vf largest = few_largest(n, &f);
    vf_store(sum, few_exp(n, largest, &f));
    for (int row = 0; row < VL; row++)
        sum[row] = logf(sum[row]);
    vf_store(y, largest + vf_load(sum));
}

static void few_softmax_grad(int64_t n, const float *y, const float *dy, float *dx)
{
    few_rows f;
    vf slope[FEW_CLASSES];
    few_get(n, y, f.class);
    few_get(n, dy, slope);
    few_begin_sum(&f);
    for (int64_t i = 0; i < n; i++)
        f.lane[i % VL] = vf_fma(f.class[i], slope[i], f.lane[i % VL]);
    vf all = few_sum(&f);
    for (int64_t i = 0; i < n; i++)
        slope[i] = f.class[i] * (slope[i] - all);
    few_put(n, slope, dx);
}

void ISO_SIMD(softmax_f32)(int64_t rows, int64_t n, const float *x, float *y)
{
    const int64_t whole = rows_at_once(rows, n);
    for (int64_t row = 0; row < whole; row += VL)
        few_softmax(n, x + row * n, y + row * n);
    x += whole * n;
    y += whole * n;
    for (int64_t row = whole; row < rows; row++, x += n, y += n) {
        float scale = 1 / sum_of_exp(n, x, largest_of(n, x), y);
        for (int64_t i = 0; i < n; i += VL)
            vf_put(y + i, vf_get(y + i, n - i) * scale, n - i);
    }
}

void ISO_SIMD(log_sum_exp_f32)(int64_t rows, int64_t n, const float *x, float *y)
{
    const int64_t whole = rows_at_once(rows, n);
    for (int64_t row = 0; row < whole; row += VL)
        few_log_sum_exp(n, x + row * n, y + row);
    x += whole * n;
    for (int64_t row = whole; row < rows; row++, x += n) {
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
            vf_put(y + i, exp_or_zero(vf_get(x + i, n - i) - largest) * scale, n - i);
    }
}

void ISO_SIMD(softmax_grad_f32)(int64_t rows, int64_t n, const float *y, const float *dy, float *dx)
{
    const int64_t whole = rows_at_once(rows, n);
    for (int64_t row = 0; row < whole; row += VL)
        few_softmax_grad(n, y + row * n, dy + row * n, dx + row * n);
    y += whole * n;
    dy += whole * n;
    dx += whole * n;
    for (int64_t row = whole; row < rows; row++, y += n, dy += n, dx += n) {
        vf sum = vf_zero();
        for (int64_t i = 0; i < n; i += VL)
            sum = vf_fma(vf_get(y + i, n - i), vf_get(dy + i, n - i), sum);
        float all = vf_sum(sum);
        for (int64_t i = 0; i < n; i += VL)
            vf_put(dx + i, vf_get(y + i, n - i) * (vf_get(dy + i, n - i) - all), n - i);
    }
}

/* ---- rows that come part by part ---- */

void ISO_SIMD(softmax_part_f32)(int64_t rows, int64_t n, float *x, float *max, float *sum, float *decay)
{
    for (int64_t row = 0; row < rows; row++, x += n) {
        float lane[VL], largest = fmaxf(largest_of(n, x), max[row]);
        vf_store(lane, exp_or_zero(vf_set(max[row] - largest)));
        decay[row] = lane[0];
        sum[row] = sum[row] * decay[row] + sum_of_exp(n, x, largest, x);
        max[row] = largest;
    }
}

void ISO_SIMD(softmax_part_slopes_f32)(int64_t rows, int64_t n, const float *y, const float *dy,
                                       const float *decay, float *slopes)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n) {
        vf sum = vf_zero();
        for (int64_t i = 0; i < n; i += VL)
            sum = vf_fma(vf_get(y + i, n - i), vf_get(dy + i, n - i), sum);
        slopes[row] = slopes[row] * decay[row] + vf_sum(sum);
    }
}

void ISO_SIMD(softmax_part_grad_f32)(int64_t rows, int64_t n, const float *scale, const float *slopes,
                                     float *y, float *dy)
{
    for (int64_t row = 0; row < rows; row++, y += n, dy += n) {
        const vf factor = vf_set(scale[row]), slope = vf_set(slopes[row]);
        for (int64_t i = 0; i < n; i += VL) {
            const vf weight = vf_get(y + i, n - i) * factor;
            vf_put(y + i, weight, n - i);
            vf_put(dy + i, weight * (vf_get(dy + i, n - i) - slope), n - i);
        }
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
            vf_put(dx + i, vf_fnma(exp_or_zero(vf_get(y + i, n - i)), all, vf_get(dy + i, n - i)), n - i);
    }
}
