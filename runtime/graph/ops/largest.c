/* The index of the largest element, and whether an element is among the k largest. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/classes_impl.h"

/* One comparison per element that is read. */
/* ---- argmax ---- */

static int axis_of(const iso_op *op)
{
    return ((const iso_axis_attrs *)op->attrs)->axis;
}

static bool infer_argmax(iso_op *op)
{
    iso_shape shape = {0};
    const iso_shape *x = &op->inputs[0]->shape;
    if (x->dim[axis_of(op)] == ISO_BATCH)
        return iso_op_refuse(op, "the axis may not be the batch");
    for (int d = 0; d < x->rank; d++)
        if (d != axis_of(op))
            shape.dim[shape.rank++] = x->dim[d];
    return iso_op_set_output(op, ISO_I32, &shape);
}

static void argmax_rule(const iso_op *op, iso_rule *rule)
{
    iso_rule_clear(op, rule);
    for (int i = 0, o = 0; i < op->inputs[0]->shape.rank; i++)
        if (i != axis_of(op))
            rule->output[0][o++] = rule->input[0][i] = iso_rule_factor(rule);
}

/* The largest element over all slots, then the first class that equals it. */
static void split_argmax(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_class_attrs attrs = {.axis = axis_of(op)};
    iso_tensor *max = iso_op_1(&iso_op_class_max, in[0], &attrs);
    iso_tensor *minus_first = iso_op_2(&iso_op_class_first, in[0], max, &attrs);
    iso_tensor *first = iso_subtract(iso_number(in[0]->graph, ISO_I32, 0), minus_first);
    out[0] = iso_class_drop(first, attrs.axis);
}

const iso_op_type iso_op_argmax = {
    .name = "argmax",
    ISO_OP_ATTRS(axis),
    .infer = infer_argmax,
    .rule_of = argmax_rule,
    .flops = iso_one_flop_per_element,
    .decompose = split_argmax,
};

iso_tensor *iso_argmax(iso_tensor *x, int axis)
{
    ISO_NEED_TENSORS(x);
    iso_axis_attrs attrs = {iso_axis(x, axis)};
    return attrs.axis < 0 ? iso_graph_bad_tensor(x->graph) : iso_op_1(&iso_op_argmax, x, &attrs);
}

/* ---- top k ---- */

/* predictions: [rows..., classes], targets: [rows...] -> [rows...] */
static bool infer_in_top_k(iso_op *op)
{
    const iso_top_k_attrs *attrs = op->attrs;
    const iso_tensor *predictions = op->inputs[0], *targets = op->inputs[1];
    iso_shape rows = predictions->shape;
    rows.rank--;
    if (predictions->shape.rank < 2 || !iso_shape_equal(&rows, &targets->shape))
        return iso_op_refuse(op, "takes predictions [rows..., classes] and targets [rows...]");
    if (!iso_dtype_is_float(predictions->dtype) || targets->dtype == ISO_BOOL)
        return iso_op_refuse(op, "takes predictions of float32 or float64 and targets that are numbers");
    if (attrs->k < 1)
        return iso_op_refuse(op, "k is %d, it must be positive", attrs->k);
    return iso_op_set_output(op, ISO_BOOL, &targets->shape);
}

static void top_k_rule(const iso_op *op, iso_rule *rule)
{
    int rows = op->inputs[1]->shape.rank;
    iso_rule_clear(op, rule);
    rule->n_factors = rows;
    iso_rule_run_over(rule->input[0], 0, rows);
    iso_rule_run_over(rule->input[1], 0, rows);
    iso_rule_run_over(rule->output[0], 0, rows);
}

/* The target's own value, then the number of values above it. */
static void split_in_top_k(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_class_attrs attrs = {.axis = op->inputs[0]->shape.rank - 1};
    iso_tensor *own = iso_class_pick(in[1], in[0], true);
    iso_tensor *above = iso_op_2(&iso_op_class_above, in[0], own, &attrs);
    iso_tensor *k = iso_number(in[0]->graph, ISO_F64, ((const iso_top_k_attrs *)op->attrs)->k);
    out[0] = iso_class_drop(iso_less(above, k), attrs.axis);
}

const iso_op_type iso_op_in_top_k = {
    .name = "in_top_k",
    ISO_OP_ATTRS(top_k),
    .infer = infer_in_top_k,
    .rule_of = top_k_rule,
    .flops = iso_one_flop_per_element,
    .decompose = split_in_top_k,
};

iso_tensor *iso_in_top_k(iso_tensor *predictions, iso_tensor *targets, int k)
{
    ISO_NEED_TENSORS(predictions, targets);
    iso_top_k_attrs attrs = {.k = k};
    return iso_op_2(&iso_op_in_top_k, predictions, targets, &attrs);
}
