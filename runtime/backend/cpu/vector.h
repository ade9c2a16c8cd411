/* Vectors of floats for the instruction set for which a file is compiled. Kernels include this header and are
 * written once. Files named *_avx2.c and *_avx512.c get the compiler flags of their instruction set
 * (Makefile); those named *_base.c are for what every processor has: NEON on aarch64. ISO_SIMD(name) gives each copy
 * its own name. vf: VL floats; vd: VL / 2 doubles; vi: VL
 * 32-bit integers. + - * / & | ^ << >> work on them as on scalars. */
#ifndef ISO_CPU_VECTOR_H
#define ISO_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#define ISO_CONCAT_(a, b) a##b
#define ISO_CONCAT(a, b) ISO_CONCAT_(a, b)
#define INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__)
#include <immintrin.h>
#define ISO_SIMD(name) ISO_CONCAT(name, _avx512)
#define VREGISTERS 32
enum { VL = 16 };
typedef __m512 vf;
typedef __m512d vd;
typedef __mmask16 vm;
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef uint64_t vu64 __attribute__((vector_size(64)));

INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
INLINE void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
INLINE vm vm_first(int64_t n)
{
    return (vm)((1u << n) - 1);
}
INLINE vf vf_load_n(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
INLINE void vf_store_n(float *p, vf v, int64_t n)
{
    _mm512_mask_storeu_ps(p, vm_first(n), v);
}
INLINE vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
INLINE vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
INLINE vm vf_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
INLINE vm vf_unordered(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}
INLINE vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* 1 / sqrt(a), a > 0 and normal, and 1 / a: an estimate of 14 bits and one Newton step. The error is 1 or 2
 * units in the last place; the time is a fifth of that of division and square root. */
INLINE vf vf_rsqrt(vf a)
{
    vf y = _mm512_rsqrt14_ps(a);
    return y * _mm512_fnmadd_ps(a * y * 0.5f, y, _mm512_set1_ps(1.5f));
}
INLINE vf vf_quotient(vf a, vf b)
{
    vf y = _mm512_rcp14_ps(b);
    y = y * _mm512_fnmadd_ps(b, y, _mm512_set1_ps(2.0f));
    vf q = a * y;
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(b, q, a), y, q);
}
/* The square root of a >= 0; for a below the smallest normal number, something smaller than the root. */
INLINE vf vf_quick_sqrt(vf a)
{
    vf y = _mm512_rsqrt14_ps(_mm512_max_ps(_mm512_set1_ps(0x1p-126f), a));
    vf root = a * y;
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, a), 0.5f * y, root);
}
INLINE vd vd_low(vf a)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}
INLINE vd vd_high(vf a)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}
INLINE vd vd_sqrt(vd a)
{
    return _mm512_sqrt_pd(a);
}
#elif defined(__AVX2__)
#include <immintrin.h>
#define ISO_SIMD(name) ISO_CONCAT(name, _avx2)
#define VREGISTERS 16
enum { VL = 8 };
typedef __m256 vf;
typedef __m256d vd;
typedef __m256 vm;
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef uint64_t vu64 __attribute__((vector_size(32)));

INLINE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
INLINE void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
INLINE __m256i vm_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf vf_load_n(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, vm_first(n));
}
INLINE void vf_store_n(float *p, vf v, int64_t n)
{
    _mm256_maskstore_ps(p, vm_first(n), v);
}
INLINE vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}
INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
INLINE vf vf_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}
INLINE vm vf_gt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}
INLINE vm vf_unordered(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}
INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}
INLINE vf vf_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vd vd_low(vf a)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}
INLINE vd vd_high(vf a)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}
INLINE vd vd_sqrt(vd a)
{
    return _mm256_sqrt_pd(a);
}
#else
#include <math.h>
#define ISO_SIMD(name) ISO_CONCAT(name, _base)
#if defined(__aarch64__)
#include <arm_neon.h>
#define VREGISTERS 32
#else
#define VREGISTERS 16
#endif
enum { VL = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef double vd __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef uint64_t vu64 __attribute__((vector_size(16)));
typedef vi vm;

INLINE vf vf_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vf_store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}
INLINE vf vf_load_n(const float *p, int64_t n)
{
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
INLINE void vf_store_n(float *p, vf v, int64_t n)
{
    memcpy(p, &v, (size_t)n * sizeof *p);
}
INLINE vf vf_set(float x)
{
    return (vf){x, x, x, x};
}
INLINE vm vf_gt(vf a, vf b)
{
    return (vm)(a > b);
}
INLINE vm vf_unordered(vf a, vf b)
{
    return (vm)((a != a) | (b != b));
}
INLINE vf vf_select(vm m, vf a, vf b)
{
    return (vf)((m & (vi)a) | (~m & (vi)b));
}
INLINE vf vf_max(vf a, vf b)
{
    return vf_select(vf_gt(a, b), a, b);
}
INLINE vf vf_min(vf a, vf b)
{
    return vf_select(vf_gt(b, a), a, b);
}
#if defined(__aarch64__)
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return (vf)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vf vf_sqrt(vf a)
{
    return (vf)vsqrtq_f32((float32x4_t)a);
}
INLINE vf vf_round(vf a)
{
    return (vf)vrndnq_f32((float32x4_t)a);
}
INLINE vd vd_low(vf a)
{
    return (vd)vcvt_f64_f32(vget_low_f32((float32x4_t)a));
}
INLINE vd vd_high(vf a)
{
    return (vd)vcvt_high_f64_f32((float32x4_t)a);
}
INLINE vd vd_sqrt(vd a)
{
    return (vd)vsqrtq_f64((float64x2_t)a);
}
#else
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return c - a * b;
}
INLINE vf vf_sqrt(vf a)
{
    return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}
