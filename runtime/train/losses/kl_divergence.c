#include "runtime/train/losses_impl.h"

/* sum(t * log(t / p)), with both clipped to [epsilon, 1] */
iso_tensor *iso_kl_divergence(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "KL divergence"))
        return iso_loss_bad(y_pred);
    iso_tensor *t = iso_loss_clip(y_true, ISO_LOSS_EPSILON, 1);
    iso_tensor *p = iso_loss_clip(y_pred, ISO_LOSS_EPSILON, 1);
    return iso_loss_sum(iso_multiply(t, iso_log(iso_divide(t, p))));
}

#define NAMES                                                                                                \
    .row.name = "kl_divergence", .row.keras = "KLDivergence", .alias = "kld", .function = iso_kl_divergence

const iso_loss_type iso_loss_kl_divergence = {NAMES, .saved = "kl_divergence"};
const iso_metric_type iso_metric_kl_divergence = {NAMES, .keras_name = "kl_divergence",
                                                  .less_is_better = true};
