/* Keras's Adadelta (keras/src/optimizers/adadelta.py; Zeiler 2012, arXiv 1212.5701): a = rho a + (1 - rho) g^2;
 * s = sqrt(d + epsilon) g / sqrt(a + epsilon); d = rho d + (1 - rho) s^2; w -= rate s. */
#include "runtime/graph/optimizers/list.h"

static const iso_setting settings[] = {
    ISO_SETTING(iso_adadelta_options, REAL, rho, 0.95),
    ISO_SETTING(iso_adadelta_options, REAL, epsilon, 1e-7),
    {0},
};
static const iso_optimizer_slot slots[] = {
    {.name = "accumulated_grad"}, {.name = "accumulated_delta_var", .beside = true}, {0}};

const iso_optimizer_rule iso_optimizer_adadelta = {
    .row = {"adadelta", "Adadelta", settings},
    ISO_OPTIMIZER_STRUCT(iso_adadelta_options),
    .learning_rate = 0.001,
    .slot = slots,
};

iso_optimizer iso_adadelta_with(const iso_adadelta_options *options, size_t size)
{
    return iso_optimizer_make(&iso_optimizer_adadelta, options, size);
}
