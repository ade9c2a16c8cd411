/* Masks: how layers make them, and pass them on. */
#include "models/layers/masks.h"
#include "models/layers/list.h"
#include "runtime/base/log.h"
#include "runtime/session/session.h"

/* ---- parts of masks ---- */

iso_tensor *iso_mask_of_values(iso_tensor *x, double value)
{
    return iso_not_equal(x, iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), value));
}

iso_tensor *iso_mask_any(iso_tensor *mask)
{
    return iso_mask_of_values(iso_reduce_sum(mask, (const int[]){-1}, 1, false), 0);
}

iso_tensor *iso_mask_or(iso_tensor *a, iso_tensor *b)
{
    return iso_mask_equal(a, b) ? a : iso_logical_or(a, b);
}

iso_tensor *iso_mask_column(iso_tensor *mask)
{
    iso_shape shape = *iso_tensor_shape(mask);
    shape.dim[shape.rank++] = 1;
    return iso_reshape_to(mask, shape);
}

iso_tensor *iso_mask_filled(iso_tensor *x, bool value)
{
    return iso_broadcast_to(iso_number(iso_tensor_graph(x), ISO_BOOL, value), *iso_tensor_shape(x));
}

/* Ops of masks have no settings besides those that follow from the shapes. */
static bool same_op(const iso_op *a, const iso_op *b)
{
    bool same = a && b && a->type == b->type && a->n_inputs == b->n_inputs && a->n_inputs > 0;
    for (int i = 0; same && i < a->n_inputs; i++)
        same = iso_mask_equal(a->inputs[i], b->inputs[i]);
    return same;
}

bool iso_mask_equal(const iso_tensor *a, const iso_tensor *b)
{
    double x, y;
    if (a == b || !a || !b)
        return a == b;
    if (a->dtype != b->dtype || !iso_shape_equal(&a->shape, &b->shape))
        return false;
    if (iso_tensor_is_number(a, &x))
        return iso_tensor_is_number(b, &y) && x == y;
    return a->output == b->output && same_op(a->producer, b->producer);
}

/* ---- the masks of layers ---- */

iso_tensor *iso_layer_mask(const iso_layer *layer, const iso_tensor *x)
{
    const iso_masks masks = iso_tensor_masks(x);
    const bool cast = iso_tensor_dtype(x) != iso_graph_compute_type(layer->graph);
    return masks.built && !cast ? masks.built : masks.run;
}

iso_masks iso_layer_masks_used(const iso_layer *layer, const iso_tensor *x)
{
    return (iso_masks){.built = iso_tensor_masks(x).built, .run = iso_layer_mask(layer, x)};
}

static bool mask_has_shape(const iso_layer *layer, const iso_tensor *mask, const iso_tensor *x, int rank,
                           const char *whose)
{
    char has[160], wants[160];
    iso_shape want = *iso_tensor_shape(x);
    want.rank = rank;
    if (iso_shape_equal(iso_tensor_shape(mask), &want))
        return true;
    iso_layer_fail(layer, "%s has the shape %s, it must be %s", whose,
                   iso_shape_text(iso_tensor_shape(mask), has, sizeof has),
                   iso_shape_text(&want, wants, sizeof wants));
    return false;
}

iso_tensor *iso_layer_given_mask(const iso_layer *layer, iso_tensor *mask, const iso_tensor *x, int rank)
{
    if (!iso_tensor_good(mask) || !mask_has_shape(layer, mask, x, rank, "mask"))
        return NULL;
    return iso_tensor_dtype(mask) == ISO_BOOL ? mask : iso_mask_of_values(mask, 0);
}

void iso_layer_note_mask(iso_layer *layer, int input)
{
    iso_layer_note_call(layer,
                        (iso_attribute){.kind = ISO_ATTRIBUTE_INPUT, .name = "mask", .integer = input});
}

iso_tensor *iso_config_mask(const iso_layer_config *config, iso_tensor *const *x, int *count)
{
    const bool given = iso_config_flag(config, "mask", false) && *count > 1;
    *count -= given ? 1 : 0;
    return given ? x[*count] : NULL;
}

bool iso_layer_check_mask(const iso_layer *layer, const iso_tensor *x, int rank)
{
    const iso_tensor *mask = iso_layer_mask(layer, x);
    return !mask || mask_has_shape(layer, mask, x, rank, "the mask of its input");
}

void iso_layer_warn_mask(const iso_layer *layer, const char *what)
{
    const iso_context *ctx = iso_graph_context(layer->graph);
    if ((!ctx || iso_is_chief(ctx)) && !iso_graph_shares(layer->graph) &&
        !iso_graph_makes_parts(layer->graph))
        iso_warn("layer '%s' (%s) %s, as in Keras (\"Masks\" in docs/keras.md)", layer->name, layer->type,
                 what);
}

static bool is_input(const iso_layer *layer, const iso_tensor *y)
{
    for (int i = 0; i < layer->n_inputs; i++)
        if (layer->inputs[i] == y)
            return true;
    return false;
}

void iso_layer_end_masks(iso_layer *layer, iso_tensor *y)
{
    const bool masked = iso_tensor_mask(layer->inputs[0]);
    const iso_layer_type *type = iso_layer_type_find(layer->type);
    if (is_input(layer, y))
        return;
    if (!type) /* a cell, a part of a layer */
        iso_tensor_set_masks(y, layer->masks);
    else if (type->masks == ISO_MASKS_DROPPED && masked)
        iso_layer_warn_mask(layer, "does not pass on the mask of its input: behind it all steps count");
    else if (type->masks == ISO_MASKS_PASSED)
        iso_tensor_set_masks(y, iso_tensor_masks(layer->inputs[0]));
    else if (type->masks == ISO_MASKS_MADE)
        iso_tensor_set_masks(y, layer->masks);
}
