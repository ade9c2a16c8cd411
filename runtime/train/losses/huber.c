#include "runtime/train/losses_impl.h"

static const iso_setting settings[] = {
    {"delta", ISO_SETTING_REAL, offsetof(iso_output_options, huber_delta), .fallback = 1}, {0}};

iso_tensor *iso_huber(iso_tensor *y_true, iso_tensor *y_pred, double delta)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    delta = iso_option_number(delta, settings->fallback);
    if (!iso_loss_match(&y_true, &y_pred, "huber") ||
        !iso_loss_check(y_pred, "huber", "delta", delta, delta > 0, "positive"))
        return iso_loss_bad(y_pred);
    iso_tensor *error = iso_subtract(y_pred, y_true), *size = iso_abs(error);
    iso_tensor *limit = iso_number(iso_tensor_graph(size), iso_tensor_dtype(size), delta);
    iso_tensor *near = iso_affine(iso_square(error), 0.5, 0),
               *far = iso_affine(size, delta, -0.5 * delta * delta);
    return iso_loss_mean(iso_where(iso_less_equal(size, limit), near, far));
}

static iso_tensor *huber_build(const iso_loss_call *c)
{
    return iso_huber(c->y_true, c->y_pred, c->settings->huber_delta);
}

const iso_loss_type iso_loss_huber = {
    .row = {"huber", "Huber", settings}, .saved = "huber_loss", .build = huber_build};
