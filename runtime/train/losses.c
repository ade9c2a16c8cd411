/* Losses of Keras 3.15 (keras/src/losses/losses.py, as documented), as functions that build graphs. */
#include "runtime/train/losses.h"

#include <string.h>

#include "runtime/graph/arguments.h"
#include "runtime/train/losses_impl.h"

#define EPSILON 1e-7 /* keras.config.epsilon() */

static iso_tensor *fail(iso_tensor *y_true, iso_tensor *y_pred, const char *what)
{
    char t[160], p[160];
    iso_graph_fail(iso_tensor_graph(y_pred), "%s: targets of shape %s do not fit predictions of shape %s",
                   what, iso_shape_text(iso_tensor_shape(y_true), t, sizeof t),
                   iso_shape_text(iso_tensor_shape(y_pred), p, sizeof p));
    return NULL;
}

/* Whether a is b followed by a dimension of 1. */
static bool is_column_of(const iso_shape *a, const iso_shape *b)
{
    if (a->rank != b->rank + 1 || a->dim[b->rank] != 1)
        return false;
    for (int i = 0; i < b->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool iso_loss_match(iso_tensor **y_true, iso_tensor **y_pred, const char *what)
{
    const iso_shape *t = iso_tensor_shape(*y_true), *p = iso_tensor_shape(*y_pred);
    if (iso_graph_error(iso_tensor_graph(*y_pred)) != ISO_OK)
        return false;
    if (p->rank == 1) {
        *y_pred = iso_reshape_to(*y_pred, ISO_SHAPE(ISO_BATCH, 1));
        p = iso_tensor_shape(*y_pred);
    }
    if (is_column_of(t, p) || is_column_of(p, t))
        *y_true = iso_reshape_to(*y_true, *p);
    else if (!iso_shape_equal(t, p))
        return fail(*y_true, *y_pred, what);
    *y_true = iso_cast(*y_true, iso_tensor_dtype(*y_pred));
    return iso_graph_error(iso_tensor_graph(*y_pred)) == ISO_OK;
}

bool iso_loss_match_labels(iso_tensor **y_true, iso_tensor *y_pred, const char *what)
{
    const iso_shape *t = iso_tensor_shape(*y_true);
    iso_shape rows = *iso_tensor_shape(y_pred);
    if (iso_graph_error(iso_tensor_graph(y_pred)) != ISO_OK)
        return false;
    if (rows.rank < 2)
        return fail(*y_true, y_pred, what);
    rows.rank--; /* without the classes */
    if (is_column_of(t, &rows))
        *y_true = iso_reshape_to(*y_true, rows);
    else if (!iso_shape_equal(t, &rows))
        return fail(*y_true, y_pred, what);
    return iso_graph_error(iso_tensor_graph(y_pred)) == ISO_OK;
}

static iso_tensor *bad(iso_tensor *y_pred)
{
    return iso_negate(y_pred); /* of a broken graph: its bad tensor */
}

static iso_tensor *mean_of_last(iso_tensor *x)
{
    return iso_reduce_mean(x, (const int[]){-1}, 1, false);
}

static iso_tensor *sum_of_last(iso_tensor *x, bool keep)
{
    return iso_reduce_sum(x, (const int[]){-1}, 1, keep);
}

iso_tensor *iso_mean_squared_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "mean squared error"))
        return bad(y_pred);
    return mean_of_last(iso_square(iso_subtract(y_pred, y_true)));
}

iso_tensor *iso_mean_absolute_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    if (!iso_loss_match(&y_true, &y_pred, "mean absolute error"))
        return bad(y_pred);
    return mean_of_last(iso_abs(iso_subtract(y_pred, y_true)));
}

iso_tensor *iso_huber(iso_tensor *y_true, iso_tensor *y_pred, double delta)
{
    ISO_NEED_TENSORS(y_true, y_pred);
    delta = iso_option_number(delta, 1);
    if (!iso_loss_match(&y_true, &y_pred, "huber"))
        return bad(y_pred);
    if (!(delta > 0)) {
        iso_graph_fail(iso_tensor_graph(y_pred), "huber: delta is %g, it must be positive", delta);
        return bad(y_pred);
    }
    iso_tensor *error = iso_subtract(y_pred, y_true), *size = iso_abs(error);
    iso_tensor *limit = iso_number(iso_tensor_graph(size), iso_tensor_dtype(size), delta);
    iso_tensor *near = iso_affine(iso_square(error), 0.5, 0),
               *far = iso_affine(size, delta, -0.5 * delta * delta);
    return mean_of_last(iso_where(iso_less_equal(size, limit), near, far));
}

