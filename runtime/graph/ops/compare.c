/* Comparisons, logic, choice and casts. */
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

static bool infer_comparison(iso_op *op)
{
    if (!iso_infer_broadcast(op))
        return false;
    op->outputs[0]->dtype = ISO_BOOL;
    return true;
}

static bool infer_logical(iso_op *op)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (op->inputs[i]->dtype != ISO_BOOL)
            return iso_op_refuse(op, "takes bool");
    return iso_infer_broadcast(op);
}

/* The type that holds the values of both, by NumPy's promotion. */
static iso_dtype wider(iso_dtype a, iso_dtype b)
{
    iso_dtype high = iso_dtype_promoted(a, b), low = high == a ? b : a;
    bool loses = (high == ISO_F32 || high == ISO_BF16) && (low == ISO_I32 || low == ISO_I64);
    return loses ? ISO_F64 : high;
}

static iso_tensor *compare(const iso_op_type *type, iso_tensor *a, iso_tensor *b)
{
    if (iso_tensor_good(a) && iso_tensor_good(b) && a->dtype != b->dtype) {
        iso_dtype dtype = wider(a->dtype, b->dtype);
        a = iso_cast(a, dtype);
        b = iso_cast(b, dtype);
    }
    return iso_op_2(type, a, b, NULL);
}

#define COMPARISON(NAME)                                                                                     \
    const iso_op_type iso_op_##NAME = {.name = #NAME, .infer = infer_comparison, .rule = "...,...->..."};    \
    iso_tensor *iso_##NAME(iso_tensor *a, iso_tensor *b)                                                     \
    {                                                                                                        \
        ISO_NEED_TENSORS(a, b);                                                                              \
        return compare(&iso_op_##NAME, a, b);                                                                \
    }

COMPARISON(equal)
COMPARISON(not_equal)
COMPARISON(less)
COMPARISON(less_equal)
COMPARISON(greater)
COMPARISON(greater_equal)

const iso_op_type iso_op_logical_and = {
    .name = "logical_and", .infer = infer_logical, .rule = "...,...->...", .in_place = 3};
const iso_op_type iso_op_logical_or = {
    .name = "logical_or", .infer = infer_logical, .rule = "...,...->...", .in_place = 3};
const iso_op_type iso_op_logical_not = {
    .name = "logical_not", .infer = infer_logical, .rule = "...->...", .in_place = 1};

iso_tensor *iso_logical_and(iso_tensor *a, iso_tensor *b)
{
    ISO_NEED_TENSORS(a, b);
    return iso_op_2(&iso_op_logical_and, a, b, NULL);
}

iso_tensor *iso_logical_or(iso_tensor *a, iso_tensor *b)
{
    ISO_NEED_TENSORS(a, b);
    return iso_op_2(&iso_op_logical_or, a, b, NULL);
}

iso_tensor *iso_logical_not(iso_tensor *a)
{
    ISO_NEED_TENSORS(a);
    return iso_op_1(&iso_op_logical_not, a, NULL);
}

/* condition, a, b -> y */
static bool infer_where(iso_op *op)
{
    const iso_tensor *a = op->inputs[1], *b = op->inputs[2];
    iso_shape shape;
    if (op->inputs[0]->dtype != ISO_BOOL)
        return iso_op_refuse(op, "the condition must be bool");
    if (a->dtype != b->dtype)
        return iso_op_refuse(op, "the alternatives have different types; iso_cast converts them");
    if (!iso_shape_broadcast(&a->shape, &b->shape, &shape) ||
        !iso_shape_broadcast(&op->inputs[0]->shape, &shape, &shape))
        return iso_op_refuse(op, "shapes do not broadcast together");
    return iso_op_set_output(op, a->dtype, &shape);
}

static void where_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *zero = iso_number(op->graph, dy[0]->dtype, 0);
    dx[1] = iso_sum_to_shape(iso_where(op->inputs[0], dy[0], zero), &op->inputs[1]->shape);
    dx[2] = iso_sum_to_shape(iso_where(op->inputs[0], zero, dy[0]), &op->inputs[2]->shape);
}

