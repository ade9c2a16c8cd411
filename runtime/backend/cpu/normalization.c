/* Kernels of batch normalisation in float32; the formulas stand in graph/ops/batch_norm.c. */
#include <math.h>

#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/graph/ops/network.h"

static int64_t channels_of(const iso_array *x)
{
    return x->dim[x->rank - 1];
}

static int64_t rows_of(const iso_array *x)
{
    return iso_cpu_product(x, 0, x->rank - 1);
}

/* A value of an array of float32 or float64. */
static double value(const iso_array *x, int64_t i)
{
    return x->dtype == ISO_F32 ? (double)((const float *)x->data)[i] : ((const double *)x->data)[i];
}

static bool fits(const iso_call *call)
{
    return call->in[0].dtype == ISO_F32 && channels_of(&call->in[0]) > 0;
}

/* Room for the lanes of two sums and for four patterns of floats behind them. */
static size_t scratch(const iso_call *call)
{
    return (size_t)iso_pattern(channels_of(&call->in[0])) * (2 * sizeof(double) + 4 * sizeof(float)) + 64;
}

static float *patterns(const iso_call *call, int64_t pattern)
{
    return (float *)((double *)call->scratch + 2 * pattern);
}

/* Repeats the first c floats up to the pattern's length. */
static void repeat(float *first, int64_t c, int64_t pattern)
{
    for (int64_t i = c; i < pattern; i++)
        first[i] = first[i - c];
}

static void run_moments(const iso_call *call)
{
    const iso_array *x = &call->in[0];
    iso_cpu_functions()->channel_moments(rows_of(x), channels_of(x), x->data, call->out[0].data,
                                         call->out[1].data, call->scratch);
}

/* The mean is rounded to float; what is lost thereby is put into the shift. */
static void run_norm(const iso_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in, *gamma = &in[3], *beta = &in[attrs->has_gamma ? 4 : 3];
    const int64_t c = channels_of(in), pattern = iso_pattern(c);
    float *mean = patterns(call, pattern), *scale = mean + pattern, *shift = scale + pattern;
    for (int64_t i = 0; i < c; i++) {
        double exact = value(&in[1], i);
        double factor =
            1 / sqrt(value(&in[2], i) + attrs->epsilon) * (attrs->has_gamma ? value(gamma, i) : 1);
        mean[i] = (float)exact;
        scale[i] = (float)factor;
        shift[i] = (float)((attrs->has_beta ? value(beta, i) : 0) - (exact - mean[i]) * factor);
    }
    repeat(mean, c, pattern), repeat(scale, c, pattern), repeat(shift, c, pattern);
    iso_cpu_functions()->channel_affine(iso_cpu_count(in), pattern, in->data, mean, scale, shift,
                                        attrs->activation == ISO_FUSED_RELU, call->out[0].data);
}

/* in: x, dy, mean, variance */
static void run_sums(const iso_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    const int64_t c = channels_of(x), pattern = iso_pattern(c);
    float *mean = patterns(call, pattern);
    for (int64_t i = 0; i < c; i++)
        mean[i] = (float)value(&call->in[2], i);
    repeat(mean, c, pattern);
    double *sums = call->out[0].data, *products = call->out[1].data;
    iso_cpu_functions()->channel_slopes(rows_of(x), c, x->data, call->in[1].data, mean, sums, products,
                                        call->scratch);
    for (int64_t i = 0; i < c; i++) {
        double rounding = value(&call->in[2], i) - mean[i];
        products[i] = (products[i] - rounding * sums[i]) / sqrt(value(&call->in[3], i) + attrs->epsilon);
    }
}

/* in: x, dy, mean, variance, sum(dy), sum(dy xhat), gamma */
static void run_gradient(const iso_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in;
    const int64_t c = channels_of(in), pattern = iso_pattern(c);
    const double count = iso_moments_count(&attrs->moments, call->info->rows);
    float *mean = patterns(call, pattern), *scale = mean + pattern, *slope = scale + pattern,
          *shift = slope + pattern;
    for (int64_t i = 0; i < c; i++) {
        double exact = value(&in[2], i), rstd = 1 / sqrt(value(&in[3], i) + attrs->epsilon);
        double factor = rstd * (attrs->has_gamma ? value(&in[6], i) : 1);
        double by_xhat = factor * rstd * value(&in[5], i) / count;
        mean[i] = (float)exact;
        scale[i] = (float)factor;
        slope[i] = (float)-by_xhat;
        shift[i] = (float)(by_xhat * (exact - mean[i]) - factor * value(&in[4], i) / count);
    }
    repeat(mean, c, pattern), repeat(scale, c, pattern), repeat(slope, c, pattern), repeat(shift, c, pattern);
    iso_cpu_functions()->channel_gradient(iso_cpu_count(in), pattern, in->data, in[1].data, mean, scale,
                                          slope, shift, call->out[0].data);
}

const iso_kernel iso_cpu_batch_moments = {
    .op = "batch_moments", .name = "vector", .fits = fits, .scratch = scratch, .run = run_moments};
const iso_kernel iso_cpu_batch_norm = {.op = "batch_norm",
                                       .name = "vector",
                                       .fits = fits,
                                       .scratch = scratch,
                                       .run = run_norm,
                                       .in_place = true};
const iso_kernel iso_cpu_batch_norm_grad_sums = {
    .op = "batch_norm_grad_sums", .name = "vector", .fits = fits, .scratch = scratch, .run = run_sums};
const iso_kernel iso_cpu_batch_norm_grad = {.op = "batch_norm_grad",
                                            .name = "vector",
                                            .fits = fits,
                                            .scratch = scratch,
                                            .run = run_gradient,
                                            .in_place = true};
