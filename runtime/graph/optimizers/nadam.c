/* Keras's Nadam (keras/src/optimizers/nadam.py): Adam with Nesterov momentum (Dozat 2015). For the t-th update
 * u_t = beta_1 (1 - 0.96^t / 2) and p_t = u_1 u_2 ... u_t; m += (g - m) (1 - beta_1); v += (g^2 - v) (1 - beta_2);
 * w -= rate (m u_{t+1} / (1 - p_{t+1}) + g (1 - u_t) / (1 - p_t)) / (sqrt(v / (1 - beta_2^t)) + epsilon).
 * The kernel's hyper: rate, decay, 1 - beta_1, 1 - beta_2, epsilon, then the factors of m, g and v. */
#include <math.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_nadam_options, REAL, beta_1, 0.9),
    ISO_SETTING(iso_nadam_options, REAL, beta_2, 0.999),
    ISO_SETTING(iso_nadam_options, REAL, epsilon, 1e-7),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "momentum"}, {.name = "velocity", .beside = true}, {0}};

/* Keras computes in the variables' type: values near 1 must be rounded to float in float32, as in adam.c. */
static double rounded(double x, bool narrow)
{
    return narrow ? (double)(float)x : x;
}

/* p_t. From update 1100 on, 0.96^t / 2 is lost beside 1 in float64 too, and the factors are beta_1. */
static double product_of(double beta_1, double t)
{
    double product = pow(beta_1, t), decay = 1;
    for (int i = 1; i <= t && i <= 1100; i++) {
        decay *= 0.96;
        product *= 1 - 0.5 * decay;
    }
    return product;
}

static void prepare(const iso_optimizer *optimizer, bool narrow, int64_t updates, double *hyper)
{
    double beta_1 = rounded(optimizer->hyper[0], narrow), beta_2 = rounded(optimizer->hyper[1], narrow);
    double t = (double)updates + 1, product = product_of(beta_1, t);
    double u = beta_1 * (1 - 0.5 * pow(0.96, t)), next = beta_1 * (1 - 0.5 * pow(0.96, t + 1));
    hyper[ISO_HYPER_OWN] = 1 - beta_1;
    hyper[ISO_HYPER_OWN + 1] = 1 - beta_2;
    hyper[ISO_HYPER_OWN + 3] = next / (1 - product * next);
    hyper[ISO_HYPER_OWN + 4] = (1 - u) / (1 - product);
    hyper[ISO_HYPER_OWN + 5] = 1 / (1 - rounded(pow(beta_2, t), narrow));
}

/* p_t, which Keras keeps in a variable. */
static iso_tensor *next_product(const iso_optimizer *optimizer, iso_tensor *now, iso_tensor *update)
{
    iso_tensor *decay = iso_power(iso_number(now->graph, now->dtype, 0.96), update);
    return iso_multiply(now, iso_affine(decay, -0.5 * optimizer->hyper[0], optimizer->hyper[0]));
}

const iso_optimizer_rule iso_optimizer_nadam = {
    .row = {"nadam", "Nadam", settings},
    ISO_OPTIMIZER_STRUCT(iso_nadam_options),
    .learning_rate = 0.001,
    .slot = slots,
    .corrects = true,
    .scalar = {"u_product", 1, next_product},
    .prepare = prepare,
};

iso_optimizer iso_nadam_with(const iso_nadam_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_nadam, options, size);
}
