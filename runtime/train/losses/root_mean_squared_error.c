#include <math.h>

#include "runtime/train/losses_impl.h"

/* The squared error of each element; the last step takes the root. */
static iso_tensor *squares(iso_tensor *y_true, iso_tensor *y_pred)
{
    if (!iso_loss_match(&y_true, &y_pred, "root mean squared error"))
        return NULL;
    return iso_square(iso_subtract(y_pred, y_true));
}

const iso_metric_type iso_metric_rmse = {.row.name = "rmse",
                                         .row.keras = "RootMeanSquaredError",
                                         .keras_name = "root_mean_squared_error",
                                         .less_is_better = true,
                                         .function = squares,
                                         .last = sqrt,
                                         .without_mask = true};