/* Rounds to the nearest integer, for |a| < 2^22. */
INLINE vf vf_round(vf a)
{
    const vf big = {0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f};
    return (a + big) - big;
}
INLINE vd vd_low(vf a)
{
    return (vd){a[0], a[1]};
}
INLINE vd vd_high(vf a)
{
    return (vd){a[2], a[3]};
}
INLINE vd vd_sqrt(vd a)
{
    return (vd){sqrt(a[0]), sqrt(a[1])};
}
#endif
#endif

#if !defined(__AVX512F__)
INLINE vf vf_rsqrt(vf a)
{
    return 1.0f / vf_sqrt(a);
}
INLINE vf vf_quotient(vf a, vf b)
{
    return a / b;
}
INLINE vf vf_quick_sqrt(vf a)
{
    return vf_sqrt(a);
}
#endif

/* Between these two calls, denormal numbers count as 0: on some processors they take a hundred times as long
 * as others, and averages of gradients that have become 0 go through them. */
#if defined(__x86_64__)
#include <xmmintrin.h>
INLINE unsigned flush_begin(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* FTZ, DAZ */
    return before;
}
INLINE void flush_end(unsigned before)
{
    _mm_setcsr(before);
}
#elif defined(__aarch64__)
INLINE unsigned flush_begin(void)
{
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"(before | 1u << 24) : "memory"); /* FZ */
    return (unsigned)before;
}
INLINE void flush_end(unsigned before)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)before) : "memory");
}
#else
INLINE unsigned flush_begin(void)
{
    return 0;
}
INLINE void flush_end(unsigned before)
{
    (void)before;
}
#endif

INLINE vf vf_zero(void)
{
    return vf_set(0);
}
/* Loads a vector; only its first n elements are valid if n is below VL. */
INLINE vf vf_get(const float *p, int64_t n)
{
    return n >= VL ? vf_load(p) : vf_load_n(p, n);
}
INLINE void vf_put(float *p, vf v, int64_t n)
{
    if (n >= VL)
        vf_store(p, v);
    else
        vf_store_n(p, v, n);
}
INLINE vi vi_set(int32_t x)
{
    return x - (vi){0};
}
INLINE vu vu_set(uint32_t x)
{
    return x - (vu){0};
}
INLINE vd vd_load(const double *p)
{
    vd v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vd_store(double *p, vd v)
{
    memcpy(p, &v, sizeof v);
}
INLINE vd vd_set(double x)
{
    return x - (vd){0};
}
/* Loads the first n elements, with zeros in the other lanes; stores the first n. */
INLINE vd vd_load_n(const double *p, int64_t n)
{
    vd v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
INLINE void vd_store_n(double *p, vd v, int64_t n)
{
    memcpy(p, &v, (size_t)n * sizeof *p);
}
/* The sum of the lanes: the halves are added, lane i to lane i + half, down to one. */
INLINE double vd_sum(vd v)
{
    double lane[VL / 2];
    memcpy(lane, &v, sizeof v);
    for (int half = VL / 4; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* v in the first n lanes, `other` in the rest. */
INLINE vf vf_first(vf v, int64_t n, vf other)
{
    static const float lane[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vf_select(vf_gt(vf_set((float)n), vf_load(lane)), v, other);
}

/* Sum and maximum of the lanes, by halves. */
#if defined(__AVX2__)
INLINE __m256 vf_fold_sum(vf v)
{
#if defined(__AVX512F__)
    return _mm512_castps512_ps256(v) + _mm512_extractf32x8_ps(v, 1);
#else
    return v;
#endif
}
INLINE float vf_sum(vf v)
{
    __m256 eight = vf_fold_sum(v);
    __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    four += _mm_movehl_ps(four, four);
    return four[0] + four[1];
}
INLINE float vf_max_lane(vf v)
{
#if defined(__AVX512F__)
    __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
#else
    __m256 eight = v;
#endif
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return four[0] > four[1] ? four[0] : four[1];
}
#else
INLINE float vf_sum(vf v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}
INLINE float vf_max_lane(vf v)
{
    float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
}
#endif

#endif
