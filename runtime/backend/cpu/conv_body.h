/* Convolutions as tiles (tile.h) that read x in place, without im2col. They are products in which one index
 * runs over the channels of a few neighbouring positions, which are contiguous in memory. See functions.h. */
#include "runtime/backend/cpu/conv_wide_body.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/tile_body.h"
#include "runtime/backend/cpu/winograd_body.h"
#include "runtime/backend/cpu/winograd_volume_body.h"

INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
INLINE int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
INLINE int64_t up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* n floats; x may be read a vector past its end, y is written exactly. */
INLINE void copy(float *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_load(x + i));
    if (i < n)
        vf_store_n(y + i, vf_load_n(x + i, n - i), n - i);
}

/* Images with zeros around them: rows of `row` floats become rows of `wide` floats, beginning at `left`;
 * images have `rows` rows. */
typedef struct border {
    int64_t rows, row;    /* of an image without zeros */
    int64_t above, below; /* rows of zeros */
    int64_t left, wide;   /* zeros before a row; floats of a row in all */
} border;

INLINE bool border_is_empty(const border *b)
{
    return b->wide == b->row && b->left == 0 && b->above == 0 && b->below == 0;
}

INLINE int64_t border_image(const border *b)
{
    return (b->above + b->rows + b->below) * b->wide;
}

/* Returns `count` images with their borders: in `room`, or x itself if there are no borders. */
INLINE const float *border_add(const border *b, int64_t count, const float *x, float *room)
{
    if (border_is_empty(b))
        return x;
    for (int64_t i = 0; i < count; i++) {
        float *y = room + i * border_image(b);
        memset(y, 0, (size_t)(b->above * b->wide) * sizeof *y);
        y += b->above * b->wide;
        for (int64_t j = 0; j < b->rows; j++, y += b->wide, x += b->row) {
            memset(y, 0, (size_t)b->left * sizeof *y);
            copy(y + b->left, x, smaller(b->row, b->wide - b->left));
            int64_t end = b->left + b->row;
            if (end < b->wide)
                memset(y + end, 0, (size_t)(b->wide - end) * sizeof *y);
        }
        memset(y, 0, (size_t)(b->below * b->wide) * sizeof *y);
    }
    return room;
}

/* The border that the windows of a row of outputs need: zeros left and right, none above and below. */
INLINE border border_of_x(const iso_conv *p)
{
    int64_t reach = (p->out[1] - 1) * p->stride[1] + p->kernel[1];
    int64_t wide = larger(reach, p->pad[1] ? reach : p->in[1]);
    return (border){p->in[0], p->in[1] * p->c, 0, 0, p->pad[1] * p->c, wide * p->c};
}

/* The kernel's rows that overlap x for row `out` of the outputs: [*from, result). */
INLINE int64_t rows_met(const iso_conv *p, int64_t out, int64_t *from)
{
    int64_t top = out * p->stride[0] - p->pad[0];
    *from = larger(0, -top);
    return smaller(p->kernel[0], p->in[0] - top);
}

/* ---- few taps ---- If a window has few elements (the first layer, with one or three channels), k is too
 * short for tiles. Instead, all weights of a vector of filters, or all their gradients, stay in registers
 * while the loop runs over the positions. */
#define FEW_TAPS(p, TAPS)                                                                                    \
    do {                                                                                                     \
        const int64_t rows_ = (p)->kernel[0], run_ = (p)->kernel[1] * (p)->c;                                \
        if (rows_ == 3 && run_ == 3)                                                                         \
            TAPS(3, 3);                                                                                      \
        if (VREGISTERS == 32 && rows_ == 5 && run_ == 5)                                                     \
            TAPS(5, 5);                                                                                      \
        if (VREGISTERS == 32 && rows_ == 3 && run_ == 9)                                                     \
            TAPS(3, 9);                                                                                      \
    } while (0)
enum { MOST_TAPS = 27 };

INLINE bool has_few_taps(const iso_conv *p)
{
#define TAPS(rows, run) return true
    FEW_TAPS(p, TAPS);
#undef TAPS
    return false;
}

/* x with zeros on all sides, so that every window is inside. */
INLINE border border_around_x(const iso_conv *p)
{
    border b = border_of_x(p);
    b.above = p->pad[0];
    b.below = larger(0, (p->out[0] - 1) * p->stride[0] + p->kernel[0] - p->pad[0] - p->in[0]);
    return b;
}

