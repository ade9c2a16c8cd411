/* Convolutions of any geometry, in float32 and float64, as matrix products: the windows of an image become
 * the rows of a matrix ("im2col"). In float32, convolution.c is faster for convolutions without dilation and
 * groups. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/onednn.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

typedef struct shape {
    const iso_conv_geometry *geometry;
    iso_dtype dtype;
    size_t size; /* of an element */
    int64_t n, in[2], out[2], taps[2], pad[2];
    int64_t groups, c, f;       /* channels and filters of a group */
    int64_t all_c, all_f;       /* of all groups */
    int64_t positions, columns; /* of the matrix of windows */
} shape;

static shape im2col_shape_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                             const iso_array *y)
{
    shape s = {.geometry = &((const iso_conv_attrs *)call->attrs)->geometry, .dtype = x->dtype};
    s.size = iso_dtype_size(x->dtype);
    s.n = x->dim[0];
    for (int i = 0; i < 2; i++) {
        s.in[i] = x->dim[1 + i];
        s.out[i] = y->dim[1 + i];
        s.taps[i] = kernel->dim[i];
        s.pad[i] = iso_local_padding(x, y, 1 + i, s.geometry->stride[i], s.geometry->pad_before[i]);
    }
    s.groups = iso_local_groups(x, kernel);
    s.all_c = x->dim[3];
    s.all_f = y->dim[3];
    s.c = kernel->dim[2];
    s.f = s.all_f / s.groups;
    s.positions = s.out[0] * s.out[1];
    s.columns = s.taps[0] * s.taps[1] * s.c;
    return s;
}

/* ---- scratch: consecutive parts, each aligned ---- */
typedef struct parts {
    char *windows, *kernel, *y, *sums;
} parts;

static size_t room(const shape *s, int64_t count)
{
    return ((size_t)count * s->size + 127) / 64 * 64; /* with a vector after it that may be read */
}

static size_t im2col_scratch_of(const shape *s)
{
    return room(s, s->positions * s->columns) + 2 * room(s, s->columns * s->f) + room(s, s->positions * s->f);
}

static parts im2col_parts_of(const iso_kernel_call *call, const shape *s)
{
    parts p = {.windows = call->scratch};
    p.kernel = p.windows + room(s, s->positions * s->columns);
    p.sums = p.kernel + room(s, s->columns * s->f);
    p.y = p.sums + room(s, s->columns * s->f);
    return p;
}

/* ---- windows ---- */
typedef void visit(const shape *s, char *window, char *x);

/* Calls `inside` with each run of channels of the matrix and its position in the image (of this group), or
 * `outside` with NULL if it is outside the image. */
static void for_runs(const shape *s, char *windows, char *image, int64_t group, visit *inside, visit *outside)
{
    const iso_conv_geometry *g = s->geometry;
    for (int64_t position = 0; position < s->positions; position++)
        for (int64_t tap = 0; tap < s->taps[0] * s->taps[1]; tap++, windows += (size_t)s->c * s->size) {
            int64_t y = position / s->out[1] * g->stride[0] - s->pad[0] + tap / s->taps[1] * g->dilation[0];
            int64_t x = position % s->out[1] * g->stride[1] - s->pad[1] + tap % s->taps[1] * g->dilation[1];
            if (y >= 0 && y < s->in[0] && x >= 0 && x < s->in[1])
                inside(s, windows, image + (size_t)((y * s->in[1] + x) * s->all_c + group * s->c) * s->size);
            else
                outside(s, windows, NULL);
        }
}

static void copy_run(const shape *s, char *window, char *x)
{
    memcpy(window, x, (size_t)s->c * s->size);
}

static void clear_run(const shape *s, char *window, char *x)
{
    (void)x;
    memset(window, 0, (size_t)s->c * s->size);
}

static void skip_run(const shape *s, char *window, char *x)
{
    (void)s, (void)window, (void)x;
}

static void im2col_add(const shape *s, int64_t count, const void *a, void *to)
{
    if (s->dtype == ISO_F32)
        iso_cpu_functions()->sum_f32(count, to, a, to);
    else
        iso_cpu_functions()->sum_f64(count, to, a, to);
}

