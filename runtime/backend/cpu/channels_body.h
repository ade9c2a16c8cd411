/* Sums over all rows of arrays [rows, c], and what batch normalisation does with their channels; see
 * functions.h. Sums are made in float over at most BLOCK patterns (channels.h), lane by lane, and go on in
 * double from there. */
#include <math.h>

#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

enum { BLOCK = 64, GROUP = VREGISTERS == 32 ? 6 : 4 };

/* What is summed: x; x and x^2; dy and dy (x - mean). */
typedef enum kind { SUMS, MOMENTS, SLOPES } kind;

INLINE void add_to_lanes(double *lanes, vf v)
{
    vd_store(lanes, vd_load(lanes) + vd_low(v));
    vd_store(lanes + VL / 2, vd_load(lanes + VL / 2) + vd_high(v));
}

/* `vectors` neighbouring vectors of each of `count` patterns. */
INLINE void sum_group(const kind what, const int vectors, int64_t count, int64_t pattern, const float *x,
                      const float *dy, const float *mean, double *lanes, double *lanes_2)
{
    vf a[GROUP], b[GROUP];
    for (int j = 0; j < vectors; j++)
        a[j] = b[j] = vf_zero();
    for (int64_t i = 0; i < count; i++)
        for (int j = 0; j < vectors; j++) {
            vf v = vf_load(x + i * pattern + j * VL);
            if (what == SUMS)
                a[j] += v;
            if (what == MOMENTS) {
                a[j] += v;
                b[j] = vf_fma(v, v, b[j]);
            }
            if (what == SLOPES) {
                vf d = vf_load(dy + i * pattern + j * VL);
                a[j] += d;
                b[j] = vf_fma(d, v - vf_load(mean + j * VL), b[j]);
            }
        }
    for (int j = 0; j < vectors; j++) {
        add_to_lanes(lanes + j * VL, a[j]);
        if (what != SUMS)
            add_to_lanes(lanes_2 + j * VL, b[j]);
    }
}

INLINE void sum_vectors(const kind what, int64_t vectors, int64_t count, int64_t pattern, const float *x,
                        const float *dy, const float *mean, double *lanes, double *lanes_2)
{
#define CASE(n)                                                                                              \
    case n:                                                                                                  \
        sum_group(what, n, count, pattern, x, dy, mean, lanes, lanes_2);                                     \
        break;
    switch (vectors) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
#if defined(__AVX512F__)
        CASE(5)
        CASE(6)
#endif
    default:
        break;
    }
#undef CASE
}

/* Elements that fill no vector, one by one. */
INLINE void sum_rest(const kind what, int64_t from, int64_t to, const float *x, const float *dy,
                     const float *mean, double *lanes, double *lanes_2)
{
    for (int64_t i = from; i < to; i++) {
        lanes[i] += what == SLOPES ? dy[i] : x[i];
        if (what == MOMENTS)
            lanes_2[i] += (double)x[i] * x[i];
        if (what == SLOPES)
            lanes_2[i] += (double)dy[i] * ((double)x[i] - mean[i]);
    }
}

/* Folds the lanes of a pattern into its channels. */
INLINE void fold(int64_t c, int64_t pattern, const double *lanes, double *sums)
{
    for (int64_t i = 0; i < c; i++)
        sums[i] = lanes[i];
    for (int64_t i = c; i < pattern; i += c)
        for (int64_t j = 0; j < c; j++)
            sums[j] += lanes[i + j];
}

