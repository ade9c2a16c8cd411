#include "runtime/base/random_arrays.h"

#include <math.h>
#include <string.h>

#include "runtime/base/random.h"

/* Compiled for each of these; the loader takes the one for the processor. Clang 14 gives such functions other
 * names. They are static, because GCC exports others whatever their visibility is. */
#if defined __x86_64__ && !defined __clang__
#define FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_ISA
#endif

/* iso_uniform_f64, by conversions of 32 bits, which vectors have; all of it is exact. */
static inline double uniform(uint32_t high, uint32_t low)
{
    double h = (double)(int32_t)(high ^ 0x80000000u) + 0x1p31, l = (double)(int32_t)(low >> 11);
    return (h * 0x1p21 + l + 1) * 0x1p-53;
}

/* log x for x in (0, 1]: x = 2^e m, sqrt(1/2) <= m < sqrt 2, and log m = 2 artanh((m - 1) / (m + 1)) by its
 * series. */
static inline double logarithm(double x)
{
    const uint64_t one = UINT64_C(0x3ff0000000000000), root_of_half = UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t bits;
    double m;
    memcpy(&bits, &x, sizeof bits);
    bits += one - root_of_half;
    double e = (double)((int32_t)(bits >> 52) - 0x3ff);
    bits = (bits & UINT64_C(0x000fffffffffffff)) + root_of_half;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), z = s * s, t = 1.0 / 23;
    t = t * z + 1.0 / 21;
    t = t * z + 1.0 / 19;
    t = t * z + 1.0 / 17;
    t = t * z + 1.0 / 15;
    t = t * z + 1.0 / 13;
    t = t * z + 1.0 / 11;
    t = t * z + 1.0 / 9;
    t = t * z + 1.0 / 7;
    t = t * z + 1.0 / 5;
    t = t * z + 1.0 / 3;
    return e * 0x1.62e42fefa39efp-1 + (2 * s + 2 * s * (z * t)); /* e log 2 + log m */
}

/* The cosine of an angle in turns, from 0 to 1: sine or cosine of at most an eighth of a turn, by their series. */
static inline double cosine(double turns)
{
    double quarters = 4 * turns;
    int32_t q = (int32_t)(quarters + 0.5);
    double r = (quarters - q) * 1.57079632679489661923, z = r * r;
    double c = 1.0 / 20922789888000; /* 1 / 16! */
    c = c * z - 1.0 / 87178291200;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = 1 - z * (0.5 - z * c);
    double s = 1.0 / 355687428096000; /* 1 / 17! */
    s = s * z - 1.0 / 1307674368000;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = r - r * z * (1.0 / 6 - z * s);
    double value = q & 1 ? s : c;
    return (q + 1) & 2 ? -value : value;
}

/* By Box and Muller (1958). */
FOR_EACH_ISA static void fill_normal(uint64_t key, uint64_t first, uint64_t stream, int64_t count,
                                     double *out)
{
    for (int64_t i = 0; i < count; i++) {
        iso_philox draw = iso_philox_draw(key, first + (uint64_t)i, stream);
        out[i] = sqrt(-2 * logarithm(uniform(draw.word[0], draw.word[1]))) *
                 cosine(uniform(draw.word[2], draw.word[3]));
    }
}

FOR_EACH_ISA static void fill_uniform(uint64_t key, uint64_t first, uint64_t stream, int64_t count,
                                      double *out)
{
    for (int64_t i = 0; i < count; i++) {
        iso_philox draw = iso_philox_draw(key, first + (uint64_t)i, stream);
        out[i] = uniform(draw.word[0], draw.word[1]);
    }
}

void iso_random_fill_normal(uint64_t key, uint64_t first, uint64_t stream, int64_t count, double *out)
{
    fill_normal(key, first, stream, count, out);
}

void iso_random_fill_uniform(uint64_t key, uint64_t first, uint64_t stream, int64_t count, double *out)
{
    fill_uniform(key, first, stream, count, out);
}