static void add_run(const shape *s, char *window, char *x)
{
    im2col_add(s, s->c, window, x);
}

/* ---- groups: copies the part of one group out of rows of all groups, and back ---- */
static void im2col_take(const shape *s, int64_t rows, int64_t part, int64_t whole, int64_t group,
                        const char *from, char *to)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + (size_t)(i * part) * s->size, from + (size_t)(i * whole + group * part) * s->size,
               (size_t)part * s->size);
}

static void im2col_give(const shape *s, int64_t rows, int64_t part, int64_t whole, int64_t group,
                        const char *from, char *to)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + (size_t)(i * whole + group * part) * s->size, from + (size_t)(i * part) * s->size,
               (size_t)part * s->size);
}

/* c [m, n] = op(a) b, b [k, n] */
static void multiply(const shape *s, int64_t m, int64_t n, int64_t k, bool transpose_a, const void *a,
                     const void *b, void *c)
{
    if (m == 0 || n == 0 || k == 0)
        memset(c, 0, (size_t)(m * n) * s->size);
    else if (s->dtype == ISO_F32)
        iso_cpu_functions()->gemm_f32(m, n, k, a, transpose_a ? 1 : k, transpose_a ? m : 1, b, n, false, c);
    else
        iso_openblas_dgemm(&(iso_product){.m = m, .n = n, .k = k, .transpose_a = transpose_a}, a, b, false,
                           c);
}

static bool im2col_fits(const iso_kernel_call *call, const shape *s)
{
    if (iso_cpu_has_type(call, ISO_F32))
        return true;
    return iso_cpu_has_type(call, ISO_F64) &&
           iso_openblas_takes(&(iso_product){.m = s->positions, .n = s->f, .k = s->columns}) &&
           iso_openblas_takes(&(iso_product){.m = s->columns, .n = s->f, .k = s->positions});
}

/* ---- forward: y = windows kernel ---- */
static shape im2col_forward(const iso_kernel_call *call)
{
    return im2col_shape_of(call, &call->in[0], &call->in[1], &call->out[0]);
}

static void im2col_run_forward(const iso_kernel_call *call)
{
    shape s = im2col_forward(call);
    parts p = im2col_parts_of(call, &s);
    for (int64_t group = 0; group < s.groups; group++) {
        im2col_take(&s, s.columns, s.f, s.all_f, group, call->in[1].data, p.kernel);
        for (int64_t i = 0; i < s.n; i++) {
            char *image = (char *)call->in[0].data + (size_t)(i * s.in[0] * s.in[1] * s.all_c) * s.size;
            for_runs(&s, p.windows, image, group, copy_run, clear_run);
            multiply(&s, s.positions, s.f, s.columns, false, p.windows, p.kernel, p.y);
            im2col_give(&s, s.positions, s.f, s.all_f, group, p.y,
                        (char *)call->out[0].data + (size_t)(i * s.positions * s.all_f) * s.size);
        }
    }
}

/* ---- gradient of the input: windows = dy kernel^T, added to the elements from which they came ---- */
static shape im2col_backward_input(const iso_kernel_call *call)
{
    return im2col_shape_of(call, &call->out[0], &call->in[0], &call->in[1]);
}

static void turn(const shape *s, const char *from, char *to)
{
    for (int64_t i = 0; i < s->columns; i++)
        for (int64_t j = 0; j < s->f; j++)
            memcpy(to + (size_t)(j * s->columns + i) * s->size, from + (size_t)(i * s->f + j) * s->size,
                   s->size);
}

static void im2col_run_input(const iso_kernel_call *call)
{
    shape s = im2col_backward_input(call);
    parts p = im2col_parts_of(call, &s);
    memset(call->out[0].data, 0, (size_t)iso_array_count(&call->out[0]) * s.size);
    for (int64_t group = 0; group < s.groups; group++) {
        im2col_take(&s, s.columns, s.f, s.all_f, group, call->in[0].data, p.sums);
        turn(&s, p.sums, p.kernel);
        for (int64_t i = 0; i < s.n; i++) {
            im2col_take(&s, s.positions, s.f, s.all_f, group,
                        (const char *)call->in[1].data + (size_t)(i * s.positions * s.all_f) * s.size, p.y);
            multiply(&s, s.positions, s.columns, s.f, false, p.y, p.kernel, p.windows);
            for_runs(&s, p.windows,
                     (char *)call->out[0].data + (size_t)(i * s.in[0] * s.in[1] * s.all_c) * s.size, group,
                     add_run, skip_run);
        }
    }
}

