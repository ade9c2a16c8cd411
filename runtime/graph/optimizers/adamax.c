/* Keras's Adamax (keras/src/optimizers/adamax.py): Adam with the infinity norm (Kingma and Ba 2014, section 7.1). The
 * t-th update: m += (g - m) (1 - beta_1); u = max(beta_2 u, |g|); w -= rate m / ((1 - beta_1^t) (u + epsilon)).
 * The kernel's hyper: rate, decay, 1 - beta_1, beta_2, epsilon, 1 - beta_1^t. */
#include <math.h>

#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_adamax_options, REAL, beta_1, 0.9),
    ISO_SETTING(iso_adamax_options, REAL, beta_2, 0.999),
    ISO_SETTING(iso_adamax_options, REAL, epsilon, 1e-7),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "momentum"}, {.name = "norm", .beside = true}, {0}};

/* The power is computed in the variables' type, as in adam.c. */
static void prepare(const iso_optimizer *optimizer, bool narrow, int64_t updates, double *hyper)
{
    double beta_1 = optimizer->hyper[0], t = (double)updates + 1;
    float power = (float)pow((double)(float)beta_1, t);
    hyper[ISO_HYPER_OWN] = 1 - beta_1;
    hyper[ISO_HYPER_OWN + 3] = narrow ? (double)(1 - power) : 1 - pow(beta_1, t);
}

const iso_optimizer_rule iso_optimizer_adamax = {
    .row = {"adamax", "Adamax", settings},
    ISO_OPTIMIZER_STRUCT(iso_adamax_options),
    .learning_rate = 0.001,
    .slot = slots,
    .corrects = true,
    .prepare = prepare,
};

iso_optimizer iso_adamax_with(const iso_adamax_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_adamax, options, size);
}
