/* Convolutions of 3 x 3 elements by Winograd's F(2 x 2, 3 x 3); conv_body.h includes this file. See Lavin and Gray,
 * "Fast Algorithms for Convolutional Neural Networks", 2015, whose names are used here. A tile of 2 x 2 outputs reads
 * a patch d of 4 x 4 elements of each channel:
 *
 *     outputs = A^T [ sum over channels of (G g G^T) x (B^T d B) ] A,     x: element by element
 *
 * so each of the 16 elements is a matrix product over tiles, channels and filters: 16 multiplications for 4 outputs
 * instead of 36. Blocks of tiles have rows of several images. Every element is the same sum in the same order,
 * whichever tiles are in its block. */
#ifndef ISO_CPU_WINOGRAD_BODY_H
#define ISO_CPU_WINOGRAD_BODY_H

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"

enum {
    WINOGRAD_POINTS = 16, /* elements of a transformed patch */
    WINOGRAD_LEAST = 32,  /* tiles of a block, at least */
    WINOGRAD_MOST = 128,  /* and at most, up to whole tiles of registers */
    WINOGRAD_PACK = 16,   /* channels of a kernel that are transposed at a time */
};

/* Floats of a row of transformed patches of c channels: a vector more than they need. Otherwise, rows of 256 channels
 * would have the same places in the L1 cache. */
INLINE int64_t winograd_row(int64_t c)
{
    return (c + VL - 1) / VL * VL + VL;
}

/* Floats from one point to the next, each of `floats`: an odd number of lines, so that the 16 points of a patch have
 * different places in the L1 cache. */
INLINE int64_t winograd_point(int64_t floats)
{
    return ((floats + 15) / 16 | 1) * 16;
}

/* Whether it multiplies 1.4 times less than the other loops. These do not multiply the zeros of the border. This one
 * does, and computes 2 x 2 outputs where the last tile has fewer. The rows of the batch play no part: the rows of a
 * part of it have the bits of the whole. */
INLINE bool winograd_multiplies_less(const iso_conv *p)
{
    int64_t direct = 1;
    for (int i = 0; i < 2; i++) {
        if (p->kernel[i] != 3 || p->stride[i] != 1)
            return false;
        int64_t met = 0;
        for (int64_t tap = 0; tap < 3; tap++) {
            const int64_t begin = p->pad[i] > tap ? p->pad[i] - tap : 0, end = p->in[i] + p->pad[i] - tap;
            const int64_t most = end < p->out[i] ? end : p->out[i];
            met += most > begin ? most - begin : 0;
        }
        direct *= met;
    }
    const int64_t products = WINOGRAD_POINTS * ((p->out[0] + 1) / 2) * ((p->out[1] + 1) / 2);
    return 10 * direct >= 14 * products;
}

/* With fewer channels and filters the transforms cost more than they save, as measured. */
bool ISO_SIMD(winograd_pays)(const iso_conv *p)
{
    return p->c >= 16 && p->f >= 16 && p->c + p->f >= 3 * VL && winograd_multiplies_less(p);
}

/* How the tiles are divided. */
typedef struct winograd {
    int64_t down, across, tiles; /* of an image; of all */
    int64_t block;               /* tiles of a block */
    int64_t patch, patches;      /* floats of a row of patches [point, tile, patch], and of a point */
    int64_t panels, panel;       /* parts of the filters, and floats of a point of a part [point, c, lanes] */
    int64_t results;             /* floats of a point of the products [point, tile, lanes] of a panel */
    int width;                   /* vectors of a panel */
} winograd;

/* Tiles of a block. Each block reads all panels of the kernel, or adds to all sums of its gradient. These come from
 * the L3 cache if there are many channels and filters, so blocks are large. With few of them, blocks are small, and
 * their patches stay in the L2 cache. */
INLINE int64_t winograd_block(const iso_conv *p)
{
    const int64_t count = (p->c + p->f) / 4;
    return count < WINOGRAD_LEAST ? WINOGRAD_LEAST : count > WINOGRAD_MOST ? WINOGRAD_MOST : count;
}