/* One image; x has borders. Only the first `last` lanes of the vectors of y are stored. */
INLINE void few_taps(const iso_conv *p, const int rows, const int run, const float *x, int64_t wide,
                     const float *kernel, int64_t last, float *y)
{
    vf w[MOST_TAPS];
    UNROLL
    for (int t = 0; t < rows * run; t++)
        w[t] = vf_load(kernel + t * p->f);
    const int64_t step = p->stride[1] * p->c;
    for (int64_t oy = 0; oy < p->out[0]; oy++) {
        const float *from = x + oy * p->stride[0] * wide;
        for (int64_t ox = 0; ox < p->out[1]; ox++, from += step, y += p->f) {
            vf sum = vf_zero();
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
            for (int j = 0; j < run; j++)
                sum = vf_fma(w[r * run + j], vf_set(from[r * wide + j]), sum);
            vf_put(y, sum, last);
        }
    }
}

/* As few_taps: sums [taps, f] (+)= the gradient. */
INLINE void few_taps_grad(const iso_conv *p, const int rows, const int run, const float *x, int64_t wide,
                          const float *dy, int64_t last, bool add, float *sums)
{
    vf w[MOST_TAPS];
    UNROLL
    for (int t = 0; t < rows * run; t++)
        w[t] = vf_zero();
    const int64_t step = p->stride[1] * p->c;
    for (int64_t oy = 0; oy < p->out[0]; oy++) {
        const float *from = x + oy * p->stride[0] * wide;
        for (int64_t ox = 0; ox < p->out[1]; ox++, from += step, dy += p->f) {
            vf d = vf_load(dy);
            UNROLL
            for (int r = 0; r < rows; r++)
                UNROLL
            for (int j = 0; j < run; j++)
                w[r * run + j] = vf_fma(d, vf_set(from[r * wide + j]), w[r * run + j]);
        }
    }
    UNROLL
    for (int t = 0; t < rows * run; t++)
        vf_put(sums + t * p->f, add ? (vf)(w[t] + vf_get(sums + t * p->f, last)) : w[t], last);
}

INLINE void conv_few_taps(const iso_conv *p, const float *x, const float *kernel, float *y, float *scratch)
{
    border b = border_around_x(p);
    for (int64_t i = 0; i < p->n; i++, y += p->out[0] * p->out[1] * p->f) {
        const float *sample = border_add(&b, 1, x + i * b.rows * b.row, scratch);
        for (int64_t j = 0; j < p->f; j += VL) {
#define TAPS(rows, run) few_taps(p, rows, run, sample, b.wide, kernel + j, p->f - j, y + j)
            FEW_TAPS(p, TAPS);
#undef TAPS
        }
    }
}

/* Filters [begin, end) of the gradient. */
INLINE void conv_few_taps_grad(const iso_conv *p, int64_t begin, int64_t end, const float *x, const float *dy,
                               float *dkernel, float *scratch)
{
    border b = border_around_x(p);
    for (int64_t i = 0; i < p->n; i++, dy += p->out[0] * p->out[1] * p->f) {
        const float *sample = border_add(&b, 1, x + i * b.rows * b.row, scratch);
        for (int64_t j = begin; j < end; j += VL) {
#define TAPS(rows, run) few_taps_grad(p, rows, run, sample, b.wide, dy + j, p->f - j, i > 0, dkernel + j)
            FEW_TAPS(p, TAPS);
#undef TAPS
        }
    }
}

/* ---- forward ---- */
size_t ISO_SIMD(conv_scratch)(const iso_conv *p)
{
    border b = has_few_taps(p) ? border_around_x(p) : border_of_x(p);
    return border_is_empty(&b) || conv_is_wide(p) ? 0 : (size_t)border_image(&b) * sizeof(float);
}

/* Rows of the tile: positions of a row of outputs; k: a row of the window; segments: its rows. */
void ISO_SIMD(conv)(const iso_conv *p, const float *x, const float *kernel, float *y, void *scratch)
{
    if (has_few_taps(p)) {
        conv_few_taps(p, x, kernel, y, scratch);
        return;
    }
    if (conv_is_wide(p)) {
        conv_wide(p, x, kernel, y);
        return;
    }
    border b = border_of_x(p);
    const int64_t run = p->kernel[1] * p->c, image = p->in[0] * p->in[1] * p->c;
    int width = tile_width(p->out[1], (p->f + VL - 1) / VL);
    iso_tile t = {.a_row = p->stride[1] * p->c, .a_k = 1, .b_k = p->f, .c_row = p->f, .k = run};
    t.a_segment = b.wide;
    t.b_segment = run * p->f;
    t.planes = 1;
    for (int64_t i = 0; i < p->n; i++) {
        const float *sample = border_add(&b, 1, x + i * image, scratch);
        for (int64_t row = 0; row < p->out[0]; row++, y += p->out[1] * p->f) {
            int64_t from, to = rows_met(p, row, &from);
            t.segments = larger(0, to - from);
            t.a = sample + (row * p->stride[0] - p->pad[0] + from) * b.wide;
            t.b = kernel + from * t.b_segment;
            t.c = y;
            tile_all(&t, p->out[1], p->f, width);
        }
    }
}

