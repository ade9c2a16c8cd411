#include "runtime/train/losses_impl.h"

iso_tensor *iso_mean_absolute_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "mean absolute error"))
        return iso_loss_bad(y_pred);
    return iso_loss_mean(iso_abs(iso_subtract(y_pred, y_true)));
}

#define NAMES .row.name = "mae", .row.keras = "MeanAbsoluteError", .function = iso_mean_absolute_error

const iso_loss_type iso_loss_mae = {NAMES, .saved = "mean_absolute_error"};
const iso_metric_type iso_metric_mae = {NAMES, .keras_name = "mean_absolute_error", .title = "mae",
                                        .less_is_better = true};
