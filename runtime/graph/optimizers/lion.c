/* Keras's Lion (keras/src/optimizers/lion.py; Chen et al. 2023, arXiv 2302.06675):
 *     w -= rate sign(beta_1 m + (1 - beta_1) g);  m = beta_2 m + (1 - beta_2) g
 * The kernel's hyper: rate, decay, beta_1, beta_2, 1 - beta_1, 1 - beta_2. */
#include "runtime/base/arguments.h"
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_lion_options, REAL, beta_1, 0.9),
    ISO_SETTING(iso_lion_options, REAL, beta_2, 0.99),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "momentum"}, {0}};

/* As in Keras, differences are computed in the variables' type. */
static void prepare(const iso_optimizer *optimizer, bool narrow, int64_t updates, double *hyper)
{
    (void)updates;
    for (int i = 0; i < 2; i++) {
        double beta = optimizer->hyper[i];
        hyper[ISO_HYPER_OWN + 2 + i] = narrow ? (double)(1 - (float)beta) : 1 - beta;
    }
}

static iso_status check(const iso_optimizer *optimizer)
{
    double beta_1 = optimizer->hyper[0];
    if (!(beta_1 > 0 && beta_1 <= 1))
        return iso_error(ISO_INVALID, "beta_1 of lion is %g: it must be above 0 and at most 1", beta_1);
    return ISO_OK;
}

const iso_optimizer_rule iso_optimizer_lion = {
    .row = {"lion", "Lion", settings},
    ISO_OPTIMIZER_STRUCT(iso_lion_options),
    .learning_rate = 0.001,
    .slot = slots,
    .check = check,
    .prepare = prepare,
};

iso_optimizer iso_lion_with(const iso_lion_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_lion, options, size);
}
