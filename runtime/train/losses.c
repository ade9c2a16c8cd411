/* Shared by losses: their rows, and the matching of targets, predictions and weights. */
#include "runtime/train/losses.h"
#include "runtime/graph/layer.h"

#include <string.h>

#include "runtime/base/thread_modes.h"
#include "runtime/train/losses_impl.h"

/* ---- the rows ---- */

static const iso_descriptor *const all_rows[ISO_LOSS_COUNT] = {
#define LOSS(name, NAME, targets) [ISO_LOSS_##NAME - 1] = &iso_loss_##name.row,
#include "runtime/train/losses/list.h"
};

const iso_loss_type *iso_loss_type_of(iso_loss loss)
{
    return (int)loss > ISO_LOSS_NONE && (int)loss < ISO_LOSS_COUNT ? (const void *)all_rows[loss - 1] : NULL;
}

const char *iso_loss_name(iso_loss loss)
{
    const iso_loss_type *type = iso_loss_type_of(loss);
    return type ? type->row.name : NULL;
}

static bool is_called(const iso_loss_type *type, const char *name)
{
    return strcmp(type->row.name, name) == 0 || (type->alias && strcmp(type->alias, name) == 0) ||
           (type->logits != type && strcmp(type->saved, name) == 0);
}

static iso_status losses_unknown(const char *name)
{
    const char *listed[ISO_LOSS_COUNT], *names[3 * ISO_LOSS_COUNT];
    int count = 0;
    for (int i = 1; i < ISO_LOSS_COUNT; i++) {
        const iso_loss_type *type = iso_loss_type_of((iso_loss)i);
        listed[i - 1] = names[count++] = type->row.name;
        if (type->alias)
            names[count++] = type->alias;
        if (type->logits != type && strcmp(type->saved, type->row.name) != 0)
            names[count++] = type->saved;
    }
    return iso_descriptor_unknown("loss", name, names, count, listed, ISO_LOSS_COUNT - 1);
}

iso_status iso_loss_find(const char *name, iso_loss *loss)
{
    ISO_NEED(name, loss);
    for (int i = 1; i < ISO_LOSS_COUNT; i++) {
        if (is_called(iso_loss_type_of((iso_loss)i), name)) {
            *loss = (iso_loss)i;
            return ISO_OK;
        }
    }
    return losses_unknown(name);
}

iso_loss iso_loss_with_logits(iso_loss loss)
{
    const iso_loss_type *logits = iso_loss_type_of(loss)->logits;
    for (loss = ISO_LOSS_NONE; iso_loss_type_of(loss) != logits;)
        loss++;
    return loss;
}

iso_loss_targets iso_loss_targets_of(iso_loss loss)
{
    static const iso_loss_targets of[ISO_LOSS_COUNT] = {
#define LOSS(name, NAME, targets) [ISO_LOSS_##NAME] = ISO_LOSS_OF_##targets,
#include "runtime/train/losses/list.h"
    };
    return iso_loss_type_of(loss) ? of[loss] : ISO_LOSS_OF_VALUES;
}

iso_dtype iso_loss_target_dtype(iso_loss loss)
{
    return iso_loss_targets_of(loss) == ISO_LOSS_OF_CLASSES ? ISO_I32 : ISO_F32;
}

