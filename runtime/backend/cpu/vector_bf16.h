/* Loads and stores of bfloat16, the upper half of a float. In vectors it is float. */
#ifndef ISO_CPU_VECTOR_BF16_H
#define ISO_CPU_VECTOR_BF16_H

#include "runtime/backend/cpu/vector.h"
#include "runtime/base/bf16.h"

typedef uint16_t vh __attribute__((vector_size(2 * VL)));

/* vh_of_float: the nearest, ties to even; a NaN stays one. */
#if defined(__AVX512F__)
INLINE vh vh_of_float(vf v)
{
    __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __m512i rounded = _mm512_srli_epi32(up, 16);
    rounded = _mm512_mask_or_epi32(rounded, vf_unordered(v, v), high, _mm512_set1_epi32(0x40));
    return (vh)_mm512_cvtepi32_epi16(rounded);
}

INLINE vf vh_to_float(vh v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)v), 16));
}
#else
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
#endif

INLINE vf vf_load_bf16(const uint16_t *p)
{
    vh v;
    memcpy(&v, p, sizeof v);
    return vh_to_float(v);
}

INLINE void vf_store_bf16(uint16_t *p, vf v)
{
    vh half = vh_of_float(v);
    memcpy(p, &half, sizeof half);
}

/* The first n of a vector, n < VL; zeros in the other lanes. */
INLINE vf vf_load_bf16_n(const uint16_t *p, int64_t n)
{
    vh v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return vh_to_float(v);
}

INLINE void vf_store_bf16_n(uint16_t *p, vf v, int64_t n)
{
    vh half = vh_of_float(v);
    memcpy(p, &half, (size_t)n * sizeof *p);
}

/* All of a vector, or its first n if n is below VL. */
INLINE vf vf_get_bf16(const uint16_t *p, int64_t n)
{
    return n >= VL ? vf_load_bf16(p) : vf_load_bf16_n(p, n);
}
INLINE void vf_put_bf16(uint16_t *p, vf v, int64_t n)
{
    if (n >= VL)
        vf_store_bf16(p, v);
    else
        vf_store_bf16_n(p, v, n);
}

#endif
