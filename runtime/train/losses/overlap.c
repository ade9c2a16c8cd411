/* Losses of the overlap of targets and predictions, over the whole batch or over dimensions that are named: Dice
 * (Milletari et al. 2016) and Tversky (Salehi et al. 2017). */
#include <float.h>

#include "runtime/train/losses_impl.h"

#define AXIS                                                                                                 \
    {                                                                                                        \
        "axis", ISO_SETTING_BITS, offsetof(iso_output_options, loss_axes), .fallback = 0                     \
    }
static const iso_setting of_dice[] = {AXIS, {0}};
static const iso_setting of_tversky[] = {
    {"alpha", ISO_SETTING_REAL, offsetof(iso_output_options, loss_alpha), .fallback = 0.5},
    {"beta", ISO_SETTING_REAL, offsetof(iso_output_options, loss_beta), .fallback = 0.5},
    AXIS,
    {0},
};

/* The float64 sum over the axes (0: all). */
static iso_tensor *sum(iso_tensor *x, uint64_t axes)
{
    int list[ISO_MAX_RANK], count = 0;
    for (int axis = 0; axis < ISO_MAX_RANK; axis++)
        if (axes >> axis & 1)
            list[count++] = axis;
    return iso_reduce_sum(iso_cast(x, ISO_F64), list, count, false);
}

/* 1 - a / (b + epsilon), of the type of `like` */
static iso_tensor *rest(iso_tensor *a, iso_tensor *b, const iso_tensor *like)
{
    iso_tensor *share = iso_divide(a, iso_affine(b, 1, ISO_LOSS_EPSILON));
    return iso_cast(iso_affine(share, -1, 1), iso_tensor_dtype(like));
}

static bool match(iso_tensor **t, iso_tensor **p, const char *what, uint64_t axes)
{
    if (!iso_loss_match(t, p, what))
        return false;
    int rank = iso_tensor_shape(*p)->rank, wrong = rank;
    while (axes >> rank && !(axes >> wrong & 1))
        wrong++;
    if (axes >> rank)
        iso_graph_fail(iso_tensor_graph(*p),
                       "%s: its axis has %d, it must name dimensions of the predictions, from 0 to %d", what,
                       wrong, rank - 1);
    return axes >> rank == 0;
}

iso_tensor *iso_dice(iso_tensor *y_true, iso_tensor *y_pred, uint64_t axes)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!match(&y_true, &y_pred, "dice", axes))
        return iso_loss_bad(y_pred);
    iso_tensor *both = sum(iso_multiply(y_true, y_pred), axes);
    return rest(iso_affine(both, 2, 0), iso_add(sum(y_true, axes), sum(y_pred, axes)), y_pred);
}

/* Keras's names: alpha weighs targets that are not predicted, beta predictions that are no targets. */
iso_tensor *iso_tversky(iso_tensor *y_true, iso_tensor *y_pred, double alpha, double beta, uint64_t axes)
{
    static const char what[] = "tversky";
    ISO_NEED_TENSORS(y_true, y_pred);
    alpha = iso_option_number(alpha, 0.5);
    beta = iso_option_number(beta, 0.5);
    if (!match(&y_true, &y_pred, what, axes) ||
        !iso_loss_check(y_pred, what, "alpha", alpha, alpha >= 0 && alpha <= DBL_MAX, "0 or more") ||
        !iso_loss_check(y_pred, what, "beta", beta, beta >= 0 && beta <= DBL_MAX, "0 or more"))
        return iso_loss_bad(y_pred);
    iso_tensor *both = sum(iso_multiply(y_true, y_pred), axes);
    iso_tensor *missed = sum(iso_multiply(iso_affine(y_pred, -1, 1), y_true), axes);
    iso_tensor *false_ones = sum(iso_multiply(y_pred, iso_affine(y_true, -1, 1)), axes);
    iso_tensor *errors = iso_add(iso_affine(missed, alpha, 0), iso_affine(false_ones, beta, 0));
    return rest(both, iso_add(both, errors), y_pred);
}

static iso_tensor *dice(const iso_loss_call *c)
{
    return iso_dice(c->y_true, c->y_pred, c->settings->loss_axes);
}

static iso_tensor *tversky(const iso_loss_call *c)
{
    const iso_output_options *s = c->settings;
    return iso_tversky(c->y_true, c->y_pred, s->loss_alpha, s->loss_beta, s->loss_axes);
}

const iso_loss_type iso_loss_dice = {.row = {"dice", "Dice", of_dice}, .saved = "dice", .build = dice};
const iso_loss_type iso_loss_tversky = {
    .row = {"tversky", "Tversky", of_tversky}, .saved = "tversky", .build = tversky};
