/* Pools over [n, h, w, c] and their gradients. */
#include "runtime/graph/ops/network_impl.h"

static const iso_pool_attrs *attrs_of(const iso_op *op)
{
    return op->attrs;
}

static bool infer(iso_op *op)
{
    const iso_pool_geometry *g = &attrs_of(op)->geometry;
    if (!iso_expect_float(op, 0, 4))
        return false;
    const iso_shape *x = &op->input[0]->shape;
    iso_shape y = *x; /* [n, h', w', c] */
    for (int i = 0; i < 2; i++) {
        iso_window window = {x->dim[1 + i], g->size[i], g->stride[i], 1, g->pad_before[i], g->pad_after[i]};
        if (!iso_window_places(op, i ? "width" : "height", &window, &y.dim[1 + i]))
            return false;
        /* so that every place has an element of x, whatever the stride */
        if (g->pad_before[i] >= g->size[i] || g->pad_after[i] >= g->size[i])
            return iso_op_refuse(op, "padding %lld and %lld should be below the window's size %lld",
                                 (long long)g->pad_before[i], (long long)g->pad_after[i],
                                 (long long)g->size[i]);
    }
    return iso_op_gives(op, op->input[0]->dtype, &y);
}

static bool infer_max_gradient(iso_op *op)
{
    return iso_expect_float(op, 0, 4) && iso_expect_same_shape(op, 1, 2) && iso_expect_same_type(op, 0, 1) &&
           iso_expect_same_type(op, 1, 2) && iso_infer_same(op);
}

static bool infer_average_gradient(iso_op *op)
{
    return iso_expect_float(op, 0, 4) && iso_op_gives(op, op->input[0]->dtype, &attrs_of(op)->shape);
}

static void max_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_3(&iso_op_max_pool2d_grad, op->input[0], op->output[0], dy[0], op->attrs);
}

static void average_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_pool_attrs attrs = *attrs_of(op);
    attrs.shape = op->input[0]->shape;
    dx[0] = iso_op_1(&iso_op_average_pool2d_grad, dy[0], &attrs);
}

static void average_second_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    dx[0] = iso_average_pool2d_op(d[0], &attrs_of(op)->geometry);
}

/* One operation for each element of each window, padding counted. */
static double operations(const iso_op *op, const iso_box *y)
{
    const iso_pool_geometry *g = &attrs_of(op)->geometry;
    return iso_box_elements(y) * (double)g->size[0] * (double)g->size[1];
}

static double flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)inputs;
    return operations(op, &outputs[0]);
}

/* dy comes last. */
static double flops_of_gradient(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)outputs;
    return operations(op, &inputs[op->inputs - 1]);
}

const iso_op_type iso_op_max_pool2d = {
    .name = "max_pool2d",
    .attr_size = sizeof(iso_pool_attrs),
    .infer = infer,
    .gradient = max_gradient,
    .rule = "n..c->n..c",
    .flops = flops,
};

const iso_op_type iso_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .attr_size = sizeof(iso_pool_attrs),
    .infer = infer_max_gradient,
    .rule = "n..c,n..c,n..c->n..c",
    .linear = 1 << 2,
    .flops = flops_of_gradient,
    .no_second = true,
};

const iso_op_type iso_op_average_pool2d = {
    .name = "average_pool2d",
    .attr_size = sizeof(iso_pool_attrs),
    .infer = infer,
    .gradient = average_gradient,
    .rule = "n..c->n..c",
    .linear = 1 << 0,
    .flops = flops,
};

const iso_op_type iso_op_average_pool2d_grad = {
    .name = "average_pool2d_grad",
    .attr_size = sizeof(iso_pool_attrs),
    .infer = infer_average_gradient,
    .gradient = average_second_gradient,
    .rule = "n..c->n..c",
    .linear = 1 << 0,
    .flops = flops_of_gradient,
};

iso_tensor *iso_max_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry)
{
    iso_pool_attrs attrs = {.geometry = *geometry};
    return iso_op_1(&iso_op_max_pool2d, x, &attrs);
}

iso_tensor *iso_average_pool2d_op(iso_tensor *x, const iso_pool_geometry *geometry)
{
    iso_pool_attrs attrs = {.geometry = *geometry};
    return iso_op_1(&iso_op_average_pool2d, x, &attrs);
}
