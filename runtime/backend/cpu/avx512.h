/* Helpers of the files that are compiled for AVX-512 and its units for bfloat16. */
#ifndef ISO_CPU_AVX512_H
#define ISO_CPU_AVX512_H

#include <immintrin.h>
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t multiple(int64_t x, int64_t of)
{
    return (x + of - 1) / of * of;
}

/* The lanes [0, n) of a vector of 16; n may be larger than 16, or negative. */
static inline __mmask16 lanes(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

#endif