/* Clipped to [1e-7, 1 - 1e-7]. */
static iso_tensor *clip(iso_tensor *p)
{
    iso_graph *graph = iso_tensor_graph(p);
    iso_tensor *low = iso_number(graph, iso_tensor_dtype(p), EPSILON);
    iso_tensor *high = iso_number(graph, iso_tensor_dtype(p), 1 - EPSILON);
    return iso_minimum(iso_maximum(p, low), high);
}

/* Probabilities that are divided by their sum and clipped. */
static iso_tensor *normalise(iso_tensor *p)
{
    return clip(iso_divide(p, sum_of_last(p, true)));
}

static bool check_smoothing(iso_tensor *y_pred, double smoothing, bool possible)
{
    if (smoothing >= 0 && smoothing <= 1 && (possible || smoothing == 0))
        return true;
    iso_graph_fail(iso_tensor_graph(y_pred),
                   possible ? "label smoothing %g: 0 to 1 is possible"
                            : "label smoothing %g: sparse labels cannot be smoothed",
                   smoothing);
    return false;
}

#define OPTIONS()                                                                                            \
    iso_crossentropy_options options = {0};                                                                  \
    iso_options_copy(&options, sizeof options, given, size);                                                 \
    iso_tensor *t = options.y_true, *p = options.y_pred;                                                     \
    ISO_NEED_TENSORS_AS("y_true, y_pred", t, p)

iso_tensor *iso_sparse_crossentropy_with(const iso_crossentropy_options *given, size_t size)
{
    OPTIONS();
    if (!iso_loss_match_labels(&t, p, "sparse cross-entropy") ||
        !check_smoothing(p, options.label_smoothing, false))
        return bad(p);
    if (options.from_logits)
        return iso_sparse_crossentropy_op(t, p);
    /* The op gives log(sum(p)) - log(p[label]), and the error of a label outside the classes. */
    p = normalise(p);
    return iso_subtract(iso_sparse_crossentropy_op(t, iso_log(p)), iso_log(sum_of_last(p, false)));
}

iso_tensor *iso_categorical_crossentropy_with(const iso_crossentropy_options *given, size_t size)
{
    OPTIONS();
    double smoothing = options.label_smoothing;
    if (!iso_loss_match(&t, &p, "cross-entropy") || !check_smoothing(p, smoothing, true))
        return bad(p);
    const iso_shape *shape = iso_tensor_shape(p);
    if (smoothing > 0)
        t = iso_affine(t, 1 - smoothing, smoothing / (double)shape->dim[shape->rank - 1]);
    if (options.from_logits)
        return iso_crossentropy_op(t, p);
    return iso_negate(sum_of_last(iso_multiply(t, iso_log(normalise(p))), false));
}

iso_tensor *iso_binary_crossentropy_with(const iso_crossentropy_options *given, size_t size)
{
    OPTIONS();
    double smoothing = options.label_smoothing;
    if (!iso_loss_match(&t, &p, "binary cross-entropy") || !check_smoothing(p, smoothing, true))
        return bad(p);
    if (smoothing > 0)
        t = iso_affine(t, 1 - smoothing, 0.5 * smoothing);
    iso_tensor *if_one, *if_zero; /* the loss where the target is 1 or 0 */
    if (options.from_logits) {
        if_one = iso_softplus(iso_negate(p));
        if_zero = iso_softplus(p);
    } else {
        p = clip(p);
        if_one = iso_negate(iso_log(p));
        if_zero = iso_negate(iso_log(iso_affine(p, -1, 1)));
    }
    return mean_of_last(iso_add(iso_multiply(t, if_one), iso_multiply(iso_affine(t, -1, 1), if_zero)));
}

iso_tensor *iso_loss_fit_weights(iso_tensor *weights, iso_tensor *values)
{
    const iso_shape *v = iso_tensor_shape(values);
    iso_shape w = *iso_tensor_shape(weights);
    if (w.rank == v->rank + 1 && w.dim[v->rank] == 1) {
        w.rank = v->rank;
        weights = iso_reshape_to(weights, w);
    } else if (w.rank < v->rank) {
        while (w.rank < v->rank)
            w.dim[w.rank++] = 1;
        weights = iso_reshape_to(weights, w);
    }
    return iso_cast(weights, iso_tensor_dtype(values));
}

iso_tensor *iso_reduce_loss(iso_tensor *values, iso_tensor *weights)
{
    if (ISO_ANY_NULL(values))
        return iso_null_tensor(&weights, 1);
    if (weights)
        values = iso_multiply(values, iso_loss_fit_weights(weights, values));
    return iso_mean(values);
}
