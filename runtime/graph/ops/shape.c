/* Ops that move elements and compute nothing: reshape, transpose, flip, slice, concat, broadcasting, one-hot. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

static double no_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op;
    (void)inputs;
    (void)outputs;
    return 0;
}

/* ---- reshape ---- */
static bool infer_reshape(iso_op *op)
{
    const iso_shape *x = &op->inputs[0]->shape, *y = &((const iso_shape_attrs *)op->attrs)->shape;
    bool x_batch, y_batch;
    int64_t have = iso_shape_product(x, 0, x->rank, &x_batch),
            want = iso_shape_product(y, 0, y->rank, &y_batch);
    char text[160];
    if (have != want || x_batch != y_batch || (x_batch && (x->dim[0] != ISO_BATCH || y->dim[0] != ISO_BATCH)))
        return iso_op_refuse(op, "cannot be reshaped to %s", iso_shape_text(y, text, sizeof(text)));
    return iso_op_set_output(op, op->inputs[0]->dtype, y);
}

static void reshape_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_reshape_to(dy[0], op->inputs[0]->shape);
}

/* Dimension i of x and o of y, which have as many elements before them. If the extents are equal, a part
 * of one is a part of the other: one row-major block of both. If one is a multiple of the other, as in
 * x[.., 6, 4] reshaped to y[.., 24], the coarser dimension counts blocks of the finer: windows side by
 * side. */
static void share_factor(const iso_shape *x, int i, const iso_shape *y, int o, iso_rule *rule)
{
    int64_t a = x->dim[i], b = y->dim[o];
    if (a != b && (a < 2 || b < 2 || (a % b != 0 && b % a != 0)))
        return;
    int8_t factor = iso_rule_factor(rule);
    rule->input[0][i] = rule->output[0][o] = factor;
    int64_t positions = a < b ? a : b, block = a < b ? b / a : a / b;
    if (a != b)
        rule->window[factor] = (iso_sliding_window){positions, block, block, 1, 0};
    if (a > b)
        rule->input_windows[0] |= (uint8_t)(1u << i);
    else if (b > a)
        rule->output_windows[0] |= (uint8_t)(1u << o);
}

static void reshape_rule(const iso_op *op, iso_rule *rule)
{
    const iso_shape *x = &op->inputs[0]->shape, *y = &op->outputs[0]->shape;
    iso_rule_clear(op, rule);
    rule->linear = 1;
    int i = 0, o = 0;
    while (i < x->rank && o < y->rank) {
        int64_t before_x = iso_shape_product(x, 0, i, NULL), before_y = iso_shape_product(y, 0, o, NULL);
        bool aligned = before_x == before_y && x->dim[i] != 1 && y->dim[o] != 1;
        if (aligned)
            share_factor(x, i, y, o, rule);
        if (aligned && x->dim[i] == y->dim[o])
            i++, o++;
        else if (before_x * (x->dim[i] < 0 ? 1 : x->dim[i]) <= before_y * (y->dim[o] < 0 ? 1 : y->dim[o]))
            i++;
        else
            o++;
    }
}

const iso_op_type iso_op_reshape = {
    .name = "reshape",
    .attr_size = sizeof(iso_shape_attrs),
    .infer = infer_reshape,
    .gradient = reshape_backward,
    .rule_of = reshape_rule,
    .flops = no_flops,
    .no_kernel = true,
};

/* Fills in the one dimension that is -1; the batch is not counted. False if several are -1, no extent fits, or
 * the product of the others overflows. */
static bool complete(const iso_shape *x, iso_shape *shape)
{
    bool batch = x->rank > 0 && x->dim[0] == ISO_BATCH;
    int open = -1;
    int64_t known = 1;
    for (int i = batch; i < shape->rank; i++) {
        if (shape->dim[i] == -1) {
            if (open >= 0)
                return false;
            open = i;
        } else if (shape->dim[i] < 0 || __builtin_mul_overflow(known, shape->dim[i], &known))
            return false;
    }
    int64_t count = iso_shape_product(x, 0, x->rank, NULL);
    if (open >= 0 && (known <= 0 || count % known != 0))
        return false;
    if (open >= 0)
        shape->dim[open] = count / known;
    return !batch || (shape->rank > 0 && shape->dim[0] == ISO_BATCH);
}

