/* Elementwise ops; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/math.h"

/* y[i] = EXPRESSION of v = x[i]: whole vectors, then a partial one. */
#define MAP(EXPRESSION)                                                                                      \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + VL <= n; i += VL) {                                                                       \
            vf v = vf_load(x + i);                                                                           \
            vf_store(y + i, EXPRESSION);                                                                     \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            vf v = vf_load_n(x + i, n - i);                                                                  \
            vf_store_n(y + i, EXPRESSION, n - i);                                                            \
        }                                                                                                    \
        return;                                                                                              \
    } while (0)

/* 0.5 x (1 + tanh(u)) = x sigmoid(2 u), where nothing cancels; u = sqrt(2 / pi) (x + 0.044715 x^3) */
INLINE vf gelu_inner(vf x)
{
    return 0.7978845608028654f * vf_fma(x * x * x, vf_set(0.044715f), x);
}

/* x Phi(x), computed from the smaller tail. */
INLINE vf gelu(vf x)
{
    vf bell, tail = vf_normal_tail(vf_abs(x), &bell);
    return x * vf_select(vf_gt(vf_zero(), x), tail, 1.0f - tail);
}

INLINE vf sign_of(vf v)
{
    vf one = vf_set(1), zero = vf_zero();
    vf sign = vf_select(vf_gt(v, zero), one, vf_select(vf_gt(zero, v), -one, zero));
    return vf_select(vf_unordered(v, v), v, sign);
}

void ISO_SIMD(unary_f32)(iso_unary_kind kind, float alpha, int64_t n, const float *x, float *y)
{
    const vf zero = vf_zero();
    switch (kind) {
    case ISO_UNARY_NEGATE:
        MAP(-v);
    case ISO_UNARY_ABS:
        MAP(vf_abs(v));
    case ISO_UNARY_SIGN:
        MAP(sign_of(v));
    case ISO_UNARY_EXP:
        MAP(vf_exp(v));
    case ISO_UNARY_LOG:
        MAP(vf_log(v));
    case ISO_UNARY_SQRT:
        MAP(vf_sqrt(v));
    case ISO_UNARY_RSQRT:
        MAP(1.0f / vf_sqrt(v));
    case ISO_UNARY_SQUARE:
        MAP(v * v);
    case ISO_UNARY_RELU:
        MAP(vf_max(zero, v)); /* a NaN stays */
    case ISO_UNARY_LEAKY_RELU:
        MAP(vf_select(vf_gt(zero, v), v * alpha, v));
    case ISO_UNARY_ELU:
        MAP(vf_select(vf_gt(v, zero), v, alpha * vf_expm1_negative(vf_min(zero, v))));
    case ISO_UNARY_SIGMOID:
        MAP(vf_sigmoid(v));
    case ISO_UNARY_TANH:
        MAP(vf_tanh(v));
    case ISO_UNARY_GELU_APPROXIMATE:
        MAP(v * vf_sigmoid(2 * gelu_inner(v)));
    case ISO_UNARY_SILU:
        MAP(v * vf_sigmoid(v));
    case ISO_UNARY_SOFTPLUS:
        MAP(vf_max(zero, v) + vf_log1p(vf_exp(-vf_abs(v))));
    case ISO_UNARY_GELU:
        MAP(gelu(v));
    }
}

#define MAP_GRADIENT(EXPRESSION)                                                                             \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + VL <= n; i += VL) {                                                                       \
            vf v = vf_load(s + i), d = vf_load(dy + i);                                                      \
            vf_store(dx + i, EXPRESSION);                                                                    \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            vf v = vf_load_n(s + i, n - i), d = vf_load_n(dy + i, n - i);                                    \
            vf_store_n(dx + i, EXPRESSION, n - i);                                                           \
        }                                                                                                    \
        return;                                                                                              \
    } while (0)

INLINE vf silu_slope(vf x)
{
    vf g = vf_sigmoid(x);
    return g * (1.0f + x * (1.0f - g));
}

/* Phi(x) + x phi(x) */
INLINE vf gelu_slope(vf x)
{
    vf bell, tail = vf_normal_tail(vf_abs(x), &bell);
    vf below = vf_select(vf_gt(vf_zero(), x), tail, 1.0f - tail);
    return vf_fma(x * 0.39894228040143267794f, bell, below);
}

/* Of x s, s = sigmoid(2 u): s + x s (1 - s) 2 u'; the smaller of s and 1 - s is the larger times e. */
INLINE vf gelu_tanh_slope(vf x)
{
    vf u = gelu_inner(x), e = vf_exp(-2.0f * vf_abs(u)), large = 1.0f / (1.0f + e), small = e * large;
    vm negative = vf_gt(vf_zero(), u);
    vf s = vf_select(negative, small, large), rest = vf_select(negative, large, small);
    vf inner = 0.7978845608028654f * vf_fma(x * x, vf_set(3 * 0.044715f), vf_set(1));
    return s * vf_fma(2.0f * x * rest, inner, vf_set(1));
}

