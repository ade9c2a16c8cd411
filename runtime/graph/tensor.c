/* Tensors, and those that no op computes: inputs and constants. */
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/ops_impl.h"

iso_tensor *iso_graph_bad_tensor(iso_graph *graph)
{
    return &graph->bad;
}

bool iso_tensor_good(const iso_tensor *tensor)
{
    return tensor && tensor->graph->status == ISO_OK;
}

bool iso_tensor_within(const iso_graph *graph, const iso_tensor *tensor)
{
    return tensor->id >= 0 && tensor->id < graph->n_tensors && graph->tensors[tensor->id] == tensor;
}

iso_graph *iso_tensor_graph(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return NULL;
    return tensor->graph;
}

iso_dtype iso_tensor_dtype(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return ISO_DTYPE_NONE;
    return tensor->dtype;
}

const iso_shape *iso_tensor_shape(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return NULL;
    return &tensor->shape;
}

const char *iso_tensor_name(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return NULL;
    return tensor->name ? tensor->name : tensor->producer ? tensor->producer->type->name : "(none)";
}

void iso_tensor_set_name(iso_tensor *tensor, const char *name)
{
    if (ISO_ANY_NULL(tensor) || ISO_NULL_IN(tensor->graph, name))
        return;
    if (iso_tensor_good(tensor))
        tensor->name = iso_graph_keep_text(tensor->graph, name);
}

iso_masks iso_tensor_masks(const iso_tensor *tensor)
{
    return ISO_ANY_NULL(tensor) ? (iso_masks){0} : tensor->masks;
}

void iso_tensor_set_masks(iso_tensor *tensor, iso_masks masks)
{
    if (!ISO_ANY_NULL(tensor) && iso_tensor_good(tensor))
        tensor->masks = masks;
}

iso_tensor *iso_tensor_mask(const iso_tensor *tensor)
{
    const iso_masks masks = iso_tensor_masks(tensor);
    return masks.built ? masks.built : masks.run;
}

/* shape: of one row if there is a batch, else of the whole tensor. */
static iso_tensor *make_input(iso_graph *graph, const char *name, iso_dtype dtype, const iso_shape *shape,
                              bool batch)
{
    int most = ISO_MAX_RANK - batch;
    if (graph->status != ISO_OK)
        return &graph->bad;
    if (dtype == ISO_BF16) {
        iso_graph_fail(graph, "input '%s': bfloat16 is a type to compute in; inputs are float32 or float64",
                       name);
        return &graph->bad;
    }
    if (shape->rank < 0 || shape->rank > most || !iso_dtype_size(dtype)) {
        iso_graph_fail(graph, "input '%s': rank %d (0 to %d are possible) of type %d", name, shape->rank,
                       most, dtype);
        return &graph->bad;
    }
    iso_input_attrs attrs = {.dtype = iso_graph_in_precision(graph, dtype),
                             .shape = {.rank = shape->rank + batch}};
    attrs.shape.dim[0] = ISO_BATCH;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] <= 0)
            iso_graph_fail(graph, "input '%s': dimension %d is %lld, it must be positive", name, i,
                           (long long)shape->dim[i]);
        attrs.shape.dim[i + batch] = shape->dim[i];
    }
    if (!iso_graph_takes_shape(&attrs.shape))
        iso_graph_fail_shape(graph, "input", name, &attrs.shape);
    attrs.name = iso_graph_keep_text(graph, name ? name : "input");
    iso_tensor *tensor = iso_op_create(graph, &iso_op_input, NULL, 0, &attrs);
    iso_tensor_set_name(tensor, attrs.name);
    return tensor;
}

iso_tensor *iso_input(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return make_input(graph, name, dtype, &shape, true);
}

iso_tensor *iso_input_unbatched(iso_graph *graph, const char *name, iso_dtype dtype, iso_shape shape)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return make_input(graph, name, dtype, &shape, false);
}

bool iso_tensor_is_input(const iso_tensor *tensor)
{
    if (ISO_ANY_NULL(tensor))
        return false;
    return tensor->producer && tensor->producer->type == &iso_op_input;
}

iso_tensor *iso_constant(iso_graph *graph, iso_dtype dtype, iso_shape shape, const double *values)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    int64_t count;
    if (graph->status != ISO_OK)
        return &graph->bad;
    if (iso_shape_count(&shape, &count) != ISO_OK) {
        iso_graph_fail(graph, "constant: %s", iso_error_message());
        return &graph->bad;
    }
    if (!iso_dtype_size(dtype))
        iso_graph_fail(graph, "constant: unknown element type");
    if (count > ISO_MAX_ELEMENTS)
        iso_graph_fail(graph, "constant: more than %lld elements", ISO_MAX_ELEMENTS);
    if (graph->status != ISO_OK || (count > 0 && ISO_NULL_IN(graph, values)))
        return &graph->bad;
    iso_constant_attrs attrs = {.dtype = iso_graph_in_precision(graph, dtype), .shape = shape};
    attrs.values = iso_graph_keep(graph, (size_t)count * sizeof(double));
    if (attrs.values)
        memcpy(attrs.values, values, (size_t)count * sizeof(double));
    return iso_op_create(graph, &iso_op_constant, NULL, 0, &attrs);
}

iso_tensor *iso_number(iso_graph *graph, iso_dtype dtype, double value)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return iso_constant(graph, dtype, ISO_SCALAR, &value);
}

bool iso_tensor_is_number(const iso_tensor *x, double *value)
{
    if (ISO_ANY_NULL(x, value) || x->shape.rank != 0 || !x->producer || x->producer->type != &iso_op_constant)
        return false;
    *value = ((const iso_constant_attrs *)x->producer->attrs)->values[0];
    return true;
}
