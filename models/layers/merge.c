/* Layers of several inputs: Add, Subtract, Multiply, Average, Maximum, Minimum, Concatenate. */
#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"

/* Begins a layer of several inputs; false if it cannot be built. */
static bool merge_begin(iso_layer *layer, const iso_merge_options *options, const char *type,
                        const char *base)
{
    if (options->count < 1 || !options->x ||
        !iso_layer_begin_several(layer, options->x, options->count, type, base, options->name))
        return false;
    for (int i = 0; i < options->count; i++) {
        if (!options->x[i])
            iso_layer_fail(layer, "its input %d is NULL", i);
        else if (iso_tensor_graph(options->x[i]) != layer->graph)
            iso_layer_fail(layer, "its input %d belongs to another graph", i);
    }
    return iso_graph_error(layer->graph) == ISO_OK;
}

static iso_tensor *broken(const char *function, const iso_merge_options *options)
{
    if (!options->x || options->count < 1) {
        iso_error(ISO_INVALID, "%s: x is NULL, or its count %d is below 1", function, options->count);
        return NULL;
    }
    if (!options->x[0])
        iso_null_argument(function, "x[0]", 0);
    return options->x[0] ? iso_layer_broken_in(function, options->x[0])
                         : iso_null_tensor(options->x, (size_t)options->count);
}

/* Input i as the merge takes it: in the type of Keras's result, which is an integer only if all inputs are. */
static iso_tensor *operand(const iso_layer *layer, const iso_merge_options *options, int i)
{
    iso_dtype type = iso_tensor_dtype(options->x[0]);
    for (int k = 1; k < options->count; k++)
        type = iso_dtype_promoted(type, iso_tensor_dtype(options->x[k]));
    iso_tensor *x = options->x[i];
    return iso_dtype_is_float(type) ? iso_layer_cast(layer, x) : iso_cast(x, type);
}

/* The same with Keras's broadcasting: dimensions of one element are inserted behind the batch. What has no batch
 * is broadcast as in NumPy. */
static iso_tensor *term(const iso_layer *layer, const iso_merge_options *options, int i)
{
    iso_tensor *x = operand(layer, options, i);
    const iso_shape *shape = iso_tensor_shape(x);
    iso_shape wide = {.rank = shape->rank};
    for (int k = 0; k < options->count; k++)
        if (iso_tensor_shape(options->x[k])->rank > wide.rank)
            wide.rank = iso_tensor_shape(options->x[k])->rank;
    int more = wide.rank - shape->rank;
    for (int d = 0; d < wide.rank; d++)
        wide.dim[d] = d > more ? shape->dim[d - more] : d == 0 && shape->rank > 0 ? shape->dim[0] : 1;
    return more > 0 && wide.dim[0] == ISO_BATCH ? iso_reshape_to(x, wide) : x;
}

/* ---- masks, as in Keras ---- */

static iso_tensor *mask_of(const iso_merge_options *o, int i, bool run)
{
    const iso_masks masks = iso_tensor_masks(o->x[i]);
    return run ? masks.run : masks.built;
}

/* A step counts if it does in one of the inputs; NULL if one of them has no mask. */
static iso_tensor *any_counts(const iso_merge_options *o, bool run)
{
    iso_tensor *all = mask_of(o, 0, run);
    for (int i = 1; all && i < o->count; i++)
        all = mask_of(o, i, run) ? iso_mask_or(all, mask_of(o, i, run)) : NULL;
    return all;
}

/* For `count` tensors, to be freed; NULL: the graph has the error. */
static iso_tensor **room_for(iso_graph *graph, int count)
{
    const size_t bytes = (size_t)count * sizeof(iso_tensor *);
    iso_tensor **room = iso_new(bytes);
    if (!room)
        iso_graph_fail_memory(graph, "Concatenate", bytes);
    return room;
}

