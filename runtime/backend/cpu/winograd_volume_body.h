/* Convolutions of volumes by Winograd's F(2 x 2, 3 x 3) in their slices (winograd_body.h); conv_body.h includes this
 * file. A slice is transformed once for all windows along the depth that it is in: a product over tiles, channels and
 * filters has one segment for each element of a window. A block has the same tiles of successive slices. Every
 * element is the same sum in the same order, whichever tiles and slices are in its block. */
#ifndef ISO_CPU_WINOGRAD_VOLUME_BODY_H
#define ISO_CPU_WINOGRAD_VOLUME_BODY_H

#include "runtime/backend/cpu/winograd_body.h"

enum {
    VOLUME_TILES = 8,      /* of a slice in a block, at most */
    VOLUME_POSITIONS = 16, /* along the depth in a block, at most */
};

typedef struct winograd_volume {
    winograd tiles;            /* its `block`: rows of the products of a block */
    int64_t plane;             /* tiles of a slice */
    int64_t across, positions; /* tiles of a slice and positions along the depth in a block */
    int64_t reach, slices,
        taps; /* slices between the first and the last of a window; of a block; of a window */
} winograd_volume;

INLINE winograd_volume winograd_volume_of(const iso_conv *p, const iso_conv_depth *d)
{
    winograd_volume v = {.tiles = {.down = (p->out[0] + 1) / 2, .across = (p->out[1] + 1) / 2}};
    winograd *w = &v.tiles;
    v.plane = w->down * w->across;
    v.across = v.plane < VOLUME_TILES ? v.plane : VOLUME_TILES;
    v.positions = d->out < VOLUME_POSITIONS ? d->out : VOLUME_POSITIONS;
    v.taps = d->taps;
    v.reach = (d->taps - 1) * d->dilation;
    v.slices = v.positions + v.reach;
    const int64_t vectors = (p->f + VL - 1) / VL;
    w->block = v.positions * v.across;
    w->patch = winograd_row(p->c);
    w->width = tile_width(w->block, vectors);
    w->panels = (vectors + w->width - 1) / w->width;
    w->patches = winograd_point(v.slices * v.across * w->patch);
    w->panel = winograd_point(d->taps * p->c * w->width * VL);
    w->results = winograd_point(w->block * w->width * VL);
    return v;
}

/* A block: sample `n`, tiles [tile, tile + tiles) of positions [position, position + positions). */
typedef struct volume_block {
    int64_t n, tile, tiles, position, positions;
} volume_block;

/* The first block, or the one after this; false: there is none. */
INLINE bool volume_next(const iso_conv *p, const iso_conv_depth *d, const winograd_volume *v, bool first,
                        volume_block *b)
{
    if (first)
        *b = (volume_block){0};
    else if ((b->position += v->positions) >= d->out) {
        b->position = 0;
        if ((b->tile += v->across) >= v->plane) {
            b->tile = 0;
            b->n++;
        }
    }
    b->tiles = v->plane - b->tile < v->across ? v->plane - b->tile : v->across;
    b->positions = d->out - b->position < v->positions ? d->out - b->position : v->positions;
    return b->n < p->n && b->tiles > 0 && b->positions > 0;
}

/* Transforms the slices of x that a block reads -> [point, slice, tile, patch]. */
INLINE void volume_take(const iso_conv *p, const iso_conv_depth *d, const winograd_volume *v,
                        const volume_block *b, const float *x, const float *zeros, float *to)
{
    const winograd *w = &v->tiles;
    for (int64_t i = 0; i < b->positions + v->reach; i++) {
        const int64_t slice = b->position - d->pad + i, row = i * b->tiles;
        if (slice < 0 || slice >= d->in) {
            for (int64_t k = 0; k < WINOGRAD_POINTS; k++)
                memset(to + k * w->patches + row * w->patch, 0, (size_t)(b->tiles * w->patch) * sizeof *to);
            continue;
        }
        const int64_t first = (b->n * d->in + slice) * v->plane + b->tile;
        for (int64_t j = 0; j < b->tiles; j++)
            winograd_take(p, w, first + j, p->c, x, zeros, w->patches, to + (row + j) * w->patch);
    }
}

