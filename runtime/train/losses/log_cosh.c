#include <math.h>

#include "runtime/train/losses_impl.h"

/* log(cosh(x)) = x + log(1 + exp(-2x)) - log(2), which does not overflow */
iso_tensor *iso_log_cosh(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "log-cosh"))
        return iso_loss_bad(y_pred);
    iso_tensor *error = iso_subtract(y_pred, y_true);
    iso_tensor *sum = iso_add(error, iso_softplus(iso_affine(error, -2, 0)));
    return iso_loss_mean(iso_affine(sum, 1, -log(2)));
}

const iso_loss_type iso_loss_log_cosh = {.row.name = "log_cosh",
                                         .row.keras = "LogCosh",
                                         .saved = "log_cosh",
                                         .alias = "logcosh",
                                         .function = iso_log_cosh};
const iso_metric_type iso_metric_logcosh = {.row.name = "logcosh",
                                            .row.keras = "LogCoshError",
                                            .keras_name = "logcosh",
                                            .alias = "log_cosh_error",
                                            .less_is_better = true,
                                            .function = iso_log_cosh};
