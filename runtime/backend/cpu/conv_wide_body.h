/* Convolutions of many channels, and their input gradients; conv_body.h includes this file. One tap of the kernel
 * at a time: the positions of a row of outputs whose window has an element of x there are the rows of a product
 * with the tap's [channels, filters]. A part of these, packed, stays in the L1 cache while all rows of a block of
 * outputs use it; the block's sums stay in the L2 cache. Zeros of the border are not read and not multiplied. Every
 * element is one sum over taps and channels in order, as by the tiles of a whole window. */
#ifndef ISO_CPU_CONV_WIDE_BODY_H
#define ISO_CPU_CONV_WIDE_BODY_H

#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"

enum {
    WIDE_PANEL = 8192,   /* floats of a packed part: 32 KiB */
    WIDE_SUMS = 1 << 17, /* floats of the sums of a block: 512 KiB */
    WIDE_CHANNELS = 48,  /* with fewer channels, loading and storing the sums costs more than this saves */
    WIDE_KERNEL =
        1 << 18, /* a kernel of fewer floats stays in the L2 cache, and tiles of whole windows are faster */
};

/* Along height or width: output i = 0 .. count - 1 is element first + i step of what is written; tap t = 0 .. taps
 * - 1, element tap + t tap_step of the kernel, adds element i from_step + shift + t of what is read, if that
 * exists. */
typedef struct wide_axis {
    int64_t count, first, step, size; /* size: of what is written */
    int64_t from_size, from_step, shift;
    int64_t taps, tap, tap_step;
} wide_axis;

typedef struct wide_conv {
    wide_axis axis[2];
    int64_t n, channels, columns; /* channels are summed over; columns: channels of what is written */
    int64_t kernel_width;
    bool transposed; /* the kernel's taps are [columns, channels] */
    const float *from, *kernel;
    float *to;
} wide_conv;

INLINE bool conv_has_channels(const iso_conv *p)
{
    return p->c >= WIDE_CHANNELS && p->f >= WIDE_CHANNELS;
}

INLINE bool conv_is_wide(const iso_conv *p)
{
    return conv_has_channels(p) && p->kernel[0] * p->kernel[1] * p->c * p->f > WIDE_KERNEL;
}

/* With strides, tiles of cells (conv_body.h) multiply zeros; phases do not. */
INLINE bool conv_grad_input_is_wide(const iso_conv *p)
{
    return conv_is_wide(p) || (conv_has_channels(p) && p->stride[0] * p->stride[1] > 1);
}

INLINE wide_axis wide_forward(const iso_conv *p, int i)
{
    return (wide_axis){.count = p->out[i],
                       .step = 1,
                       .size = p->out[i],
                       .from_size = p->in[i],
                       .from_step = p->stride[i],
                       .shift = -p->pad[i],
                       .taps = p->kernel[i],
                       .tap_step = 1};
}

/* Elements phase, phase + stride, ... of x: the kernel's elements r with (phase + pad - r) divisible by the stride
 * bring dy's element (phase + pad - r) / stride; in falling order of r. */
INLINE wide_axis wide_backward(const iso_conv *p, int i, int64_t phase)
{
    const int64_t stride = p->stride[i], least = (phase + p->pad[i]) % stride;
    wide_axis a = {.first = phase, .step = stride, .size = p->in[i], .from_size = p->out[i], .from_step = 1};
    a.count = phase < p->in[i] ? (p->in[i] - phase + stride - 1) / stride : 0;
    a.taps = least < p->kernel[i] ? (p->kernel[i] - least + stride - 1) / stride : 0;
    a.tap = least + (a.taps - 1) * stride;
    a.tap_step = -stride;
    a.shift = (phase + p->pad[i] - a.tap) / stride;
    return a;
}

/* The outputs for which tap t has an element: [*begin, result). */
INLINE int64_t wide_range(const wide_axis *a, int64_t t, int64_t *begin)
{
    const int64_t shift = a->shift + t, step = a->from_step, room = a->from_size - 1 - shift;
    *begin = shift < 0 ? (step - 1 - shift) / step : 0;
    const int64_t end = room < 0 ? 0 : room / step + 1;
    return end < a->count ? end : a->count;
}

/* Packs channels [k, k + count) and vectors [j, j + width) of a tap. */
INLINE void wide_pack(const wide_conv *w, int64_t tap, int64_t k, int64_t count, int64_t j, int64_t width,
                      float *panel)
{
    const int64_t lanes = width * VL, left = w->columns - j * VL, n = left < lanes ? left : lanes;
    const float *b = w->kernel + tap * w->channels * w->columns;
    if (w->transposed) {
        if (n < lanes)
            memset(panel, 0, (size_t)(count * lanes) * sizeof *panel);
        ISO_SIMD(transpose_f32)(n, count, b + j * VL * w->channels + k, w->channels, panel, lanes);
        return;
    }
    b += k * w->columns + j * VL;
    for (int64_t i = 0; i < count; i++, b += w->columns, panel += lanes)
        for (int64_t x = 0; x < lanes; x += VL)
            vf_store(panel + x, vf_get(b + x, n - x));
}

