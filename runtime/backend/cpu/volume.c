/* Kernels of convolutions that take the windows along the depth of volumes themselves (iso_conv_attrs.depth): of some
 * positions at a time, or by Winograd, which needs no copy of the windows. */
#include <string.h>

#include "runtime/backend/cpu/convolution.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/windows.h"

enum {
    BUFFER = 1 << 20 /* bytes of the windows of some positions, which stay in the L2 cache; at least of one */
};

static const iso_conv_attrs *volume_attrs(const iso_kernel_call *call)
{
    return call->attrs;
}

/* x [n, d, h, w, c], y [n, positions, oh, ow, f] */
static iso_unfolding volume_windows(const iso_kernel_call *call, const iso_array *x, const iso_array *y)
{
    const iso_unfold_geometry *g = &volume_attrs(call)->depth;
    return (iso_unfolding){.outer = x->dim[0],
                           .d = x->dim[1],
                           .inner = x->dim[2] * x->dim[3],
                           .c = x->dim[4],
                           .positions = y->dim[1],
                           .size = g->size,
                           .stride = g->stride,
                           .dilation = g->dilation,
                           .pad = iso_local_padding(x, y, 1, g->stride, g->pad_before)};
}

static bool volume_fits(const iso_kernel_call *call)
{
    return volume_attrs(call)->depth.size > 0;
}

/* ---- some slices at a time, by the kernels of images ---- */

/* The three operands and the op of one convolution of images; which of them is written depends on the op. */
typedef struct volume_images {
    const char *op;
    const iso_kernel_call *call;
    const iso_array *x, *kernel, *y;
    iso_unfolding windows;
    int64_t count;       /* positions at a time */
    size_t buffer, sums; /* bytes of scratch: the windows of some positions; a kernel's gradient */
    iso_conv_attrs attrs;
    iso_kernel_call images;
    iso_array in[2], out[1];
} volume_images;

static size_t volume_align(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 127) / 64 * 64; /* kernels may read a vector past the end */
}

static volume_images volume_begin(const iso_kernel_call *call, const char *op)
{
    volume_images v = {.op = op, .call = call, .x = &call->in[0], .kernel = &call->in[1], .y = &call->out[0]};
    if (strcmp(op, "conv2d_grad_input") == 0) {
        v.kernel = &call->in[0];
        v.y = &call->in[1];
        v.x = &call->out[0];
    } else if (strcmp(op, "conv2d_grad_kernel") == 0) {
        v.y = &call->in[1];
        v.kernel = &call->out[0];
        v.sums = volume_align(iso_array_count(v.kernel));
    }
    v.windows = volume_windows(call, v.x, v.y);
    const iso_unfolding *u = &v.windows;
    const int64_t slice = u->inner * u->size * u->c, most = slice ? BUFFER / 4 / slice : 1;
    v.count = most < 1 ? 1 : most < u->positions ? most : u->positions;
    v.buffer = volume_align(v.count * slice);
    v.attrs = *volume_attrs(call);
    v.attrs.depth = (iso_unfold_geometry){0};
    return v;
}

static iso_array volume_as_images(const iso_array *volume, int64_t n, int64_t channels, void *data)
{
    iso_array images = {.data = data, .dtype = volume->dtype, .rank = 4, .dim = {n}, .global = {n}};
    for (int i = 1; i < 4; i++) {
        images.dim[i] = i < 3 ? volume->dim[i + 1] : channels;
        images.global[i] = i < 3 ? volume->global[i + 1] : channels;
        images.offset[i] = i < 3 ? volume->offset[i + 1] : 0;
    }
    return images;
}

/* The call for `count` positions, whose windows are `x` and outputs `y`, and what runs it. */
static const iso_kernel *volume_call(volume_images *v, int64_t count, void *x, void *kernel, void *y)
{
    iso_array slices = volume_as_images(v->x, count, v->windows.size * v->windows.c, x);
    iso_array outputs = volume_as_images(v->y, count, v->y->dim[4], y), weights = *v->kernel;
    weights.data = kernel;
    const bool into_x = v->x == v->call->out, into_kernel = v->kernel == v->call->out;
    v->in[0] = into_x ? weights : slices;
    v->in[1] = into_x || into_kernel ? outputs : weights;
    v->out[0] = into_x ? slices : into_kernel ? weights : outputs;
    v->images = *v->call;
    v->images.attrs = &v->attrs;
    v->images.in = v->in;
    v->images.out = v->out;
    return iso_backend_cpu()->find(v->op, &v->images);
}