/* The masks of the elements, joined as the inputs are: a step counts if one of its elements does. */
static iso_tensor *joined_masks(const iso_merge_options *o, bool run)
{
    iso_graph *graph = iso_tensor_graph(o->x[0]);
    iso_tensor **mask = room_for(graph, o->count);
    bool any = false;
    for (int i = 0; mask && i < o->count; i++) {
        mask[i] = mask_of(o, i, run);
        any = any || mask[i];
        if (!mask[i])
            mask[i] = iso_mask_filled(o->x[i], true);
        else if (iso_tensor_shape(mask[i])->rank < iso_tensor_shape(o->x[i])->rank)
            mask[i] = iso_logical_or(iso_mask_column(mask[i]), iso_mask_filled(o->x[i], false));
    }
    iso_tensor *joined = any ? iso_mask_any(iso_concat(mask, o->count, o->axis ? o->axis : -1)) : NULL;
    iso_free(mask);
    return joined;
}

static iso_masks merged_masks(const iso_merge_options *o,
                              iso_tensor *(*merge)(const iso_merge_options *o, bool run))
{
    bool any = false, same = true;
    for (int i = 0; i < o->count; i++) {
        any = any || iso_tensor_mask(o->x[i]);
        same = same && mask_of(o, i, false) == mask_of(o, i, true);
    }
    iso_masks masks = {.built = any ? merge(o, false) : NULL};
    masks.run = same || !any ? masks.built : merge(o, true);
    return masks;
}

/* The mask of x, input i, for each element; NULL: none, or inputs of different ranks, whose masks Keras loses. */
static iso_tensor *element_mask(const iso_merge_options *o, int i, iso_tensor *x)
{
    iso_tensor *mask = mask_of(o, i, true);
    for (int k = 0; mask && k < o->count; k++)
        if (iso_tensor_shape(o->x[k])->rank != iso_tensor_shape(x)->rank)
            return NULL;
    return mask ? iso_broadcast_to(iso_mask_column(mask), *iso_tensor_shape(x)) : NULL;
}

/* What does not count is 1, and 0 where no input counts. */
static iso_tensor *product(const iso_layer *layer, const iso_merge_options *o)
{
    iso_tensor *y = NULL, *counts = NULL;
    int masked = 0;
    for (int i = 0; i < o->count; i++) {
        iso_tensor *x = term(layer, o, i), *mask = element_mask(o, i, x);
        if (mask) {
            x = iso_where(mask, x, iso_number(layer->graph, iso_tensor_dtype(x), 1));
            counts = counts ? iso_logical_or(counts, mask) : mask;
            masked++;
        }
        y = y ? iso_multiply(y, x) : x;
    }
    return masked == o->count ? iso_where(counts, y, iso_number(layer->graph, iso_tensor_dtype(y), 0)) : y;
}

/* The largest or smallest of the elements that count. */
static iso_tensor *extreme(const iso_layer *layer, const iso_merge_options *o,
                           iso_tensor *(*op)(iso_tensor *a, iso_tensor *b))
{
    iso_tensor *y = term(layer, o, 0), *counts = element_mask(o, 0, y);
    for (int i = 1; i < o->count; i++) {
        iso_tensor *x = term(layer, o, i), *mask = element_mask(o, i, x);
        x = mask ? iso_where(mask, x, y) : x;
        y = counts ? iso_where(counts, y, x) : y;
        counts = mask && counts ? iso_logical_or(counts, mask) : NULL;
        y = op(y, x);
    }
    return y;
}

static iso_tensor *sum(const iso_layer *layer, const iso_merge_options *o)
{
    iso_tensor *y = term(layer, o, 0);
    for (int i = 1; i < o->count; i++)
        y = iso_add(y, term(layer, o, i));
    return y;
}

static iso_tensor *folded(const iso_layer *layer, const iso_merge_options *o,
                          iso_tensor *(*op)(iso_tensor *a, iso_tensor *b))
{
    return op == iso_add ? sum(layer, o) : op == iso_multiply ? product(layer, o) : extreme(layer, o, op);
}

/* ---- the layers ---- */

static iso_tensor *fold(const char *function, const iso_merge_options *given, size_t size, const char *type,
                        const char *base, iso_tensor *(*op)(iso_tensor *a, iso_tensor *b))
{
    ISO_LAYER_OPTIONS(iso_merge_options, options, given, size);
    iso_layer layer;
    if (!merge_begin(&layer, &options, type, base))
        return broken(function, &options);
    iso_tensor *y = folded(&layer, &options, op);
    layer.masks = merged_masks(&options, any_counts);
    return iso_layer_end(&layer, y);
}