/* The rows of outputs [begin, end) of all images, each count of axis 0 to an image. */
typedef struct wide_block {
    int64_t begin, end;
} wide_block;

INLINE float *wide_row(const wide_conv *w, int64_t row)
{
    const wide_axis *y = &w->axis[0], *x = &w->axis[1];
    const int64_t line = row / y->count * y->size + y->first + row % y->count * y->step;
    return w->to + (line * x->size + x->first) * w->columns;
}

INLINE void wide_clear(const wide_conv *w, const wide_block *block)
{
    const wide_axis *x = &w->axis[1];
    for (int64_t row = block->begin; row < block->end; row++) {
        float *to = wide_row(w, row);
        if (x->step == 1)
            memset(to, 0, (size_t)(x->count * w->columns) * sizeof *to);
        else
            for (int64_t i = 0; i < x->count; i++)
                memset(to + i * x->step * w->columns, 0, (size_t)w->columns * sizeof *to);
    }
}

/* Adds tap (ty, tx) to a block: t has channels [k, k + t->k) and the vectors from j on, packed. */
INLINE void wide_add(const wide_conv *w, const wide_block *block, int64_t ty, int64_t tx, int64_t k,
                     int64_t j, int width, iso_tile *t)
{
    const wide_axis *y = &w->axis[0], *x = &w->axis[1];
    int64_t top, left;
    const int64_t bottom = wide_range(y, ty, &top), count = wide_range(x, tx, &left) - left,
                  step = count > 0 ? tile_rows_of(count, width) : 1;
    const int64_t start = left * x->from_step + x->shift + tx;
    for (int64_t row = block->begin; row < block->end; row++) {
        const int64_t i = row % y->count;
        if (i < top || i >= bottom)
            continue;
        const int64_t line = row / y->count * y->from_size + i * y->from_step + y->shift + ty;
        const float *a = w->from + (line * x->from_size + start) * w->channels + k;
        float *c = wide_row(w, row) + left * t->c_row + j * VL;
        for (int64_t done = 0; done < count; done += step) {
            t->a = a + done * t->a_row;
            t->c = c + done * t->c_row;
            tile_do(t, count - done < step ? count - done : step, width);
        }
    }
}

INLINE void wide_tap(const wide_conv *w, const wide_block *block, int64_t ty, int64_t tx, int width)
{
    const wide_axis *y = &w->axis[0], *x = &w->axis[1];
    const int64_t tap = (y->tap + ty * y->tap_step) * w->kernel_width + x->tap + tx * x->tap_step;
    const int64_t vectors = (w->columns + VL - 1) / VL, part = WIDE_PANEL / (width * VL) / 16 * 16;
    float panel[WIDE_PANEL] __attribute__((aligned(64)));
    iso_tile t = {.b = panel, .a_k = 1, .segments = 1, .planes = 1, .start = true};
    t.a_row = x->from_step * w->channels;
    t.c_row = x->step * w->columns;
    for (int64_t k = 0; k < w->channels; k += t.k) {
        t.k = w->channels - k < part ? w->channels - k : part;
        for (int64_t j = 0; j < vectors; j += width) {
            const int64_t n = vectors - j < width ? vectors - j : width, left = w->columns - (j + n - 1) * VL;
            wide_pack(w, tap, k, t.k, j, n, panel);
            t.b_k = n * VL;
            t.last = left < VL ? (int)left : VL;
            wide_add(w, block, ty, tx, k, j, (int)n, &t);
        }
    }
}

INLINE void wide_run(const wide_conv *w)
{
    const wide_axis *y = &w->axis[0], *x = &w->axis[1];
    if (y->count == 0 || x->count == 0)
        return;
    const int width = tile_width(x->count, (w->columns + VL - 1) / VL);
    const int64_t rows = w->n * y->count, most = WIDE_SUMS / (x->count * w->columns),
                  step = most > 0 ? most : 1;
    for (int64_t begin = 0; begin < rows; begin += step) {
        const wide_block block = {begin, rows - begin < step ? rows : begin + step};
        wide_clear(w, &block);
        for (int64_t ty = 0; ty < y->taps; ty++)
            for (int64_t tx = 0; tx < x->taps; tx++)
                wide_tap(w, &block, ty, tx, width);
    }
}

static void conv_wide(const iso_conv *p, const float *x, const float *kernel, float *y)
{
    wide_run(&(wide_conv){.axis = {wide_forward(p, 0), wide_forward(p, 1)},
                          .n = p->n,
                          .channels = p->c,
                          .columns = p->f,
                          .kernel_width = p->kernel[1],
                          .from = x,
                          .kernel = kernel,
                          .to = y});
}

static void conv_wide_grad_input(const iso_conv *p, const float *kernel, const float *dy, float *dx)
{
    for (int64_t phase = 0; phase < p->stride[0] * p->stride[1]; phase++)
        wide_run(&(wide_conv){
            .axis = {wide_backward(p, 0, phase / p->stride[1]), wide_backward(p, 1, phase % p->stride[1])},
            .n = p->n,
            .channels = p->f,
            .columns = p->c,
            .kernel_width = p->kernel[1],
            .transposed = true,
            .from = dy,
            .kernel = kernel,
            .to = dx});
}

#endif
