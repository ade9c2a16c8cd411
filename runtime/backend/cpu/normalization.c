/* Kernels of batch normalisation in float32; graph/ops/batch_norm.c has the formulas. */
#include <math.h>
#include <string.h>

#include "runtime/backend/cpu/channels.h"
#include "runtime/backend/cpu/cpu.h"
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/row_parts.h"
#include "runtime/graph/ops/network.h"

static int64_t normalization_channels_of(const iso_array *x)
{
    return x->dim[x->rank - 1];
}

static int64_t normalization_rows_of(const iso_array *x)
{
    return iso_cpu_product(x, 0, x->rank - 1);
}

/* Element i of an array of float32 or float64. */
static double value(const iso_array *x, int64_t i)
{
    return x->dtype == ISO_F32 ? (double)((const float *)x->data)[i] : ((const double *)x->data)[i];
}

static bool normalization_fits(const iso_kernel_call *call)
{
    return call->in[0].dtype == ISO_F32 && normalization_channels_of(&call->in[0]) > 0;
}

/* The scratch memory has the lanes of two sums, then six patterns of floats. */
enum { PATTERNS = 6 };

static size_t normalization_scratch(const iso_kernel_call *call)
{
    return (size_t)iso_pattern(normalization_channels_of(&call->in[0])) *
               (2 * sizeof(double) + PATTERNS * sizeof(float)) +
           64;
}

static float *pattern_at(const iso_kernel_call *call, int64_t pattern, int index)
{
    return (float *)((double *)call->scratch + 2 * pattern) + index * pattern;
}

/* Repeats the first c floats up to the pattern's length. */
static void normalization_repeat(float *first, int64_t c, int64_t pattern)
{
    for (int64_t i = c; i < pattern; i++)
        first[i] = first[i - c];
}

/* ---- sums over rows: of a part two of each channel, in a room as large as other kernels' scratch memory ---- */

static iso_row_parts sums_of_parts(const iso_kernel_call *call)
{
    const int64_t c = normalization_channels_of(&call->in[0]);
    return iso_row_parts_of(normalization_rows_of(&call->in[0]), c, 2 * c, normalization_scratch(call));
}

static void moments_of_part(const iso_kernel_call *call, int64_t part, double *sums, void *room)
{
    const iso_row_parts p = sums_of_parts(call);
    const int64_t c = normalization_channels_of(&call->in[0]), begin = iso_row_part_begin(&p, part);
    iso_cpu_functions()->channel_moments(iso_row_part_begin(&p, part + 1) - begin, c,
                                         (const float *)call->in[0].data + begin * c, sums, sums + c, room);
}

static void put_moments(const iso_kernel_call *call, const double *sums)
{
    const size_t c = (size_t)normalization_channels_of(&call->in[0]);
    memcpy(call->out[0].data, sums, c * sizeof *sums);
    memcpy(call->out[1].data, sums + c, c * sizeof *sums);
}

ISO_ROW_SUMS(moments, sums_of_parts, moments_of_part, put_moments)

static double normalization_rstd_of(const iso_array *variance, int64_t i, const iso_batch_norm_attrs *attrs)
{
    return 1 / sqrt(value(variance, i) + attrs->epsilon);
}

/* The patterns 0, 1, 2 of y = (x - mean) scale + shift. gamma and what follows it begin at input `next`. The
 * mean is rounded to float, and the rounding error goes into the shift. Forward and backward must compute the
 * same patterns. */
static iso_channels make_channels(const iso_kernel_call *call, const iso_array *means,
                                  const iso_array *variance, int next)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *gamma = &call->in[next], *beta = &call->in[next + attrs->has_gamma];
    const int64_t c = normalization_channels_of(call->in), pattern = iso_pattern(c);
    float *mean = pattern_at(call, pattern, 0), *scale = pattern_at(call, pattern, 1),
          *shift = pattern_at(call, pattern, 2);
    for (int64_t i = 0; i < c; i++) {
        double exact = value(means, i);
        double factor = normalization_rstd_of(variance, i, attrs) * (attrs->has_gamma ? value(gamma, i) : 1);
        mean[i] = (float)exact;
        scale[i] = (float)factor;
        shift[i] = (float)((attrs->has_beta ? value(beta, i) : 0) - (exact - mean[i]) * factor);
    }
    normalization_repeat(mean, c, pattern);
    normalization_repeat(scale, c, pattern);
    normalization_repeat(shift, c, pattern);
    return (iso_channels){mean, scale, shift,
                          attrs->activation == ISO_FUSED_RELU ? (float)attrs->largest : INFINITY};
}