static size_t volume_scratch(const iso_kernel_call *call, const char *op)
{
    volume_images v = volume_begin(call, op);
    const int64_t rest = v.count ? v.windows.positions % v.count : 0;
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        const iso_kernel *kernel = volume_call(&v, i ? rest : v.count, NULL, NULL, NULL);
        const size_t bytes = kernel && kernel->scratch ? kernel->scratch(&v.images) : 0;
        most = bytes > most ? bytes : most;
    }
    return v.buffer + v.sums + most;
}

/* Positions [first, first + count) of sample n. */
static void volume_run_some(volume_images *v, int64_t n, int64_t first, int64_t count)
{
    const iso_unfolding *u = &v->windows;
    float *slices = v->call->scratch, *sums = slices + v->buffer / sizeof *slices;
    float *x = (float *)v->x->data + n * u->d * u->inner * u->c;
    float *y = (float *)v->y->data + (n * u->positions + first) * iso_cpu_product(v->y, 2, 5);
    float *kernel = v->kernel->data;
    const bool into_x = v->x == v->call->out, adds = v->kernel == v->call->out && n + first > 0;
    if (!into_x)
        iso_cpu_unfold_windows(u, sizeof *x, first, count, x, slices);
    const iso_kernel *images = volume_call(v, count, slices, adds ? sums : kernel, y);
    v->images.scratch = sums + v->sums / sizeof *sums;
    images->run(&v->images);
    if (into_x)
        iso_cpu_fold_windows(u, first, count, slices, x);
    if (adds)
        iso_backend_cpu()->sum(ISO_F32, iso_array_count(v->kernel), kernel, sums, kernel, NULL);
}

static void volume_run(const iso_kernel_call *call, const char *op)
{
    volume_images v = volume_begin(call, op);
    const iso_unfolding *u = &v.windows;
    if (v.x == call->out || u->outer * u->positions == 0)
        memset(call->out[0].data, 0, iso_array_bytes(&call->out[0]));
    for (int64_t n = 0; n < u->outer; n++)
        for (int64_t first = 0; first < u->positions; first += v.count)
            volume_run_some(&v, n, first, u->positions - first < v.count ? u->positions - first : v.count);
}

/* Whether the work is enough for several threads. */
static bool volume_is_divided(const volume_images *v)
{
    static const double least = 1e6; /* multiplications */
    const double outputs =
        (double)(v->windows.outer * v->windows.positions) * (double)iso_cpu_product(v->y, 2, 4);
    return outputs * (double)iso_array_count(v->kernel) >= least;
}

/* Forward: the positions that are computed at a time. */
static int64_t volume_runs(const volume_images *v)
{
    return (v->windows.positions + v->count - 1) / v->count;
}

static int64_t volume_blocks_conv2d(const iso_kernel_call *call)
{
    const volume_images v = volume_begin(call, "conv2d");
    return volume_is_divided(&v) ? v.windows.outer * volume_runs(&v) : 1;
}

static void volume_run_block_conv2d(const iso_kernel_call *call, int64_t block)
{
    volume_images v = volume_begin(call, "conv2d");
    const int64_t runs = volume_runs(&v), first = block % runs * v.count, left = v.windows.positions - first;
    volume_run_some(&v, block / runs, first, left < v.count ? left : v.count);
}