/* Channels and filters are those of one slice, which is transformed once for all taps. */
bool ISO_SIMD(winograd_volume_pays)(const iso_conv *p)
{
    return p->c >= 16 && p->f >= 16 && winograd_multiplies_less(p);
}

/* ---- forward, and the gradient of the input ---- Scratch: the panels of the kernel, the transformed patches of a
 * block, and the products of a block and a panel. */
size_t ISO_SIMD(winograd_volume_scratch)(const iso_conv *p, const iso_conv_depth *d)
{
    const winograd_volume v = winograd_volume_of(p, d);
    const winograd *w = &v.tiles;
    return (size_t)(WINOGRAD_POINTS * (w->panels * w->panel + w->patches + w->results) + w->patch) *
           sizeof(float);
}

/* All panels of the kernel [3, 3, taps * c, f] -> u [panel, point, taps, c, lanes]; rotated: [3, 3, taps * f, c], by
 * 180 degrees, the last tap first. */
static void volume_pack(const iso_conv *p, const winograd_volume *v, bool rotated, const float *kernel,
                        float *u)
{
    const winograd *w = &v->tiles;
    const int64_t lanes = w->width * VL, tap = p->c * p->f;
    for (int64_t i = 0; i < w->panels; i++)
        for (int64_t t = 0; t < v->taps; t++)
            winograd_pack(p, w, rotated, kernel + (rotated ? v->taps - 1 - t : t) * tap, v->taps * tap,
                          i * lanes, u + i * WINOGRAD_POINTS * w->panel + t * p->c * lanes);
}

/* The products of a block with a panel, and filters [j, ..) of their outputs. */
INLINE void volume_panel(const iso_conv *p, const iso_conv_depth *d, const winograd_volume *v,
                         const volume_block *b, const float *x, const float *u, int64_t j, float *m, float *y)
{
    const winograd *w = &v->tiles;
    const int64_t lanes = w->width * VL, left = p->f - j, n = left < lanes ? left : lanes;
    iso_tile t = {.a_row = w->patch, .a_k = 1, .b_k = lanes, .c_row = lanes, .k = p->c, .planes = 1};
    t.segments = v->taps;
    t.a_segment = d->dilation * b->tiles * w->patch;
    t.b_segment = p->c * lanes;
    for (int64_t i = 0; i < WINOGRAD_POINTS; i++) {
        t.a = x + i * w->patches;
        t.b = u + i * w->panel;
        t.c = m + i * w->results;
        tile_all(&t, b->positions * b->tiles, (n + VL - 1) / VL * VL, w->width);
    }
    for (int64_t i = 0; i < b->positions; i++) {
        const int64_t first = (b->n * d->out + b->position + i) * v->plane + b->tile;
        for (int64_t k = 0; k < b->tiles; k++)
            winograd_give(p, w, first + k, m + (i * b->tiles + k) * lanes, w->results, j, n, y);
    }
}

void ISO_SIMD(winograd_volume)(const iso_conv *p, const iso_conv_depth *d, bool rotated, const float *x,
                               const float *kernel, float *y, void *scratch)
{
    const winograd_volume v = winograd_volume_of(p, d);
    const winograd *w = &v.tiles;
    float *u = scratch, *patches = u + w->panels * WINOGRAD_POINTS * w->panel;
    float *m = patches + WINOGRAD_POINTS * w->patches, *zeros = m + WINOGRAD_POINTS * w->results;
    memset(zeros, 0, (size_t)w->patch * sizeof *zeros);
    volume_pack(p, &v, rotated, kernel, u);
    volume_block b;
    for (bool more = volume_next(p, d, &v, true, &b); more; more = volume_next(p, d, &v, false, &b)) {
        volume_take(p, d, &v, &b, x, zeros, patches);
        for (int64_t i = 0; i < w->panels; i++)
            volume_panel(p, d, &v, &b, patches, u + i * WINOGRAD_POINTS * w->panel, i * w->width * VL, m, y);
    }
}

