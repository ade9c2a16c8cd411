/* Kernels over a slot's part of a layer normalisation's channels, in float32; rows of sums are in float64. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/row_parts.h"
#include "runtime/graph/ops/network.h"

enum { BLOCK = 64 }; /* rows that are summed in float before these sums are added in double */

typedef struct part {
    int64_t rows, channels; /* of the slot */
    double count;           /* number of all channels */
    const float *x;
    const iso_layer_norm_attrs *attrs;
} part;

static part layer_parts_part_of(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0];
    int last = x->rank - 1;
    return (part){iso_cpu_product(x, 0, last), x->dim[last], (double)x->global[last], x->data, call->attrs};
}

/* The moments of a row from its sum and sum of squares, which are inputs `at` and `at` + 1. */
static iso_row_moments layer_parts_moments_of(const iso_kernel_call *call, const part *p, int at, int64_t row)
{
    const double *sum = call->in[at].data, *squares = call->in[at + 1].data;
    double mean = p->attrs->rms ? 0 : sum[row] / p->count;
    double variance = fmax(0, squares[row] / p->count - mean * mean);
    return (iso_row_moments){(float)mean, (float)(1 / sqrt(variance + p->attrs->epsilon))};
}

static bool layer_parts_fits(const iso_kernel_call *call)
{
    return call->in[0].dtype == ISO_F32;
}

static void run_layer_moments(const iso_kernel_call *call)
{
    part p = layer_parts_part_of(call);
    double *sum = call->out[0].data, *squares = call->out[1].data;
    for (int64_t row = 0; row < p.rows; row++)
        iso_cpu_functions()->layer_moments_f32(p.channels, p.x + row * p.channels, &sum[row], &squares[row]);
}

static void run_layer_scale(const iso_kernel_call *call)
{
    part p = layer_parts_part_of(call);
    const float *gamma = p.attrs->has_gamma ? call->in[3].data : NULL;
    const float *beta = p.attrs->has_beta ? call->in[p.attrs->has_gamma ? 4 : 3].data : NULL;
    float *y = call->out[0].data;
    for (int64_t row = 0, i = 0; row < p.rows; row++, i += p.channels) {
        iso_row_moments m = layer_parts_moments_of(call, &p, 1, row);
        iso_cpu_functions()->layer_scale_f32(p.channels, p.x + i, &m, gamma, beta, y + i);
    }
}

static void run_layer_grad_sums(const iso_kernel_call *call)
{
    part p = layer_parts_part_of(call);
    const float *dy = call->in[1].data, *gamma = p.attrs->has_gamma ? call->in[4].data : NULL;
    double *sum = call->out[0].data, *products = call->out[1].data;
    for (int64_t row = 0, i = 0; row < p.rows; row++, i += p.channels) {
        iso_row_moments m = layer_parts_moments_of(call, &p, 2, row);
        iso_cpu_functions()->layer_grad_sums_f32(p.channels, p.x + i, dy + i, &m, gamma, &sum[row],
                                                 &products[row]);
    }
}

static void run_layer_grad(const iso_kernel_call *call)
{
    part p = layer_parts_part_of(call);
    const float *dy = call->in[1].data, *gamma = p.attrs->has_gamma ? call->in[6].data : NULL;
    const double *sum = call->in[4].data, *products = call->in[5].data;
    float *dx = call->out[0].data;
    for (int64_t row = 0, i = 0; row < p.rows; row++, i += p.channels) {
        iso_row_moments m = layer_parts_moments_of(call, &p, 2, row);
        float mean = p.attrs->rms ? 0 : (float)(sum[row] / p.count);
        iso_cpu_functions()->layer_grad_f32(p.channels, p.x + i, dy + i, &m, gamma, mean,
                                            (float)(products[row] / p.count), dx + i);
    }
}

/* Two rows of doubles, two of floats. */
static iso_row_parts weight_sums_parts(const iso_kernel_call *call)
{
    const part p = layer_parts_part_of(call);
    return iso_row_parts_of(p.rows, p.channels, 2 * p.channels, (size_t)p.channels * 2 * sizeof(float) + 64);
}

static void sum_weights(const iso_kernel_call *call, int64_t number, double *sums, void *room)
{
    part p = layer_parts_part_of(call);
    const iso_row_parts parts = weight_sums_parts(call);
    const int64_t end = iso_row_part_begin(&parts, number + 1);
    const float *dy = call->in[1].data;
    float *block = room;
    memset(sums, 0, 2 * (size_t)p.channels * sizeof *sums);
    for (int64_t begin = iso_row_part_begin(&parts, number); begin < end; begin += BLOCK) {
        memset(block, 0, 2 * (size_t)p.channels * sizeof *block);
        for (int64_t row = begin; row < end && row < begin + BLOCK; row++) {
            iso_row_moments m = layer_parts_moments_of(call, &p, 2, row);
            iso_cpu_functions()->layer_weight_sums_f32(p.channels, p.x + row * p.channels,
                                                       dy + row * p.channels, &m, block, block + p.channels);
        }
        for (int64_t i = 0; i < 2 * p.channels; i++)
            sums[i] += block[i];
    }
}

static void put_weight_sums(const iso_kernel_call *call, const double *sums)
{
    part p = layer_parts_part_of(call);
    for (int64_t c = 0; c < p.channels; c++) {
        ((float *)call->out[0].data)[c] = (float)sums[c];
        ((float *)call->out[1].data)[c] = (float)sums[p.channels + c];
    }
}

ISO_ROW_SUMS(weight_sums, weight_sums_parts, sum_weights, put_weight_sums)

#define PART_KERNEL(NAME, ...)                                                                               \
    const iso_kernel iso_cpu_##NAME = {                                                                      \
        .op = #NAME, .name = "vector", .fits = layer_parts_fits, .run = run_##NAME, __VA_ARGS__};

PART_KERNEL(layer_moments, .by_rows = true)
PART_KERNEL(layer_scale, .in_place = true, .by_rows = true)
PART_KERNEL(layer_grad_sums, .by_rows = true)
PART_KERNEL(layer_grad, .in_place = true, .by_rows = true)

const iso_kernel iso_cpu_layer_weight_sums = {
    .op = "layer_weight_sums", .name = "vector", .fits = layer_parts_fits, ISO_ROW_SUMS_MEMBERS(weight_sums)};
