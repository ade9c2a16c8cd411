/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1,
 * 2, 3"). A number depends only on key and counter, not on the process or the order in which it is drawn. */
#ifndef ISO_BASE_RANDOM_H
#define ISO_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

#include "runtime/base/host_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_philox {
    uint32_t word[4];
} iso_philox;

/* Four 32-bit words for (key, counter, stream). */
ISO_HOST_DEVICE static inline iso_philox iso_philox_draw(uint64_t key, uint64_t counter, uint64_t stream)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t high0 = (uint32_t)(p0 >> 32), high1 = (uint32_t)(p1 >> 32);
        c0 = high1 ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = high0 ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    iso_philox draw = {{c0, c1, c2, c3}};
    return draw;
}

/* The key for a path ("dense/kernel") and a user's seed. */
uint64_t iso_random_key(uint64_t seed, const char *path);

/* Uniform in [0, 1) with 24 bits; uniform in (0, 1] with 53 bits from two words. */
ISO_HOST_DEVICE static inline float iso_uniform_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}
ISO_HOST_DEVICE static inline double iso_uniform_f64(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 21) ^ (low >> 11);
    return ((double)bits + 1.0) * 0x1p-53;
}

/* Element `index` of the random sequence (key, step): word index % 4 of block index / 4. */
ISO_HOST_DEVICE static inline uint32_t iso_random_word(uint64_t key, uint64_t step, uint64_t index)
{
    return iso_philox_draw(key, index / 4, step).word[index % 4];
}

/* Four standard normal numbers from the words of block (key, step), by Box and Muller (1958). */
ISO_HOST_DEVICE static inline void iso_random_normals(uint64_t key, uint64_t step, uint64_t block,
                                                      double normal[4])
{
    iso_philox draw = iso_philox_draw(key, block, step);
    for (int i = 0; i < 4; i += 2) {
        double u = ((double)draw.word[i] + 1) * 0x1p-32; /* in (0, 1] */
        double angle = 2 * 3.14159265358979323846 * 0x1p-32 * (double)draw.word[i + 1];
        double length = sqrt(-2 * log(u));
        normal[i] = length * cos(angle);
        normal[i + 1] = length * sin(angle);
    }
}

/* order[0..n): a permutation of 0..n-1 that depends only on key and step (Fisher and Yates). */
void iso_random_permutation(uint64_t key, uint64_t step, int64_t n, int64_t *order);

#ifdef __cplusplus
}
#endif
#endif
