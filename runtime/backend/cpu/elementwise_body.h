/* Elementwise ops; see functions.h. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/math.h"
#include "runtime/backend/cpu/vector_bf16.h"

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

#define ELEMENT float
#define LOAD vf_load
#define STORE vf_store
#define LOAD_N vf_load_n
#define STORE_N vf_store_n
#define FLOAT(x) (x)
#define NAME(function) ISO_SIMD(function##_f32)
#include "runtime/backend/cpu/elementwise_loops.h"

#define ELEMENT uint16_t
#define LOAD vf_load_bf16
#define STORE vf_store_bf16
#define LOAD_N vf_load_bf16_n
#define STORE_N vf_store_bf16_n
#define FLOAT(x) iso_bf16_to_float(x)
#define NAME(function) ISO_SIMD(function##_bf16)
#include "runtime/backend/cpu/elementwise_loops.h"

/* ---- conversions ---- */

void ISO_SIMD(bf16_of_f32)(int64_t n, const float *x, uint16_t *y)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store_bf16(y + i, vf_load(x + i));
    if (i < n)
        vf_store_bf16_n(y + i, vf_load_n(x + i, n - i), n - i);
}

void ISO_SIMD(f32_of_bf16)(int64_t n, const uint16_t *x, float *y)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_load_bf16(x + i));
    if (i < n)
        vf_store_n(y + i, vf_load_bf16_n(x + i, n - i), n - i);
}

/* ---- tables ---- */

#if defined(__AVX512F__)
INLINE __m512i numbers_of(const uint16_t *x)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x));
}
#endif

void ISO_SIMD(look_up_bf16)(int64_t n, const uint16_t *table, const uint16_t *x, uint16_t *y)
{
    int64_t i = 0;
#if defined(__AVX512F__) /* two numbers at a time are read, of which the lower one is meant */
    for (; i + VL <= n; i += VL) {
        vh found = (vh)_mm512_cvtepi32_epi16(_mm512_i32gather_epi32(numbers_of(x + i), table, 2));
        memcpy(y + i, &found, sizeof found);
    }
#endif
    for (; i < n; i++)
        y[i] = table[x[i]];
}

void ISO_SIMD(look_up_gradient_bf16)(int64_t n, const float *table, const uint16_t *x, const uint16_t *dy,
                                     uint16_t *dx)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + VL <= n; i += VL)
        vf_store_bf16(dx + i, vf_load_bf16(dy + i) * _mm512_i32gather_ps(numbers_of(x + i), table, 4));
#endif
    for (; i < n; i++)
        dx[i] = iso_bf16_of_float(iso_bf16_to_float(dy[i]) * table[x[i]]);
}
