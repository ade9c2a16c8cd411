/* The largest elements of the last dimension and their indices. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/network_impl.h"

static const iso_top_k_attrs *top_k_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static bool top_k_infer(iso_op *op)
{
    const iso_tensor *x = op->inputs[0];
    const int last = x->shape.rank - 1;
    const int k = top_k_attrs_of(op)->k;
    if (!iso_expect_float(op, 0, -1))
        return false;
    if (last < 1 || x->shape.dim[last] == ISO_BATCH)
        return iso_op_refuse(op, "takes [batch, ..., classes]");
    if (k < 1 || k > x->shape.dim[last])
        return iso_op_refuse(op, "k is %d; it must be from 1 to %lld, the elements of a row", k,
                             (long long)x->shape.dim[last]);
    iso_shape shape = x->shape;
    shape.dim[last] = k;
    iso_set_output(op, 0, x->dtype, &shape);
    iso_set_output(op, 1, ISO_I32, &shape);
    return true;
}

static bool top_k_infer_gradient(iso_op *op)
{
    const iso_tensor *dy = op->inputs[1];
    if (!iso_expect_float(op, 1, -1) || !iso_expect_index(op, 0) || !iso_expect_same_shape(op, 0, 1))
        return false;
    iso_shape shape = dy->shape;
    shape.dim[shape.rank - 1] = top_k_attrs_of(op)->classes;
    return iso_op_set_output(op, dy->dtype, &shape);
}

static void top_k_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_shape *x = &op->inputs[0]->shape;
    const iso_top_k_attrs attrs = {.classes = x->dim[x->rank - 1]};
    if (dy[0])
        dx[0] = iso_op_2(&iso_op_top_k_grad, op->outputs[1], dy[0], &attrs);
}

/* All dimensions but the last, in which both ops take and give whole rows. */
static void top_k_rule_of(const iso_op *op, iso_rule *rule)
{
    const int rows = op->inputs[0]->shape.rank - 1;
    iso_rule_clear(op, rule);
    rule->n_factors = rows;
    for (int i = 0; i < op->n_inputs; i++)
        iso_rule_run_over(rule->input[i], 0, rows);
    for (int o = 0; o < op->n_outputs; o++)
        iso_rule_run_over(rule->output[o], 0, rows);
    if (op->type == &iso_op_top_k_grad)
        rule->linear = 1 << 1;
}

static double top_k_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)outputs;
    return top_k_attrs_of(op)->k * iso_box_elements(&inputs[0]);
}

const iso_op_type iso_op_top_k = {
    .name = "top_k",
    ISO_OP_ATTRS(top_k),
    .infer = top_k_infer,
    .n_outputs = 2,
    .gradient = top_k_gradient,
    .rule_of = top_k_rule_of,
    .flops = top_k_flops,
};

const iso_op_type iso_op_top_k_grad = {
    .name = "top_k_grad",
    ISO_OP_ATTRS(top_k),
    .infer = top_k_infer_gradient,
    .rule_of = top_k_rule_of,
    .no_second = true,
    .index = {"index", "elements of a row"},
};

iso_tensor *iso_top_k(iso_tensor *x, int k, iso_tensor **index)
{
    ISO_NEED_TENSORS(x);
    iso_tensor *results[2];
    iso_op_create_several(x->graph, &iso_op_top_k, &x, 1, &(iso_top_k_attrs){.k = k}, results);
    if (index)
        *index = results[1];
    return results[0];
}