iso_tensor *iso_reshape_to(iso_tensor *x, iso_shape shape)
{
    ISO_NEED_TENSORS(x);
    if (!iso_tensor_good(x))
        return iso_graph_bad_tensor(x->graph);
    char have[160], want[160];
    iso_shape_attrs attrs = {shape};
    if (shape.rank < 0 || shape.rank > ISO_MAX_RANK) {
        iso_graph_fail(x->graph, "reshape: '%s' cannot have %d dimensions, at most %d are possible",
                       iso_tensor_name(x), shape.rank, ISO_MAX_RANK);
        return iso_graph_bad_tensor(x->graph);
    }
    if (complete(&x->shape, &attrs.shape))
        return iso_shape_equal(&x->shape, &attrs.shape) ? x : iso_op_1(&iso_op_reshape, x, &attrs);
    iso_graph_fail(x->graph,
                   "reshape: %s %s cannot be reshaped to %s (the batch stays first; one -1 stands for the "
                   "remaining elements)",
                   iso_tensor_name(x), iso_shape_text(&x->shape, have, sizeof(have)),
                   iso_shape_text(&shape, want, sizeof(want)));
    return iso_graph_bad_tensor(x->graph);
}

/* ---- transpose ---- */
static bool infer_transpose(iso_op *op)
{
    const iso_transpose_attrs *attrs = op->attrs;
    const iso_shape *x = &op->inputs[0]->shape;
    iso_shape shape = {.rank = x->rank};
    uint32_t seen = 0;
    for (int i = 0; i < x->rank; i++) {
        int from = attrs->permutation[i];
        if (from < 0 || from >= x->rank || seen >> from & 1)
            return iso_op_refuse(op, "entry %d of the permutation is %d", i, from);
        seen |= 1u << from;
        shape.dim[i] = x->dim[from];
    }
    return iso_op_set_output(op, op->inputs[0]->dtype, &shape);
}

static void transpose_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_transpose_attrs *attrs = op->attrs;
    int inverse[ISO_MAX_RANK] = {0};
    for (int i = 0; i < op->inputs[0]->shape.rank; i++)
        inverse[attrs->permutation[i]] = i;
    dx[0] = iso_transpose(dy[0], inverse);
}

static void transpose_rule(const iso_op *op, iso_rule *rule)
{
    const iso_transpose_attrs *attrs = op->attrs;
    iso_rule_clear(op, rule);
    rule->linear = 1;
    for (int i = 0; i < op->inputs[0]->shape.rank; i++)
        rule->output[0][i] = rule->input[0][attrs->permutation[i]] = iso_rule_factor(rule);
}

const iso_op_type iso_op_transpose = {
    .name = "transpose",
    ISO_OP_ATTRS(transpose),
    .infer = infer_transpose,
    .gradient = transpose_backward,
    .rule_of = transpose_rule,
    .flops = no_flops,
};

iso_tensor *iso_transpose(iso_tensor *x, const int *permutation)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, permutation))
        return iso_graph_bad_tensor(x->graph);
    iso_transpose_attrs attrs = {{0}};
    for (int i = 0; i < x->shape.rank; i++)
        attrs.permutation[i] = permutation[i] < 0 ? permutation[i] + x->shape.rank : permutation[i];
    return iso_op_1(&iso_op_transpose, x, &attrs);
}

/* ---- flip ---- */
static bool infer_flip(iso_op *op)
{
    const iso_shape *x = &op->inputs[0]->shape;
    if (x->dim[((const iso_axis_attrs *)op->attrs)->axis] == ISO_BATCH)
        return iso_op_refuse(op, "the axis may not be the batch");
    return iso_op_set_output(op, op->inputs[0]->dtype, x);
}

static void flip_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_flip, dy[0], op->attrs);
}

/* Every dimension but the axis may be sharded. */
static void flip_rule(const iso_op *op, iso_rule *rule)
{
    iso_rule_clear(op, rule);
    rule->linear = 1;
    for (int d = 0; d < op->outputs[0]->shape.rank; d++)
        if (d != ((const iso_axis_attrs *)op->attrs)->axis)
            rule->output[0][d] = rule->input[0][d] = iso_rule_factor(rule);
}

const iso_op_type iso_op_flip = {
    .name = "flip",
    ISO_OP_ATTRS(axis),
    .infer = infer_flip,
    .gradient = flip_backward,
    .rule_of = flip_rule,
    .flops = no_flops,
};

