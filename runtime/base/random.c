#include "runtime/base/random.h"

#include <math.h>

#include "runtime/base/hash.h"

enum { ROUNDS = 10 };

iso_philox iso_philox_draw(uint64_t key, uint64_t counter, uint64_t stream)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t high0 = (uint32_t)(p0 >> 32), high1 = (uint32_t)(p1 >> 32);
        c0 = high1 ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = high0 ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (iso_philox){{c0, c1, c2, c3}};
}

uint64_t iso_random_key(uint64_t seed, const char *path)
{
    return iso_hash_mix(seed ^ iso_hash_text(0, path));
}

double iso_uniform_f64(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 21) ^ (low >> 11);
    return ((double)bits + 1.0) * 0x1p-53;
}

uint32_t iso_random_word(uint64_t key, uint64_t step, uint64_t index)
{
    return iso_philox_draw(key, index / 4, step).word[index % 4];
}

void iso_random_normals(uint64_t key, uint64_t step, uint64_t block, double normal[4])
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
