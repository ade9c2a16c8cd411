/* Keras's SGD (keras/src/optimizers/sgd.py). m = m * momentum - g * rate;
 * w += m, or for Nesterov m * momentum - g * rate. Without m: w -= g * rate. */
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_sgd_options, REAL, momentum, 0),
    ISO_SETTING(iso_sgd_options, FLAG, nesterov, 0),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "momentum", .with = "momentum"}, {0}};

const iso_optimizer_rule iso_optimizer_sgd = {
    .row = {"sgd", "SGD", settings},
    ISO_OPTIMIZER_STRUCT(iso_sgd_options),
    .learning_rate = 0.01,
    .slot = slots,
};

iso_optimizer iso_sgd_with(const iso_sgd_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_sgd, options, size);
}
