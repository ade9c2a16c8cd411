/* exp, log and tanh of vectors, with errors of about 2 units in the last place, and the normal distribution,
 * with 5. Range reductions and polynomials of the first three come from the Cephes library (Moshier,
 * netlib.org/cephes, single precision: expf, logf, tanhf). */
#ifndef ISO_CPU_MATH_H
#define ISO_CPU_MATH_H

#include <math.h>

#include "runtime/backend/cpu/vector.h"

INLINE vi vi_from(vf x)
{
    return __builtin_convertvector(x, vi);
}
INLINE vf vf_from(vi x)
{
    return __builtin_convertvector(x, vf);
}
/* 2^n for -126 <= n <= 127 */
INLINE vf vf_power_of_two(vi n)
{
    return (vf)((n + 127) << 23);
}

INLINE vf vf_abs(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

/* exp(x) = p 2^n, sqrt(1/2) <= p <= sqrt(2), for x in [-104, 89]; returns p. */
INLINE vf vf_exp_parts(vf x, vf *n)
{
    *n = vf_round(x * 1.44269504088896341f);
    vf r = vf_fma(*n, vf_set(-0.693359375f), x);
    r = vf_fma(*n, vf_set(2.12194440e-4f), r);
    vf p = vf_set(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set(5.0000001201e-1f));
    return vf_fma(p, r * r, r) + 1.0f;
}

/* Results below the smallest normal number are denormal or 0, those above the largest are inf; NaN gives
 * NaN. */
INLINE vf vf_exp(vf x)
{
    x = vf_max(vf_set(-104.0f), vf_min(vf_set(89.0f), x)); /* a NaN in the second operand stays */
    vf n, p = vf_exp_parts(x, &n);
    vi whole = vi_from(n), half = whole >> 1; /* in two steps, because 2^n alone may be out of range */
    return p * vf_power_of_two(half) * vf_power_of_two(whole - half);
}

/* The polynomial of log(1 + x), sqrt(1/2) <= 1 + x < sqrt(2), plus e times log(2). */
INLINE vf vf_log_polynomial(vf x, vf e)
{
    vf p = vf_set(7.0376836292e-2f);
    p = vf_fma(p, x, vf_set(-1.1514610310e-1f));
    p = vf_fma(p, x, vf_set(1.1676998740e-1f));
    p = vf_fma(p, x, vf_set(-1.2420140846e-1f));
    p = vf_fma(p, x, vf_set(1.4249322787e-1f));
    p = vf_fma(p, x, vf_set(-1.6668057665e-1f));
    p = vf_fma(p, x, vf_set(2.0000714765e-1f));
    p = vf_fma(p, x, vf_set(-2.4999993993e-1f));
    p = vf_fma(p, x, vf_set(3.3333331174e-1f));
    vf square = x * x, y = p * x * square;
    y = vf_fma(e, vf_set(-2.12194440e-4f), y);
    y = vf_fma(square, vf_set(-0.5f), y);
    return vf_fma(e, vf_set(0.693359375f), x + y);
}

/* log(0) = -inf; NaN for negative numbers. */
INLINE vf vf_log(vf x)
{
    const vf least = vf_set(0x1p-126f), zero = vf_zero();
    vm small = vf_gt(least, x);
    vf scaled = vf_select(small, x * 0x1p23f, x);
    vi bits = (vi)scaled;
    vf e = vf_from(((bits >> 23) & 0xff) - 126) - vf_select(small, vf_set(23.0f), zero);
    vf m = (vf)((bits & 0x007fffff) | 0x3f000000); /* [1/2, 1) */
    vm below = vf_gt(vf_set(0.707106781186547524f), m);
    e = e - vf_select(below, vf_set(1.0f), zero);
    vf y = vf_log_polynomial(m + vf_select(below, m, zero) - 1.0f, e);
    y = vf_select(vf_gt(x, vf_set(0x1.fffffep127f)), x, y); /* inf */
    y = vf_select(vf_gt(x, zero), y, vf_set(-INFINITY));    /* 0 */
    y = vf_select(vf_gt(zero, x), vf_set(NAN), y);
    return vf_select(vf_unordered(x, x), x, y);
}

/* log(1 + z), z >= 0, accurate for small z: the rounding error of u = 1 + z, which is (u - 1) - z, is
 * corrected. */
INLINE vf vf_log1p(vf z)
{
    vf u = z + 1.0f;
    vf correction = ((u - 1.0f) - z) / u;
    return vf_select(vf_gt(u, vf_set(0x1.fffffep127f)), z, vf_log(u) - correction);
}

INLINE vf vf_tanh(vf x)
{
    vf square = x * x, size = vf_abs(x);
    vf p = vf_set(-5.70498872745e-3f);
    p = vf_fma(p, square, vf_set(2.06390887954e-2f));
    p = vf_fma(p, square, vf_set(-5.37397155531e-2f));
    p = vf_fma(p, square, vf_set(1.33314422036e-1f));
    p = vf_fma(p, square, vf_set(-3.33332819422e-1f));
    vf near = vf_fma(p * square, x, x);
    vf far = 1.0f - 2.0f / (vf_exp(size + size) + 1.0f);
    far = (vf)((vi)far | ((vi)x & (int32_t)0x80000000));
    return vf_select(vf_gt(size, vf_set(0.625f)), far, near);
}

INLINE vf vf_sigmoid(vf x)
{
    return 1.0f / (1.0f + vf_exp(-x));
}

/* exp(x) - 1 for x <= 0, without cancellation: 2 t / (1 - t), t = tanh(x / 2). */
INLINE vf vf_expm1_negative(vf x)
{
    vf t = vf_tanh(x * 0.5f);
    return 2.0f * t / (1.0f - t);
}

/* The tail of the normal distribution: Phi(-t), t >= 0, with *bell = exp(-t^2 / 2). For t >= 15 both are 0.
 *
 * Phi(-t) = bell(t) g(t), where g(t) = erfc(t / sqrt(2)) exp(t^2 / 2) / 2 is smooth and nowhere small, so the
 * relative error is small also far out. As in Cody, Rational Chebyshev approximations for the error function
 * (Mathematics of Computation 23, 1969), g is approximated by a quotient of polynomials; these, of degrees 4
 * and 5 with coefficients of one sign, are the minimax ones of [0, 15], relative error 7e-9. The rounding
 * error of t^2 is added back, because exp would magnify it t^2 / 2 times. */
INLINE vf vf_normal_tail(vf t, vf *bell)
{
    t = vf_min(vf_set(15.0f), t); /* a NaN in the second operand stays */
    vf square = t * t, lost = vf_fma(t, t, -square);
    vf e = vf_exp(-0.5f * square);
    e = vf_fnma(0.5f * lost, e, e);
    vf p = vf_set(0.0041532195173203945f);
    p = vf_fma(p, t, vf_set(0.04088106006383896f));
    p = vf_fma(p, t, vf_set(0.1839689314365387f));
    p = vf_fma(p, t, vf_set(0.4392831325531006f));
    p = vf_fma(p, t, vf_set(0.5f));
    vf q = vf_set(0.010410466231405735f);
    q = vf_fma(q, t, vf_set(0.1024797335267067f));
    q = vf_fma(q, t, vf_set(0.4714081585407257f));
    q = vf_fma(q, t, vf_set(1.2055474519729614f));
    q = vf_fma(q, t, vf_set(1.676451325416565f));
    q = vf_fma(q, t, vf_set(1.0f));
    *bell = e;
    return vf_quotient(e * p, q);
}

#endif