/* scratch: lanes, twice as many doubles as the pattern has elements. mean: a pattern. */
INLINE void sum_channels(const kind what, int64_t rows, int64_t c, const float *x, const float *dy,
                         const float *mean, double *sums, double *sums_2, double *scratch)
{
    const int64_t pattern = iso_pattern(c), n = rows * c, whole = n / pattern, vectors = pattern / VL;
    double *lanes = scratch, *lanes_2 = scratch + pattern;
    memset(scratch, 0, (size_t)pattern * (what == SUMS ? 1 : 2) * sizeof *scratch);
    const int64_t groups = (vectors + GROUP - 1) / GROUP,
                  group = groups ? (vectors + groups - 1) / groups : 1;
    for (int64_t i = 0; i < whole; i += BLOCK) {
        int64_t count = whole - i < BLOCK ? whole - i : BLOCK, at = i * pattern;
        for (int64_t j = 0; j < vectors; j += group)
            sum_vectors(what, vectors - j < group ? vectors - j : group, count, pattern, x + at + j * VL,
                        dy ? dy + at + j * VL : NULL, mean ? mean + j * VL : NULL, lanes + j * VL,
                        lanes_2 + j * VL);
        for (int64_t k = 0; k < count && vectors * VL < pattern; k++, at += pattern)
            sum_rest(what, vectors * VL, pattern, x + at, dy ? dy + at : NULL, mean, lanes, lanes_2);
    }
    int64_t at = whole * pattern;
    sum_rest(what, 0, n - at, x + at, dy ? dy + at : NULL, mean, lanes, lanes_2);
    fold(c, pattern, lanes, sums);
    if (what != SUMS)
        fold(c, pattern, lanes_2, sums_2);
}

void ISO_SIMD(channel_sums)(int64_t rows, int64_t c, const float *x, double *sums, double *scratch)
{
    sum_channels(SUMS, rows, c, x, NULL, NULL, sums, NULL, scratch);
}

void ISO_SIMD(channel_moments)(int64_t rows, int64_t c, const float *x, double *sums, double *squares,
                               double *scratch)
{
    sum_channels(MOMENTS, rows, c, x, NULL, NULL, sums, squares, scratch);
}

void ISO_SIMD(channel_slopes)(int64_t rows, int64_t c, const float *x, const float *dy, const float *mean,
                              double *sums, double *products, double *scratch)
{
    sum_channels(SLOPES, rows, c, x, dy, mean, sums, products, scratch);
}

/* ---- y = (x - mean) scale + shift, and the like; mean, scale, ... are patterns ---- */

INLINE void affine_vector(int64_t n, const float *x, const float *mean, const float *scale,
                          const float *shift, vf least, float *y)
{
    vf v = vf_fma(vf_get(x, n) - vf_get(mean, n), vf_get(scale, n), vf_get(shift, n));
    vf_put(y, vf_max(least, v), n);
}

void ISO_SIMD(channel_affine)(int64_t n, int64_t pattern, const float *x, const float *mean,
                              const float *scale, const float *shift, bool relu, float *y)
{
    const vf least = vf_set(relu ? 0 : -INFINITY);
    for (int64_t at = 0; at < n; at += pattern, x += pattern, y += pattern) {
        int64_t left = n - at < pattern ? n - at : pattern, i = 0;
        for (; i + VL <= left; i += VL)
            affine_vector(VL, x + i, mean + i, scale + i, shift + i, least, y + i);
        if (i < left)
            affine_vector(left - i, x + i, mean + i, scale + i, shift + i, least, y + i);
    }
}

INLINE void gradient_vector(int64_t n, const float *x, const float *dy, const float *mean, const float *scale,
                            const float *slope, const float *shift, float *dx)
{
    vf v = vf_fma(vf_get(x, n) - vf_get(mean, n), vf_get(slope, n), vf_get(shift, n));
    vf_put(dx, vf_fma(vf_get(dy, n), vf_get(scale, n), v), n);
}

void ISO_SIMD(channel_gradient)(int64_t n, int64_t pattern, const float *x, const float *dy,
                                const float *mean, const float *scale, const float *slope, const float *shift,
                                float *dx)
{
    for (int64_t at = 0; at < n; at += pattern, x += pattern, dy += pattern, dx += pattern) {
        int64_t left = n - at < pattern ? n - at : pattern, i = 0;
        for (; i + VL <= left; i += VL)
            gradient_vector(VL, x + i, dy + i, mean + i, scale + i, slope + i, shift + i, dx + i);
        if (i < left)
            gradient_vector(left - i, x + i, dy + i, mean + i, scale + i, slope + i, shift + i, dx + i);
    }
}
