/* Kernels of convolutions with as many groups as channels, in float32. If a channel has several filters, its
 * elements are repeated for each. */
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

typedef struct shape {
    iso_depthwise d; /* d.c: filters */
    int64_t n, times;
} shape;

static shape depthwise_shape_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                                const iso_array *y)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    shape s = {.n = x->dim[0], .d.c = y->dim[3], .times = x->dim[3] ? y->dim[3] / x->dim[3] : 1};
    for (int i = 0; i < 2; i++) {
        s.d.in[i] = x->dim[1 + i];
        s.d.out[i] = y->dim[1 + i];
        s.d.taps[i] = kernel->dim[i];
        s.d.stride[i] = geometry->stride[i];
        s.d.dilation[i] = geometry->dilation[i];
        s.d.pad[i] = iso_local_padding(x, y, 1 + i, geometry->stride[i], geometry->pad_before[i]);
    }
    return s;
}

static bool depthwise_fits(const iso_kernel_call *call, const iso_array *kernel, const shape *s)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    return iso_cpu_has_type(call, ISO_F32) && geometry->groups > 1 && kernel->dim[2] == 1 &&
           s->d.taps[0] <= ISO_DEPTHWISE_TAPS && s->d.taps[1] <= ISO_DEPTHWISE_TAPS;
}

static int64_t pixels_in(const shape *s)
{
    return s->d.in[0] * s->d.in[1];
}

/* An image with every channel repeated; a vector past its end may be read. */
static size_t depthwise_scratch_of(const shape *s)
{
    return s->times > 1 ? (size_t)(pixels_in(s) * s->d.c) * sizeof(float) + 64 : 0;
}

/* Image i of x, with its channels repeated if needed. */
static const float *image(const shape *s, const float *x, int64_t i, float *scratch)
{
    int64_t count = pixels_in(s) * (s->d.c / s->times);
    x += i * count;
    if (s->times == 1)
        return x;
    for (int64_t k = 0; k < count; k++)
        for (int64_t t = 0; t < s->times; t++)
            scratch[k * s->times + t] = x[k];
    return scratch;
}

static int64_t size_of_y(const shape *s)
{
    return s->d.out[0] * s->d.out[1] * s->d.c;
}

/* ---- forward ---- */
static shape depthwise_forward(const iso_kernel_call *call)
{
    return depthwise_shape_of(call, &call->in[0], &call->in[1], &call->out[0]);
}

static bool depthwise_forward_fits(const iso_kernel_call *call)
{
    shape s = depthwise_forward(call);
    return depthwise_fits(call, &call->in[1], &s);
}

static size_t depthwise_forward_scratch(const iso_kernel_call *call)
{
    shape s = depthwise_forward(call);
    return depthwise_scratch_of(&s);
}

static void depthwise_run_forward(const iso_kernel_call *call)
{
    shape s = depthwise_forward(call);
    for (int64_t i = 0; i < s.n; i++)
        iso_cpu_functions()->depthwise_f32(&s.d, image(&s, call->in[0].data, i, call->scratch),
                                           call->in[1].data, (float *)call->out[0].data + i * size_of_y(&s));
}

/* ---- gradient of the input ---- */
static shape depthwise_backward_input(const iso_kernel_call *call)
{
    return depthwise_shape_of(call, &call->out[0], &call->in[0], &call->in[1]);
}

static bool depthwise_input_fits(const iso_kernel_call *call)
{
    shape s = depthwise_backward_input(call);
    return depthwise_fits(call, &call->in[0], &s);
}

static size_t depthwise_input_scratch(const iso_kernel_call *call)
{
    shape s = depthwise_backward_input(call);
    return depthwise_scratch_of(&s);
}

/* The sum over a channel's filters. */
static void depthwise_join(const shape *s, const float *from, float *dx)
{
    for (int64_t k = 0; k < pixels_in(s) * (s->d.c / s->times); k++) {
        float sum = 0;
        for (int64_t t = 0; t < s->times; t++)
            sum += from[k * s->times + t];
        dx[k] = sum;
    }
}

