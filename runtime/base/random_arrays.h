/* Arrays of random numbers. The bits of a number depend on key, index and stream alone: not on where it is in an
 * array, and not on the processor, because every instruction set does the same additions and products. */
#ifndef ISO_BASE_RANDOM_ARRAYS_H
#define ISO_BASE_RANDOM_ARRAYS_H

#include <stdint.h>

/* out[i] = number first + i of the sequence (key, stream): standard normal, or uniform in (0, 1] with 53 bits. */
void iso_random_fill_normal(uint64_t key, uint64_t first, uint64_t stream, int64_t count, double *out);
void iso_random_fill_uniform(uint64_t key, uint64_t first, uint64_t stream, int64_t count, double *out);

#endif