INLINE winograd winograd_of(const iso_conv *p)
{
    winograd w = {.down = (p->out[0] + 1) / 2, .across = (p->out[1] + 1) / 2};
    w.tiles = p->n * w.down * w.across;
    w.patch = winograd_row(p->c);
    const int64_t vectors = (p->f + VL - 1) / VL, most = winograd_block(p);
    w.width = tile_width(most, vectors);
    w.panels = (vectors + w.width - 1) / w.width;
    w.block = (most + tile_rows(w.width) - 1) / tile_rows(w.width) * tile_rows(w.width);
    w.block = w.tiles < w.block ? w.tiles : w.block;
    w.patches = winograd_point(w.block * w.patch);
    w.panel = winograd_point(p->c * w.width * VL);
    w.results = winograd_point(w.block * w.width * VL);
    return w;
}

/* ---- transforms of 4 vectors, `step` apart: of a column (step 4) and of a row (step 1) of a 4 x 4 matrix ---- */

/* B^T */
INLINE void winograd_patch(vf *d, const int step)
{
    vf d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    d[0] = d0 - d2;
    d[step] = d1 + d2;
    d[2 * step] = d2 - d1;
    d[3 * step] = d1 - d3;
}

/* A^T: two vectors */
INLINE void winograd_outputs(vf *m, const int step)
{
    vf m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step];
    m[0] = m0 + m1 + m2;
    m[step] = m1 - m2 - m3;
}

/* G, of three vectors */
INLINE void winograd_kernel(vf *g, const int step)
{
    vf half = vf_set(0.5f), ends = (g[0] + g[2 * step]) * half, middle = g[step] * half, last = g[2 * step];
    g[step] = ends + middle;
    g[2 * step] = ends - middle;
    g[3 * step] = last;
}

/* A, of two vectors */
INLINE void winograd_slopes(vf *y, const int step)
{
    vf y0 = y[0], y1 = y[step];
    y[step] = y0 + y1;
    y[2 * step] = y0 - y1;
    y[3 * step] = -y1;
}

/* G^T: three vectors */
INLINE void winograd_kernel_slopes(vf *s, const int step)
{
    vf half = vf_set(0.5f), sum = (s[step] + s[2 * step]) * half, difference = (s[step] - s[2 * step]) * half;
    s[0] = s[0] + sum;
    s[step] = difference;
    s[2 * step] = sum + s[3 * step];
}

/* ---- kernels ---- */

/* Transforms channels of a panel: g [3, 3, count, n], where taps and channels are `tap` and `row` floats apart, ->
 * u [point, channels, lanes] from the channel on to which u points. Vectors without a filter are left out. */
INLINE void winograd_pack_rows(const float *g, int64_t tap, int64_t row, int64_t count, int64_t n,
                               int64_t lanes, int64_t point, float *u)
{
    for (int64_t k = 0; k < count; k++, g += row, u += lanes)
        for (int64_t j = 0; j < n; j += VL) {
            vf m[WINOGRAD_POINTS];
            UNROLL
            for (int i = 0; i < 9; i++)
                m[i / 3 * 4 + i % 3] = vf_get(g + i * tap + j, n - j);
            UNROLL
            for (int i = 0; i < 3; i++)
                winograd_kernel(m + i, 4);
            UNROLL
            for (int i = 0; i < 4; i++)
                winograd_kernel(m + 4 * i, 1);
            UNROLL
            for (int i = 0; i < WINOGRAD_POINTS; i++)
                vf_store(u + i * point + j, m[i]);
        }
}

/* Filters [j, ..) of the kernel [3, 3, c, f] -> u [point, c, lanes]; rotated: [3, 3, f, c], by 180 degrees. Its 9
 * elements are `tap` floats apart. */
static void winograd_pack(const iso_conv *p, const winograd *w, bool rotated, const float *kernel,
                          int64_t tap, int64_t j, float *u)
{
    const int64_t lanes = w->width * VL;
    const int64_t n = p->f - j < lanes ? p->f - j : lanes;
    if (!rotated) {
        winograd_pack_rows(kernel + j, tap, p->f, p->c, n, lanes, w->panel, u);
        return;
    }
    float room[9 * WINOGRAD_PACK * TILE_VECTORS * VL] __attribute__((aligned(64)));
    for (int64_t k = 0; k < p->c; k += WINOGRAD_PACK) {
        const int64_t count = p->c - k < WINOGRAD_PACK ? p->c - k : WINOGRAD_PACK, part = count * lanes;
        for (int64_t i = 0; i < 9; i++)
            ISO_SIMD(transpose_f32)
        (n, count, kernel + (8 - i) * tap + j * p->c + k, p->c, room + i * part, lanes);
        winograd_pack_rows(room, part, lanes, count, n, lanes, w->panel, u + k * lanes);
    }
}

