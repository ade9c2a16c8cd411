/* Batch normalisation and its statistics; see graph/ops/batch_norm.c for the formulas. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

static void ref_batch_norm_run_moments(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0];
    int64_t channels = iso_last_dim(x), rows = iso_row_count(x);
    double *sum = call->out[0].data, *squares = call->out[1].data;
    for (int64_t c = 0; c < channels; c++)
        sum[c] = squares[c] = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t c = 0; c < channels; c++) {
            double value = iso_get(x, row * channels + c);
            sum[c] += value;
            squares[c] += value * value;
        }
}

static void run_finish(const iso_kernel_call *call)
{
    double count = iso_moments_count(call->attrs, call->info->rows);
    for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
        double mean = iso_get(&call->in[0], c) / count;
        iso_put(&call->out[0], c, mean);
        iso_put(&call->out[1], c, fmax(0, iso_get(&call->in[1], c) / count - mean * mean));
    }
}

/* mean = sum / n, variance = squares / n - mean^2: dsum = (dmean - 2 mean dvariance) / n, dsquares =
 * dvariance / n. */
static void run_finish_gradient(const iso_kernel_call *call)
{
    double count = iso_moments_count(call->attrs, call->info->rows);
    for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
        double mean = iso_get(&call->in[0], c), dvariance = iso_get(&call->in[2], c);
        iso_put(&call->out[0], c, (iso_get(&call->in[1], c) - 2 * mean * dvariance) / count);
        iso_put(&call->out[1], c, dvariance / count);
    }
}

static double ref_batch_norm_rstd_of(const iso_array *variance, int64_t c, const iso_batch_norm_attrs *attrs)
{
    return 1 / sqrt(iso_get(variance, c) + attrs->epsilon);
}

/* y = (x - mean) scale + shift of a channel, then the activation; gamma and beta begin at input `next`. */
typedef struct affine {
    double mean, scale, shift;
} affine;

static affine affine_of(const iso_kernel_call *call, const iso_array *mean, const iso_array *variance,
                        int next, int64_t c)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *gamma = &call->in[next], *beta = &call->in[next + attrs->has_gamma];
    return (affine){iso_get(mean, c),
                    ref_batch_norm_rstd_of(variance, c, attrs) * (attrs->has_gamma ? iso_get(gamma, c) : 1),
                    attrs->has_beta ? iso_get(beta, c) : 0};
}

static double ref_batch_norm_output_of(const affine *line, double x)
{
    return (x - line->mean) * line->scale + line->shift;
}

static bool has_relu(const iso_kernel_call *call)
{
    return ((const iso_batch_norm_attrs *)call->attrs)->activation == ISO_FUSED_RELU;
}

static double relu(const iso_kernel_call *call, double y)
{
    const double largest = ((const iso_batch_norm_attrs *)call->attrs)->largest;
    return y < 0 ? 0 : y > largest ? largest : y;
}

static void ref_batch_norm_run(const iso_kernel_call *call)
{
    const iso_array *in = call->in;
    int64_t channels = iso_last_dim(in);
    for (int64_t c = 0; c < channels; c++) {
        affine line = affine_of(call, &in[1], &in[2], 3, c);
        for (int64_t i = c; i < iso_row_count(in) * channels; i += channels) {
            double y = ref_batch_norm_output_of(&line, iso_get(in, i));
            iso_put(&call->out[0], i, has_relu(call) ? relu(call, y) : y);
        }
    }
}

/* dy of element i before the activation. gamma and beta, if there is an activation, begin at input `next`. */
static double slope_at(const iso_kernel_call *call, int next, int64_t i)
{
    double dy = iso_get(&call->in[1], i);
    if (!has_relu(call))
        return dy;
    affine line = affine_of(call, &call->in[2], &call->in[3], next, i % iso_last_dim(call->in));
    const double y = ref_batch_norm_output_of(&line, iso_get(call->in, i));
    return y > 0 && y < ((const iso_batch_norm_attrs *)call->attrs)->largest ? dy : 0;
}

/* in: x, dy, mean, variance; with an activation gamma, beta */
static void ref_batch_norm_run_sums(const iso_kernel_call *call)
{
    const iso_array *in = call->in;
    int64_t channels = iso_last_dim(in);
    for (int64_t c = 0; c < channels; c++) {
        double mean = iso_get(&in[2], c), rstd = ref_batch_norm_rstd_of(&in[3], c, call->attrs), sum = 0,
               sum_xhat = 0;
        for (int64_t i = c; i < iso_row_count(in) * channels; i += channels) {
            double dy = slope_at(call, 4, i);
            sum += dy;
            sum_xhat += dy * (iso_get(in, i) - mean) * rstd;
        }
        iso_put(&call->out[0], c, sum);
        iso_put(&call->out[1], c, sum_xhat);
    }
}

/* in: x, dy, mean, variance, sum(dy), sum(dy xhat), gamma; with an activation beta */
static void ref_batch_norm_run_gradient(const iso_kernel_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in;
    int64_t channels = iso_last_dim(in);
    double count = iso_moments_count(&attrs->moments, call->info->rows);
    for (int64_t c = 0; c < channels; c++) {
        double mean = iso_get(&in[2], c), rstd = ref_batch_norm_rstd_of(&in[3], c, attrs);
        double mean_dy = iso_get(&in[4], c) / count, mean_dy_xhat = iso_get(&in[5], c) / count;
        double scale = rstd * (attrs->has_gamma ? iso_get(&in[6], c) : 1);
        for (int64_t i = c; i < iso_row_count(in) * channels; i += channels) {
            double xhat = (iso_get(in, i) - mean) * rstd;
            iso_put(&call->out[0], i, scale * (slope_at(call, 6, i) - mean_dy - xhat * mean_dy_xhat));
        }
    }
}

const iso_kernel iso_reference_batch_moments = {
    .op = "batch_moments", .name = "reference", .run = ref_batch_norm_run_moments};
const iso_kernel iso_reference_moments_finish = {
    .op = "moments_finish", .name = "reference", .run = run_finish};
const iso_kernel iso_reference_moments_finish_grad = {
    .op = "moments_finish_grad", .name = "reference", .run = run_finish_gradient};
const iso_kernel iso_reference_batch_norm = {
    .op = "batch_norm", .name = "reference", .run = ref_batch_norm_run};
const iso_kernel iso_reference_batch_norm_grad_sums = {
    .op = "batch_norm_grad_sums", .name = "reference", .run = ref_batch_norm_run_sums};
const iso_kernel iso_reference_batch_norm_grad = {
    .op = "batch_norm_grad", .name = "reference", .run = ref_batch_norm_run_gradient};
