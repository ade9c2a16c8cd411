/* Dropout: Philox4x32-10 (base/random.c) for as many blocks at once as a vector has lanes. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

/* The 64-bit products of the even lanes. */
INLINE vu64 multiply_even(vu a, vu b)
{
#if defined(__AVX512F__)
    return (vu64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vu64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vu64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    return (vu64)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return ((vu64)a & 0xffffffffu) * ((vu64)b & 0xffffffffu);
#endif
}

/* High and low words of a * factor. */
INLINE vu multiply(vu a, uint32_t factor, vu *low)
{
    const uint64_t first = 0xffffffffu;
    vu64 even = multiply_even(a, vu_set(factor)), odd = multiply_even((vu)((vu64)a >> 32), vu_set(factor));
    *low = (vu)((even & first) | (odd << 32));
    return (vu)((even >> 32) | (odd & ~first));
}

INLINE void rounds(vu c[4], uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        vu low0, low1, high0 = multiply(c[0], 0xD2511F53u, &low0), high1 = multiply(c[2], 0xCD9E8D57u, &low1);
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
    }
}

#if defined(__AVX512F__)
#define EVERY_FOUR(a, b, c, d)                                                                               \
    a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, c + 12, d + 12
#elif defined(__AVX2__)
#define EVERY_FOUR(a, b, c, d) a, b, c, d, a + 4, b + 4, c + 4, d + 4
#else
#define EVERY_FOUR(a, b, c, d) a, b, c, d
#endif

/* words[4 i + j]: word j of block first + i, i below VL. Lane 4 l + k draws block k VL / 4 + l, so that
 * transposing groups of four lanes puts the words in order. */
INLINE void draw(uint64_t key, uint64_t step, uint64_t first, uint32_t words[4 * VL])
{
    uint32_t offsets[VL];
    for (int lane = 0; lane < VL; lane++)
        offsets[lane] = (uint32_t)(lane % 4 * (VL / 4) + lane / 4);
    vu offset, c[4], t[4];
    memcpy(&offset, offsets, sizeof offset);
    c[0] = vu_set((uint32_t)first) + offset;
    c[1] = vu_set((uint32_t)(first >> 32)) - (vu)(c[0] < offset); /* the carry: a comparison gives -1 */
    c[2] = vu_set((uint32_t)step);
    c[3] = vu_set((uint32_t)(step >> 32));
    rounds(c, key);
    t[0] = __builtin_shufflevector(c[0], c[1], EVERY_FOUR(0, VL, 1, VL + 1));
    t[1] = __builtin_shufflevector(c[0], c[1], EVERY_FOUR(2, VL + 2, 3, VL + 3));
    t[2] = __builtin_shufflevector(c[2], c[3], EVERY_FOUR(0, VL, 1, VL + 1));
    t[3] = __builtin_shufflevector(c[2], c[3], EVERY_FOUR(2, VL + 2, 3, VL + 3));
    c[0] = __builtin_shufflevector(t[0], t[2], EVERY_FOUR(0, 1, VL, VL + 1));
    c[1] = __builtin_shufflevector(t[0], t[2], EVERY_FOUR(2, 3, VL + 2, VL + 3));
    c[2] = __builtin_shufflevector(t[1], t[3], EVERY_FOUR(0, 1, VL, VL + 1));
    c[3] = __builtin_shufflevector(t[1], t[3], EVERY_FOUR(2, 3, VL + 2, VL + 3));
    memcpy(words, c, sizeof c);
}

void ISO_SIMD(dropout_f32)(int64_t n, uint64_t key, uint64_t step, uint64_t first, uint32_t threshold,
                           float scale, const float *x, float *y)
{
    uint32_t words[5 * VL] = {0}; /* a vector past the end may be loaded */
    for (int64_t done = 0; done < n;) {
        uint64_t element = first + (uint64_t)done;
        int64_t skip = (int64_t)(element % 4), count = 4 * VL - skip < n - done ? 4 * VL - skip : n - done;
        draw(key, step, element / 4, words);
        for (int64_t i = 0; i < count; i += VL) {
            vu word;
            memcpy(&word, words + skip + i, sizeof word);
            vf kept = vf_get(x + done + i, count - i) * scale;
            vi dropped = (vi)((word >> 8) < threshold);
            vf_put(y + done + i, (vf)((vi)kept & ~dropped), count - i);
        }
        done += count;
    }
}