iso_tensor *iso_merge_add_with(const iso_merge_options *options, size_t size)
{
    return fold(__func__, options, size, "Add", "add", iso_add);
}

iso_tensor *iso_merge_multiply_with(const iso_merge_options *options, size_t size)
{
    return fold(__func__, options, size, "Multiply", "multiply", iso_multiply);
}

iso_tensor *iso_merge_maximum_with(const iso_merge_options *options, size_t size)
{
    return fold(__func__, options, size, "Maximum", "maximum", iso_maximum);
}

iso_tensor *iso_merge_minimum_with(const iso_merge_options *options, size_t size)
{
    return fold(__func__, options, size, "Minimum", "minimum", iso_minimum);
}

iso_tensor *iso_merge_subtract_with(const iso_merge_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_merge_options, options, given, size);
    iso_layer layer;
    if (!merge_begin(&layer, &options, "Subtract", "subtract"))
        return broken(__func__, &options);
    if (options.count != 2)
        return iso_layer_fail(&layer, "it has %d inputs, it takes two", options.count);
    layer.masks = merged_masks(&options, any_counts);
    return iso_layer_end(&layer, iso_subtract(term(&layer, &options, 0), term(&layer, &options, 1)));
}

iso_tensor *iso_merge_average_with(const iso_merge_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_LAYER_OPTIONS(iso_merge_options, options, given, size);
    iso_layer layer;
    if (!merge_begin(&layer, &options, "Average", "average"))
        return broken(__func__, &options);
    iso_tensor *y = sum(&layer, &options);
    layer.masks = merged_masks(&options, any_counts);
    return iso_layer_end(&layer, iso_affine(iso_layer_cast(&layer, y), 1.0 / options.count, 0));
}

iso_tensor *iso_concatenate_with(const iso_merge_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_merge_options, options, given, size);
    iso_layer layer;
    if (!merge_begin(&layer, &options, "Concatenate", "concatenate"))
        return broken(__func__, &options);
    int axis = options.axis ? options.axis : -1;
    iso_layer_note_integer(&layer, "axis", axis);
    iso_tensor **x = room_for(layer.graph, options.count);
    for (int i = 0; x && i < options.count; i++)
        x[i] = operand(&layer, &options, i);
    layer.masks = merged_masks(&options, joined_masks);
    iso_tensor *y = x ? iso_concat(x, options.count, axis) : iso_graph_bad_tensor(layer.graph);
    iso_free(x);
    return iso_layer_end(&layer, y);
}

static iso_tensor *build_subtract(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_merge_subtract(x, count, .name = config->name);
}

static iso_tensor *build_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_merge_average(x, count, .name = config->name);
}

static iso_tensor *build_maximum(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_merge_maximum(x, count, .name = config->name);
}

static iso_tensor *build_minimum(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_merge_minimum(x, count, .name = config->name);
}

static iso_tensor *build_add(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_merge_add(x, count, .name = config->name);
}

static iso_tensor *build_multiply(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_merge_multiply(x, count, .name = config->name);
}

static iso_tensor *build_concatenate(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t axis = iso_config_count(config, "axis", -1);
    if (axis == 0 || axis < -ISO_MAX_RANK || axis > ISO_MAX_RANK)
        iso_config_refuse(config, "axis", "a dimension besides the batch");
    return iso_concatenate(x, count, .name = config->name, .axis = (int)axis);
}

const iso_layer_type iso_layer_add = {
    .keras = "Add", .build = build_add, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_subtract = {
    .keras = "Subtract", .build = build_subtract, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_multiply = {
    .keras = "Multiply", .build = build_multiply, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_average = {
    .keras = "Average", .build = build_average, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_maximum = {
    .keras = "Maximum", .build = build_maximum, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_minimum = {
    .keras = "Minimum", .build = build_minimum, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_concatenate = {
    .keras = "Concatenate", .build = build_concatenate, .several = true, .masks = ISO_MASKS_MADE};
