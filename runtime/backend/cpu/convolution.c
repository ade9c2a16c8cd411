/* Kernels of convolutions in float32 without groups and dilation. */
#include "runtime/backend/cpu/convolution.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

iso_conv iso_cpu_conv_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                         const iso_array *y, int height)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    iso_conv conv = {.n = x->dim[0], .c = x->dim[height + 2], .f = y->dim[height + 2]};
    for (int i = 0; i < 2; i++) {
        conv.in[i] = x->dim[height + i];
        conv.out[i] = y->dim[height + i];
        conv.kernel[i] = kernel->dim[i];
        conv.stride[i] = geometry->stride[i];
        conv.pad[i] = iso_local_padding(x, y, height + i, geometry->stride[i], geometry->pad_before[i]);
    }
    return conv;
}

bool iso_cpu_conv_fits(const iso_kernel_call *call, const iso_conv *conv)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    bool whole = true;
    for (int i = 0; i < 2; i++)
        whole &= geometry->dilation[i] == 1 && conv->in[i] > 0 && conv->out[i] > 0 && conv->pad[i] >= 0;
    return whole;
}

iso_conv iso_cpu_conv_rotated(const iso_conv *conv)
{
    iso_conv rotated = *conv;
    rotated.c = conv->f;
    rotated.f = conv->c;
    for (int i = 0; i < 2; i++) {
        rotated.in[i] = conv->out[i];
        rotated.out[i] = conv->in[i];
        rotated.pad[i] = conv->kernel[i] - 1 - conv->pad[i];
    }
    return rotated;
}

enum { HEIGHT = 1 }; /* of images [n, h, w, c] */

static bool convolution_fits(const iso_kernel_call *call, const iso_conv *conv)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    return iso_cpu_conv_fits(call, conv) && iso_cpu_has_type(call, ISO_F32) && geometry->groups == 1;
}

static iso_conv convolution_forward(const iso_kernel_call *call)
{
    return iso_cpu_conv_of(call, &call->in[0], &call->in[1], &call->out[0], HEIGHT);
}

static bool convolution_forward_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return convolution_fits(call, &conv);
}

static size_t convolution_forward_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return iso_cpu_functions()->conv_scratch(&conv);
}

static void convolution_run_forward(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    iso_cpu_functions()->conv(&conv, call->in[0].data, call->in[1].data, call->out[0].data, call->scratch);
}

static iso_conv convolution_backward_input(const iso_kernel_call *call)
{
    return iso_cpu_conv_of(call, &call->out[0], &call->in[0], &call->in[1], HEIGHT);
}

static bool convolution_input_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    return convolution_fits(call, &conv);
}

static size_t convolution_input_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    return iso_cpu_functions()->conv_grad_input_scratch(&conv);
}

static void convolution_run_input(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    iso_cpu_functions()->conv_grad_input(&conv, call->in[0].data, call->in[1].data, call->out[0].data,
                                         call->scratch);
}

static iso_conv convolution_backward_kernel(const iso_kernel_call *call)
{
    return iso_cpu_conv_of(call, &call->in[0], &call->out[0], &call->in[1], HEIGHT);
}

static bool convolution_kernel_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_fits(call, &conv);
}

static size_t convolution_kernel_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return iso_cpu_functions()->conv_grad_kernel_scratch(&conv);
}

/* Whether the work is enough for several threads. */
static bool convolution_is_divided(const iso_conv *conv)
{
    static const double least = 1e6; /* multiplications */
    double count = (double)conv->n * (double)conv->c * (double)conv->f;
    for (int i = 0; i < 2; i++)
        count *= (double)conv->out[i] * (double)conv->kernel[i];
    return count >= least;
}

static int64_t convolution_kernel_blocks(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_is_divided(&conv) ? iso_cpu_functions()->conv_grad_kernel_parts(&conv) : 1;
}

static void convolution_run_kernel_block(const iso_kernel_call *call, int64_t block)
{
    iso_conv conv = convolution_backward_kernel(call);
    iso_cpu_functions()->conv_grad_kernel(&conv, block, call->in[0].data, call->in[1].data, call->out[0].data,
                                          call->scratch);
}

static void convolution_run_kernel(const iso_kernel_call *call)
{
    convolution_run_kernel_block(call, -1);
}

/* ---- by Winograd's F(2 x 2, 3 x 3) ---- */