/* ---- tiles ---- */

/* Tile t, counted over all images: its image, and its first row and column of outputs. */
typedef struct winograd_position {
    int64_t image, row, column;
} winograd_position;

INLINE winograd_position winograd_position_of(const winograd *w, int64_t t)
{
    const int64_t line = t / w->across;
    return (winograd_position){line / w->down, line % w->down * 2, t % w->across * 2};
}

/* Element (row, column) of images [.., height, width, channels]; outside of the image: zeros. */
INLINE const float *winograd_element(const float *images, const int64_t *size, int64_t channels,
                                     int64_t image, int64_t row, int64_t column, const float *zeros)
{
    bool inside = row >= 0 && row < size[0] && column >= 0 && column < size[1];
    return inside ? images + ((image * size[0] + row) * size[1] + column) * channels : zeros;
}

/* B^T d B of the patch of tile t -> v [point, .., patch], of channels [0, n) from those of x on; `point` floats
 * between points. */
INLINE void winograd_take(const iso_conv *p, const winograd *w, int64_t t, int64_t n, const float *x,
                          const float *zeros, int64_t point, float *v)
{
    const winograd_position at = winograd_position_of(w, t);
    const float *from[WINOGRAD_POINTS];
    for (int i = 0; i < WINOGRAD_POINTS; i++)
        from[i] = winograd_element(x, p->in, p->c, at.image, at.row - p->pad[0] + i / 4,
                                   at.column - p->pad[1] + i % 4, zeros);
    for (int64_t k = 0; k < n; k += VL) {
        vf d[WINOGRAD_POINTS];
        UNROLL
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            d[i] = vf_load(from[i] + k);
        UNROLL
        for (int i = 0; i < 4; i++)
            winograd_patch(d + i, 4);
        UNROLL
        for (int i = 0; i < 4; i++)
            winograd_patch(d + 4 * i, 1);
        UNROLL
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            vf_store(v + i * point + k, d[i]);
    }
}

/* A dy A^T of tile t -> v [point, .., patch], of filters [0, n) from those of dy on; `point` floats between
 * points. */
INLINE void winograd_take_slopes(const iso_conv *p, const winograd *w, int64_t t, int64_t n, const float *dy,
                                 const float *zeros, int64_t point, float *v)
{
    const winograd_position at = winograd_position_of(w, t);
    const float *from[4];
    for (int i = 0; i < 4; i++)
        from[i] = winograd_element(dy, p->out, p->f, at.image, at.row + i / 2, at.column + i % 2, zeros);
    for (int64_t k = 0; k < n; k += VL) {
        vf d[WINOGRAD_POINTS];
        UNROLL
        for (int i = 0; i < 4; i++)
            d[i / 2 * 4 + i % 2] = vf_load(from[i] + k);
        UNROLL
        for (int i = 0; i < 2; i++)
            winograd_slopes(d + i, 4);
        UNROLL
        for (int i = 0; i < 4; i++)
            winograd_slopes(d + 4 * i, 1);
        UNROLL
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            vf_store(v + i * point + k, d[i]);
    }
}

/* A^T m A of tile t -> filters [j, j + n) of y; m [point, .., lanes]. */
INLINE void winograd_give(const iso_conv *p, const winograd *w, int64_t t, const float *m, int64_t point,
                          int64_t j, int64_t n, float *y)
{
    const winograd_position at = winograd_position_of(w, t);
    const bool below = at.row + 1 < p->out[0], right = at.column + 1 < p->out[1];
    const int64_t line = p->out[1] * p->f;
    y += (at.image * p->out[0] + at.row) * line + at.column * p->f + j;
    for (int64_t k = 0; k < n; k += VL, y += VL) {
        vf d[WINOGRAD_POINTS];
        UNROLL
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            d[i] = vf_load(m + i * point + k);
        UNROLL
        for (int i = 0; i < 4; i++)
            winograd_outputs(d + i, 4);
        winograd_outputs(d, 1);
        winograd_outputs(d + 4, 1);
        vf_put(y, d[0], n - k);
        if (right)
            vf_put(y + p->f, d[1], n - k);
        if (below)
            vf_put(y + line, d[4], n - k);
        if (below && right)
            vf_put(y + line + p->f, d[5], n - k);
    }
}

/* ---- forward, and the gradient of the input ---- Scratch: the panels of the kernel, which the first block packs,
 * the transformed patches of a block, and the products of a block and a panel. */