iso_tensor *iso_flip(iso_tensor *x, int axis)
{
    ISO_NEED_TENSORS(x);
    iso_axis_attrs attrs = {iso_axis(x, axis)};
    return attrs.axis < 0 ? iso_graph_bad_tensor(x->graph) : iso_op_1(&iso_op_flip, x, &attrs);
}

/* ---- slice and pad ---- */
static bool fits_inside(const iso_shape *small, const iso_shape *large, const int64_t *begin)
{
    for (int i = 0; i < small->rank; i++) {
        if (small->dim[i] == ISO_BATCH || large->dim[i] == ISO_BATCH) {
            if (small->dim[i] != large->dim[i] || begin[i] != 0)
                return false;
        } else if (begin[i] < 0 || small->dim[i] < 0 || begin[i] > large->dim[i] - small->dim[i])
            return false;
    }
    return small->rank == large->rank;
}

static bool infer_slice(iso_op *op)
{
    const iso_slice_attrs *attrs = op->attrs;
    iso_shape begin = {.rank = attrs->shape.rank};
    char size_text[160], begin_text[160];
    for (int i = 0; i < begin.rank; i++)
        begin.dim[i] = attrs->begin[i];
    if (!fits_inside(&attrs->shape, &op->inputs[0]->shape, attrs->begin))
        return iso_op_refuse(op, "the part %s from %s on is not inside",
                             iso_shape_text(&attrs->shape, size_text, sizeof(size_text)),
                             iso_shape_text(&begin, begin_text, sizeof(begin_text)));
    return iso_op_set_output(op, op->inputs[0]->dtype, &attrs->shape);
}

static bool infer_pad(iso_op *op)
{
    const iso_slice_attrs *attrs = op->attrs;
    if (!fits_inside(&op->inputs[0]->shape, &attrs->shape, attrs->begin))
        return iso_op_refuse(op, "the padded shape is too small");
    return iso_op_set_output(op, op->inputs[0]->dtype, &attrs->shape);
}

static void slice_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_slice_attrs attrs = *(const iso_slice_attrs *)op->attrs;
    attrs.shape = op->inputs[0]->shape;
    dx[0] = iso_op_1(&iso_op_pad, dy[0], &attrs);
}

static void pad_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_slice_attrs attrs = *(const iso_slice_attrs *)op->attrs;
    attrs.shape = op->inputs[0]->shape;
    dx[0] = iso_op_1(&iso_op_slice, dy[0], &attrs);
}

/* Every dimension may be sharded. The factor of a dimension that is not taken in full counts the elements
 * of the larger side. Each of them is a window position that reads one element of the smaller side, or
 * none. */
static void window_rule(const iso_op *op, const iso_shape *large, const iso_shape *small, int8_t *large_dims,
                        int8_t *small_dims, uint8_t *small_windows, iso_rule *rule)
{
    const iso_slice_attrs *attrs = op->attrs;
    iso_rule_clear(op, rule);
    rule->linear = 1;
    for (int i = 0; i < large->rank; i++) {
        bool full = large->dim[i] == small->dim[i];
        if (!full && (!iso_dtype_is_float(op->inputs[0]->dtype) || small->dim[i] == 0))
            continue;
        int8_t factor = large_dims[i] = small_dims[i] = iso_rule_factor(rule);
        if (full)
            continue;
        rule->window[factor] = (iso_sliding_window){large->dim[i], 1, 1, 1, attrs->begin[i]};
        *small_windows |= (uint8_t)(1u << i);
    }
}

static void slice_rule(const iso_op *op, iso_rule *rule)
{
    window_rule(op, &op->inputs[0]->shape, &op->outputs[0]->shape, rule->input[0], rule->output[0],
                &rule->output_windows[0], rule);
}

static void pad_rule(const iso_op *op, iso_rule *rule)
{
    window_rule(op, &op->outputs[0]->shape, &op->inputs[0]->shape, rule->output[0], rule->input[0],
                &rule->input_windows[0], rule);
}

const iso_op_type iso_op_slice = {
    .name = "slice",
    ISO_OP_ATTRS(slice),
    .infer = infer_slice,
    .gradient = slice_backward,
    .rule_of = slice_rule,
    .flops = no_flops,
};
const iso_op_type iso_op_pad = {
    .name = "pad",
    ISO_OP_ATTRS(slice),
    .infer = infer_pad,
    .gradient = pad_backward,
    .rule_of = pad_rule,
    .flops = no_flops,
};

