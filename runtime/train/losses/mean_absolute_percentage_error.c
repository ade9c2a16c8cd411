#include "runtime/train/losses_impl.h"

/* |x|, whose gradient at 0 is 1, as in Keras on JAX */
static iso_tensor *magnitude(iso_tensor *x)
{
    return iso_where(iso_less(x, iso_metric_number(x, 0)), iso_negate(x), x);
}

/* 100 * mean(|(t - p) / max(|t|, epsilon)|) */
iso_tensor *iso_mean_absolute_percentage_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "mean absolute percentage error"))
        return iso_loss_bad(y_pred);
    iso_tensor *size = iso_maximum(iso_abs(y_true), iso_metric_number(y_pred, ISO_LOSS_EPSILON));
    iso_tensor *error = magnitude(iso_divide(iso_subtract(y_true, y_pred), size));
    return iso_affine(iso_loss_mean(error), 100, 0);
}

#define NAMES                                                                                                \
    .row.name = "mape", .row.keras = "MeanAbsolutePercentageError",                                          \
    .function = iso_mean_absolute_percentage_error

const iso_loss_type iso_loss_mape = {NAMES, .saved = "mean_absolute_percentage_error"};
const iso_metric_type iso_metric_mape = {NAMES, .keras_name = "mean_absolute_percentage_error",
                                         .less_is_better = true};
