/* Losses of a margin, for targets -1 and 1, and of classes. */
#include "runtime/train/losses_impl.h"

/* max(x, 0), whose gradient at 0 is 0.5, as in Keras on JAX */
static iso_tensor *positive_part(iso_tensor *x)
{
    return iso_affine(iso_add(x, iso_abs(x)), 0.5, 0);
}

/* Targets that all are 0 or 1 become -1 and 1. As in Keras, one other target in the batch leaves all as they are. */
static iso_tensor *signs(iso_tensor *t)
{
    iso_tensor *binary =
        iso_logical_or(iso_equal(t, iso_metric_number(t, 0)), iso_equal(t, iso_metric_number(t, 1)));
    iso_tensor *others = iso_sum(iso_logical_not(binary));
    return iso_where(iso_equal(others, iso_metric_number(others, 0)), iso_affine(t, 2, -1), t);
}

static iso_tensor *margins(iso_tensor *y_true, iso_tensor *y_pred)
{
    return positive_part(iso_affine(iso_multiply(signs(y_true), y_pred), -1, 1));
}

iso_tensor *iso_hinge(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "hinge"))
        return iso_loss_bad(y_pred);
    return iso_loss_mean(margins(y_true, y_pred));
}

iso_tensor *iso_squared_hinge(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "squared hinge"))
        return iso_loss_bad(y_pred);
    return iso_loss_mean(iso_square(margins(y_true, y_pred)));
}

/* max(1 + max((1 - t) p) - sum(t p), 0) */
iso_tensor *iso_categorical_hinge(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "categorical hinge"))
        return iso_loss_bad(y_pred);
    iso_tensor *right = iso_loss_sum(iso_multiply(y_true, y_pred));
    iso_tensor *others = iso_multiply(iso_affine(y_true, -1, 1), y_pred);
    iso_tensor *wrong = iso_reduce_max(others, (const int[]){-1}, 1, false);
    return positive_part(iso_affine(iso_subtract(wrong, right), 1, 1));
}

#define ROWS(id, NAME, KERAS)                                                                                \
    const iso_loss_type iso_loss_##id = {                                                                    \
        .row.name = NAME, .row.keras = KERAS, .saved = NAME, .function = iso_##id};                          \
    const iso_metric_type iso_metric_##id = {.row.name = NAME,                                               \
                                             .row.keras = KERAS,                                             \
                                             .keras_name = NAME,                                             \
                                             .less_is_better = true,                                         \
                                             .function = iso_##id};
ROWS(hinge, "hinge", "Hinge")
ROWS(squared_hinge, "squared_hinge", "SquaredHinge")
ROWS(categorical_hinge, "categorical_hinge", "CategoricalHinge")