const iso_op_type iso_op_where = {
    .name = "where",
    .infer = infer_where,
    .gradient = where_backward,
    .rule = "...,...,...->...",
    .linear = 6,
    .jointly = true,
    .in_place = 6,
};

iso_tensor *iso_where(iso_tensor *condition, iso_tensor *a, iso_tensor *b)
{
    ISO_NEED_TENSORS(condition, a, b);
    return iso_op_3(&iso_op_where, condition, a, b, NULL);
}

static bool infer_cast(iso_op *op)
{
    const iso_cast_attrs *attrs = op->attrs;
    if (!iso_dtype_size(attrs->dtype))
        return iso_op_refuse(op, "no element type to cast to");
    return iso_op_set_output(op, attrs->dtype, &op->inputs[0]->shape);
}

static void cast_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    if (iso_dtype_is_float(op->inputs[0]->dtype) && iso_dtype_is_float(op->outputs[0]->dtype))
        dx[0] = iso_cast_back(dy[0], op->inputs[0]->dtype);
}

/* Partial sums pass through casts that lose nothing. If a cast from float64 to float32 were linear too,
 * partial sums would be added between slots in float32, because that moves fewer bytes, and losses would
 * lose the accuracy that their accumulation in float64 is for. */
static void cast_rule(const iso_op *op, iso_rule *rule)
{
    iso_dtype from = op->inputs[0]->dtype, to = op->outputs[0]->dtype;
    iso_rule_parse(op, "...->...", rule);
    rule->linear =
        iso_dtype_is_float(from) && (from == to || to == ISO_F64 || (from == ISO_BF16 && to == ISO_F32));
}

const iso_op_type iso_op_cast = {
    .name = "cast",
    ISO_OP_ATTRS(cast),
    .infer = infer_cast,
    .gradient = cast_backward,
    .rule_of = cast_rule,
};

iso_tensor *iso_cast(iso_tensor *x, iso_dtype dtype)
{
    ISO_NEED_TENSORS(x);
    /* in a graph of precision float64 there is no float32 */
    iso_cast_attrs attrs = {dtype == ISO_F32 ? iso_graph_precision(x->graph) : dtype};
    return iso_tensor_good(x) && x->dtype == attrs.dtype ? x : iso_op_1(&iso_op_cast, x, &attrs);
}

/* The cast of a float32 sum, one of those that follow its op; NULL: x is no such sum. */
static iso_tensor *rounded(const iso_tensor *x)
{
    const iso_op *op = x->producer;
    if (!op || !(op->widened & 1u << x->output))
        return NULL;
    for (int id = op->id + 1; id <= op->id + op->n_outputs && id < x->graph->n_ops; id++) {
        const iso_op *next = x->graph->ops[id];
        if (next->type == &iso_op_cast && next->inputs[0] == x && next->outputs[0]->dtype == ISO_BF16)
            return next->outputs[0];
    }
    return NULL;
}

iso_tensor *iso_cast_back(iso_tensor *x, iso_dtype dtype)
{
    bool reshaped = x->producer && x->producer->type == &iso_op_reshape;
    const iso_tensor *source = reshaped ? x->producer->inputs[0] : x;
    const iso_op *op = source->producer;
    iso_tensor *narrow = dtype == ISO_BF16 ? rounded(source) : NULL;
    if (narrow)
        return iso_reshape_to(narrow, x->shape);
    bool through_bf16 = op && op->type == &iso_op_cast && (x->dtype == ISO_BF16 || dtype == ISO_BF16);
    return through_bf16 && op->inputs[0]->dtype == dtype ? iso_reshape_to(op->inputs[0], x->shape)
                                                         : iso_cast(x, dtype);
}
