/* Softmax and its logarithm along one axis. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/classes_impl.h"

static bool softmax_infer_gradient(iso_op *op)
{
    return iso_expect_same_type(op, 0, 1) && iso_expect_same_shape(op, 0, 1) && iso_infer_same_float(op);
}

static void softmax_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_2(&iso_op_softmax_grad, op->outputs[0], dy[0], op->attrs);
}

static void log_softmax_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_2(&iso_op_log_softmax_grad, op->outputs[0], dy[0], op->attrs);
}

/* Every dimension except the axis may be sharded. */
static void softmax_rule_of(const iso_op *op, iso_rule *rule)
{
    int rank = op->inputs[0]->shape.rank, axis = ((const iso_softmax_attrs *)op->attrs)->axis;
    *rule = (iso_rule){.n_factors = rank, .linear = op->type->linear};
    for (int i = 0; i < op->n_inputs; i++) {
        iso_rule_run_over(rule->input[i], 0, rank);
        rule->input[i][axis] = ISO_WHOLE;
    }
    iso_rule_run_over(rule->output[0], 0, rank);
    rule->output[0][axis] = ISO_WHOLE;
}

/* Maximum, difference, exponential, sum, quotient; of a gradient product, sum, difference, product. */
static double softmax_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)inputs;
    return (op->n_inputs == 1 ? 5 : 4) * iso_box_elements(&outputs[0]);
}

/* ---- along a sharded axis ---- */

static int axis_of(const iso_op *op)
{
    return ((const iso_softmax_attrs *)op->attrs)->axis;
}

static iso_tensor *by_statistics(iso_tensor *x, int axis, const iso_op_type *type)
{
    iso_class_row row = iso_class_statistics(x, axis);
    return iso_op_3(type, x, row.max, row.sum, &(iso_class_attrs){.axis = axis});
}

iso_tensor *iso_softmax_by_statistics(iso_tensor *x, int axis)
{
    return by_statistics(x, axis, &iso_op_class_softmax);
}

iso_tensor *iso_softmax_grad_by_sum(iso_tensor *y, iso_tensor *dy, int axis)
{
    return iso_multiply(y, iso_subtract(dy, iso_class_sum(iso_multiply(y, dy), axis)));
}

static void split_softmax(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    out[0] = iso_softmax_by_statistics(in[0], axis_of(op));
}

static void split_log_softmax(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    out[0] = by_statistics(in[0], axis_of(op), &iso_op_class_log_softmax);
}

static void split_softmax_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    out[0] = iso_softmax_grad_by_sum(in[0], in[1], axis_of(op));
}

static void split_log_softmax_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_tensor *y = in[0], *dy = in[1], *sum = iso_class_sum(dy, axis_of(op));
    out[0] = iso_subtract(dy, iso_multiply(iso_exp(y), sum));
}

const iso_op_type iso_op_softmax = {
    .name = "softmax",
    ISO_OP_ATTRS(softmax),
    .infer = iso_infer_same_float,
    .gradient = softmax_gradient,
    .rule_of = softmax_rule_of,
    .flops = softmax_flops,
    .decompose = split_softmax,
    .in_place = 1 << 0,
};

const iso_op_type iso_op_log_softmax = {
    .name = "log_softmax",
    ISO_OP_ATTRS(softmax),
    .infer = iso_infer_same_float,
    .gradient = log_softmax_gradient,
    .rule_of = softmax_rule_of,
    .flops = softmax_flops,
    .decompose = split_log_softmax,
    .in_place = 1 << 0,
};

const iso_op_type iso_op_softmax_grad = {
    .name = "softmax_grad",
    ISO_OP_ATTRS(softmax),
    .infer = softmax_infer_gradient,
    .rule_of = softmax_rule_of,
    .linear = 1 << 1,
    .flops = softmax_flops,
    .decompose = split_softmax_gradient,
    .in_place = 1 << 0 | 1 << 1,
    .no_second = true,
};

const iso_op_type iso_op_log_softmax_grad = {
    .name = "log_softmax_grad",
    ISO_OP_ATTRS(softmax),
    .infer = softmax_infer_gradient,
    .rule_of = softmax_rule_of,
    .linear = 1 << 1,
    .flops = softmax_flops,
    .decompose = split_log_softmax_gradient,
    .in_place = 1 << 0 | 1 << 1,
    .no_second = true,
};

static iso_tensor *along(iso_tensor *x, int axis, const iso_op_type *type)
{
    if (!iso_tensor_good(x))
        return iso_graph_bad_tensor(x->graph);
    iso_softmax_attrs attrs = {.axis = iso_axis(x, axis)};
    if (attrs.axis == 0 && x->shape.dim[0] == ISO_BATCH)
        iso_graph_fail(x->graph, "%s: the axis must not be the batch", type->name);
    return iso_op_1(type, x, &attrs);
}

iso_tensor *iso_softmax(iso_tensor *x, int axis)
{
    ISO_NEED_TENSORS(x);
    return along(x, axis, &iso_op_softmax);
}

iso_tensor *iso_log_softmax(iso_tensor *x, int axis)
{
    ISO_NEED_TENSORS(x);
    return along(x, axis, &iso_op_log_softmax);
}
