/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1,
 * 2, 3"). A number depends only on key and counter, not on the process or the order in which it is drawn. */
#ifndef ISO_BASE_RANDOM_H
#define ISO_BASE_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_philox {
    uint32_t word[4];
} iso_philox;

/* Four 32-bit words for (key, counter, stream). */
iso_philox iso_philox_draw(uint64_t key, uint64_t counter, uint64_t stream);

/* The key for a path ("dense/kernel") and a user's seed. */
uint64_t iso_random_key(uint64_t seed, const char *path);

/* Uniform in [0, 1) with 24 bits; uniform in (0, 1] with 53 bits from two words. */
static inline float iso_uniform_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}
double iso_uniform_f64(uint32_t high, uint32_t low);

/* Element `index` of the random sequence (key, step): word index % 4 of block index / 4. */
uint32_t iso_random_word(uint64_t key, uint64_t step, uint64_t index);

/* Four standard normal numbers from the words of block (key, step), by Box and Muller (1958). */
void iso_random_normals(uint64_t key, uint64_t step, uint64_t block, double normal[4]);

/* order[0..n): a permutation of 0..n-1 that depends only on key and step (Fisher and Yates). */
void iso_random_permutation(uint64_t key, uint64_t step, int64_t n, int64_t *order);

#ifdef __cplusplus
}
#endif
#endif