/* ---- gradient of the input ---- Position py = iy + pad of the bordered x is cell py / stride, phase py %
 * stride; it contributes to the outputs cell - t, t = 0, 1, ..., through the kernel's element phase + t
 * stride. So the phases of a cell, with their channels, are the columns of one product, and dx is a
 * convolution of dy without strides, all lanes in use. */
typedef struct cells {
    int64_t taps[2];           /* values of t */
    int64_t first[2], last[2]; /* cells that hold elements of x */
    int64_t columns, padded;   /* phases x channels; padded in the packed kernel */
    border dy;
} cells;

INLINE cells cells_of(const iso_conv *p)
{
    cells g;
    for (int i = 0; i < 2; i++) {
        g.taps[i] = (p->kernel[i] + p->stride[i] - 1) / p->stride[i];
        g.first[i] = p->pad[i] / p->stride[i];
        g.last[i] = (p->in[i] - 1 + p->pad[i]) / p->stride[i];
    }
    g.columns = p->stride[0] * p->stride[1] * p->c;
    g.padded = up(g.columns, VL);
    int64_t left = larger(0, g.taps[1] - 1 - g.first[1]);
    int64_t right = larger(0, g.last[1] - (p->out[1] - 1));
    g.dy = (border){p->out[0], p->out[1] * p->f, 0, 0, left * p->f, (left + p->out[1] + right) * p->f};
    return g;
}

INLINE int64_t packed_size(const iso_conv *p, const cells *g)
{
    return g->taps[0] * g->taps[1] * p->f * g->padded;
}

INLINE int64_t cell_row(const cells *g)
{
    return (g->last[1] - g->first[1] + 1) * g->padded;
}

size_t ISO_SIMD(conv_grad_input_scratch)(const iso_conv *p)
{
    if (conv_grad_input_is_wide(p))
        return 0;
    cells g = cells_of(p);
    int64_t dy = border_is_empty(&g.dy) ? 0 : border_image(&g.dy);
    return (size_t)(packed_size(p, &g) + up(dy, 16) + cell_row(&g)) * sizeof(float) + 128;
}

/* kernel [r, s, c, f] -> [t', u', f, phase y, phase x, c], t' and u' in reverse order, zeros where phase + t
 * stride is outside. */
INLINE void pack_kernel(const iso_conv *p, const cells *g, const float *kernel, float *packed)
{
    memset(packed, 0, (size_t)packed_size(p, g) * sizeof *packed);
    for (int64_t r = 0; r < p->kernel[0]; r++)
        for (int64_t s = 0; s < p->kernel[1]; s++) {
            int64_t t = g->taps[0] - 1 - r / p->stride[0], u = g->taps[1] - 1 - s / p->stride[1];
            int64_t phase = r % p->stride[0] * p->stride[1] + s % p->stride[1];
            ISO_SIMD(transpose_f32)
            (p->c, p->f, kernel + (r * p->kernel[1] + s) * p->c * p->f, p->f,
             packed + (t * g->taps[1] + u) * p->f * g->padded + phase * p->c, g->padded);
        }
}

/* Copies a row of cells [cell, phase y, phase x, c] to the rows of dx that it covers. */
INLINE void unpack_cells(const iso_conv *p, const cells *g, int64_t cell, const float *from, float *dx)
{
    const int64_t run = p->stride[1] * p->c, row = p->in[1] * p->c;
    for (int64_t phase = 0; phase < p->stride[0]; phase++) {
        int64_t y = cell * p->stride[0] + phase - p->pad[0];
        if (y < 0 || y >= p->in[0])
            continue;
        for (int64_t x = g->first[1]; x <= g->last[1]; x++) {
            int64_t at = x * run - p->pad[1] * p->c, begin = larger(0, -at);
            copy(dx + y * row + at + begin, from + (x - g->first[1]) * g->padded + phase * run + begin,
                 smaller(run, row - at) - begin);
        }
    }
}

