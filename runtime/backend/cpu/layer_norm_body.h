/* Layer normalisation over consecutive rows; see functions.h. A row is summed lane by lane, then over the
 * lanes by halves. Sums over rows are in float for BLOCK rows, then in double. */
#include <math.h>

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

enum { BLOCK = 64 };

typedef struct moments {
    vf mean, rstd;
} moments;

INLINE vf mean_of(int64_t c, const float *x)
{
    vf sum = vf_zero();
    for (int64_t i = 0; i < c; i += VL)
        sum += vf_get(x + i, c - i);
    return vf_set(vf_sum(sum) / (float)c);
}

INLINE moments moments_of(int64_t c, const float *x, float epsilon, bool rms)
{
    vf mean = rms ? vf_zero() : mean_of(c, x), squares = vf_zero();
    for (int64_t i = 0; i < c; i += VL) {
        vf distance = vf_first(vf_get(x + i, c - i) - mean, c - i, vf_zero());
        squares = vf_fma(distance, distance, squares);
    }
    return (moments){mean, vf_set(1 / sqrtf(vf_sum(squares) / (float)c + epsilon))};
}

INLINE void add_residual(int64_t c, const float *x, const float *residual, float *sum)
{
    for (int64_t i = 0; i < c; i += VL)
        vf_put(sum + i, vf_get(x + i, c - i) + vf_get(residual + i, c - i), c - i);
}

void ISO_SIMD(layer_norm_f32)(int64_t rows, int64_t c, const float *x, const float *residual,
                              const float *gamma, const float *beta, float epsilon, bool rms, float *sum,
                              float *y)
{
    for (int64_t row = 0; row < rows; row++, x += c, y += c) {
        const float *from = x;
        if (residual) {
            add_residual(c, x, residual + row * c, sum + row * c);
            from = sum + row * c;
        }
        moments m = moments_of(c, from, epsilon, rms);
        for (int64_t i = 0; i < c; i += VL) {
            vf v = (vf_get(from + i, c - i) - m.mean) * m.rstd;
            if (gamma)
                v *= vf_get(gamma + i, c - i);
            if (beta)
                v += vf_get(beta + i, c - i);
            vf_put(y + i, v, c - i);
        }
    }
}

/* dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)), dxhat = dy gamma; with rms without mean(dxhat) */
void ISO_SIMD(layer_norm_grad_f32)(int64_t rows, int64_t c, const float *x, const float *dy,
                                   const float *gamma, float epsilon, bool rms, const float *residual,
                                   float *dx)
{
    const vf one = vf_set(1);
    for (int64_t row = 0; row < rows; row++, x += c, dy += c, dx += c) {
        moments m = moments_of(c, x, epsilon, rms);
        vf sum = vf_zero(), products = vf_zero();
        for (int64_t i = 0; i < c; i += VL) {
            vf d = vf_get(dy + i, c - i) * (gamma ? vf_get(gamma + i, c - i) : one);
            sum += d;
            products = vf_fma(d, vf_get(x + i, c - i) - m.mean, products);
        }
        vf mean = rms ? vf_zero() : vf_set(vf_sum(sum) / (float)c),
           slope = vf_set(vf_sum(products) / (float)c) * m.rstd * m.rstd;
        for (int64_t i = 0; i < c; i += VL) {
            vf d = vf_get(dy + i, c - i) * (gamma ? vf_get(gamma + i, c - i) : one);
            vf v = m.rstd * vf_fnma(vf_get(x + i, c - i) - m.mean, slope, d - mean);
            if (residual)
                v += vf_get(residual + row * c + i, c - i);
            vf_put(dx + i, v, c - i);
        }
    }
}

