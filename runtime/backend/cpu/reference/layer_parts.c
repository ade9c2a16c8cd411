/* Kernels over a slot's part of a layer normalisation's channels; see runtime/graph/ops/network.h. */
#include <math.h>

#include "runtime/backend/cpu/reference/floats.h"
#include "runtime/graph/ops/network.h"

typedef struct part {
    int64_t rows, channels; /* of the slot */
    double count;           /* number of all channels */
    const iso_layer_norm_attrs *attrs;
} part;

static part ref_layer_parts_part_of(const iso_kernel_call *call)
{
    const iso_array *x = &call->in[0];
    part p = {1, iso_last_dim(x), (double)x->global[x->rank - 1], call->attrs};
    for (int d = 0; d < x->rank - 1; d++)
        p.rows *= x->dim[d];
    return p;
}

typedef struct row {
    double mean, rstd;
} row;

/* The moments of a row from its sum and sum of squares, which are inputs `at` and `at` + 1. */
static row ref_layer_parts_row_of(const iso_kernel_call *call, const part *p, int at, int64_t number)
{
    double mean = p->attrs->rms ? 0 : iso_get(&call->in[at], number) / p->count;
    double variance = fmax(0, iso_get(&call->in[at + 1], number) / p->count - mean * mean);
    return (row){mean, 1 / sqrt(variance + p->attrs->epsilon)};
}

static void put_two(const iso_kernel_call *call, int64_t i, double a, double b)
{
    iso_put(&call->out[0], i, a);
    iso_put(&call->out[1], i, b);
}

static void ref_layer_parts_run_moments(const iso_kernel_call *call)
{
    part p = ref_layer_parts_part_of(call);
    for (int64_t r = 0, i = 0; r < p.rows; r++) {
        double sum = 0, squares = 0;
        for (int64_t c = 0; c < p.channels; c++, i++) {
            double x = iso_get(&call->in[0], i);
            sum += x;
            squares += x * x;
        }
        put_two(call, r, sum, squares);
    }
}

static void run_scale(const iso_kernel_call *call)
{
    part p = ref_layer_parts_part_of(call);
    const iso_array *gamma = &call->in[3], *beta = &call->in[p.attrs->has_gamma ? 4 : 3];
    for (int64_t r = 0, i = 0; r < p.rows; r++) {
        row m = ref_layer_parts_row_of(call, &p, 1, r);
        for (int64_t c = 0; c < p.channels; c++, i++) {
            double xhat = (iso_get(&call->in[0], i) - m.mean) * m.rstd;
            double scale = p.attrs->has_gamma ? iso_get(gamma, c) : 1,
                   shift = p.attrs->has_beta ? iso_get(beta, c) : 0;
            iso_put(&call->out[0], i, xhat * scale + shift);
        }
    }
}

/* xhat, and dxhat = dy gamma, of element i, which is in channel c. */
static double xhat_of(const iso_kernel_call *call, row m, int64_t i)
{
    return (iso_get(&call->in[0], i) - m.mean) * m.rstd;
}

static double dxhat_of(const iso_kernel_call *call, const iso_array *gamma, int64_t i, int64_t c)
{
    return iso_get(&call->in[1], i) * (gamma ? iso_get(gamma, c) : 1);
}

static void run_grad_sums(const iso_kernel_call *call)
{
    part p = ref_layer_parts_part_of(call);
    const iso_array *gamma = p.attrs->has_gamma ? &call->in[4] : NULL;
    for (int64_t r = 0, i = 0; r < p.rows; r++) {
        row m = ref_layer_parts_row_of(call, &p, 2, r);
        double sum = 0, products = 0;
        for (int64_t c = 0; c < p.channels; c++, i++) {
            sum += dxhat_of(call, gamma, i, c);
            products += dxhat_of(call, gamma, i, c) * xhat_of(call, m, i);
        }
        put_two(call, r, sum, products);
    }
}

static void run_grad(const iso_kernel_call *call)
{
    part p = ref_layer_parts_part_of(call);
    const iso_array *gamma = p.attrs->has_gamma ? &call->in[6] : NULL;
    for (int64_t r = 0, i = 0; r < p.rows; r++) {
        row m = ref_layer_parts_row_of(call, &p, 2, r);
        double mean = p.attrs->rms ? 0 : iso_get(&call->in[4], r) / p.count;
        double products = iso_get(&call->in[5], r) / p.count;
        for (int64_t c = 0; c < p.channels; c++, i++)
            iso_put(&call->out[0], i,
                    m.rstd * (dxhat_of(call, gamma, i, c) - mean - xhat_of(call, m, i) * products));
    }
}

static size_t ref_layer_parts_weight_sums_scratch(const iso_kernel_call *call)
{
    return 2 * (size_t)iso_last_dim(&call->in[0]) * sizeof(double);
}

static void run_weight_sums(const iso_kernel_call *call)
{
    part p = ref_layer_parts_part_of(call);
    double *dgamma = call->scratch, *dbeta = dgamma + p.channels;
    for (int64_t c = 0; c < p.channels; c++)
        dgamma[c] = dbeta[c] = 0;
    for (int64_t r = 0, i = 0; r < p.rows; r++) {
        row m = ref_layer_parts_row_of(call, &p, 2, r);
        for (int64_t c = 0; c < p.channels; c++, i++) {
            dgamma[c] += iso_get(&call->in[1], i) * xhat_of(call, m, i);
            dbeta[c] += iso_get(&call->in[1], i);
        }
    }
    for (int64_t c = 0; c < p.channels; c++)
        put_two(call, c, dgamma[c], dbeta[c]);
}

#define PART_KERNEL(NAME, RUN, ...)                                                                          \
    const iso_kernel iso_reference_##NAME = {.op = #NAME, .name = "reference", .run = RUN, __VA_ARGS__};

PART_KERNEL(layer_moments, ref_layer_parts_run_moments, )
PART_KERNEL(layer_scale, run_scale, .in_place = true)
PART_KERNEL(layer_grad_sums, run_grad_sums, )
PART_KERNEL(layer_grad, run_grad, .in_place = true)
PART_KERNEL(layer_weight_sums, run_weight_sums, .scratch = ref_layer_parts_weight_sums_scratch)