void ISO_SIMD(conv_grad_input)(const iso_conv *p, const float *kernel, const float *dy, float *dx,
                               void *scratch)
{
    if (conv_grad_input_is_wide(p)) {
        conv_wide_grad_input(p, kernel, dy, dx);
        return;
    }
    cells g = cells_of(p);
    float *packed = scratch, *row = packed + packed_size(p, &g), *room = row + up(cell_row(&g), 16);
    pack_kernel(p, &g, kernel, packed);
    const int64_t positions = g.last[1] - g.first[1] + 1;
    int width = tile_width(positions, g.padded / VL);
    iso_tile t = {
        .a_row = p->f, .a_k = 1, .b_k = g.padded, .c = row, .c_row = g.padded, .k = g.taps[1] * p->f};
    t.a_segment = g.dy.wide;
    t.b_segment = t.k * g.padded;
    t.planes = 1;
    for (int64_t i = 0; i < p->n; i++) {
        const float *sample = border_add(&g.dy, 1, dy + i * g.dy.rows * g.dy.row, room);
        sample += (g.first[1] - (g.taps[1] - 1)) * p->f + g.dy.left;
        for (int64_t cell = g.first[0]; cell <= g.last[0]; cell++) {
            int64_t top = cell - (g.taps[0] - 1), from = larger(0, -top);
            t.segments = larger(0, smaller(g.taps[0], p->out[0] - top) - from);
            t.a = sample + (top + from) * g.dy.wide;
            t.b = packed + from * t.b_segment;
            tile_all(&t, positions, g.padded, width);
            unpack_cells(p, &g, cell, row, dx + i * p->in[0] * p->in[1] * p->c);
        }
    }
}

/* ---- gradient of the kernel ---- For a row r of the kernel: a product over positions of the run of x that
 * the row covers (s and c as one index) and dy. Lanes hold either f or the run, whichever fills them
 * better. */
INLINE int64_t samples_at_once(const iso_conv *p)
{
    enum { POSITIONS = 256 }; /* so many that loading and storing the sums costs little */
    return smaller(larger(1, POSITIONS / (p->out[0] * p->out[1])), larger(1, p->n));
}

INLINE bool lanes_hold_run(const iso_conv *p)
{
    int64_t run = p->kernel[1] * p->c, f_vectors = (p->f + VL - 1) / VL, run_vectors = (run + VL - 1) / VL;
    return tile_cost_of(p->f, run_vectors, tile_width(p->f, run_vectors)) * 10 <
           tile_cost_of(run, f_vectors, tile_width(run, f_vectors)) * 9;
}

/* A part of the gradient: some rows of the kernel, and of their product some of the rows, which are filters if lanes
 * hold the run. Few taps: some filters. */
typedef struct kernel_part {
    int64_t row, rows, begin, end;
} kernel_part;

/* All parts: so many of the kernel's rows, of `rows` rows each. */
typedef struct kernel_parts {
    int64_t down, rows, size;
} kernel_parts;

/* Rows of the products. */
INLINE int64_t rows_of_product(const iso_conv *p)
{
    return has_few_taps(p) || lanes_hold_run(p) ? p->f : p->kernel[1] * p->c;
}

INLINE kernel_parts grad_kernel_parts_of(const iso_conv *p)
{
    enum { MOST = 16, LEAST_ROWS = 16 }; /* of a part: each of them adds the borders of x */
    const bool few = has_few_taps(p);
    const int64_t rows = rows_of_product(p), down = few ? 1 : larger(1, p->kernel[0]);
    const int64_t most = larger(1, smaller(MOST / down, rows / LEAST_ROWS));
    return (kernel_parts){down, rows, larger(up((rows + most - 1) / most, few ? VL : 2), VL)};
}

int64_t ISO_SIMD(conv_grad_kernel_parts)(const iso_conv *p)
{
    const kernel_parts all = grad_kernel_parts_of(p);
    return all.down * larger(1, (all.rows + all.size - 1) / all.size);
}

INLINE kernel_part grad_kernel_part_of(const iso_conv *p, int64_t part)
{
    const kernel_parts all = grad_kernel_parts_of(p);
    if (part < 0)
        return (kernel_part){0, p->kernel[0], 0, all.rows};
    const int64_t begin = part / all.down * all.size;
    return (kernel_part){part % all.down, 1, begin, smaller(begin + all.size, all.rows)};
}

