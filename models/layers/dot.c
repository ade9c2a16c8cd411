/* Dot: the sum of products of two tensors along a dimension of each, row by row. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"
#include "models/layers/unit_norm.h"

/* [batch, ...] -> [batch, rows, d] or [batch, d, rows] if `axis` is its second dimension: then nothing is moved. */
static iso_tensor *as_matrix(iso_tensor *x, int axis, bool *swapped)
{
    const iso_shape *shape = iso_tensor_shape(x);
    const int64_t d = shape->dim[axis];
    int back[ISO_MAX_RANK];
    *swapped = axis == 1 && shape->rank > 2;
    if (shape->rank == 2)
        return iso_reshape_to(x, ISO_SHAPE(shape->dim[0], 1, d));
    if (*swapped)
        return iso_reshape_to(x, ISO_SHAPE(shape->dim[0], d, -1));
    x = iso_layer_axes_last(x, 1u << axis, back);
    return iso_reshape_to(x, ISO_SHAPE(iso_tensor_shape(x)->dim[0], -1, d));
}

static iso_tensor *multiply(iso_tensor *const *x, const int *axis)
{
    bool swapped[2];
    const iso_shape *a = iso_tensor_shape(x[0]), *b = iso_tensor_shape(x[1]);
    if (a->rank == 2 && b->rank == 2) /* [batch, 1] */
        return iso_reduce_sum(iso_multiply(x[0], x[1]), (const int[]){1}, 1, true);
    iso_shape shape = {.rank = 0};
    for (int d = 0; d < a->rank; d++)
        if (d != axis[0])
            shape.dim[shape.rank++] = a->dim[d];
    for (int d = 1; d < b->rank; d++)
        if (d != axis[1])
            shape.dim[shape.rank++] = b->dim[d];
    iso_tensor *left = as_matrix(x[0], axis[0], &swapped[0]), *right = as_matrix(x[1], axis[1], &swapped[1]);
    return iso_reshape_to(iso_matmul_with(left, right, swapped[0], !swapped[1]), shape);
}

/* The two dimensions, from the front. False, and an error, if they do not fit. */
static bool find_axes(const iso_layer *layer, iso_tensor *const *x, const int *given, int *axis)
{
    char a[160], b[160];
    const iso_shape *shape[] = {iso_tensor_shape(x[0]), iso_tensor_shape(x[1])};
    bool fit = shape[0]->dim[0] == shape[1]->dim[0] && shape[0]->rank + shape[1]->rank - 3 <= ISO_MAX_RANK;
    for (int i = 0; i < 2; i++) {
        axis[i] = given[i] == 0 ? -1 : given[i];
        axis[i] += axis[i] < 0 ? shape[i]->rank : 0;
        fit = fit && axis[i] > 0 && axis[i] < shape[i]->rank;
    }
    fit = fit && shape[0]->dim[axis[0]] == shape[1]->dim[axis[1]];
    if (!fit)
        iso_layer_fail(
            layer, "its inputs %s and %s have no equal dimensions at axes %d and %d besides the batch",
            iso_shape_text(shape[0], a, sizeof a), iso_shape_text(shape[1], b, sizeof b), given[0], given[1]);
    return fit;
}

iso_tensor *iso_dot_with(const iso_dot_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dot_options, options, given, size);
    iso_layer layer;
    iso_tensor *x[] = {options.x, options.y};
    int axis[2];
    if (!options.x || !iso_layer_begin_several(&layer, x, 2, "Dot", "dot", options.name))
        return iso_layer_broken(options.x);
    if (!options.y || iso_tensor_graph(options.y) != layer.graph)
        return iso_layer_fail(&layer, "its second input is %s", options.y ? "of another graph" : "NULL");
    if (!iso_tensor_good(options.y) || !find_axes(&layer, x, options.axes, axis))
        return iso_layer_broken(options.x);
    iso_tensor *cast[2];
    for (int i = 0; i < 2; i++) {
        cast[i] = iso_layer_cast(&layer, x[i]);
        if (options.normalize)
            cast[i] = iso_unit_vectors(cast[i], &axis[i], 1, 1e-7); /* as in Keras */
    }
    const int64_t axes[] = {options.axes[0] ? options.axes[0] : -1, options.axes[1] ? options.axes[1] : -1};
    if (axes[0] == axes[1])
        iso_layer_note_integer(&layer, "axes", axes[0]);
    else
        iso_layer_note_integers(&layer, "axes", axes, 2);
    iso_layer_note_flag(&layer, "normalize", options.normalize);
    return iso_layer_end(&layer, multiply(cast, axis));
}

static iso_tensor *dot_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t axes[2];
    const int given = iso_config_counts(config, "axes", axes, 2);
    if (given == 0 || axes[0] == 0 || axes[given - 1] == 0)
        iso_config_refuse(config, "axes", "a dimension besides the batch, or two");
    if (count != 2 || given == 0)
        return iso_dot(x[0], count > 1 ? x[1] : NULL, .name = config->name);
    return iso_dot(x[0], x[1], .name = config->name, .axes = {(int)axes[0], (int)axes[given - 1]},
                   .normalize = iso_config_flag(config, "normalize", false));
}

/* Its result has no mask, which Keras does not warn of. */
const iso_layer_type iso_layer_dot = {
    .keras = "Dot", .build = dot_build, .several = true, .masks = ISO_MASKS_MADE};
