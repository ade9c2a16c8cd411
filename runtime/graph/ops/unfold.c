/* Windows along a dimension, side by side in a dimension of their own, and the sums of windows. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

static const iso_unfold_attrs *unfold_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static iso_sliding_window unfold_window_of(const iso_op *op, int64_t positions)
{
    const iso_unfold_geometry *g = &unfold_attrs_of(op)->geometry;
    return (iso_sliding_window){positions, g->size, g->stride, g->dilation, g->pad_before};
}

/* rank: of the tensor without windows */
static bool axis_fits(iso_op *op, int rank)
{
    const int64_t axis = unfold_attrs_of(op)->axis;
    return (axis >= 1 && axis <= rank - 2) ||
           iso_op_refuse(op,
                         "windows are along axis %d: it must lie between the batch and the last dimension",
                         (int)axis);
}

static bool unfold_infer(iso_op *op)
{
    const iso_unfold_attrs *attrs = op->attrs;
    const iso_shape *x = &op->inputs[0]->shape;
    iso_sliding_window window = unfold_window_of(op, 0);
    if (!iso_expect_float(op, 0, -1) || !axis_fits(op, x->rank) ||
        !iso_sliding_window_fit(op, "the axis", x->dim[attrs->axis], attrs->geometry.pad_after, &window))
        return false;
    if (x->rank == ISO_MAX_RANK)
        return iso_op_refuse(op, "the result would have %d dimensions, at most %d are possible", x->rank + 1,
                             ISO_MAX_RANK);
    iso_shape y = *x;
    y.dim[attrs->axis] = window.positions;
    y.dim[y.rank - 1] = attrs->geometry.size;
    y.dim[y.rank++] = x->dim[x->rank - 1];
    return iso_op_set_output(op, op->inputs[0]->dtype, &y);
}

static bool fold_infer(iso_op *op)
{
    const iso_unfold_attrs *attrs = op->attrs;
    const iso_shape *y = &op->inputs[0]->shape;
    iso_sliding_window window = unfold_window_of(op, 0);
    iso_shape x = *y;
    x.rank--;
    if (!iso_expect_float(op, 0, -1) || !axis_fits(op, x.rank) ||
        !iso_sliding_window_fit(op, "the axis", attrs->extent, attrs->geometry.pad_after, &window))
        return false;
    if (y->dim[attrs->axis] != window.positions || y->dim[x.rank - 1] != window.size)
        return iso_op_refuse(op, "it has %lld windows of %lld; %lld elements have %lld of %lld",
                             (long long)y->dim[attrs->axis], (long long)y->dim[x.rank - 1],
                             (long long)attrs->extent, (long long)window.positions, (long long)window.size);
    x.dim[attrs->axis] = attrs->extent;
    x.dim[x.rank - 1] = y->dim[x.rank];
    return iso_op_set_output(op, op->inputs[0]->dtype, &x);
}

static void unfold_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_fold, dy[0], op->attrs);
}

static void fold_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_unfold, dy[0], op->attrs);
}

/* Every dimension may be sharded but that of a window's elements. */
static void unfold_begin_rule(const iso_op *op, const iso_shape *y, int8_t *x_dims, int8_t *y_dims,
                              iso_rule *rule)
{
    const int rank = y->rank - 1;
    const int64_t axis = unfold_attrs_of(op)->axis;
    *rule = (iso_rule){.n_factors = rank, .linear = 1};
    iso_rule_run_over(x_dims, 0, rank);
    iso_rule_run_over(y_dims, 0, rank - 1);
    y_dims[rank - 1] = ISO_WHOLE;
    y_dims[rank] = (int8_t)(rank - 1);
    rule->window[axis] = unfold_window_of(op, y->dim[axis]);
}

static void unfold_rule_of(const iso_op *op, iso_rule *rule)
{
    unfold_begin_rule(op, &op->outputs[0]->shape, rule->input[0], rule->output[0], rule);
    rule->input_windows[0] = (uint8_t)(1u << unfold_attrs_of(op)->axis);
}

static void fold_rule_of(const iso_op *op, iso_rule *rule)
{
    unfold_begin_rule(op, &op->inputs[0]->shape, rule->output[0], rule->input[0], rule);
    rule->output_windows[0] = (uint8_t)(1u << unfold_attrs_of(op)->axis);
}

static double unfold_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)inputs, (void)outputs;
    return 0;
}

const iso_op_type iso_op_unfold = {
    .name = "unfold",
    ISO_OP_ATTRS(unfold),
    .infer = unfold_infer,
    .gradient = unfold_gradient,
    .rule_of = unfold_rule_of,
    .linear = 1 << 0,
    .flops = unfold_flops,
};

const iso_op_type iso_op_fold = {
    .name = "fold",
    ISO_OP_ATTRS(unfold),
    .infer = fold_infer,
    .gradient = fold_gradient,
    .rule_of = fold_rule_of,
    .linear = 1 << 0,
    .flops = iso_one_flop_per_element,
};

/* A negative axis counts from the end of the tensor without windows, of `rank` dimensions. */
static iso_tensor *unfold_create(const iso_op_type *type, iso_tensor *x, int axis, int rank,
                                 const iso_unfold_geometry *geometry, int64_t extent)
{
    iso_unfold_attrs attrs = {.geometry = *geometry, .axis = axis < 0 ? axis + rank : axis, .extent = extent};
    return iso_op_1(type, x, &attrs);
}

iso_tensor *iso_unfold_op(iso_tensor *x, int axis, const iso_unfold_geometry *geometry)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, geometry))
        return iso_graph_bad_tensor(x->graph);
    const int rank = x->shape.rank, d = axis < 0 ? axis + rank : axis;
    int64_t extent = d >= 0 && d < rank ? x->shape.dim[d] : 0;
    return unfold_create(&iso_op_unfold, x, axis, rank, geometry, extent);
}

iso_tensor *iso_fold_op(iso_tensor *y, int axis, const iso_unfold_geometry *geometry, int64_t extent)
{
    ISO_NEED_TENSORS(y);
    if (ISO_NULL_IN(y->graph, geometry))
        return iso_graph_bad_tensor(y->graph);
    return unfold_create(&iso_op_fold, y, axis, y->shape.rank - 1, geometry, extent);
}