void ISO_SIMD(unary_gradient_f32)(iso_unary_kind kind, float alpha, int64_t n, const float *s,
                                  const float *dy, float *dx)
{
    const vf zero = vf_zero();
    switch (kind) {
    case ISO_UNARY_NEGATE:
        MAP_GRADIENT(((void)v, -d));
    case ISO_UNARY_ABS:
        MAP_GRADIENT(d * sign_of(v));
    case ISO_UNARY_SIGN:
        MAP_GRADIENT(0.0f * v * d);
    case ISO_UNARY_EXP:
        MAP_GRADIENT(d * v);
    case ISO_UNARY_LOG:
        MAP_GRADIENT(d / v);
    case ISO_UNARY_SQRT:
        MAP_GRADIENT(0.5f * d / v);
    case ISO_UNARY_RSQRT:
        MAP_GRADIENT(-0.5f * d * v * v * v);
    case ISO_UNARY_SQUARE:
        MAP_GRADIENT(2.0f * d * v);
    case ISO_UNARY_RELU:
        MAP_GRADIENT(vf_select(vf_gt(v, zero), d, zero));
    case ISO_UNARY_LEAKY_RELU:
        MAP_GRADIENT(vf_select(vf_gt(zero, v), d * alpha, d)); /* 1 at 0 */
    case ISO_UNARY_ELU:
        MAP_GRADIENT(vf_select(vf_gt(v, zero), d, d * alpha * vf_exp(v)));
    case ISO_UNARY_SIGMOID:
        MAP_GRADIENT(d * v * (1.0f - v));
    case ISO_UNARY_TANH:
        MAP_GRADIENT(d * (1.0f - v * v));
    case ISO_UNARY_GELU_APPROXIMATE:
        MAP_GRADIENT(d * gelu_tanh_slope(v));
    case ISO_UNARY_SILU:
        MAP_GRADIENT(d * silu_slope(v));
    case ISO_UNARY_SOFTPLUS:
        MAP_GRADIENT(d * vf_sigmoid(v));
    case ISO_UNARY_GELU:
        MAP_GRADIENT(d * gelu_slope(v));
    }
}

void ISO_SIMD(affine_f32)(int64_t n, float scale, float shift, const float *x, float *y)
{
    MAP(v * scale + shift);
}

/* ---- bfloat16: the upper half of a float ---- */

typedef uint16_t vh __attribute__((vector_size(2 * VL)));

/* The nearest, ties to even; a NaN stays one. */
INLINE vh vh_of_float(vf v)
{
    vu bits = (vu)v, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, nan = (bits >> 16) | 0x40;
    vu is_nan = (vu)((bits & 0x7fffffff) > 0x7f800000);
    return __builtin_convertvector((is_nan & nan) | (~is_nan & rounded), vh);
}

INLINE vf vh_to_float(vh v)
{
    return (vf)(__builtin_convertvector(v, vu) << 16);
}

void ISO_SIMD(bf16_of_f32)(int64_t n, const float *x, uint16_t *y)
{
    int64_t i = 0;
    for (vh half; i + VL <= n; i += VL) {
        half = vh_of_float(vf_load(x + i));
        memcpy(y + i, &half, sizeof half);
    }
    if (i < n) {
        vh half = vh_of_float(vf_load_n(x + i, n - i));
        memcpy(y + i, &half, (size_t)(n - i) * sizeof *y);
    }
}

void ISO_SIMD(f32_of_bf16)(int64_t n, const uint16_t *x, float *y)
{
    int64_t i = 0;
    for (vh half; i + VL <= n; i += VL) {
        memcpy(&half, x + i, sizeof half);
        vf_store(y + i, vh_to_float(half));
    }
    if (i < n) {
        vh half = {0};
        memcpy(&half, x + i, (size_t)(n - i) * sizeof *x);
        vf_store_n(y + i, vh_to_float(half), n - i);
    }
}

/* One operand may be a single number. */
#define MAP_BINARY(EXPRESSION)                                                                               \
    do {                                                                                                     \
        int64_t i = 0;                                                                                       \
        vf one_a = vf_set(n ? *a : 0), one_b = vf_set(n ? *b : 0);                                           \
        for (; i + VL <= n; i += VL) {                                                                       \
            vf u = a_step ? vf_load(a + i) : one_a, v = b_step ? vf_load(b + i) : one_b;                     \
            vf_store(y + i, EXPRESSION);                                                                     \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            vf u = a_step ? vf_load_n(a + i, n - i) : one_a, v = b_step ? vf_load_n(b + i, n - i) : one_b;   \
            vf_store_n(y + i, EXPRESSION, n - i);                                                            \
        }                                                                                                    \
        return;                                                                                              \
    } while (0)

void ISO_SIMD(binary_f32)(iso_cpu_binary kind, int64_t n, const float *a, int a_step, const float *b,
                          int b_step, float *y)
{
    switch (kind) {
    case ISO_CPU_ADD:
        MAP_BINARY(u + v);
    case ISO_CPU_SUBTRACT:
        MAP_BINARY(u - v);
    case ISO_CPU_MULTIPLY:
        MAP_BINARY(u * v);
    case ISO_CPU_DIVIDE:
        MAP_BINARY(u / v);
    case ISO_CPU_MAXIMUM:
        MAP_BINARY(vf_select(vf_unordered(u, u), u, vf_max(u, v)));
    case ISO_CPU_MINIMUM:
        MAP_BINARY(vf_select(vf_unordered(u, u), u, vf_min(u, v)));
    }
}