/* Floats of the sums of the part, if they are transposed at the end. */
INLINE int64_t grad_kernel_sums(const iso_conv *p, const kernel_part *part)
{
    return lanes_hold_run(p) ? up(part->rows * (part->end - part->begin) * p->kernel[1] * p->c, 16) : 0;
}

size_t ISO_SIMD(conv_grad_kernel_scratch)(const iso_conv *p, bool whole)
{
    const kernel_part part = grad_kernel_part_of(p, whole ? -1 : 0); /* none is larger than the first one */
    border b = has_few_taps(p) ? border_around_x(p) : border_of_x(p);
    int64_t images = border_is_empty(&b) ? 0 : samples_at_once(p) * border_image(&b);
    return (size_t)(images + grad_kernel_sums(p, &part)) * sizeof(float) + 128;
}

/* Row r of the kernel's gradient, of which rows [begin, end) of the product, over `count` samples. x has borders;
 * sums is [run, f] or, of the part alone, [rows, run]. */
INLINE void grad_kernel_row(const iso_conv *p, const border *b, int64_t r, const kernel_part *part,
                            int64_t count, const float *x, const float *dy, bool transposed, bool add,
                            float *sums)
{
    const int64_t run = p->kernel[1] * p->c, shift = r - p->pad[0], step = p->stride[0];
    int64_t from = shift < 0 ? (-shift + step - 1) / step : 0;
    int64_t to = smaller(p->out[0], shift < p->in[0] ? (p->in[0] - 1 - shift) / step + 1 : 0);
    const float *rows = x + (from * step + shift) * b->wide, *slopes = dy + from * p->out[1] * p->f;
    const int64_t x_k = p->stride[1] * p->c, x_segment = step * b->wide, x_plane = border_image(b);
    const int64_t dy_segment = p->out[1] * p->f, dy_plane = p->out[0] * dy_segment;
    const int64_t rows_of_part = part->end - part->begin;
    iso_tile t = {.k = p->out[1], .segments = larger(0, to - from), .planes = count, .add = add, .a_row = 1};
    if (transposed) {
        t.a = slopes + part->begin, t.a_k = p->f, t.a_segment = dy_segment, t.a_plane = dy_plane;
        t.b = rows, t.b_k = x_k, t.b_segment = x_segment, t.b_plane = x_plane;
        t.c_row = run;
        t.c = sums;
        tile_all(&t, rows_of_part, run, tile_width(p->f, (run + VL - 1) / VL));
    } else {
        t.a = rows + part->begin, t.a_k = x_k, t.a_segment = x_segment, t.a_plane = x_plane;
        t.b = slopes, t.b_k = p->f, t.b_segment = dy_segment, t.b_plane = dy_plane;
        t.c_row = p->f;
        t.c = sums + part->begin * p->f;
        tile_all(&t, rows_of_part, p->f, tile_width(run, (p->f + VL - 1) / VL));
    }
}

void ISO_SIMD(conv_grad_kernel)(const iso_conv *p, int64_t number, const float *x, const float *dy,
                                float *dkernel, void *scratch)
{
    const kernel_part part = grad_kernel_part_of(p, number);
    border b = border_of_x(p);
    const int64_t run = p->kernel[1] * p->c, step = samples_at_once(p), end = part.row + part.rows;
    const int64_t image = b.rows * b.row, slopes = p->out[0] * p->out[1] * p->f;
    bool transposed = lanes_hold_run(p);
    const int64_t sums_step = (part.end - part.begin) * run; /* of a row of the kernel */
    float *sums = scratch, *room = sums + grad_kernel_sums(p, &part);
    if (has_few_taps(p) && p->n > 0) {
        conv_few_taps_grad(p, part.begin, part.end, x, dy, dkernel, scratch);
        return;
    }
    for (int64_t i = 0; i < p->n; i += step) {
        int64_t count = smaller(step, p->n - i);
        const float *samples = border_add(&b, count, x + i * image, room);
        for (int64_t r = part.row; r < end; r++)
            grad_kernel_row(p, &b, r, &part, count, samples, dy + i * slopes, transposed, i > 0,
                            transposed ? sums + (r - part.row) * sums_step : dkernel + r * run * p->f);
    }
    if (p->n == 0)
        memset(dkernel, 0, (size_t)(p->kernel[0] * run * p->f) * sizeof *dkernel);
    else if (transposed)
        for (int64_t r = part.row; r < end; r++)
            ISO_SIMD(transpose_f32)
    (part.end - part.begin, run, sums + (r - part.row) * sums_step, run,
     dkernel + r * run * p->f + part.begin, p->f);
}
