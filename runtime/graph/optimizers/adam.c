/* Keras's Adam and AdamW (keras/src/optimizers/adam.py, adamw.py). The t-th update:
 *     alpha = rate sqrt(1 - beta_2^t) / (1 - beta_1^t);  m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2);
 *     u = max(u, v);  w -= m alpha / (sqrt(v or u) + epsilon)
 * The kernel's hyper: alpha, decay, 1 - beta_1, 1 - beta_2, epsilon, amsgrad. */
#include <math.h>

#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_adam_options, REAL, beta_1, 0.9),
    ISO_SETTING(iso_adam_options, REAL, beta_2, 0.999),
    ISO_SETTING(iso_adam_options, REAL, epsilon, 1e-7),
    ISO_SETTING(iso_adam_options, FLAG, amsgrad, 0),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "momentum"},
                                           {.name = "velocity", .beside = true},
                                           {.name = "velocity_hat", .with = "amsgrad"},
                                           {0}};

/* Keras computes in the variables' type. In float32, 0.999 is rounded, which makes 1 - 0.999^t wrong by
 * 1.3e-5 at first, and the rate by half of that: to follow Keras step by step, these powers must be
 * computed in float. */
static double adam_alpha(double rate, double beta_1, double beta_2, double t, bool narrow)
{
    if (!narrow)
        return rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t));
    float power_1 = (float)pow((double)(float)beta_1, t), power_2 = (float)pow((double)(float)beta_2, t);
    return (float)rate * sqrtf(1 - power_2) / (1 - power_1);
}

static void adam_prepare(const iso_optimizer *optimizer, bool narrow, int64_t updates, double *hyper)
{
    double beta_1 = optimizer->hyper[0], beta_2 = optimizer->hyper[1], t = (double)updates + 1;
    hyper[ISO_HYPER_RATE] = adam_alpha(hyper[ISO_HYPER_RATE], beta_1, beta_2, t, narrow);
    hyper[ISO_HYPER_OWN] = 1 - beta_1;
    hyper[ISO_HYPER_OWN + 1] = 1 - beta_2;
}

const iso_optimizer_rule iso_optimizer_adam = {
    .row = {"adam", "Adam", settings},
    ISO_OPTIMIZER_STRUCT(iso_adam_options),
    .learning_rate = 0.001,
    .slot = slots,
    .corrects = true,
    .prepare = adam_prepare,
};

const iso_optimizer_rule iso_optimizer_adamw = {
    .row = {"adamw", "AdamW", settings},
    ISO_OPTIMIZER_STRUCT(iso_adam_options),
    .kernel = "adam",
    .learning_rate = 0.001,
    .weight_decay = 0.004,
    .slot = slots,
    .corrects = true,
    .prepare = adam_prepare,
};

iso_optimizer iso_adam_with(const iso_adam_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_adam, options, size);
}

iso_optimizer iso_adamw_with(const iso_adam_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_adamw, options, size);
}