#define RUN_OF_IMAGES(OP)                                                                                    \
    static size_t volume_scratch_##OP(const iso_kernel_call *call)                                           \
    {                                                                                                        \
        return volume_scratch(call, #OP);                                                                    \
    }                                                                                                        \
    static void volume_run_##OP(const iso_kernel_call *call)                                                 \
    {                                                                                                        \
        volume_run(call, #OP);                                                                               \
    }
RUN_OF_IMAGES(conv2d)
RUN_OF_IMAGES(conv2d_grad_input)
RUN_OF_IMAGES(conv2d_grad_kernel)

/* Gradient of the input: the samples, because windows of positions overlap. */
static int64_t volume_blocks_conv2d_grad_input(const iso_kernel_call *call)
{
    const volume_images v = volume_begin(call, "conv2d_grad_input");
    return volume_is_divided(&v) ? v.windows.outer : 1;
}

static void volume_run_block_conv2d_grad_input(const iso_kernel_call *call, int64_t block)
{
    iso_cpu_run_rows(call, 1, call->out[0].dim[0], block, volume_run_conv2d_grad_input);
}

#define OF_IMAGES(OP, ...)                                                                                   \
    const iso_kernel iso_cpu_##OP##_volume = {.op = #OP,                                                     \
                                              .name = "some slices at a time",                               \
                                              .fits = volume_fits,                                           \
                                              .scratch = volume_scratch_##OP,                                \
                                              .run = volume_run_##OP,                                        \
                                              __VA_ARGS__};
OF_IMAGES(conv2d, .blocks = volume_blocks_conv2d, .run_block = volume_run_block_conv2d)
OF_IMAGES(conv2d_grad_input, .blocks = volume_blocks_conv2d_grad_input,
          .run_block = volume_run_block_conv2d_grad_input)
OF_IMAGES(conv2d_grad_kernel, .blocks = NULL)

/* ---- by Winograd's F(2 x 2, 3 x 3) of the slices ---- */
typedef struct volume_conv {
    iso_conv slice;
    iso_conv_depth depth;
    bool fits; /* but for winograd_volume_pays */
} volume_conv;

static volume_conv volume_conv_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                                  const iso_array *y)
{
    enum { HEIGHT = 2 }; /* of volumes [n, d, h, w, c] */
    volume_conv v = {.fits = volume_fits(call)};
    if (!v.fits)
        return v;
    const iso_unfolding u = volume_windows(call, x, y);
    v.slice = iso_cpu_conv_of(call, x, kernel, y, HEIGHT);
    v.depth = (iso_conv_depth){u.d, u.positions, u.size, u.dilation, u.pad};
    v.fits = u.stride == 1 && iso_cpu_conv_fits(call, &v.slice);
    return v;
}

/* The convolution of dy with the rotated kernel that makes the gradient of x. */
static volume_conv volume_rotated(const iso_kernel_call *call)
{
    volume_conv v = volume_conv_of(call, &call->out[0], &call->in[0], &call->in[1]), r = v;
    r.slice = iso_cpu_conv_rotated(&v.slice);
    r.depth.in = v.depth.out;
    r.depth.out = v.depth.in;
    r.depth.pad = (v.depth.taps - 1) * v.depth.dilation - v.depth.pad;
    return r;
}

static volume_conv volume_forward(const iso_kernel_call *call)
{
    return volume_conv_of(call, &call->in[0], &call->in[1], &call->out[0]);
}

static volume_conv volume_kernel(const iso_kernel_call *call)
{
    return volume_conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
}

static void volume_winograd_forward(const iso_kernel_call *call)
{
    const volume_conv v = volume_forward(call);
    iso_cpu_functions()->winograd_volume(&v.slice, &v.depth, false, call->in[0].data, call->in[1].data,
                                         call->out[0].data, call->scratch);
}

static void volume_winograd_input(const iso_kernel_call *call)
{
    const volume_conv v = volume_rotated(call);
    iso_cpu_functions()->winograd_volume(&v.slice, &v.depth, true, call->in[1].data, call->in[0].data,
                                         call->out[0].data, call->scratch);
}

/* Blocks of each sample: bands of positions. */
typedef struct volume_grid {
    int64_t bands, positions; /* positions: of a band */
} volume_grid;

/* Each block transforms the kernel, so it has enough tiles. */
static volume_grid volume_grid_of(const volume_conv *v)
{
    enum { MOST = 64, LEAST_POSITIONS = 4, LEAST_TILES = 32 };
    const int64_t n = v->slice.n, out = v->depth.out,
                  tiles = n * out * ((v->slice.out[0] + 1) / 2) * ((v->slice.out[1] + 1) / 2) / LEAST_TILES,
                  blocks = tiles < MOST ? tiles : MOST;
    const int64_t bands = blocks > n && n > 0 ? (blocks + n - 1) / n : 1, each = (out + bands - 1) / bands,
                  positions = each < LEAST_POSITIONS ? LEAST_POSITIONS : each;
    return (volume_grid){out > 0 ? (out + positions - 1) / positions : 1, positions};
}

static int64_t volume_winograd_blocks(const volume_conv *v)
{
    static const double least = 1e6; /* multiplications */
    double count = (double)(v->slice.n * v->depth.out * v->depth.taps) * (double)(v->slice.c * v->slice.f);
    for (int i = 0; i < 2; i++)
        count *= (double)(v->slice.out[i] * v->slice.kernel[i]);
    return count < least ? 1 : v->slice.n * volume_grid_of(v).bands;
}

static volume_conv volume_band_of(const volume_conv *v, int64_t block, int64_t *sample, int64_t *begin)
{
    const volume_grid grid = volume_grid_of(v);
    volume_conv band = *v;
    *sample = block / grid.bands;
    *begin = block % grid.bands * grid.positions;
    const int64_t left = v->depth.out - *begin;
    band.slice.n = 1;
    band.depth.out = left < grid.positions ? left : grid.positions;
    band.depth.pad -= *begin;
    return band;
}