iso_shape iso_loss_target_shape(iso_loss loss, const iso_shape *prediction)
{
    iso_shape shape = {.rank = prediction->rank - 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = prediction->dim[i + 1];
    if (iso_loss_targets_of(loss) == ISO_LOSS_OF_CLASSES && shape.rank > 0)
        shape.rank--;
    return shape;
}

iso_tensor *iso_loss_values(iso_loss loss, iso_tensor *y_true, iso_tensor *y_pred,
                            const iso_output_options *settings)
{
    const iso_loss_type *type = iso_loss_type_of(loss);
    if (!type) {
        iso_graph_fail(iso_tensor_graph(y_pred), "loss %d: there is no such loss", (int)loss);
        return y_pred;
    }
    if (type->function)
        return type->function(y_true, y_pred);
    return type->build(&(iso_loss_call){y_true, y_pred, settings, type->logits == type});
}

iso_tensor *iso_loss_mask(iso_loss loss, iso_tensor *y_true, iso_tensor *y_pred,
                          const iso_output_options *settings)
{
    const iso_loss_type *type = iso_loss_type_of(loss);
    if (!type || !type->mask)
        return NULL;
    return type->mask(&(iso_loss_call){y_true, y_pred, settings, type->logits == type});
}

iso_tensor *iso_loss_ignore(iso_tensor **labels, int ignore_class)
{
    iso_graph *graph = iso_tensor_graph(*labels);
    iso_tensor *t = iso_cast(*labels, ISO_F64); /* bytes have no -100 */
    iso_tensor *counts = iso_not_equal(t, iso_number(graph, ISO_F64, iso_option_number(ignore_class, 0)));
    *labels = iso_where(counts, t, iso_number(graph, ISO_F64, 0));
    return counts;
}

void iso_loss_reset_settings(iso_output_options *output)
{
    for (int i = 1; i < ISO_LOSS_COUNT; i++) {
        const iso_setting *setting = iso_loss_type_of((iso_loss)i)->row.setting;
        for (; setting && setting->name; setting++)
            iso_setting_set(setting, output, 0);
    }
}

/* ---- targets and predictions ---- */

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
    rows.rank--; /* without the class dimension */
    if (is_column_of(t, &rows))
        *y_true = iso_reshape_to(*y_true, rows);
    else if (!iso_shape_equal(t, &rows))
        return fail(*y_true, y_pred, what);
    return iso_graph_error(iso_tensor_graph(y_pred)) == ISO_OK;
}

iso_tensor *iso_loss_bad(iso_tensor *y_pred)
{
    return iso_negate(y_pred);
}

iso_tensor *iso_loss_mean(iso_tensor *x)
{
    return iso_reduce_mean(x, (const int[]){-1}, 1, false);
}

iso_tensor *iso_loss_sum(iso_tensor *x)
{
    return iso_reduce_sum(x, (const int[]){-1}, 1, false);
}

iso_tensor *iso_loss_clip(iso_tensor *x, double low, double high)
{
    iso_graph *graph = iso_tensor_graph(x);
    iso_tensor *least = iso_number(graph, iso_tensor_dtype(x), low);
    iso_tensor *most = iso_number(graph, iso_tensor_dtype(x), high);
    return iso_minimum(iso_maximum(x, least), most);
}

bool iso_loss_check(iso_tensor *y_pred, const char *what, const char *setting, double value, bool good,
                    const char *range)
{
    if (!good)
        iso_graph_fail(iso_tensor_graph(y_pred), "%s: %s is %g, it must be %s", what, setting, value, range);
    return good;
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
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(values))
        return iso_null_tensor(&weights, 1);
    if (weights)
        values = iso_multiply(values, iso_loss_fit_weights(weights, values));
    return iso_mean(values);
}

iso_tensor *iso_loss_mask_weights(iso_tensor *weights, iso_tensor *mask)
{
    iso_tensor *counts = iso_cast(mask, weights ? iso_tensor_dtype(weights) : ISO_F64);
    return weights ? iso_multiply(counts, iso_loss_fit_weights(weights, counts)) : counts;
}

/* x / share, and x where the share is 0: then x is 0 too. */
static iso_tensor *by_share(iso_tensor *x, iso_tensor *share)
{
    iso_graph *graph = iso_tensor_graph(x);
    iso_tensor *none = iso_equal(share, iso_number(graph, ISO_F64, 0));
    share = iso_where(none, iso_number(graph, ISO_F64, 1), share);
    return iso_cast(iso_divide(iso_cast(x, ISO_F64), share), iso_tensor_dtype(x));
}

iso_tensor *iso_reduce_masked_loss(iso_tensor *values, iso_tensor *weights, iso_tensor *mask)
{
    char m[160], v[160];
    if (iso_tensor_shape(values)->rank == 0)
        values = iso_broadcast_to(values, *iso_tensor_shape(mask));
    if (iso_graph_error(iso_tensor_graph(values)) == ISO_OK &&
        !iso_shape_equal(iso_tensor_shape(values), iso_tensor_shape(mask)))
        iso_graph_fail(iso_tensor_graph(values),
                       "the losses have the shape %s, the mask of the predictions %s",
                       iso_shape_text(iso_tensor_shape(values), v, sizeof v),
                       iso_shape_text(iso_tensor_shape(mask), m, sizeof m));
    iso_tensor *loss = iso_reduce_loss(values, iso_loss_mask_weights(weights, mask));
    return by_share(loss, iso_mean(iso_cast(mask, ISO_F64)));
}
