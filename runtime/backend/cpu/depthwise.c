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

static void depthwise_run_kernel(const iso_kernel_call *call)
{
    shape s = depthwise_backward_kernel(call);
    memset(call->out[0].data, 0, (size_t)iso_array_count(&call->out[0]) * sizeof(float));
    for (int64_t i = 0; i < s.n; i++)
        iso_cpu_functions()->depthwise_grad_kernel_f32(&s.d, image(&s, call->in[0].data, i, call->scratch),
                                                       (const float *)call->in[1].data + i * size_of_y(&s),
                                                       call->out[0].data);
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
                                                         .run = depthwise_run_kernel};
