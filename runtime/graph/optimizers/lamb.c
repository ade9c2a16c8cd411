/* Keras's Lamb (keras/src/optimizers/lamb.py; You et al. 2019, arXiv 1904.00962). The t-th update:
 *     m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2);
 *     u = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon);  w -= rate u |w| / |u|
 * Where a norm is 0, their ratio is 1. */
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/optimizers/list.h"

enum { BETA_1, BETA_2, EPSILON };
static const iso_setting settings[] = {
    ISO_SETTING(iso_lamb_options, REAL, beta_1, 0.9),
    ISO_SETTING(iso_lamb_options, REAL, beta_2, 0.999),
    ISO_SETTING(iso_lamb_options, REAL, epsilon, 1e-7),
    {0},
};
enum { MOMENTUM, VELOCITY };
static const iso_optimizer_slot slots[] = {{.name = "momentum"}, {.name = "velocity", .beside = true}, {0}};

/* |w| / |u|, an ISO_F64 scalar. */
static iso_tensor *ratio(const iso_composed_update *update, iso_tensor *u)
{
    iso_graph *graph = update->number->graph;
    iso_tensor *weight = iso_sqrt(iso_composed_weight_squares(update));
    iso_tensor *norm = iso_sqrt(iso_composed_squares(u));
    iso_tensor *zero = iso_number(graph, ISO_F64, 0), *one = iso_number(graph, ISO_F64, 1);
    iso_tensor *above = iso_where(iso_greater(norm, zero), iso_divide(weight, norm), one);
    return iso_where(iso_greater(weight, zero), above, one);
}

static iso_tensor *direction(iso_composed_update *update)
{
    const double *hyper = update->optimizer->hyper;
    iso_tensor *g = update->gradient;
    iso_tensor *m = iso_composed_mean(update->slot[MOMENTUM], g, 1 - hyper[BETA_1]);
    iso_tensor *v = iso_composed_mean(update->slot[VELOCITY], iso_square(g), 1 - hyper[BETA_2]);
    iso_tensor *mean = iso_divide(m, iso_composed_rest(update, hyper[BETA_1]));
    iso_tensor *size = iso_sqrt(iso_divide(v, iso_composed_rest(update, hyper[BETA_2])));
    iso_tensor *u = iso_divide(mean, iso_affine(size, 1, hyper[EPSILON]));
    update->slot[MOMENTUM] = m;
    update->slot[VELOCITY] = v;
    return iso_multiply(u, iso_cast(ratio(update, u), u->dtype));
}

const iso_optimizer_rule iso_optimizer_lamb = {
    .row = {"lamb", "Lamb", settings},
    ISO_OPTIMIZER_STRUCT(iso_lamb_options),
    .learning_rate = 0.001,
    .slot = slots,
    .corrects = true,
    .direction = direction,
};

iso_optimizer iso_lamb_with(const iso_lamb_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_lamb, options, size);
}