/* ---- gradient of the kernel: windows^T dy, summed over images ---- */
static shape im2col_backward_kernel(const iso_kernel_call *call)
{
    return im2col_shape_of(call, &call->in[0], &call->out[0], &call->in[1]);
}

static void im2col_run_kernel(const iso_kernel_call *call)
{
    shape s = im2col_backward_kernel(call);
    parts p = im2col_parts_of(call, &s);
    for (int64_t group = 0; group < s.groups; group++) {
        memset(p.sums, 0, (size_t)(s.columns * s.f) * s.size);
        for (int64_t i = 0; i < s.n; i++) {
            char *image = (char *)call->in[0].data + (size_t)(i * s.in[0] * s.in[1] * s.all_c) * s.size;
            for_runs(&s, p.windows, image, group, copy_run, clear_run);
            im2col_take(&s, s.positions, s.f, s.all_f, group,
                        (const char *)call->in[1].data + (size_t)(i * s.positions * s.all_f) * s.size, p.y);
            multiply(&s, s.columns, s.f, s.positions, true, p.windows, p.y, p.kernel);
            im2col_add(&s, s.columns * s.f, p.kernel, p.sums);
        }
        im2col_give(&s, s.columns, s.f, s.all_f, group, p.sums, call->out[0].data);
    }
}

/* ---- blocks of images ---- */

static int64_t im2col_blocks(const shape *s)
{
    enum { MOST = 64 };
    static const double least = 3e5; /* multiplications of a block */
    const double count = (double)(s->n * s->positions) * (double)s->columns * (double)s->all_f;
    const int64_t blocks = s->n < MOST ? s->n : MOST;
    return count < 2 * least ? 1 : count < (double)blocks * least ? (int64_t)(count / least) : blocks;
}

/* KERNEL: the input that is the kernel */
#define IM2COL_BLOCKS(OP, SHAPE, RUN, KERNEL)                                                                \
    static int64_t blocks_##OP(const iso_kernel_call *call)                                                  \
    {                                                                                                        \
        const shape s = SHAPE(call);                                                                         \
        return im2col_blocks(&s);                                                                            \
    }                                                                                                        \
    static void run_block_##OP(const iso_kernel_call *call, int64_t block)                                   \
    {                                                                                                        \
        iso_cpu_run_rows(call, 1u << KERNEL, blocks_##OP(call), block, RUN);                                 \
    }
IM2COL_BLOCKS(conv2d, im2col_forward, im2col_run_forward, 1)
IM2COL_BLOCKS(conv2d_grad_input, im2col_backward_input, im2col_run_input, 0)

#define IM2COL(OP, SHAPE, RUN, ...)                                                                          \
    static bool fits_##OP(const iso_kernel_call *call)                                                       \
    {                                                                                                        \
        shape s = SHAPE(call);                                                                               \
        return im2col_fits(call, &s);                                                                        \
    }                                                                                                        \
    static size_t scratch_##OP(const iso_kernel_call *call)                                                  \
    {                                                                                                        \
        shape s = SHAPE(call);                                                                               \
        return im2col_scratch_of(&s);                                                                        \
    }                                                                                                        \
    const iso_kernel iso_cpu_##OP##_im2col = {                                                               \
        .op = #OP, .name = "im2col", .fits = fits_##OP, .scratch = scratch_##OP, .run = RUN, __VA_ARGS__};
IM2COL(conv2d, im2col_forward, im2col_run_forward, .blocks = blocks_conv2d, .run_block = run_block_conv2d)
IM2COL(conv2d_grad_input, im2col_backward_input, im2col_run_input, .blocks = blocks_conv2d_grad_input,
       .run_block = run_block_conv2d_grad_input)
IM2COL(conv2d_grad_kernel, im2col_backward_kernel, im2col_run_kernel, .blocks = NULL)