/* Panels of the kernel that are kept. */
INLINE int64_t winograd_kept(const winograd *w)
{
    return w->tiles > w->block ? w->panels : 1;
}

size_t ISO_SIMD(winograd_scratch)(const iso_conv *p)
{
    const winograd w = winograd_of(p);
    const int64_t floats = winograd_kept(&w) * w.panel + w.patches + w.results;
    return (size_t)(WINOGRAD_POINTS * floats + w.patch) * sizeof(float);
}

/* The products of `count` tiles from tile `first` on with a panel, and filters [j, ..) of their outputs. */
INLINE void winograd_panel(const iso_conv *p, const winograd *w, int64_t first, int64_t count, const float *v,
                           const float *u, int64_t j, float *m, float *y)
{
    const int64_t lanes = w->width * VL, left = p->f - j, n = left < lanes ? left : lanes;
    iso_tile t = {.a_row = w->patch, .a_k = 1, .b_k = lanes, .c_row = lanes, .k = p->c};
    t.segments = t.planes = 1;
    for (int64_t i = 0; i < WINOGRAD_POINTS; i++) {
        t.a = v + i * w->patches;
        t.b = u + i * w->panel;
        t.c = m + i * w->results;
        tile_all(&t, count, (n + VL - 1) / VL * VL, w->width);
    }
    for (int64_t i = 0; i < count; i++)
        winograd_give(p, w, first + i, m + i * lanes, w->results, j, n, y);
}

void ISO_SIMD(winograd)(const iso_conv *p, bool rotated, const float *x, const float *kernel, float *y,
                        void *scratch)
{
    const winograd w = winograd_of(p);
    const int64_t lanes = w.width * VL, kept = winograd_kept(&w), panel = WINOGRAD_POINTS * w.panel;
    const int64_t next = kept > 1 ? panel : 0;
    float *u = scratch, *v = u + kept * panel, *m = v + WINOGRAD_POINTS * w.patches;
    float *zeros = m + WINOGRAD_POINTS * w.results;
    memset(zeros, 0, (size_t)w.patch * sizeof *zeros);
    for (int64_t first = 0; first < w.tiles; first += w.block) {
        const int64_t count = w.tiles - first < w.block ? w.tiles - first : w.block;
        for (int64_t i = 0; i < count; i++)
            winograd_take(p, &w, first + i, p->c, x, zeros, w.patches, v + i * w.patch);
        for (int64_t i = 0; i < w.panels; i++) {
            if (first == 0)
                winograd_pack(p, &w, rotated, kernel, p->c * p->f, i * lanes, u + i * next);
            winograd_panel(p, &w, first, count, v, u + i * next, i * lanes, m, y);
        }
    }
}

/* ---- gradient of the kernel ---- The adjoint: G^T [ sum over tiles of (B^T d B) x (A dy A^T) ] G. Scratch: the sums
 * [point, c, f], and the transformed patches of x and of dy of a block. */
typedef struct winograd_sums {
    winograd tiles;
    int64_t row, sums;     /* floats of a row and of a point of sums */
    int64_t slope, slopes; /* floats of a row and of a point of patches of dy */
} winograd_sums;

/* Channels [channel, channel + channels) and filters [filter, filter + filters) of the gradient. */
typedef struct winograd_part {
    int64_t channel, channels, filter, filters;
} winograd_part;

/* Each part transforms its channels of x and its filters of dy, which others of its channels or filters do too. */
INLINE int64_t winograd_part_size(int64_t n, int64_t least)
{
    enum { MOST = 4 };
    const int64_t most = n / least < 1 ? 1 : n / least < MOST ? n / least : MOST;
    return ((n + most - 1) / most + VL - 1) / VL * VL;
}

INLINE int64_t winograd_part_channels(const iso_conv *p)
{
    return winograd_part_size(p->c, 16);
}

INLINE int64_t winograd_part_filters(const iso_conv *p)
{
    return winograd_part_size(p->f, 32);
}

int64_t ISO_SIMD(winograd_grad_kernel_parts)(const iso_conv *p)
{
    const int64_t channels = winograd_part_channels(p), filters = winograd_part_filters(p);
    return (p->c + channels - 1) / channels * ((p->f + filters - 1) / filters);
}