static iso_channels make_means(const iso_kernel_call *call, const iso_array *means)
{
    const int64_t c = normalization_channels_of(call->in), pattern = iso_pattern(c);
    float *mean = pattern_at(call, pattern, 0);
    for (int64_t i = 0; i < c; i++)
        mean[i] = (float)value(means, i);
    normalization_repeat(mean, c, pattern);
    return (iso_channels){.mean = mean};
}

static void run_norm(const iso_kernel_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in;
    iso_channels channels = make_channels(call, &in[1], &in[2], 3);
    iso_cpu_functions()->channel_affine(iso_array_count(in), iso_pattern(normalization_channels_of(in)),
                                        in->data, &channels, attrs->activation == ISO_FUSED_RELU,
                                        call->out[0].data);
}

/* in: x, dy, mean, variance; with an activation gamma, beta */
static void slopes_of_part(const iso_kernel_call *call, int64_t number, double *sums, void *room)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_row_parts p = sums_of_parts(call);
    const int64_t c = normalization_channels_of(&call->in[0]), begin = iso_row_part_begin(&p, number);
    iso_kernel_call part = *call;
    part.scratch = room;
    iso_channels channels = attrs->activation == ISO_FUSED_RELU
                                ? make_channels(&part, &call->in[2], &call->in[3], 4)
                                : make_means(&part, &call->in[2]);
    iso_cpu_functions()->channel_slopes(
        iso_row_part_begin(&p, number + 1) - begin, c, (const float *)call->in[0].data + begin * c,
        (const float *)call->in[1].data + begin * c, &channels, sums, sums + c, room);
}

/* The slopes are those with rounded means. */
static void put_slopes(const iso_kernel_call *call, const double *sums)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *means = &call->in[2], *variance = &call->in[3];
    const int64_t c = normalization_channels_of(&call->in[0]);
    double *sum = call->out[0].data, *products = call->out[1].data;
    for (int64_t i = 0; i < c; i++) {
        double mean = value(means, i), rounding = mean - (float)mean;
        sum[i] = sums[i];
        products[i] = (sums[c + i] - rounding * sums[i]) * normalization_rstd_of(variance, i, attrs);
    }
}

ISO_ROW_SUMS(slopes, sums_of_parts, slopes_of_part, put_slopes)

/* in: x, dy, mean, variance, sum(dy), sum(dy xhat), gamma; with an activation beta */
static void normalization_run_gradient(const iso_kernel_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in;
    const int64_t c = normalization_channels_of(in), pattern = iso_pattern(c);
    const double count = iso_moments_count(&attrs->moments, call->info->rows);
    iso_channels channels = attrs->activation == ISO_FUSED_RELU ? make_channels(call, &in[2], &in[3], 6)
                                                                : make_means(call, &in[2]);
    float *scale = pattern_at(call, pattern, 3), *slope = pattern_at(call, pattern, 4),
          *shift = pattern_at(call, pattern, 5);
    for (int64_t i = 0; i < c; i++) {
        double rstd = normalization_rstd_of(&in[3], i, attrs),
               factor = rstd * (attrs->has_gamma ? value(&in[6], i) : 1);
        double by_xhat = factor * rstd * value(&in[5], i) / count;
        scale[i] = (float)factor;
        slope[i] = (float)-by_xhat;
        shift[i] =
            (float)(by_xhat * (value(&in[2], i) - channels.mean[i]) - factor * value(&in[4], i) / count);
    }
    normalization_repeat(scale, c, pattern);
    normalization_repeat(slope, c, pattern);
    normalization_repeat(shift, c, pattern);
    iso_cpu_functions()->channel_gradient(iso_array_count(in), pattern, in->data, in[1].data, &channels,
                                          &(iso_gradient_channels){scale, slope, shift}, call->out[0].data);
}

const iso_kernel iso_cpu_batch_moments = {
    .op = "batch_moments", .name = "vector", .fits = normalization_fits, ISO_ROW_SUMS_MEMBERS(moments)};
const iso_kernel iso_cpu_batch_norm = {.op = "batch_norm",
                                       .name = "vector",
                                       .fits = normalization_fits,
                                       .scratch = normalization_scratch,
                                       .run = run_norm,
                                       .in_place = true,
                                       .by_rows = true};
const iso_kernel iso_cpu_batch_norm_grad_sums = {
    .op = "batch_norm_grad_sums", .name = "vector", .fits = normalization_fits, ISO_ROW_SUMS_MEMBERS(slopes)};
const iso_kernel iso_cpu_batch_norm_grad = {.op = "batch_norm_grad",
                                            .name = "vector",
                                            .fits = normalization_fits,
                                            .scratch = normalization_scratch,
                                            .run = normalization_run_gradient,
                                            .in_place = true,
                                            .by_rows = true};
