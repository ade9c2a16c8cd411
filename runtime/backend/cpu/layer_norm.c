/* Kernels of layer normalisation in float32. */
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/row_parts.h"
#include "runtime/graph/ops/network.h"

static bool layer_norm_fits(const iso_kernel_call *call)
{
    return iso_cpu_has_type(call, ISO_F32);
}

static int64_t layer_norm_channels_of(const iso_array *x)
{
    return x->dim[x->rank - 1];
}

static int64_t layer_norm_rows_of(const iso_array *x)
{
    return layer_norm_channels_of(x) ? iso_cpu_product(x, 0, x->rank - 1) : 0;
}

static void layer_norm_run(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    const float *gamma = attrs->has_gamma ? call->in[1].data : NULL;
    const float *beta = attrs->has_beta ? call->in[attrs->has_gamma ? 2 : 1].data : NULL;
    const float *residual = attrs->residual ? call->in[call->n_inputs - 1].data : NULL;
    iso_cpu_functions()->layer_norm_f32(layer_norm_rows_of(x), layer_norm_channels_of(x), x->data, residual,
                                        gamma, beta, (float)attrs->epsilon, attrs->rms,
                                        residual ? call->out[1].data : NULL, call->out[0].data);
}

static void layer_norm_run_gradient(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    iso_cpu_functions()->layer_norm_grad_f32(
        layer_norm_rows_of(x), layer_norm_channels_of(x), x->data, call->in[1].data,
        attrs->has_gamma ? call->in[2].data : NULL, (float)attrs->epsilon, attrs->rms,
        attrs->residual ? call->in[call->n_inputs - 1].data : NULL, call->out[0].data);
}

/* Of a part: dgamma and dbeta in double, two rows of floats. */
static iso_row_parts layer_norm_parts(const iso_kernel_call *call)
{
    const int64_t c = layer_norm_channels_of(&call->in[0]);
    return iso_row_parts_of(layer_norm_rows_of(&call->in[0]), c, 2 * c, (size_t)c * 2 * sizeof(float) + 64);
}

static void layer_norm_sum_part(const iso_kernel_call *call, int64_t part, double *sums, void *room)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_row_parts p = layer_norm_parts(call);
    const int64_t c = layer_norm_channels_of(&call->in[0]), begin = iso_row_part_begin(&p, part);
    iso_cpu_functions()->layer_norm_sums_f32(
        iso_row_part_begin(&p, part + 1) - begin, c, (const float *)call->in[0].data + begin * c,
        (const float *)call->in[1].data + begin * c, (float)attrs->epsilon, attrs->rms, sums, sums + c, room);
}

static void layer_norm_put_sums(const iso_kernel_call *call, const double *sums)
{
    const int64_t c = layer_norm_channels_of(&call->in[0]);
    for (int64_t i = 0; i < c; i++) {
        ((float *)call->out[0].data)[i] = (float)sums[i];
        ((float *)call->out[1].data)[i] = (float)sums[c + i];
    }
}

ISO_ROW_SUMS(layer_norm_sums, layer_norm_parts, layer_norm_sum_part, layer_norm_put_sums)

const iso_kernel iso_cpu_layer_norm = {
    .op = "layer_norm", .name = "vector", .fits = layer_norm_fits, .run = layer_norm_run, .by_rows = true};
const iso_kernel iso_cpu_layer_norm_grad = {.op = "layer_norm_grad",
                                            .name = "vector",
                                            .fits = layer_norm_fits,
                                            .run = layer_norm_run_gradient,
                                            .by_rows = true};
const iso_kernel iso_cpu_layer_norm_grad_sums = {.op = "layer_norm_grad_sums",
                                                 .name = "vector",
                                                 .fits = layer_norm_fits,
                                                 ISO_ROW_SUMS_MEMBERS(layer_norm_sums)};
