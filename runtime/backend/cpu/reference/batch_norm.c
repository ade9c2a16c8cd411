/* Batch normalisation and its statistics; see graph/ops/batch_norm.c for the formulas. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

static void run_moments(const iso_call *call)
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

static void run_finish(const iso_call *call)
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
static void run_finish_gradient(const iso_call *call)
{
    double count = iso_moments_count(call->attrs, call->info->rows);
    for (int64_t c = 0; c < call->in[0].dim[0]; c++) {
        double mean = iso_get(&call->in[0], c), dvariance = iso_get(&call->in[2], c);
        iso_put(&call->out[0], c, (iso_get(&call->in[1], c) - 2 * mean * dvariance) / count);
        iso_put(&call->out[1], c, dvariance / count);
    }
}

static double rstd_of(const iso_array *variance, int64_t c, const iso_batch_norm_attrs *attrs)
{
    return 1 / sqrt(iso_get(variance, c) + attrs->epsilon);
}

static void run(const iso_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in, *gamma = &in[3], *beta = &in[attrs->has_gamma ? 4 : 3];
    int64_t channels = iso_last_dim(in);
    for (int64_t c = 0; c < channels; c++) {
        double mean = iso_get(&in[1], c), shift = attrs->has_beta ? iso_get(beta, c) : 0;
        double scale = rstd_of(&in[2], c, attrs) * (attrs->has_gamma ? iso_get(gamma, c) : 1);
        for (int64_t i = c; i < iso_row_count(in) * channels; i += channels) {
            double y = (iso_get(in, i) - mean) * scale + shift;
            iso_put(&call->out[0], i, attrs->activation == ISO_FUSED_RELU && y < 0 ? 0 : y);
        }
    }
}

/* in: x, dy, mean, variance */
static void run_sums(const iso_call *call)
{
    const iso_array *in = call->in;
    int64_t channels = iso_last_dim(in);
    for (int64_t c = 0; c < channels; c++) {
        double mean = iso_get(&in[2], c), rstd = rstd_of(&in[3], c, call->attrs), sum = 0, sum_xhat = 0;
        for (int64_t i = c; i < iso_row_count(in) * channels; i += channels) {
            sum += iso_get(&in[1], i);
            sum_xhat += iso_get(&in[1], i) * (iso_get(in, i) - mean) * rstd;
        }
        iso_put(&call->out[0], c, sum);
        iso_put(&call->out[1], c, sum_xhat);
    }
}

/* in: x, dy, mean, variance, sum(dy), sum(dy xhat), gamma */
static void run_gradient(const iso_call *call)
{
    const iso_batch_norm_attrs *attrs = call->attrs;
    const iso_array *in = call->in;
    int64_t channels = iso_last_dim(in);
    double count = iso_moments_count(&attrs->moments, call->info->rows);
    for (int64_t c = 0; c < channels; c++) {
        double mean = iso_get(&in[2], c), rstd = rstd_of(&in[3], c, attrs);
        double mean_dy = iso_get(&in[4], c) / count, mean_dy_xhat = iso_get(&in[5], c) / count;
        double scale = rstd * (attrs->has_gamma ? iso_get(&in[6], c) : 1);
        for (int64_t i = c; i < iso_row_count(in) * channels; i += channels) {
            double xhat = (iso_get(in, i) - mean) * rstd;
            iso_put(&call->out[0], i, scale * (iso_get(&in[1], i) - mean_dy - xhat * mean_dy_xhat));
        }
    }
}

const iso_kernel iso_reference_batch_moments = {
    .op = "batch_moments", .name = "reference", .run = run_moments};
const iso_kernel iso_reference_moments_finish = {
    .op = "moments_finish", .name = "reference", .run = run_finish};
const iso_kernel iso_reference_moments_finish_grad = {
    .op = "moments_finish_grad", .name = "reference", .run = run_finish_gradient};
const iso_kernel iso_reference_batch_norm = {.op = "batch_norm", .name = "reference", .run = run};
const iso_kernel iso_reference_batch_norm_grad_sums = {
    .op = "batch_norm_grad_sums", .name = "reference", .run = run_sums};
const iso_kernel iso_reference_batch_norm_grad = {
    .op = "batch_norm_grad", .name = "reference", .run = run_gradient};