void ISO_SIMD(layer_norm_sums_f32)(int64_t rows, int64_t c, const float *x, const float *dy, float epsilon,
                                   bool rms, double *dgamma, double *dbeta, float *scratch)
{
    float *products = scratch, *sums = scratch + c;
    memset(dgamma, 0, (size_t)c * sizeof *dgamma);
    memset(dbeta, 0, (size_t)c * sizeof *dbeta);
    for (int64_t begin = 0; begin < rows; begin += BLOCK) {
        memset(scratch, 0, 2 * (size_t)c * sizeof *scratch);
        for (int64_t row = begin; row < rows && row < begin + BLOCK; row++, x += c, dy += c) {
            moments m = moments_of(c, x, epsilon, rms);
            for (int64_t i = 0; i < c; i += VL) {
                vf d = vf_get(dy + i, c - i), xhat = (vf_get(x + i, c - i) - m.mean) * m.rstd;
                vf_put(products + i, vf_fma(d, xhat, vf_get(products + i, c - i)), c - i);
                vf_put(sums + i, d + vf_get(sums + i, c - i), c - i);
            }
        }
        for (int64_t i = 0; i < c; i++) {
            dgamma[i] += products[i];
            dbeta[i] += sums[i];
        }
    }
}

/* ---- sharded channels: row by row ---- */

/* In double, because the variance is a difference of the two. */
void ISO_SIMD(layer_moments_f32)(int64_t c, const float *x, double *sum, double *squares)
{
    vd s = vd_set(0), q = vd_set(0);
    for (int64_t i = 0; i < c; i += VL) {
        vf v = vf_first(vf_get(x + i, c - i), c - i, vf_zero());
        vd low = vd_low(v), high = vd_high(v);
        s += low + high;
        q += low * low + high * high;
    }
    *sum = vd_sum(s);
    *squares = vd_sum(q);
}

void ISO_SIMD(layer_scale_f32)(int64_t c, const float *x, const iso_row_moments *m, const float *gamma,
                               const float *beta, float *y)
{
    const vf mean = vf_set(m->mean), rstd = vf_set(m->rstd);
    for (int64_t i = 0; i < c; i += VL) {
        vf v = (vf_get(x + i, c - i) - mean) * rstd;
        if (gamma)
            v *= vf_get(gamma + i, c - i);
        if (beta)
            v += vf_get(beta + i, c - i);
        vf_put(y + i, v, c - i);
    }
}

void ISO_SIMD(layer_grad_sums_f32)(int64_t c, const float *x, const float *dy, const iso_row_moments *m,
                                   const float *gamma, double *sum, double *products)
{
    const vf mean = vf_set(m->mean), one = vf_set(1);
    vf s = vf_zero(), p = vf_zero();
    for (int64_t i = 0; i < c; i += VL) {
        vf d = vf_get(dy + i, c - i) * (gamma ? vf_get(gamma + i, c - i) : one);
        d = vf_first(d, c - i, vf_zero());
        s += d;
        p = vf_fma(d, vf_first(vf_get(x + i, c - i) - mean, c - i, vf_zero()), p);
    }
    *sum = vf_sum(s);
    *products = vf_sum(p) * m->rstd;
}

void ISO_SIMD(layer_grad_f32)(int64_t c, const float *x, const float *dy, const iso_row_moments *m,
                              const float *gamma, float sum, float products, float *dx)
{
    const vf mean = vf_set(m->mean), rstd = vf_set(m->rstd), one = vf_set(1), mean_of_d = vf_set(sum),
             slope = vf_set(products * m->rstd);
    for (int64_t i = 0; i < c; i += VL) {
        vf d = vf_get(dy + i, c - i) * (gamma ? vf_get(gamma + i, c - i) : one);
        vf_put(dx + i, rstd * vf_fnma(vf_get(x + i, c - i) - mean, slope, d - mean_of_d), c - i);
    }
}

void ISO_SIMD(layer_weight_sums_f32)(int64_t c, const float *x, const float *dy, const iso_row_moments *m,
                                     float *products, float *sums)
{
    const vf mean = vf_set(m->mean), rstd = vf_set(m->rstd);
    for (int64_t i = 0; i < c; i += VL) {
        vf d = vf_get(dy + i, c - i), xhat = (vf_get(x + i, c - i) - mean) * rstd;
        vf_put(products + i, vf_fma(d, xhat, vf_get(products + i, c - i)), c - i);
        vf_put(sums + i, d + vf_get(sums + i, c - i), c - i);
    }
}