/* shape: of the convolution that is computed */
static bool convolution_is_winograd(const iso_kernel_call *call, const iso_conv *conv, const iso_conv *shape)
{
    return convolution_fits(call, conv) && iso_cpu_functions()->winograd_pays(shape);
}

static iso_conv convolution_rotated(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call);
    return iso_cpu_conv_rotated(&conv);
}

static bool winograd_forward_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return convolution_is_winograd(call, &conv, &conv);
}

static size_t winograd_forward_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    return iso_cpu_functions()->winograd_scratch(&conv);
}

static void winograd_run_forward(const iso_kernel_call *call)
{
    iso_conv conv = convolution_forward(call);
    iso_cpu_functions()->winograd(&conv, false, call->in[0].data, call->in[1].data, call->out[0].data,
                                  call->scratch);
}

static bool winograd_input_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_input(call), rotated = convolution_rotated(call);
    return convolution_is_winograd(call, &conv, &rotated);
}

static size_t winograd_input_scratch(const iso_kernel_call *call)
{
    iso_conv rotated = convolution_rotated(call);
    return iso_cpu_functions()->winograd_scratch(&rotated);
}

static void winograd_run_input(const iso_kernel_call *call)
{
    iso_conv rotated = convolution_rotated(call);
    iso_cpu_functions()->winograd(&rotated, true, call->in[1].data, call->in[0].data, call->out[0].data,
                                  call->scratch);
}

static bool winograd_kernel_fits(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_is_winograd(call, &conv, &conv);
}

static size_t winograd_kernel_scratch(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return iso_cpu_functions()->winograd_grad_kernel_scratch(&conv);
}

static int64_t winograd_kernel_blocks(const iso_kernel_call *call)
{
    iso_conv conv = convolution_backward_kernel(call);
    return convolution_is_divided(&conv) ? iso_cpu_functions()->winograd_grad_kernel_parts(&conv) : 1;
}

static void winograd_run_kernel_block(const iso_kernel_call *call, int64_t block)
{
    iso_conv conv = convolution_backward_kernel(call);
    iso_cpu_functions()->winograd_grad_kernel(&conv, block, call->in[0].data, call->in[1].data,
                                              call->out[0].data, call->scratch);
}

static void winograd_run_kernel(const iso_kernel_call *call)
{
    winograd_run_kernel_block(call, -1);
}

#define WINOGRAD "Winograd F(2x2, 3x3)"
const iso_kernel iso_cpu_conv2d_winograd = {.op = "conv2d",
                                            .name = WINOGRAD,
                                            .fits = winograd_forward_fits,
                                            .scratch = winograd_forward_scratch,
                                            .run = winograd_run_forward,
                                            .by_rows = true};
const iso_kernel iso_cpu_conv2d_grad_input_winograd = {.op = "conv2d_grad_input",
                                                       .name = WINOGRAD,
                                                       .fits = winograd_input_fits,
                                                       .scratch = winograd_input_scratch,
                                                       .run = winograd_run_input,
                                                       .by_rows = true};
const iso_kernel iso_cpu_conv2d_grad_kernel_winograd = {.op = "conv2d_grad_kernel",
                                                        .name = WINOGRAD,
                                                        .fits = winograd_kernel_fits,
                                                        .scratch = winograd_kernel_scratch,
                                                        .run = winograd_run_kernel,
                                                        .blocks = winograd_kernel_blocks,
                                                        .run_block = winograd_run_kernel_block};
const iso_kernel iso_cpu_conv2d = {.op = "conv2d",
                                   .name = "tiles",
                                   .fits = convolution_forward_fits,
                                   .scratch = convolution_forward_scratch,
                                   .run = convolution_run_forward,
                                   .by_rows = true};
const iso_kernel iso_cpu_conv2d_grad_input = {.op = "conv2d_grad_input",
                                              .name = "tiles",
                                              .fits = convolution_input_fits,
                                              .scratch = convolution_input_scratch,
                                              .run = convolution_run_input,
                                              .by_rows = true};
const iso_kernel iso_cpu_conv2d_grad_kernel = {.op = "conv2d_grad_kernel",
                                               .name = "tiles",
                                               .fits = convolution_kernel_fits,
                                               .scratch = convolution_kernel_scratch,
                                               .run = convolution_run_kernel,
                                               .blocks = convolution_kernel_blocks,
                                               .run_block = convolution_run_kernel_block};
