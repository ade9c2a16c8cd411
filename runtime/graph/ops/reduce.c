/* Reductions over axes: sums, means, extremes. */
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

static bool is_reduced(const iso_reduce_attrs *attrs, int dim)
{
    return attrs->axes >> dim & 1;
}

/* The shape with 1 for each reduced dimension, or without them. */
static iso_shape reduced_shape(const iso_shape *x, const iso_reduce_attrs *attrs, bool keep)
{
    iso_shape shape = {0};
    for (int i = 0; i < x->rank; i++)
        if (!is_reduced(attrs, i))
            shape.dim[shape.rank++] = x->dim[i];
        else if (keep)
            shape.dim[shape.rank++] = 1;
    return shape;
}

static bool infer_reduce(iso_op *op)
{
    const iso_reduce_attrs *attrs = op->attrs;
    iso_shape shape = reduced_shape(&op->inputs[0]->shape, attrs, attrs->keep);
    return iso_op_set_output(op, attrs->dtype, &shape);
}

static bool infer_extreme(iso_op *op)
{
    if (op->inputs[0]->dtype == ISO_BOOL)
        return iso_op_refuse(op, "takes numbers, not bool");
    return infer_reduce(op);
}

/* Kept dimensions have the same factor in input and output. A reduced dimension has a factor that is
 * contracted, or is whole. */
static void reduce_factors(const iso_op *op, iso_rule *rule, bool contract)
{
    const iso_reduce_attrs *attrs = op->attrs;
    iso_rule_clear(op, rule);
    for (int i = 0, o = 0; i < op->inputs[0]->shape.rank; i++) {
        bool reduced = is_reduced(attrs, i);
        if (!reduced || contract)
            rule->input[0][i] = iso_rule_factor(rule);
        if (!reduced)
            rule->output[0][o] = rule->input[0][i];
        o += !reduced || attrs->keep;
    }
}

static void sum_rule(const iso_op *op, iso_rule *rule)
{
    const iso_reduce_attrs *attrs = op->attrs;
    reduce_factors(op, rule, true);
    rule->linear = !attrs->square;
}

static void max_rule(const iso_op *op, iso_rule *rule)
{
    reduce_factors(op, rule, true);
    rule->contract_max = true;
}

static void min_rule(const iso_op *op, iso_rule *rule)
{
    reduce_factors(op, rule, false);
}

/* Reverses the order of numbers without overflow; applied twice it restores them: -x, or for integers the
 * complement of their bits. */
static iso_tensor *turn_over(iso_tensor *x)
{
    if (iso_dtype_is_float(x->dtype))
        return iso_negate(x);
    return iso_subtract(iso_number(x->graph, x->dtype, x->dtype == ISO_U8 ? 255 : -1), x);
}

/* If a reduced dimension is sharded, slots exchange maxima. */
static void split_min(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    out[0] = turn_over(iso_op_1(&iso_op_reduce_max, turn_over(in[0]), op->attrs));
}

/* A tensor of the output's shape, with a 1 for each reduced dimension, so that it broadcasts against the
 * input. */
static iso_tensor *with_ones(const iso_op *op, iso_tensor *y)
{
    const iso_reduce_attrs *attrs = op->attrs;
    const iso_shape *x = &op->inputs[0]->shape;
    bool leading = true; /* only leading dimensions are missing: it broadcasts as it is */
    for (int i = 1; i < x->rank; i++)
        leading &= is_reduced(attrs, i - 1) || !is_reduced(attrs, i);
    return attrs->keep || leading ? y : iso_reshape_to(y, reduced_shape(x, attrs, true));
}

static void sum_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_reduce_attrs *attrs = op->attrs;
    if (!iso_dtype_is_float(op->inputs[0]->dtype))
        return;
    iso_tensor *d = attrs->scale == 1 ? dy[0] : iso_affine(dy[0], attrs->scale, 0);
    d = with_ones(op, iso_cast(d, op->inputs[0]->dtype));
    dx[0] = attrs->square ? iso_multiply(iso_affine(op->inputs[0], 2, 0), d)
                          : iso_broadcast_to(d, op->inputs[0]->shape);
}

/* Equal extremes share the gradient evenly, as in TensorFlow. */
static void extreme_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *x = op->inputs[0];
    if (!iso_dtype_is_float(x->dtype))
        return;
    iso_reduce_attrs sum = *(const iso_reduce_attrs *)op->attrs;
    iso_tensor *hit = iso_cast(iso_equal(x, with_ones(op, op->outputs[0])), x->dtype);
    iso_tensor *hits = iso_op_1(&iso_op_reduce_sum, hit, &sum);
    dx[0] = iso_multiply(hit, with_ones(op, iso_divide(dy[0], hits)));
}

/* One addition, or comparison, for each element that is read; and its square. */
static double reduce_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    const iso_reduce_attrs *attrs = op->attrs;
    (void)outputs;
    return iso_box_elements(&inputs[0]) * (1 + attrs->square);
}

const iso_op_type iso_op_reduce_sum = {
    .name = "reduce_sum",
    ISO_OP_ATTRS(reduce),
    .infer = infer_reduce,
    .gradient = sum_backward,
    .rule_of = sum_rule,
    .flops = reduce_flops,
};
const iso_op_type iso_op_reduce_max = {
    .name = "reduce_max",
    ISO_OP_ATTRS(reduce),
    .infer = infer_extreme,
    .gradient = extreme_backward,
    .rule_of = max_rule,
    .flops = reduce_flops,
};
const iso_op_type iso_op_reduce_min = {
    .name = "reduce_min",
    ISO_OP_ATTRS(reduce),
    .infer = infer_extreme,
    .gradient = extreme_backward,
    .rule_of = min_rule,
    .flops = reduce_flops,
    .decompose = split_min,
};