INLINE winograd_part winograd_part_of(const iso_conv *p, int64_t number)
{
    const int64_t channels = winograd_part_channels(p), filters = winograd_part_filters(p);
    const int64_t across = (p->f + filters - 1) / filters;
    if (number < 0)
        return (winograd_part){0, p->c, 0, p->f};
    winograd_part part = {.channel = number / across * channels, .filter = number % across * filters};
    part.channels = p->c - part.channel < channels ? p->c - part.channel : channels;
    part.filters = p->f - part.filter < filters ? p->f - part.filter : filters;
    return part;
}

INLINE winograd_sums winograd_sums_of(const iso_conv *p, const winograd_part *part)
{
    winograd_sums s = {.tiles = winograd_of(p),
                       .row = (part->filters + VL - 1) / VL * VL,
                       .slope = winograd_row(part->filters)};
    winograd *w = &s.tiles;
    const int64_t most = winograd_block(p);
    w->block = w->tiles < most ? w->tiles : most;
    w->width = tile_width(part->channels, s.row / VL);
    w->patch = winograd_row(part->channels);
    w->patches = winograd_point(w->block * w->patch);
    s.slopes = winograd_point(w->block * s.slope);
    s.sums = winograd_point(part->channels * s.row);
    return s;
}

size_t ISO_SIMD(winograd_grad_kernel_scratch)(const iso_conv *p, bool whole)
{
    const winograd_part part = winograd_part_of(p, whole ? -1 : 0); /* none is larger than the first one */
    const winograd_sums s = winograd_sums_of(p, &part);
    const int64_t floats = s.sums + s.tiles.patches + s.slopes;
    return (size_t)(WINOGRAD_POINTS * floats + s.tiles.patch + s.slope) * sizeof(float);
}

/* G^T sums G -> dkernel [3, 3, c, f]; sums: those of the part alone */
static void winograd_unpack(const iso_conv *p, const winograd_sums *w, const winograd_part *part,
                            const float *sums, float *dkernel)
{
    const int64_t tap = p->c * p->f;
    dkernel += part->channel * p->f + part->filter;
    for (int64_t k = 0; k < part->channels; k++, sums += w->row, dkernel += p->f)
        for (int64_t j = 0; j < part->filters; j += VL) {
            vf s[WINOGRAD_POINTS];
            UNROLL
            for (int i = 0; i < WINOGRAD_POINTS; i++)
                s[i] = vf_load(sums + i * w->sums + j);
            UNROLL
            for (int i = 0; i < 4; i++)
                winograd_kernel_slopes(s + i, 4);
            UNROLL
            for (int i = 0; i < 3; i++)
                winograd_kernel_slopes(s + 4 * i, 1);
            UNROLL
            for (int i = 0; i < 9; i++)
                vf_put(dkernel + i * tap + j, s[i / 3 * 4 + i % 3], part->filters - j);
        }
}

void ISO_SIMD(winograd_grad_kernel)(const iso_conv *p, int64_t number, const float *x, const float *dy,
                                    float *dkernel, void *scratch)
{
    const winograd_part part = winograd_part_of(p, number);
    const winograd_sums s = winograd_sums_of(p, &part);
    const winograd *w = &s.tiles;
    float *sums = scratch, *v = sums + WINOGRAD_POINTS * s.sums, *u = v + WINOGRAD_POINTS * w->patches;
    float *zeros = u + WINOGRAD_POINTS * s.slopes;
    memset(zeros, 0, (size_t)(w->patch + s.slope) * sizeof *zeros);
    if (w->tiles == 0)
        memset(sums, 0, (size_t)(WINOGRAD_POINTS * s.sums) * sizeof *sums);
    iso_tile t = {.a_row = 1, .a_k = w->patch, .b_k = s.slope, .c_row = s.row, .segments = 1, .planes = 1};
    for (int64_t first = 0; first < w->tiles; first += w->block) {
        t.k = w->tiles - first < w->block ? w->tiles - first : w->block;
        for (int64_t i = 0; i < t.k; i++) {
            winograd_take(p, w, first + i, part.channels, x + part.channel, zeros, w->patches,
                          v + i * w->patch);
            winograd_take_slopes(p, w, first + i, part.filters, dy + part.filter, zeros, s.slopes,
                                 u + i * s.slope);
        }
        for (int64_t i = 0; i < WINOGRAD_POINTS; i++) {
            t.a = v + i * w->patches;
            t.b = u + i * s.slopes;
            t.c = sums + i * s.sums;
            t.add = first > 0;
            tile_all(&t, part.channels, s.row, w->width);
        }
    }
    winograd_unpack(p, &s, &part, sums, dkernel);
}

#endif
