/* Pools over two dimensions that follow one another, of images [n, h, w, c] the height and width, and their
 * gradients. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

static const iso_pool_attrs *pool_attrs_of(const iso_op *op)
{
    return op->attrs;
}

/* Along the first (0) or second (1) of the two dimensions. */
static iso_sliding_window window_of(const iso_op *op, int i, int64_t positions)
{
    const iso_pool_geometry *g = &pool_attrs_of(op)->geometry;
    return (iso_sliding_window){positions, g->size[i], g->stride[i], 1, g->pad_before[i]};
}

static bool pool_infer(iso_op *op)
{
    const iso_pool_geometry *g = &pool_attrs_of(op)->geometry;
    const int first = (int)pool_attrs_of(op)->axis;
    if (!iso_expect_float(op, 0, -1))
        return false;
    const iso_shape *x = &op->inputs[0]->shape;
    if (first < 1 || first > x->rank - 3)
        return iso_op_refuse(
            op, "windows over dimensions %d and %d: they must lie between the batch and the channels", first,
            first + 1);
    iso_shape y = *x; /* [n, h', w', c] */
    for (int i = 0; i < 2; i++) {
        iso_sliding_window window = window_of(op, i, 0);
        if (!iso_sliding_window_fit(op, i ? "width" : "height", x->dim[first + i], g->pad_after[i], &window))
            return false;
        y.dim[first + i] = window.positions;
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
    return iso_expect_float(op, 0, -1) && iso_expect_same_shape(op, 1, 2) && iso_expect_same_type(op, 0, 1) &&
           iso_expect_same_type(op, 1, 2) && iso_infer_same(op);
}

static bool infer_average_gradient(iso_op *op)
{
    return iso_expect_float(op, 0, -1) &&
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
    dx[0] = iso_op_1(&iso_op_average_pool2d, d[0], op->attrs);
}

/* Every dimension may be sharded: the two of x, and of its gradient, through the window. */
static void begin_rule(const iso_op *op, const iso_shape *y, iso_rule *rule)
{
    const int64_t first = pool_attrs_of(op)->axis;
    *rule = (iso_rule){.n_factors = y->rank, .linear = op->type->linear};
    for (int i = 0; i < 2; i++)
        rule->window[first + i] = window_of(op, i, y->dim[first + i]);
    for (int i = 0; i < op->n_inputs; i++)
        iso_rule_run_over(rule->input[i], 0, y->rank);
    iso_rule_run_over(rule->output[0], 0, y->rank);
}

static uint8_t windows_of_x(const iso_op *op)
{
    return (uint8_t)(3u << pool_attrs_of(op)->axis);
}

static void pool_rule_of(const iso_op *op, iso_rule *rule)
{
    begin_rule(op, &op->outputs[0]->shape, rule);
    rule->input_windows[0] = windows_of_x(op);
}

/* x, if there is one, comes first; dy comes last. */
static void rule_of_gradient(const iso_op *op, iso_rule *rule)
{
    begin_rule(op, &op->inputs[op->n_inputs - 1]->shape, rule);
    rule->output_windows[0] = windows_of_x(op);
    if (op->n_inputs > 1)
        rule->input_windows[0] = windows_of_x(op);
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

static int pool_image_height(const iso_op *op, int rank)
{
    (void)rank;
    return (int)pool_attrs_of(op)->axis;
}

const iso_op_type iso_op_max_pool2d = {
    .name = "max_pool2d",
    ISO_OP_ATTRS(pool),
    .infer = pool_infer,
    .gradient = max_gradient,
    .rule_of = pool_rule_of,
    .flops = pool_flops,
    .image_height = pool_image_height,
};

const iso_op_type iso_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    ISO_OP_ATTRS(pool),
    .infer = infer_max_gradient,
    .rule_of = rule_of_gradient,
    .linear = 1 << 2,
    .flops = flops_of_gradient,
    .image_height = pool_image_height,
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
    .image_height = pool_image_height,
};

const iso_op_type iso_op_average_pool2d_grad = {
    .name = "average_pool2d_grad",
    ISO_OP_ATTRS(pool),
    .infer = infer_average_gradient,
    .gradient = average_second_gradient,
    .rule_of = rule_of_gradient,
    .linear = 1 << 0,
    .flops = flops_of_gradient,
    .image_height = pool_image_height,
};

static iso_tensor *pool_create(const iso_op_type *type, iso_tensor *x, int axis,
                               const iso_pool_geometry *geometry)
{
    iso_pool_attrs attrs = {.geometry = *geometry, .axis = axis};
    return iso_op_1(type, x, &attrs);
}

iso_tensor *iso_max_pool2d_along(iso_tensor *x, int axis, const iso_pool_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    return pool_create(&iso_op_max_pool2d, x, axis, geometry);
}

iso_tensor *iso_average_pool2d_along(iso_tensor *x, int axis, const iso_pool_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    return pool_create(&iso_op_average_pool2d, x, axis, geometry);
}

iso_tensor *iso_max_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    return pool_create(&iso_op_max_pool2d, x, x->shape.rank - 3, geometry);
}

iso_tensor *iso_average_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    return pool_create(&iso_op_average_pool2d, x, x->shape.rank - 3, geometry);
}