/* ---- gradient of the kernel ---- Scratch: the sums [point, taps, c, f], and the transformed patches of x and of dy
 * of a block. */
typedef struct volume_sums {
    winograd_volume volume;
    iso_conv slices;    /* the convolution whose kernel has the channels of all taps */
    winograd_sums sums; /* its sums; the patches are a block's */
} volume_sums;

INLINE volume_sums volume_sums_of(const iso_conv *p, const iso_conv_depth *d)
{
    volume_sums s = {.volume = winograd_volume_of(p, d), .slices = *p};
    s.slices.c *= d->taps;
    const winograd_part all = winograd_part_of(&s.slices, -1);
    s.sums = winograd_sums_of(&s.slices, &all);
    s.sums.slopes = winograd_point(s.volume.tiles.block * s.sums.slope);
    s.volume.tiles.width = tile_width(p->c, s.sums.row / VL);
    return s;
}

size_t ISO_SIMD(winograd_volume_grad_kernel_scratch)(const iso_conv *p, const iso_conv_depth *d)
{
    const volume_sums s = volume_sums_of(p, d);
    const winograd *w = &s.volume.tiles;
    return (size_t)(WINOGRAD_POINTS * (s.sums.sums + w->patches + s.sums.slopes) + w->patch + s.sums.slope) *
           sizeof(float);
}

/* sums (+)= the products of a block. */
INLINE void volume_add(const iso_conv *p, const iso_conv_depth *d, const volume_sums *s,
                       const volume_block *b, bool add, const float *x, const float *slopes, float *sums)
{
    const winograd *w = &s->volume.tiles;
    iso_tile t = {.a_row = 1, .a_k = w->patch, .b_k = s->sums.slope, .c_row = s->sums.row, .segments = 1};
    t.planes = 1;
    t.k = b->positions * b->tiles;
    t.add = add;
    for (int64_t i = 0; i < WINOGRAD_POINTS; i++)
        for (int64_t tap = 0; tap < d->taps; tap++) {
            t.a = x + i * w->patches + tap * d->dilation * b->tiles * w->patch;
            t.b = slopes + i * s->sums.slopes;
            t.c = sums + i * s->sums.sums + tap * p->c * s->sums.row;
            tile_all(&t, p->c, s->sums.row, w->width);
        }
}

void ISO_SIMD(winograd_volume_grad_kernel)(const iso_conv *p, const iso_conv_depth *d, const float *x,
                                           const float *dy, float *dkernel, void *scratch)
{
    const volume_sums s = volume_sums_of(p, d);
    const winograd_volume *v = &s.volume;
    const winograd *w = &v->tiles;
    float *sums = scratch, *patches = sums + WINOGRAD_POINTS * s.sums.sums;
    float *slopes = patches + WINOGRAD_POINTS * w->patches, *zeros = slopes + WINOGRAD_POINTS * s.sums.slopes;
    memset(zeros, 0, (size_t)(w->patch + s.sums.slope) * sizeof *zeros);
    bool first = true;
    for (volume_block b; volume_next(p, d, v, first, &b); first = false) {
        volume_take(p, d, v, &b, x, zeros, patches);
        for (int64_t i = 0; i < b.positions; i++) {
            const int64_t tile = (b.n * d->out + b.position + i) * v->plane + b.tile;
            for (int64_t k = 0; k < b.tiles; k++)
                winograd_take_slopes(p, w, tile + k, p->f, dy, zeros, s.sums.slopes,
                                     slopes + (i * b.tiles + k) * s.sums.slope);
        }
        volume_add(p, d, &s, &b, !first, patches, slopes, sums);
    }
    if (first)
        memset(sums, 0, (size_t)(WINOGRAD_POINTS * s.sums.sums) * sizeof *sums);
    const winograd_part all = winograd_part_of(&s.slices, -1);
    winograd_unpack(&s.slices, &s.sums, &all, sums, dkernel);
}

#endif
