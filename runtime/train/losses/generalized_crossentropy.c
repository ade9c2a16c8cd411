#include "runtime/train/losses_impl.h"

static const iso_setting settings[] = {
    {"q", ISO_SETTING_REAL, offsetof(iso_output_options, loss_q), .fallback = 0.5}, {0}};

/* (1 - p[label]^q) / q (Zhang and Sabuncu 2018) */
iso_tensor *iso_categorical_generalized_crossentropy(iso_tensor *y_true, iso_tensor *y_pred, double q)
{
    static const char what[] = "categorical generalized cross-entropy";
    ISO_NEED_TENSORS(y_true, y_pred);
    q = iso_option_number(q, settings->fallback);
    if (!iso_loss_match_labels(&y_true, y_pred, what) ||
        !iso_loss_check(y_pred, what, "q", q, q > 0 && q < 1, "between 0 and 1"))
        return iso_loss_bad(y_pred);
    const iso_shape *shape = iso_tensor_shape(y_pred);
    iso_tensor *label = iso_one_hot(y_true, shape->dim[shape->rank - 1], iso_tensor_dtype(y_pred));
    iso_tensor *p = iso_loss_sum(iso_multiply(y_pred, label));
    return iso_affine(iso_power(p, iso_metric_number(p, q)), -1 / q, 1 / q);
}

static iso_tensor *build(const iso_loss_call *c)
{
    return iso_categorical_generalized_crossentropy(c->y_true, c->y_pred, c->settings->loss_q);
}

const iso_loss_type iso_loss_categorical_generalized_cross_entropy = {
    .row = {"categorical_generalized_cross_entropy", "CategoricalGeneralizedCrossEntropy", settings},
    .saved = "categorical_generalized_cross_entropy",
    .build = build};
