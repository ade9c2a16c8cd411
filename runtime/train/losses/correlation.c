/* How targets and predictions of a row vary together, along the last dimension. */
#include "runtime/train/losses_impl.h"

static iso_tensor *mean(iso_tensor *x)
{
    return iso_reduce_mean(x, (const int[]){-1}, 1, true);
}

/* x: of mean 0 */
static iso_tensor *standardized(iso_tensor *x)
{
    return iso_divide(x, iso_sqrt(mean(iso_square(iso_subtract(x, mean(x))))));
}

static iso_tensor *pearson(iso_tensor *y_true, iso_tensor *y_pred)
{
    if (!iso_loss_match(&y_true, &y_pred, "pearson correlation"))
        return NULL;
    iso_tensor *t = standardized(iso_subtract(y_true, mean(y_true)));
    iso_tensor *p = standardized(iso_subtract(y_pred, mean(y_pred)));
    return iso_loss_mean(iso_multiply(t, p));
}

static iso_tensor *variance(iso_tensor *x)
{
    return mean(iso_square(iso_subtract(x, mean(x))));
}

/* Keras's formula (3.15), in which both factors of the covariance are differences from the predictions' mean. */
static iso_tensor *concordance(iso_tensor *y_true, iso_tensor *y_pred)
{
    if (!iso_loss_match(&y_true, &y_pred, "concordance correlation"))
        return NULL;
    iso_tensor *center = mean(y_pred), *distance = iso_square(iso_subtract(mean(y_true), center));
    iso_tensor *covariance = iso_multiply(iso_subtract(y_true, center), iso_subtract(y_pred, center));
    iso_tensor *norm = iso_add(iso_add(variance(y_true), variance(y_pred)), distance);
    return iso_loss_mean(iso_divide(iso_affine(covariance, 2, 0), iso_affine(norm, 1, ISO_LOSS_EPSILON)));
}

const iso_metric_type iso_metric_pearson_correlation = {.row.name = "pearson_correlation",
                                                        .row.keras = "PearsonCorrelation",
                                                        .keras_name = "pearson_correlation",
                                                        .function = pearson};
const iso_metric_type iso_metric_concordance_correlation = {.row.name = "concordance_correlation",
                                                            .row.keras = "ConcordanceCorrelation",
                                                            .keras_name = "concordance_correlation",
                                                            .function = concordance};