/* The axes as bits; an axis out of range is an error in the graph. */
static uint32_t axis_bits(iso_tensor *x, const int *axes, int count)
{
    uint32_t bits = 0;
    if (count < 0)
        iso_graph_fail(x->graph, "a reduction over %d axes: the count must not be negative", count);
    for (int i = 0; i < count; i++) {
        int axis = iso_axis(x, axes[i]);
        if (axis >= 0 && bits >> axis & 1)
            iso_graph_fail(x->graph, "axis %d is named twice", axis);
        if (axis >= 0)
            bits |= 1u << axis;
    }
    return count ? bits : (1u << x->shape.rank) - 1;
}

static iso_tensor *reduce(const iso_op_type *type, iso_tensor *x, uint32_t axes, bool keep, iso_dtype dtype,
                          double scale)
{
    iso_reduce_attrs attrs = {.axes = axes, .keep = keep, .scale = scale, .dtype = dtype};
    return iso_op_1(type, x, &attrs);
}

static iso_dtype sum_type(const iso_tensor *x)
{
    return x->dtype == ISO_BOOL || x->dtype == ISO_U8 ? ISO_I32 : x->dtype;
}

iso_tensor *iso_reduce_sum(iso_tensor *x, const int *axes, int count, bool keep)
{
    ISO_NEED_TENSORS(x);
    if (count > 0 && ISO_NULL_IN(x->graph, axes))
        return iso_graph_bad_tensor(x->graph);
    return reduce(&iso_op_reduce_sum, x, axis_bits(x, axes, count), keep, sum_type(x), 1);
}

iso_tensor *iso_reduce_max(iso_tensor *x, const int *axes, int count, bool keep)
{
    ISO_NEED_TENSORS(x);
    if (count > 0 && ISO_NULL_IN(x->graph, axes))
        return iso_graph_bad_tensor(x->graph);
    return reduce(&iso_op_reduce_max, x, axis_bits(x, axes, count), keep, x->dtype, 1);
}

iso_tensor *iso_reduce_min(iso_tensor *x, const int *axes, int count, bool keep)
{
    ISO_NEED_TENSORS(x);
    if (count > 0 && ISO_NULL_IN(x->graph, axes))
        return iso_graph_bad_tensor(x->graph);
    return reduce(&iso_op_reduce_min, x, axis_bits(x, axes, count), keep, x->dtype, 1);
}

/* Over fixed dimensions: a scaled sum. Over the batch: the float64 sum over all slots, divided by the
 * rows, which the plan knows. */
static iso_tensor *mean(iso_tensor *x, uint32_t axes, bool keep)
{
    if (!iso_dtype_is_float(x->dtype))
        x = iso_cast(x, iso_graph_precision(x->graph));
    iso_count_attrs of = {.count = 1};
    for (int i = 0; i < x->shape.rank; i++)
        if (axes >> i & 1) {
            of.batch |= x->shape.dim[i] == ISO_BATCH;
            of.count *= x->shape.dim[i] == ISO_BATCH ? 1 : (double)x->shape.dim[i];
        }
    if (!of.batch)
        return reduce(&iso_op_reduce_sum, x, axes, keep, x->dtype, 1 / of.count);
    iso_tensor *sum = reduce(&iso_op_reduce_sum, x, axes, keep, ISO_F64, 1);
    return iso_cast(iso_op_1(&iso_op_scale_by_count, sum, &of), x->dtype);
}

iso_tensor *iso_reduce_mean(iso_tensor *x, const int *axes, int count, bool keep)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_TENSORS(x);
    if (count > 0 && ISO_NULL_IN(x->graph, axes))
        return iso_graph_bad_tensor(x->graph);
    return mean(x, axis_bits(x, axes, count), keep);
}

iso_tensor *iso_sum(iso_tensor *x)
{
    ISO_NEED_TENSORS(x);
    uint32_t all = axis_bits(x, NULL, 0);
    if (!iso_dtype_is_float(x->dtype))
        return reduce(&iso_op_reduce_sum, x, all, false, sum_type(x), 1);
    return iso_cast(reduce(&iso_op_reduce_sum, x, all, false, ISO_F64, 1), x->dtype);
}

iso_tensor *iso_mean(iso_tensor *x)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_TENSORS(x);
    return mean(x, axis_bits(x, NULL, 0), false);
}

/* Sums x over those dimensions in which `shape`, aligned from the right, has 1 or none. */
iso_tensor *iso_sum_to_shape(iso_tensor *x, const iso_shape *shape)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, shape))
        return iso_graph_bad_tensor(x->graph);
    if (!iso_tensor_good(x) || iso_shape_equal(&x->shape, shape))
        return x;
    int missing = x->shape.rank - shape->rank;
    uint32_t axes = missing > 0 ? (1u << missing) - 1 : 0, in_front = axes;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] == 1 && x->shape.dim[i + missing] != 1)
            axes |= 1u << (i + missing);
    if (axes == in_front)
        return reduce(&iso_op_reduce_sum, x, axes, false, x->dtype, 1);
    iso_tensor *sum = reduce(&iso_op_reduce_sum, x, axes, true, x->dtype, 1);
    return missing ? iso_reshape_to(sum, *shape) : sum;
}
