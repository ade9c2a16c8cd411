/* Layer normalisation, row by row. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

typedef struct moments {
    double mean, rstd;
} moments;

/* The moments of the row that begins at `first`; the variance is computed around the mean, not from squares. With rms
 * the mean counts as 0. */
static moments ref_layer_norm_moments_of(const iso_array *x, int64_t first, const iso_layer_norm_attrs *attrs)
{
    int64_t channels = iso_last_dim(x);
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < channels && !attrs->rms; c++)
        mean += iso_get(x, first + c) / (double)channels;
    for (int64_t c = 0; c < channels; c++)
        variance += pow(iso_get(x, first + c) - mean, 2) / (double)channels;
    return (moments){mean, 1 / sqrt(variance + attrs->epsilon)};
}

/* x, or its sum with the residual, which is the second output. */
static const iso_array *normalised(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *residual = &call->in[call->n_inputs - 1];
    if (!attrs->residual)
        return x;
    for (int64_t i = 0; i < iso_array_count(x); i++)
        iso_put(&call->out[1], i, iso_get(x, i) + iso_get(residual, i));
    return &call->out[1];
}

static void ref_layer_norm_run(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = normalised(call), *gamma = &call->in[1], *beta = &call->in[attrs->has_gamma ? 2 : 1];
    int64_t channels = iso_last_dim(x);
    for (int64_t row = 0; row < iso_row_count(x); row++) {
        moments m = ref_layer_norm_moments_of(x, row * channels, attrs);
        for (int64_t c = 0; c < channels; c++) {
            double xhat = (iso_get(x, row * channels + c) - m.mean) * m.rstd;
            double scale = attrs->has_gamma ? iso_get(gamma, c) : 1,
                   shift = attrs->has_beta ? iso_get(beta, c) : 0;
            iso_put(&call->out[0], row * channels + c, xhat * scale + shift);
        }
    }
}

/* One row; dxhat = dy gamma. dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)); with rms no mean(dxhat). */
static void row_gradient(const iso_kernel_call *call, int64_t first, moments m)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *dy = &call->in[1], *gamma = &call->in[2];
    int64_t channels = iso_last_dim(x);
    double mean = 0, mean_xhat = 0;
    for (int64_t c = 0; c < channels; c++) {
        double dxhat = iso_get(dy, first + c) * (attrs->has_gamma ? iso_get(gamma, c) : 1);
        mean += attrs->rms ? 0 : dxhat / (double)channels;
        mean_xhat += dxhat * (iso_get(x, first + c) - m.mean) * m.rstd / (double)channels;
    }
    for (int64_t c = 0; c < channels; c++) {
        double dxhat = iso_get(dy, first + c) * (attrs->has_gamma ? iso_get(gamma, c) : 1);
        double xhat = (iso_get(x, first + c) - m.mean) * m.rstd;
        iso_put(&call->out[0], first + c, m.rstd * (dxhat - mean - xhat * mean_xhat));
    }
}

static void ref_layer_norm_run_gradient(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0];
    for (int64_t row = 0; row < iso_row_count(x); row++) {
        int64_t first = row * iso_last_dim(x);
        row_gradient(call, first, ref_layer_norm_moments_of(x, first, attrs));
    }
    const iso_array *residual = &call->in[call->n_inputs - 1], *dx = &call->out[0];
    for (int64_t i = 0; attrs->residual && i < iso_array_count(dx); i++)
        iso_put(dx, i, iso_get(dx, i) + iso_get(residual, i));
}

static size_t ref_layer_norm_sums_scratch(const iso_kernel_call *call)
{
    return 2 * (size_t)iso_last_dim(&call->in[0]) * sizeof(double);
}

/* Sums over the rows of dy xhat and of dy; in double until the end. */
static void ref_layer_norm_run_sums(const iso_kernel_call *call)
{
    const iso_layer_norm_attrs *attrs = call->attrs;
    const iso_array *x = &call->in[0], *dy = &call->in[1];
    int64_t channels = iso_last_dim(x);
    double *dgamma = call->scratch, *dbeta = dgamma + channels;
    for (int64_t c = 0; c < channels; c++)
        dgamma[c] = dbeta[c] = 0;
    for (int64_t row = 0; row < iso_row_count(x); row++) {
        moments m = ref_layer_norm_moments_of(x, row * channels, attrs);
        for (int64_t c = 0, i = row * channels; c < channels; c++, i++) {
            dgamma[c] += iso_get(dy, i) * (iso_get(x, i) - m.mean) * m.rstd;
            dbeta[c] += iso_get(dy, i);
        }
    }
    for (int64_t c = 0; c < channels; c++) {
        iso_put(&call->out[0], c, dgamma[c]);
        iso_put(&call->out[1], c, dbeta[c]);
    }
}

const iso_kernel iso_reference_layer_norm = {
    .op = "layer_norm", .name = "reference", .run = ref_layer_norm_run};
const iso_kernel iso_reference_layer_norm_grad = {
    .op = "layer_norm_grad", .name = "reference", .run = ref_layer_norm_run_gradient};
const iso_kernel iso_reference_layer_norm_grad_sums = {.op = "layer_norm_grad_sums",
                                                       .name = "reference",
                                                       .scratch = ref_layer_norm_sums_scratch,
                                                       .run = ref_layer_norm_run_sums};