static void volume_winograd_block(const iso_kernel_call *call, const volume_conv *v, int64_t block,
                                  bool rotated, const float *x, const float *kernel)
{
    int64_t sample, begin;
    const volume_conv band = volume_band_of(v, block, &sample, &begin);
    const iso_conv *p = &v->slice;
    float *y = call->out[0].data;
    x += sample * v->depth.in * p->in[0] * p->in[1] * p->c;
    y += (sample * v->depth.out + begin) * p->out[0] * p->out[1] * p->f;
    iso_cpu_functions()->winograd_volume(&band.slice, &band.depth, rotated, x, kernel, y, call->scratch);
}

static int64_t volume_winograd_forward_blocks(const iso_kernel_call *call)
{
    const volume_conv v = volume_forward(call);
    return volume_winograd_blocks(&v);
}

static void volume_winograd_forward_block(const iso_kernel_call *call, int64_t block)
{
    const volume_conv v = volume_forward(call);
    volume_winograd_block(call, &v, block, false, call->in[0].data, call->in[1].data);
}

static int64_t volume_winograd_input_blocks(const iso_kernel_call *call)
{
    const volume_conv v = volume_rotated(call);
    return volume_winograd_blocks(&v);
}

static void volume_winograd_input_block(const iso_kernel_call *call, int64_t block)
{
    const volume_conv v = volume_rotated(call);
    volume_winograd_block(call, &v, block, true, call->in[1].data, call->in[0].data);
}

/* For all, and for any of the bands: the panels of a band may be wider. */
static size_t volume_winograd_scratch(const iso_conv *slice, const iso_conv_depth *depth)
{
    const volume_conv v = {.slice = *slice, .depth = *depth};
    const volume_grid grid = volume_grid_of(&v);
    size_t most = iso_cpu_functions()->winograd_volume_scratch(slice, depth);
    for (int64_t band = 0; band<grid.bands; band += grid.bands> 1 ? grid.bands - 1 : 1) {
        int64_t sample, begin;
        const volume_conv part = volume_band_of(&v, band, &sample, &begin);
        const size_t bytes = iso_cpu_functions()->winograd_volume_scratch(&part.slice, &part.depth);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t volume_winograd_kernel_scratch(const iso_conv *slice, const iso_conv_depth *depth)
{
    return iso_cpu_functions()->winograd_volume_grad_kernel_scratch(slice, depth);
}

static void volume_winograd_kernel(const iso_kernel_call *call)
{
    const volume_conv v = volume_kernel(call);
    iso_cpu_functions()->winograd_volume_grad_kernel(&v.slice, &v.depth, call->in[0].data, call->in[1].data,
                                                     call->out[0].data, call->scratch);
}

#define BY_WINOGRAD(OP, CONV, SCRATCH, RUN, ...)                                                             \
    static bool winograd_fits_##OP(const iso_kernel_call *call)                                              \
    {                                                                                                        \
        const volume_conv v = CONV(call);                                                                    \
        return v.fits && iso_cpu_functions()->winograd_volume_pays(&v.slice);                                \
    }                                                                                                        \
    static size_t winograd_scratch_##OP(const iso_kernel_call *call)                                         \
    {                                                                                                        \
        const volume_conv v = CONV(call);                                                                    \
        return SCRATCH(&v.slice, &v.depth);                                                                  \
    }                                                                                                        \
    const iso_kernel iso_cpu_##OP##_winograd_volume = {.op = #OP,                                            \
                                                       .name = "Winograd F(2x2, 3x3) of slices",             \
                                                       .fits = winograd_fits_##OP,                           \
                                                       .scratch = winograd_scratch_##OP,                     \
                                                       .run = RUN,                                           \
                                                       __VA_ARGS__};
BY_WINOGRAD(conv2d, volume_forward, volume_winograd_scratch, volume_winograd_forward,
            .blocks = volume_winograd_forward_blocks, .run_block = volume_winograd_forward_block)
BY_WINOGRAD(conv2d_grad_input, volume_rotated, volume_winograd_scratch, volume_winograd_input,
            .blocks = volume_winograd_input_blocks, .run_block = volume_winograd_input_block)
BY_WINOGRAD(conv2d_grad_kernel, volume_kernel, volume_winograd_kernel_scratch, volume_winograd_kernel,
            .blocks = NULL)
