/* Kernels of convolutions in float32 without groups and dilation. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

static iso_conv conv_of(const iso_kernel_call *call, const iso_array *x, const iso_array *kernel,
                        const iso_array *y)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    iso_conv conv = {.n = x->dim[0], .c = x->dim[3], .f = y->dim[3]};
    for (int i = 0; i < 2; i++) {
        conv.in[i] = x->dim[1 + i];
        conv.out[i] = y->dim[1 + i];
        conv.kernel[i] = kernel->dim[i];
        conv.stride[i] = geometry->stride[i];
        conv.pad[i] = iso_local_padding(x, y, 1 + i, geometry->stride[i], geometry->pad_before[i]);
    }
    return conv;
}

/* Parts without a place or an element of x are left to others, as are those that begin before the window. */
static bool fits(const iso_kernel_call *call, const iso_conv *conv)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    bool whole = true;
    for (int i = 0; i < 2; i++)
        whole &= geometry->dilation[i] == 1 && conv->in[i] > 0 && conv->out[i] > 0 && conv->pad[i] >= 0;
    return whole && iso_cpu_has_type(call, ISO_F32) && geometry->groups == 1;
}

static iso_conv forward(const iso_kernel_call *call)
{
    return conv_of(call, &call->in[0], &call->in[1], &call->out[0]);
}

static bool forward_fits(const iso_kernel_call *call)
{
    iso_conv conv = forward(call);
    return fits(call, &conv);
}

static size_t forward_scratch(const iso_kernel_call *call)
{
    iso_conv conv = forward(call);
    return iso_cpu_functions()->conv_scratch(&conv);
}

static void run_forward(const iso_kernel_call *call)
{
    iso_conv conv = forward(call);
    iso_cpu_functions()->conv(&conv, call->in[0].data, call->in[1].data, call->out[0].data, call->scratch);
}

static iso_conv backward_input(const iso_kernel_call *call)
{
    return conv_of(call, &call->out[0], &call->in[0], &call->in[1]);
}

static bool input_fits(const iso_kernel_call *call)
{
    iso_conv conv = backward_input(call);
    return fits(call, &conv);
}

static size_t input_scratch(const iso_kernel_call *call)
{
    iso_conv conv = backward_input(call);
    return iso_cpu_functions()->conv_grad_input_scratch(&conv);
}

static void run_input(const iso_kernel_call *call)
{
    iso_conv conv = backward_input(call);
    iso_cpu_functions()->conv_grad_input(&conv, call->in[0].data, call->in[1].data, call->out[0].data,
                                         call->scratch);
}

static iso_conv backward_kernel(const iso_kernel_call *call)
{
    return conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
}

static bool kernel_fits(const iso_kernel_call *call)
{
    iso_conv conv = backward_kernel(call);
    return fits(call, &conv);
}

static size_t kernel_scratch(const iso_kernel_call *call)
{
    iso_conv conv = backward_kernel(call);
    return iso_cpu_functions()->conv_grad_kernel_scratch(&conv);
}

static void run_kernel(const iso_kernel_call *call)
{
    iso_conv conv = backward_kernel(call);
    iso_cpu_functions()->conv_grad_kernel(&conv, call->in[0].data, call->in[1].data, call->out[0].data,
                                          call->scratch);
}

const iso_kernel iso_cpu_conv2d = {
    .op = "conv2d", .name = "tiles", .fits = forward_fits, .scratch = forward_scratch, .run = run_forward};
const iso_kernel iso_cpu_conv2d_grad_input = {.op = "conv2d_grad_input",
                                              .name = "tiles",
                                              .fits = input_fits,
                                              .scratch = input_scratch,
                                              .run = run_input};
const iso_kernel iso_cpu_conv2d_grad_kernel = {.op = "conv2d_grad_kernel",
                                               .name = "tiles",
                                               .fits = kernel_fits,
                                               .scratch = kernel_scratch,
                                               .run = run_kernel};