iso_tensor *iso_slice(iso_tensor *x, const int64_t *begin, const int64_t *size)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, begin, size))
        return iso_graph_bad_tensor(x->graph);
    iso_slice_attrs attrs = {.shape = x->shape};
    for (int i = 0, entry = 0; i < x->shape.rank; i++) {
        if (x->shape.dim[i] == ISO_BATCH)
            continue;
        attrs.begin[i] = begin[entry];
        attrs.shape.dim[i] = size[entry] == -1 ? x->shape.dim[i] - begin[entry] : size[entry];
        if (attrs.shape.dim[i] < 0) /* a negative extent would mean the batch */
            iso_graph_fail(x->graph, "slice: entry %d takes %lld elements from %lld on", entry,
                           (long long)size[entry], (long long)begin[entry]);
        entry++;
    }
    return iso_op_1(&iso_op_slice, x, &attrs);
}

iso_tensor *iso_pad(iso_tensor *x, const int64_t *before, const int64_t *after)
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, before, after))
        return iso_graph_bad_tensor(x->graph);
    iso_slice_attrs attrs = {.shape = x->shape};
    for (int i = 0, entry = 0; i < x->shape.rank; i++) {
        if (x->shape.dim[i] == ISO_BATCH)
            continue;
        if (before[entry] < 0 || after[entry] < 0)
            iso_graph_fail(x->graph,
                           "pad: entry %d adds %lld elements before and %lld after: neither may be negative",
                           entry, (long long)before[entry], (long long)after[entry]);
        attrs.begin[i] = before[entry];
        attrs.shape.dim[i] += before[entry] + after[entry];
        entry++;
    }
    return iso_op_1(&iso_op_pad, x, &attrs);
}

/* ---- concat ---- */
static bool infer_concat(iso_op *op)
{
    int axis = ((const iso_axis_attrs *)op->attrs)->axis;
    iso_shape shape = op->inputs[0]->shape;
    if (shape.dim[axis] == ISO_BATCH)
        return iso_op_refuse(op, "the axis may not be the batch");
    for (int i = 1; i < op->n_inputs; i++) {
        const iso_tensor *x = op->inputs[i];
        if (x->dtype != op->inputs[0]->dtype || x->shape.rank != shape.rank ||
            x->shape.dim[axis] == ISO_BATCH)
            return iso_op_refuse(op, "operands differ in type or number of dimensions");
        for (int d = 0; d < shape.rank; d++)
            if (d != axis && x->shape.dim[d] != shape.dim[d])
                return iso_op_refuse(op, "dimensions other than axis %d differ", axis);
        shape.dim[axis] += x->shape.dim[axis];
    }
    return iso_op_set_output(op, op->inputs[0]->dtype, &shape);
}

static void concat_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    int axis = ((const iso_axis_attrs *)op->attrs)->axis;
    iso_slice_attrs attrs = {.begin = {0}};
    for (int i = 0; i < op->n_inputs; i++) {
        attrs.shape = op->inputs[i]->shape;
        dx[i] = iso_op_1(&iso_op_slice, dy[0], &attrs);
        attrs.begin[axis] += attrs.shape.dim[axis];
    }
}

static void concat_rule(const iso_op *op, iso_rule *rule)
{
    int axis = ((const iso_axis_attrs *)op->attrs)->axis;
    iso_rule_clear(op, rule);
    rule->linear = (1u << op->n_inputs) - 1;
    rule->jointly = true;
    for (int d = 0; d < op->outputs[0]->shape.rank; d++) {
        if (d == axis)
            continue;
        rule->output[0][d] = iso_rule_factor(rule);
        for (int i = 0; i < op->n_inputs; i++)
            rule->input[i][d] = rule->output[0][d];
    }
}

const iso_op_type iso_op_concat = {
    .name = "concat",
    ISO_OP_ATTRS(axis),
    .infer = infer_concat,
    .gradient = concat_backward,
    .rule_of = concat_rule,
    .flops = no_flops,
};

