/* Ops: their inputs, results and shapes. */
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/ops_impl.h"
#include "runtime/graph/registered.h"

bool iso_graph_takes_shape(const iso_shape *shape)
{
    int64_t count;
    iso_shape one_row = iso_shape_with_rows(shape, 1);
    return iso_shape_count(&one_row, &count) == ISO_OK && count <= ISO_MAX_ELEMENTS;
}

void iso_graph_fail_shape(iso_graph *graph, const char *what, const char *name, const iso_shape *shape)
{
    char text[160];
    iso_graph_fail(graph, "%s '%s': shape %s has more than %lld elements", what, name,
                   iso_shape_text(shape, text, sizeof text), ISO_MAX_ELEMENTS);
}

static bool check_inputs(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count)
{
    if (count < 0 || count > ISO_MAX_INPUTS) {
        iso_graph_fail(graph, "%s: %d inputs, at most %d are possible", type->name, count, ISO_MAX_INPUTS);
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!inputs[i])
            iso_graph_fail(graph, "%s: input %d is NULL", type->name, i);
        else if (inputs[i]->graph != graph)
            iso_graph_fail(graph, "%s: input %d belongs to another graph", type->name, i);
        else if (!iso_tensor_within(graph, inputs[i]))
            iso_graph_fail(graph, "%s: input %d, '%s', was taken out of the graph with an earlier error",
                           type->name, i, iso_tensor_name(inputs[i]));
    }
    return graph->status == ISO_OK;
}

static bool add_outputs(iso_op *op)
{
    iso_graph *graph = op->graph;
    for (int i = 0; i < op->n_outputs; i++) {
        iso_tensor *tensor = op->outputs[i];
        tensor->id = graph->n_tensors;
        if (!iso_graph_append(graph, graph->tensors, graph->n_tensors, tensor))
            return false;
    }
    return true;
}

static iso_op *new_op(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                      const void *attrs)
{
    iso_op *op = iso_graph_keep(graph, sizeof *op);
    if (!op || !(op->attrs = iso_graph_keep(graph, type->attr_size + 1)))
        return NULL;
    if (attrs)
        memcpy(op->attrs, attrs, type->attr_size);
    op->type = type;
    op->graph = graph;
    op->n_inputs = count;
    op->n_outputs = type->n_outputs ? type->n_outputs : 1;
    if (count)
        memcpy(op->inputs, inputs, (size_t)count * sizeof *inputs);
    for (int i = 0; i < op->n_outputs; i++) {
        iso_tensor *tensor = iso_graph_keep(graph, sizeof *tensor);
        if (!tensor)
            return NULL;
        *tensor = (iso_tensor){.graph = graph, .producer = op, .output = i};
        op->outputs[i] = tensor;
    }
    return op;
}

static uint32_t factors_of(const iso_tensor *tensor, const int8_t *dims)
{
    uint32_t factors = 0;
    for (int d = 0; d < tensor->shape.rank; d++)
        if (dims[d] != ISO_WHOLE)
            factors |= 1u << dims[d];
    return factors;
}

/* Whether slots may have parts of a sum that is an element of the output: the rule contracts a factor, or
 * windows of the output overlap. */
static bool is_sum(const iso_op *op, const iso_rule *rule, int output)
{
    uint32_t read = 0;
    for (int i = 0; i < op->n_inputs; i++)
        read |= factors_of(op->inputs[i], rule->input[i]);
    bool contracts = read & ~factors_of(op->outputs[output], rule->output[output]);
    return (contracts && !rule->contract_max) || rule->output_windows[output];
}

/* Sums in bfloat16 are made in float32, in the kernel and between slots, and rounded once, when they are
 * whole. A registered op has the types that its own infer gives. */
static void widen_sums(iso_op *op)
{
    iso_rule rule;
    for (int o = 0; o < op->n_outputs; o++) {
        if (op->outputs[o]->dtype != ISO_BF16 || op->type->no_kernel ||
            iso_registered_op_find(op->type->name))
            continue;
        iso_op_rule(op, &rule);
        if (is_sum(op, &rule, o)) {
            op->outputs[o]->dtype = ISO_F32;
            op->widened |= 1u << o;
        }
    }
}

static bool check_shape(iso_op *op, const iso_shape *shape)
{
    char text[160];
    if (shape->rank < 0 || shape->rank > ISO_MAX_RANK)
        return iso_op_refuse(op, "the result would have %d dimensions; 0 to %d are possible", shape->rank,
                             ISO_MAX_RANK);
    iso_shape_text(shape, text, sizeof text);
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] < 0 && shape->dim[d] != ISO_BATCH)
            return iso_op_refuse(op, "the result %s would have a negative dimension", text);
    return iso_graph_takes_shape(shape) ||
           iso_op_refuse(op, "the result %s would have more than %lld elements", text, ISO_MAX_ELEMENTS);
}

static bool check_shapes(iso_op *op)
{
    for (int i = 0; i < op->n_outputs; i++)
        if (!check_shape(op, &op->outputs[i]->shape))
            return false;
    return true;
}

/* NULL: the graph has an error. */
static iso_op *make_op(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                       const void *attrs)
{
    if (graph->status != ISO_OK || !iso_op_type_check(graph, type) ||
        !check_inputs(graph, type, inputs, count))
        return NULL;
    iso_op *op = new_op(graph, type, inputs, count, attrs);
    if (!op || !type->infer(op) || !check_shapes(op) || !iso_registered_op_check(op)) {
        iso_graph_fail(graph, "%s: the inputs do not fit", type->name);
        return NULL;
    }
    widen_sums(op);
    op->recomputation = graph->recomputing > 0 ? graph->recomputations : 0;
    op->id = graph->n_ops;
    return iso_graph_append(graph, graph->ops, graph->n_ops, op) && add_outputs(op) ? op : NULL;
}

iso_op *iso_op_again(const iso_op *op, iso_tensor *const *inputs)
{
    iso_op *copy = make_op(op->graph, op->type, inputs, op->n_inputs, op->attrs);
    if (copy)
        copy->again = copy->backward_of = op;
    return copy;
}

static iso_tensor *result_of(const iso_op *op, int output)
{
    return op->widened & 1u << output ? iso_cast(op->outputs[output], ISO_BF16) : op->outputs[output];
}

iso_tensor *iso_op_create(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                          const void *attrs)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    if (ISO_NULL_IN(graph, type) || (count > 0 && ISO_NULL_IN(graph, inputs)))
        return &graph->bad;
    iso_op *op = make_op(graph, type, inputs, count, attrs);
    return op ? result_of(op, 0) : &graph->bad;
}

void iso_op_create_several(iso_graph *graph, const iso_op_type *type, iso_tensor *const *inputs, int count,
                           const void *attrs, iso_tensor **results)
{
    iso_op *op = make_op(graph, type, inputs, count, attrs);
    for (int i = 0; i < (op ? op->n_outputs : type->n_outputs); i++)
        results[i] = op ? result_of(op, i) : &graph->bad;
}

double iso_box_elements(const iso_box *box)
{
    double count = 1;
    for (int d = 0; d < box->rank; d++)
        count *= (double)box->extent[d];
    return count;
}
