#include "runtime/train/losses_impl.h"

iso_tensor *iso_mean_squared_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "mean squared error"))
        return iso_loss_bad(y_pred);
    return iso_loss_mean(iso_square(iso_subtract(y_pred, y_true)));
}

#define NAMES .row.name = "mse", .row.keras = "MeanSquaredError", .function = iso_mean_squared_error

const iso_loss_type iso_loss_mse = {NAMES, .saved = "mean_squared_error"};
const iso_metric_type iso_metric_mse = {NAMES, .keras_name = "mean_squared_error", .title = "mse",
                                        .less_is_better = true};
