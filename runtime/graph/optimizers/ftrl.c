/* Keras's Ftrl (keras/src/optimizers/ftrl.py; McMahan et al. 2013): with p = -learning_rate_power and n = a + g^2,
 *     l += g + 2 shrinkage w - (n^p - a^p) / rate w;  a = n;
 *     w = (clip(l, -l1, l1) - l) / (n^p / rate + 2 l2 + beta / rate) */
#include "runtime/base/arguments.h"
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_ftrl_options, REAL, learning_rate_power, -0.5),
    {"initial_accumulator_value", ISO_SETTING_REAL, offsetof(iso_ftrl_options, initial_accumulator),
     .fallback = 0.1},
    {"l1_regularization_strength", ISO_SETTING_REAL, offsetof(iso_ftrl_options, l1), .fallback = 0},
    {"l2_regularization_strength", ISO_SETTING_REAL, offsetof(iso_ftrl_options, l2), .fallback = 0},
    {"l2_shrinkage_regularization_strength", ISO_SETTING_REAL, offsetof(iso_ftrl_options, l2_shrinkage),
     .fallback = 0},
    ISO_SETTING(iso_ftrl_options, REAL, beta, 0),
    {0},
};
static const iso_optimizer_slot slots[] = {
    {.name = "accumulator", .initial = "initial_accumulator_value"}, {.name = "linear", .beside = true}, {0}};

static iso_status check(const iso_optimizer *optimizer)
{
    double power = optimizer->hyper[0];
    if (power > 0)
        return iso_error(ISO_INVALID, "learning_rate_power of ftrl is %g: it must not be above 0", power);
    return ISO_OK;
}

const iso_optimizer_rule iso_optimizer_ftrl = {
    .row = {"ftrl", "Ftrl", settings},
    ISO_OPTIMIZER_STRUCT(iso_ftrl_options),
    .learning_rate = 0.001,
    .slot = slots,
    .check = check,
};

iso_optimizer iso_ftrl_with(const iso_ftrl_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_ftrl, options, size);
}
