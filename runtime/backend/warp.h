/* Where pixels of moved images come from, and uniform numbers: written once for the kernels of every backend. */
#ifndef ISO_BACKEND_WARP_H
#define ISO_BACKEND_WARP_H

#include <math.h>

#include "runtime/backend/kernel.h"
#include "runtime/backend/rotary.h"
#include "runtime/base/random.h"
#include "runtime/graph/ops/network.h"

/* Along one dimension: two elements of x, -1 outside, and their shares. */
typedef struct iso_warp_pair {
    int64_t index[2];
    double share[2];
} iso_warp_pair;

/* Element i of an image of n elements that goes on outside; -1: the fill value. */
ISO_HOST_DEVICE static inline int64_t iso_warp_inside(int64_t i, int64_t n, iso_fill_mode mode)
{
    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case ISO_FILL_NEAREST:
        return i < 0 ? 0 : n - 1;
    case ISO_FILL_WRAP:
        i %= n;
        return i < 0 ? i + n : i;
    case ISO_FILL_REFLECT:
        i %= 2 * n;
        i = i < 0 ? i + 2 * n : i;
        return i < n ? i : 2 * n - 1 - i;
    default:
        return -1;
    }
}

/* The elements around a place. */
ISO_HOST_DEVICE static inline iso_warp_pair iso_warp_along(const iso_warp_attrs *attrs, double at, int64_t n)
{
    iso_warp_pair pair = {{-1, -1}, {1, 0}};
    if (!(fabs(at) < 0x1p31))
        return pair;
    const double low = attrs->nearest ? round(at) : floor(at);
    pair.index[0] = iso_warp_inside((int64_t)low, n, attrs->fill_mode);
    if (attrs->nearest || at == low)
        return pair;
    pair.index[1] = iso_warp_inside((int64_t)low + 1, n, attrs->fill_mode);
    pair.share[1] = at - low;
    pair.share[0] = 1 - pair.share[1];
    return pair;
}

/* Four pixels of an image of x, -1 outside, and their shares. */
typedef struct iso_warp_taps {
    int64_t pixel[4]; /* row * width + column */
    double share[4];
} iso_warp_taps;

/* Those of the pixel in row p and column q of y, by a map. */
ISO_HOST_DEVICE static inline iso_warp_taps iso_warp_taps_of(const iso_warp_attrs *attrs, const double map[6],
                                                             int64_t p, int64_t q)
{
    const double row = map[3] * (double)q + map[4] * (double)p + map[5];
    const double column = map[0] * (double)q + map[1] * (double)p + map[2];
    const iso_warp_pair v = iso_warp_along(attrs, row, attrs->from[0]);
    const iso_warp_pair h = iso_warp_along(attrs, column, attrs->from[1]);
    iso_warp_taps taps;
    for (int i = 0; i < 4; i++) {
        const int64_t r = v.index[i / 2], c = h.index[i % 2];
        taps.pixel[i] = r < 0 || c < 0 ? -1 : r * attrs->from[1] + c;
        taps.share[i] = v.share[i / 2] * h.share[i % 2];
    }
    return taps;
}

/* The number that a random word becomes. */
ISO_HOST_DEVICE static inline double iso_uniform_number(const iso_uniform_attrs *attrs, uint32_t word)
{
    const double u = attrs->low + (attrs->high - attrs->low) * (double)iso_uniform_f32(word);
    if (attrs->function == ISO_UNIFORM_VALUE)
        return u;
    const iso_turn turn = iso_turn_of(ISO_TWO_PI * u);
    return attrs->function == ISO_UNIFORM_COSINE ? turn.cosine : turn.sine;
}

#endif
