/* Sums over all rows of arrays [rows, c], and the other loops of batch normalisation; see functions.h. At
 * most BLOCK patterns (channels.h) are summed in float, lane by lane; these sums are summed in double. */
#include <math.h>

#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/vector.h"

enum { BLOCK = 64, GROUP = VREGISTERS == 32 ? 6 : 4 };

/* The terms of a sum: x; x and x^2; dy and dy (x - mean); the last with 0 for dy where the activation is 0. */
typedef enum kind { SUMS, MOMENTS, SLOPES, RELU_SLOPES } kind;

/* The arrays and the patterns of their channels, beginning at the same element. */
typedef struct arrays {
    const float *x, *dy;
    iso_channels of;
} arrays;

INLINE arrays arrays_at(const arrays *a, int64_t element, int64_t channel)
{
    arrays b = {.x = a->x + element, .of.largest = a->of.largest};
    if (a->dy) {
        b.dy = a->dy + element;
        b.of.mean = a->of.mean + channel;
        b.of.scale = a->of.scale ? a->of.scale + channel : NULL;
        b.of.shift = a->of.shift ? a->of.shift + channel : NULL;
    }
    return b;
}

/* dy where (x - mean) scale + shift, as channel_affine has it, is above 0 and below `largest`; elsewhere 0. */
INLINE vf passed(vf distance, vf dy, const iso_channels *of, int64_t i, int64_t n)
{
    vf y = vf_fma(distance, vf_get(of->scale + i, n), vf_get(of->shift + i, n));
    return vf_select(vf_gt(y, vf_zero()), vf_select(vf_gt(vf_set(of->largest), y), dy, vf_zero()), vf_zero());
}

INLINE void add_to_lanes(double *lanes, vf v)
{
    vd_store(lanes, vd_load(lanes) + vd_low(v));
    vd_store(lanes + VL / 2, vd_load(lanes + VL / 2) + vd_high(v));
}

/* Sums `vectors` neighbouring vectors over `count` patterns. */
INLINE void sum_group(const kind what, const int vectors, int64_t count, int64_t pattern, const arrays *from,
                      double *lanes, double *lanes_2)
{
    vf a[GROUP], b[GROUP];
    for (int j = 0; j < vectors; j++)
        a[j] = b[j] = vf_zero();
    for (int64_t i = 0; i < count; i++)
        for (int j = 0; j < vectors; j++) {
            vf first = vf_load(from->x + i * pattern + j * VL), second = first;
            if (what >= SLOPES) {
                second -= vf_load(from->of.mean + j * VL);
                first = vf_load(from->dy + i * pattern + j * VL);
                if (what == RELU_SLOPES)
                    first = passed(second, first, &from->of, j * VL, VL);
            }
            a[j] += first;
            if (what != SUMS)
                b[j] = vf_fma(first, second, b[j]);
        }
    for (int j = 0; j < vectors; j++) {
        add_to_lanes(lanes + j * VL, a[j]);
        if (what != SUMS)
            add_to_lanes(lanes_2 + j * VL, b[j]);
    }
}

INLINE void sum_vectors(const kind what, int64_t vectors, int64_t count, int64_t pattern, const arrays *from,
                        double *lanes, double *lanes_2)
{
#define CASE(n)                                                                                              \
    case n:                                                                                                  \
        sum_group(what, n, count, pattern, from, lanes, lanes_2);                                            \
        break;
    switch (vectors) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
#if VREGISTERS == 32
        CASE(5)
        CASE(6)
#endif
    default:
        break;
    }
#undef CASE
}

/* Sums elements [begin, end), which do not fill whole vectors, in partial vectors. */
INLINE void sum_rest(const kind what, int64_t begin, int64_t end, const arrays *from, double *lanes,
                     double *lanes_2)
{
    for (int64_t i = begin; i < end; i += VL) {
        int64_t n = end - i < VL ? end - i : VL;
        vf first = vf_get(from->x + i, n), second = first;
        if (what >= SLOPES) {
            second -= vf_get(from->of.mean + i, n);
            first = vf_get(from->dy + i, n);
            if (what == RELU_SLOPES)
                first = passed(second, first, &from->of, i, n);
        }
        float a[VL], b[VL];
        vf_store(a, first);
        vf_store(b, second);
        for (int64_t k = 0; k < n; k++) {
            lanes[i + k] += a[k];
            if (what != SUMS)
                lanes_2[i + k] += (double)a[k] * b[k];
        }
    }
}

/* Adds the lanes of a pattern to its channels. */
INLINE void fold(int64_t c, int64_t pattern, const double *lanes, double *sums)
{
    for (int64_t i = 0; i < c; i++)
        sums[i] = lanes[i];
    for (int64_t i = c; i < pattern; i += c)
        for (int64_t j = 0; j < c; j++)
            sums[j] += lanes[i + j];
}

