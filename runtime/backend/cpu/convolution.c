/* Kernels of convolutions in float32 without groups and dilation. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/graph/ops/network.h"

static iso_conv conv_of(const iso_call *call, const iso_array *x, const iso_array *kernel, const iso_array *y)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    iso_conv conv = {.n = x->dim[0], .c = x->dim[3], .f = y->dim[3]};
    for (int i = 0; i < 2; i++) {
        conv.in[i] = x->dim[1 + i];
        conv.out[i] = y->dim[1 + i];
        conv.kernel[i] = kernel->dim[i];
        conv.stride[i] = geometry->stride[i];
        conv.pad[i] = geometry->pad_before[i];
    }
    return conv;
}

static bool fits(const iso_call *call)
{
    const iso_conv_geometry *geometry = &((const iso_conv_attrs *)call->attrs)->geometry;
    return iso_cpu_has_type(call, ISO_F32) && geometry->groups == 1 && geometry->dilation[0] == 1 &&
           geometry->dilation[1] == 1;
}

static iso_conv forward(const iso_call *call)
{
    return conv_of(call, &call->in[0], &call->in[1], &call->out[0]);
}

static size_t forward_scratch(const iso_call *call)
{
    iso_conv conv = forward(call);
    return iso_cpu_functions()->conv_scratch(&conv);
}

static void run_forward(const iso_call *call)
{
    iso_conv conv = forward(call);
    iso_cpu_functions()->conv(&conv, call->in[0].data, call->in[1].data, call->out[0].data, call->scratch);
}

static iso_conv backward_input(const iso_call *call)
{
    return conv_of(call, &call->out[0], &call->in[0], &call->in[1]);
}

static size_t input_scratch(const iso_call *call)
{
    iso_conv conv = backward_input(call);
    return iso_cpu_functions()->conv_grad_input_scratch(&conv);
}

static void run_input(const iso_call *call)
{
    iso_conv conv = backward_input(call);
    iso_cpu_functions()->conv_grad_input(&conv, call->in[0].data, call->in[1].data, call->out[0].data,
                                         call->scratch);
}

static iso_conv backward_kernel(const iso_call *call)
{
    return conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
}

static size_t kernel_scratch(const iso_call *call)
{
    iso_conv conv = backward_kernel(call);
    return iso_cpu_functions()->conv_grad_kernel_scratch(&conv);
}

static void run_kernel(const iso_call *call)
{
    iso_conv conv = backward_kernel(call);
    iso_cpu_functions()->conv_grad_kernel(&conv, call->in[0].data, call->in[1].data, call->out[0].data,
                                          call->scratch);
}

const iso_kernel iso_cpu_conv2d = {
    .op = "conv2d", .name = "tiles", .fits = fits, .scratch = forward_scratch, .run = run_forward};
const iso_kernel iso_cpu_conv2d_grad_input = {
    .op = "conv2d_grad_input", .name = "tiles", .fits = fits, .scratch = input_scratch, .run = run_input};
const iso_kernel iso_cpu_conv2d_grad_kernel = {
    .op = "conv2d_grad_kernel", .name = "tiles", .fits = fits, .scratch = kernel_scratch, .run = run_kernel};