static void depthwise_run_input(const iso_kernel_call *call)
{
    shape s = depthwise_backward_input(call);
    for (int64_t i = 0; i < s.n; i++) {
        float *dx = (float *)call->out[0].data + i * pixels_in(&s) * (s.d.c / s.times);
        float *each = s.times > 1 ? call->scratch : dx;
        iso_cpu_functions()->depthwise_grad_input_f32(
            &s.d, call->in[0].data, (const float *)call->in[1].data + i * size_of_y(&s), each);
        if (s.times > 1)
            depthwise_join(&s, each, dx);
    }
}

/* ---- gradient of the kernel ---- */
static shape depthwise_backward_kernel(const iso_kernel_call *call)
{
    return depthwise_shape_of(call, &call->in[0], &call->out[0], &call->in[1]);
}

static bool depthwise_kernel_fits(const iso_kernel_call *call)
{
    shape s = depthwise_backward_kernel(call);
    return depthwise_fits(call, &call->out[0], &s);
}

static size_t depthwise_kernel_scratch(const iso_kernel_call *call)
{
    shape s = depthwise_backward_kernel(call);
    return depthwise_scratch_of(&s);
}

/* Channels [begin, end) of all taps. */
static void depthwise_kernel_channels(const iso_kernel_call *call, int64_t begin, int64_t end)
{
    shape s = depthwise_backward_kernel(call);
    float *dkernel = call->out[0].data;
    for (int64_t tap = 0; tap < s.d.taps[0] * s.d.taps[1]; tap++)
        memset(dkernel + tap * s.d.c + begin, 0, (size_t)(end - begin) * sizeof *dkernel);
    for (int64_t i = 0; i < s.n; i++)
        iso_cpu_functions()->depthwise_grad_kernel_f32(
            &s.d, begin, end, image(&s, call->in[0].data, i, call->scratch),
            (const float *)call->in[1].data + i * size_of_y(&s), dkernel);
}

static void depthwise_run_kernel(const iso_kernel_call *call)
{
    depthwise_kernel_channels(call, 0, depthwise_backward_kernel(call).d.c);
}

/* Channels of a block: whole lines, and whole vectors. */
static int64_t depthwise_part(const shape *s)
{
    enum { LINE = 16, MOST = 16 };
    return (s->d.c / LINE + MOST - 1) / MOST * LINE;
}

static int64_t depthwise_kernel_blocks(const iso_kernel_call *call)
{
    static const double least = 3e5; /* multiplications, with fewer for each element than convolutions have */
    const shape s = depthwise_backward_kernel(call);
    const double count = (double)(s.n * size_of_y(&s)) * (double)(s.d.taps[0] * s.d.taps[1]);
    const int64_t part = depthwise_part(&s);
    return count >= least && part > 0 ? (s.d.c + part - 1) / part : 1;
}

static void depthwise_run_kernel_block(const iso_kernel_call *call, int64_t block)
{
    const shape s = depthwise_backward_kernel(call);
    const int64_t part = depthwise_part(&s), begin = block * part, end = begin + part;
    depthwise_kernel_channels(call, begin, end < s.d.c ? end : s.d.c);
}

const iso_kernel iso_cpu_conv2d_depthwise = {.op = "conv2d",
                                             .name = "depthwise",
                                             .fits = depthwise_forward_fits,
                                             .scratch = depthwise_forward_scratch,
                                             .run = depthwise_run_forward,
                                             .by_rows = true};
const iso_kernel iso_cpu_conv2d_grad_input_depthwise = {.op = "conv2d_grad_input",
                                                        .name = "depthwise",
                                                        .fits = depthwise_input_fits,
                                                        .scratch = depthwise_input_scratch,
                                                        .run = depthwise_run_input,
                                                        .by_rows = true};
const iso_kernel iso_cpu_conv2d_grad_kernel_depthwise = {.op = "conv2d_grad_kernel",
                                                         .name = "depthwise",
                                                         .fits = depthwise_kernel_fits,
                                                         .scratch = depthwise_kernel_scratch,
                                                         .run = depthwise_run_kernel,
                                                         .blocks = depthwise_kernel_blocks,
                                                         .run_block = depthwise_run_kernel_block};
