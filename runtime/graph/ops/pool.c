/* Pools over [n, h, w, c] and their gradients. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

static const iso_pool_attrs *pool_attrs_of(const iso_op *op)
{
    return op->attrs;
}

/* Along height (0) or width (1). */
static iso_sliding_window window_of(const iso_op *op, int i, int64_t positions)
{
    const iso_pool_geometry *g = &pool_attrs_of(op)->geometry;
    return (iso_sliding_window){positions, g->size[i], g->stride[i], 1, g->pad_before[i]};
}

static bool pool_infer(iso_op *op)
{
    const iso_pool_geometry *g = &pool_attrs_of(op)->geometry;
    if (!iso_expect_float(op, 0, 4))
        return false;
    const iso_shape *x = &op->inputs[0]->shape;
    iso_shape y = *x; /* [n, h', w', c] */
    for (int i = 0; i < 2; i++) {
        iso_sliding_window window = window_of(op, i, 0);
        if (!iso_sliding_window_fit(op, i ? "width" : "height", x->dim[1 + i], g->pad_after[i], &window))
            return false;
        y.dim[1 + i] = window.positions;
        /* so that every window has an element of x, whatever the stride */
        if (g->pad_before[i] >= g->size[i] || g->pad_after[i] >= g->size[i])
            return iso_op_refuse(op, "padding %lld and %lld should be below the window's size %lld",
                                 (long long)g->pad_before[i], (long long)g->pad_after[i],
                                 (long long)g->size[i]);
    }
    return iso_op_set_output(op, op->inputs[0]->dtype, &y);
}

static bool infer_max_gradient(iso_op *op)
{
    return iso_expect_float(op, 0, 4) && iso_expect_same_shape(op, 1, 2) && iso_expect_same_type(op, 0, 1) &&
           iso_expect_same_type(op, 1, 2) && iso_infer_same(op);
}

static bool infer_average_gradient(iso_op *op)
{
    return iso_expect_float(op, 0, 4) &&
           iso_op_set_output(op, op->inputs[0]->dtype, &pool_attrs_of(op)->shape);
}

static void max_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_3(&iso_op_max_pool2d_grad, op->inputs[0], op->outputs[0], dy[0], op->attrs);
}

static void average_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_pool_attrs attrs = *pool_attrs_of(op);
    attrs.shape = op->inputs[0]->shape;
    dx[0] = iso_op_1(&iso_op_average_pool2d_grad, dy[0], &attrs);
}

static void average_second_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    dx[0] = iso_average_pool2d_op(d[0], &pool_attrs_of(op)->geometry);
}

/* Every dimension may be sharded: x's height and width, and those of its gradient, through the window. */
static void begin_rule(const iso_op *op, const iso_shape *y, iso_rule *rule)
{
    *rule = (iso_rule){.n_factors = 4, .linear = op->type->linear};
    for (int i = 0; i < 2; i++)
        rule->window[1 + i] = window_of(op, i, y->dim[1 + i]);
    for (int i = 0; i < op->n_inputs; i++)
        iso_rule_run_over(rule->input[i], 0, 4);
    iso_rule_run_over(rule->output[0], 0, 4);
}

enum { X_WINDOWS = 1 << 1 | 1 << 2 };

static void pool_rule_of(const iso_op *op, iso_rule *rule)
{
    begin_rule(op, &op->outputs[0]->shape, rule);
    rule->input_windows[0] = X_WINDOWS;
}

/* x, if there is one, comes first; dy comes last. */
static void rule_of_gradient(const iso_op *op, iso_rule *rule)
{
    begin_rule(op, &op->inputs[op->n_inputs - 1]->shape, rule);
    rule->output_windows[0] = X_WINDOWS;
    if (op->n_inputs > 1)
        rule->input_windows[0] = X_WINDOWS;
}

/* One operation for each element of each window, padding counted. */
static double operations(const iso_op *op, const iso_box *y)
{
    const iso_pool_geometry *g = &pool_attrs_of(op)->geometry;
    return iso_box_elements(y) * (double)g->size[0] * (double)g->size[1];
}

static double pool_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)inputs;
    return operations(op, &outputs[0]);
}

/* dy comes last. */
static double flops_of_gradient(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)outputs;
    return operations(op, &inputs[op->n_inputs - 1]);
}

const iso_op_type iso_op_max_pool2d = {
    .name = "max_pool2d",
    ISO_OP_ATTRS(pool),
    .infer = pool_infer,
    .gradient = max_gradient,
    .rule_of = pool_rule_of,
    .flops = pool_flops,
};

const iso_op_type iso_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    ISO_OP_ATTRS(pool),
    .infer = infer_max_gradient,
    .rule_of = rule_of_gradient,
    .linear = 1 << 2,
    .flops = flops_of_gradient,
    .no_second = true,
};

const iso_op_type iso_op_average_pool2d = {
    .name = "average_pool2d",
    ISO_OP_ATTRS(pool),
    .infer = pool_infer,
    .gradient = average_gradient,
    .rule_of = pool_rule_of,
    .linear = 1 << 0,
    .flops = pool_flops,
};

const iso_op_type iso_op_average_pool2d_grad = {
    .name = "average_pool2d_grad",
    ISO_OP_ATTRS(pool),
    .infer = infer_average_gradient,
    .gradient = average_second_gradient,
    .rule_of = rule_of_gradient,
    .linear = 1 << 0,
    .flops = flops_of_gradient,
};

iso_tensor *iso_max_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    iso_pool_attrs attrs = {.geometry = *geometry};
    return iso_op_1(&iso_op_max_pool2d, x, &attrs);
}

iso_tensor *iso_average_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    iso_pool_attrs attrs = {.geometry = *geometry};
    return iso_op_1(&iso_op_average_pool2d, x, &attrs);
}
