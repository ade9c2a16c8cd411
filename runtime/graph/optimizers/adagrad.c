/* Keras's Adagrad (keras/src/optimizers/adagrad.py). a += g^2; w -= rate g / sqrt(a + epsilon). */
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    {"initial_accumulator_value", ISO_SETTING_REAL, offsetof(iso_adagrad_options, initial_accumulator),
     .fallback = 0.1},
    ISO_SETTING(iso_adagrad_options, REAL, epsilon, 1e-7),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "accumulator", .initial = "initial_accumulator_value"},
                                           {0}};

const iso_optimizer_rule iso_optimizer_adagrad = {
    .row = {"adagrad", "Adagrad", settings},
    ISO_OPTIMIZER_STRUCT(iso_adagrad_options),
    .learning_rate = 0.001,
    .slot = slots,
};

iso_optimizer iso_adagrad_with(const iso_adagrad_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_adagrad, options, size);
}
