/* Keras's RMSprop (keras/src/optimizers/rmsprop.py). v = rho v + (1 - rho) g^2; a = rho a + (1 - rho) g;
 * step = rate g / sqrt(v [- a^2] + epsilon); m = momentum m + step; w -= m, or w -= step if there is no m. */
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_rmsprop_options, REAL, rho, 0.9),
    ISO_SETTING(iso_rmsprop_options, REAL, momentum, 0),
    ISO_SETTING(iso_rmsprop_options, REAL, epsilon, 1e-7),
    ISO_SETTING(iso_rmsprop_options, FLAG, centered, 0),
    {0},
};
static const iso_optimizer_slot slots[] = {{.name = "velocity"},
                                           {.name = "momentum", .with = "momentum"},
                                           {.name = "average_gradient", .with = "centered"},
                                           {0}};

const iso_optimizer_rule iso_optimizer_rmsprop = {
    .row = {"rmsprop", "RMSprop", settings},
    ISO_OPTIMIZER_STRUCT(iso_rmsprop_options),
    .learning_rate = 0.001,
    .slot = slots,
};

iso_optimizer iso_rmsprop_with(const iso_rmsprop_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_rmsprop, options, size);
}