/* scratch: lanes, twice as many doubles as the pattern has elements. */
INLINE void sum_channels(const kind what, int64_t rows, int64_t c, const arrays *all, double *sums,
                         double *sums_2, double *scratch)
{
    const int64_t pattern = iso_pattern(c), n = rows * c, whole = n / pattern, vectors = pattern / VL;
    double *lanes = scratch, *lanes_2 = scratch + pattern;
    memset(scratch, 0, (size_t)pattern * (what == SUMS ? 1 : 2) * sizeof *scratch);
    const int64_t groups = (vectors + GROUP - 1) / GROUP,
                  group = groups ? (vectors + groups - 1) / groups : 1;
    for (int64_t i = 0; i < whole; i += BLOCK) {
        int64_t count = whole - i < BLOCK ? whole - i : BLOCK;
        for (int64_t j = 0; j < vectors; j += group) {
            arrays from = arrays_at(all, i * pattern + j * VL, j * VL);
            sum_vectors(what, vectors - j < group ? vectors - j : group, count, pattern, &from,
                        lanes + j * VL, lanes_2 + j * VL);
        }
        for (int64_t k = 0; k < count && vectors * VL < pattern; k++) {
            arrays from = arrays_at(all, (i + k) * pattern, 0);
            sum_rest(what, vectors * VL, pattern, &from, lanes, lanes_2);
        }
    }
    arrays from = arrays_at(all, whole * pattern, 0);
    sum_rest(what, 0, n - whole * pattern, &from, lanes, lanes_2);
    fold(c, pattern, lanes, sums);
    if (what != SUMS)
        fold(c, pattern, lanes_2, sums_2);
}

void ISO_SIMD(channel_sums)(int64_t rows, int64_t c, const float *x, double *sums, double *scratch)
{
    arrays all = {.x = x};
    sum_channels(SUMS, rows, c, &all, sums, NULL, scratch);
}

void ISO_SIMD(channel_moments)(int64_t rows, int64_t c, const float *x, double *sums, double *squares,
                               double *scratch)
{
    arrays all = {.x = x};
    sum_channels(MOMENTS, rows, c, &all, sums, squares, scratch);
}

void ISO_SIMD(channel_slopes)(int64_t rows, int64_t c, const float *x, const float *dy,
                              const iso_channels *of, double *sums, double *products, double *scratch)
{
    arrays all = {x, dy, *of};
    if (of->scale)
        sum_channels(RELU_SLOPES, rows, c, &all, sums, products, scratch);
    else
        sum_channels(SLOPES, rows, c, &all, sums, products, scratch);
}

/* ---- y = (x - mean) scale + shift, and the like ---- */
INLINE void affine_vector(int64_t n, const float *x, const iso_channels *of, int64_t i, vf least, float *y)
{
    vf distance = vf_get(x + i, n) - vf_get(of->mean + i, n);
    vf v = vf_max(least, vf_fma(distance, vf_get(of->scale + i, n), vf_get(of->shift + i, n)));
    vf_put(y + i, vf_min(vf_set(of->largest), v), n);
}

void ISO_SIMD(channel_affine)(int64_t n, int64_t pattern, const float *x, const iso_channels *of, bool relu,
                              float *y)
{
    const vf least = vf_set(relu ? 0 : -INFINITY);
    const iso_channels channels = *of;
    for (int64_t at = 0; at < n; at += pattern, x += pattern, y += pattern) {
        int64_t left = n - at < pattern ? n - at : pattern, i = 0;
        for (; i + VL <= left; i += VL)
            affine_vector(VL, x, &channels, i, least, y);
        if (i < left)
            affine_vector(left - i, x, &channels, i, least, y);
    }
}

INLINE void gradient_vector(const bool relu, int64_t n, const float *x, const float *dy,
                            const iso_channels *of, const iso_gradient_channels *to, int64_t i, float *dx)
{
    vf distance = vf_get(x + i, n) - vf_get(of->mean + i, n), d = vf_get(dy + i, n);
    if (relu)
        d = passed(distance, d, of, i, n);
    vf v = vf_fma(distance, vf_get(to->slope + i, n), vf_get(to->shift + i, n));
    vf_put(dx + i, vf_fma(d, vf_get(to->scale + i, n), v), n);
}

/* The first element of the last pattern; negative if there is none. */
INLINE int64_t last_pattern(int64_t n, int64_t pattern)
{
    return n > 0 ? (n - 1) / pattern * pattern : -1;
}

/* Goes from the end to the beginning: the sums have just been computed in the other direction, so the end is still
 * in the cache. */
INLINE void gradient_all(const bool relu, int64_t n, int64_t pattern, const float *x, const float *dy,
                         const iso_channels *of, const iso_gradient_channels *to, float *dx)
{
    for (int64_t at = last_pattern(n, pattern); at >= 0; at -= pattern) {
        int64_t left = n - at < pattern ? n - at : pattern, i = 0;
        for (; i + VL <= left; i += VL)
            gradient_vector(relu, VL, x + at, dy + at, of, to, i, dx + at);
        if (i < left)
            gradient_vector(relu, left - i, x + at, dy + at, of, to, i, dx + at);
    }
}

void ISO_SIMD(channel_gradient)(int64_t n, int64_t pattern, const float *x, const float *dy,
                                const iso_channels *of, const iso_gradient_channels *to, float *dx)
{
    const iso_channels from = *of;
    const iso_gradient_channels factors = *to;
    if (from.scale)
        gradient_all(true, n, pattern, x, dy, &from, &factors, dx);
    else
        gradient_all(false, n, pattern, x, dy, &from, &factors, dx);
}
