#include "runtime/train/losses_impl.h"

/* mean(p - t * log(p + epsilon)) */
iso_tensor *iso_poisson(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "poisson"))
        return iso_loss_bad(y_pred);
    iso_tensor *log = iso_log(iso_affine(y_pred, 1, ISO_LOSS_EPSILON));
    return iso_loss_mean(iso_subtract(y_pred, iso_multiply(y_true, log)));
}

#define NAMES .row.name = "poisson", .row.keras = "Poisson", .function = iso_poisson

const iso_loss_type iso_loss_poisson = {NAMES, .saved = "poisson"};
const iso_metric_type iso_metric_poisson = {NAMES, .keras_name = "poisson", .less_is_better = true};
