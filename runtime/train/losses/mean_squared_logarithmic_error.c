#include "runtime/train/losses_impl.h"

/* log(1 + max(x, epsilon)) */
static iso_tensor *logarithm(iso_tensor *x)
{
    return iso_log(iso_affine(iso_maximum(x, iso_metric_number(x, ISO_LOSS_EPSILON)), 1, 1));
}

iso_tensor *iso_mean_squared_logarithmic_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "mean squared logarithmic error"))
        return iso_loss_bad(y_pred);
    return iso_loss_mean(iso_square(iso_subtract(logarithm(y_pred), logarithm(y_true))));
}

#define NAMES                                                                                                \
    .row.name = "msle", .row.keras = "MeanSquaredLogarithmicError",                                          \
    .function = iso_mean_squared_logarithmic_error

const iso_loss_type iso_loss_msle = {NAMES, .saved = "mean_squared_logarithmic_error"};
const iso_metric_type iso_metric_msle = {NAMES, .keras_name = "mean_squared_logarithmic_error",
                                         .less_is_better = true};
