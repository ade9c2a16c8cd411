#include "runtime/base/random.h"

#include "runtime/base/hash.h"

uint64_t iso_random_key(uint64_t seed, const char *path)
{
    return iso_hash_mix(seed ^ iso_hash_text(0, path));
}

/* A number in [0, bound) with negligible modulo bias: the high half of a 64 x 64-bit product. */
__extension__ typedef unsigned __int128 wide_product;

static uint64_t below(uint64_t bound, iso_philox draw)
{
    uint64_t wide = (uint64_t)draw.word[0] << 32 | draw.word[1];
    return (uint64_t)(((wide_product)wide * bound) >> 64);
}

void iso_random_permutation(uint64_t key, uint64_t step, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)below((uint64_t)i + 1, iso_philox_draw(key, (uint64_t)i, step));
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