/* Joins inputs of one op at a time, then the results. */
static iso_tensor *concat_many(iso_tensor *const *x, int count, const iso_axis_attrs *attrs)
{
    iso_graph *graph = x[0]->graph;
    const size_t bytes = (size_t)count * sizeof(iso_tensor *);
    iso_tensor **part = iso_new(bytes);
    if (!part) {
        iso_graph_fail_memory(graph, "concat", bytes);
        return iso_graph_bad_tensor(graph);
    }
    memcpy(part, x, bytes);
    while (count > 1) {
        int joined = 0;
        for (int i = 0, n; i < count; i += n) {
            n = count - i < ISO_MAX_INPUTS ? count - i : ISO_MAX_INPUTS;
            part[joined++] = n == 1 ? part[i] : iso_op_create(graph, &iso_op_concat, part + i, n, attrs);
        }
        count = joined;
    }
    iso_tensor *y = part[0];
    iso_free(part);
    return y;
}

iso_tensor *iso_concat(iso_tensor *const *x, int count, int axis)
{
    if (ISO_ANY_NULL(x))
        return NULL;
    if (count < 1) {
        iso_error(ISO_INVALID, "concat: %d inputs, there must be one at least", count);
        return NULL;
    }
    if (ISO_ANY_NULL_AS("x[0]", x[0]))
        return iso_null_tensor(x, (size_t)count);
    iso_axis_attrs attrs = {iso_axis(x[0], axis)};
    if (attrs.axis < 0)
        return iso_graph_bad_tensor(x[0]->graph);
    return count > ISO_MAX_INPUTS ? concat_many(x, count, &attrs)
                                  : iso_op_create(x[0]->graph, &iso_op_concat, x, count, &attrs);
}

/* ---- broadcasting ---- */
static bool infer_broadcast_to(iso_op *op)
{
    const iso_shape *to = &((const iso_shape_attrs *)op->attrs)->shape;
    iso_shape both;
    char text[160];
    if (!iso_shape_broadcast(&op->inputs[0]->shape, to, &both) || !iso_shape_equal(&both, to))
        return iso_op_refuse(op, "does not broadcast to %s", iso_shape_text(to, text, sizeof(text)));
    return iso_op_set_output(op, op->inputs[0]->dtype, to);
}

static void broadcast_to_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_sum_to_shape(dy[0], &op->inputs[0]->shape);
}

const iso_op_type iso_op_broadcast_to = {
    .name = "broadcast_to",
    .attr_size = sizeof(iso_shape_attrs),
    .infer = infer_broadcast_to,
    .gradient = broadcast_to_backward,
    .rule = "...->...",
    .linear = 1,
    .flops = no_flops,
};

iso_tensor *iso_broadcast_to(iso_tensor *x, iso_shape shape)
{
    ISO_NEED_TENSORS(x);
    iso_shape_attrs attrs = {shape};
    return iso_tensor_good(x) && iso_shape_equal(&x->shape, &shape)
               ? x
               : iso_op_1(&iso_op_broadcast_to, x, &attrs);
}

/* ---- one-hot ---- */
static bool infer_one_hot(iso_op *op)
{
    const iso_one_hot_attrs *attrs = op->attrs;
    iso_shape shape = op->inputs[0]->shape;
    if (!iso_dtype_is_float(attrs->dtype) || op->inputs[0]->dtype == ISO_BOOL)
        return iso_op_refuse(op, "takes numbers and gives float32 or float64");
    if (attrs->classes < 1 || shape.rank == ISO_MAX_RANK)
        return iso_op_refuse(op, "%lld classes, at least 1 is needed; at most %d dimensions are possible",
                             (long long)attrs->classes, ISO_MAX_RANK - 1);
    shape.dim[shape.rank++] = attrs->classes;
    return iso_op_set_output(op, attrs->dtype, &shape);
}

static void one_hot_rule(const iso_op *op, iso_rule *rule)
{
    int rank = op->inputs[0]->shape.rank;
    iso_rule_clear(op, rule);
    for (int i = 0; i < rank; i++)
        rule->output[0][i] = rule->input[0][i] = iso_rule_factor(rule);
    rule->output[0][rank] = iso_rule_factor(rule);
}

const iso_op_type iso_op_one_hot = {
    .name = "one_hot",
    ISO_OP_ATTRS(one_hot),
    .infer = infer_one_hot,
    .rule_of = one_hot_rule,
    .flops = no_flops,
};

iso_tensor *iso_one_hot(iso_tensor *index, int64_t classes, iso_dtype dtype)
{
    ISO_NEED_TENSORS(index);
    iso_one_hot_attrs attrs = {classes, dtype == ISO_F32 ? iso_graph_precision(index->graph) : dtype};
    return iso_op_1(&iso_op_one_hot, index, &attrs);
}
