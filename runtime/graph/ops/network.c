#include "runtime/graph/ops/network_impl.h"

bool iso_expect_float(iso_op *op, int i, int rank)
{
    const iso_tensor *x = op->inputs[i];
    if (!iso_dtype_is_float(x->dtype))
        return iso_op_refuse(op, "input %d should be floating point", i);
    if (rank >= 0 && x->shape.rank != rank)
        return iso_op_refuse(op, "input %d should have %d dimensions", i, rank);
    return true;
}

bool iso_expect_wide(iso_op *op, int i)
{
    iso_dtype dtype = op->inputs[i]->dtype;
    return dtype == ISO_F32 || dtype == ISO_F64 ||
           iso_op_refuse(op, "input %d should be float32 or float64; iso_cast converts it", i);
}

bool iso_expect_same_type(iso_op *op, int i, int j)
{
    return op->inputs[i]->dtype == op->inputs[j]->dtype ||
           iso_op_refuse(op, "inputs %d and %d should be of one type", i, j);
}

bool iso_expect_same_shape(iso_op *op, int i, int j)
{
    return iso_shape_equal(&op->inputs[i]->shape, &op->inputs[j]->shape) ||
           iso_op_refuse(op, "inputs %d and %d should have one shape", i, j);
}

bool iso_expect_channels(iso_op *op, int i)
{
    const iso_shape *x = &op->inputs[0]->shape, *v = &op->inputs[i]->shape;
    return (v->rank == 1 && x->rank > 0 && v->dim[0] == x->dim[x->rank - 1]) ||
           iso_op_refuse(op, "input %d should have one element for each channel of input 0", i);
}

bool iso_expect_index(iso_op *op, int i)
{
    return op->inputs[i]->dtype != ISO_BOOL || iso_op_refuse(op, "input %d should hold numbers", i);
}

/* Whether a value is small enough that sums and products of two such values fit 64 bits. */
static bool in_range(int64_t value, int64_t low)
{
    return value >= low && value <= INT32_MAX;
}

bool iso_sliding_window_fit(iso_op *op, const char *what, int64_t extent, int64_t after,
                            iso_sliding_window *w)
{
    if (!in_range(w->size, 1) || !in_range(w->stride, 1) || !in_range(w->dilation, 1) ||
        !in_range(w->before, 0) || !in_range(after, 0))
        return iso_op_refuse(op, "%s: window %lld, stride %lld, dilation %lld, padding %lld and %lld", what,
                             (long long)w->size, (long long)w->stride, (long long)w->dilation,
                             (long long)w->before, (long long)after);
    int64_t span = (w->size - 1) * w->dilation + 1;
    int64_t room = extent + w->before + after;
    if (extent < 1 || room < span)
        return iso_op_refuse(op, "%s: a window of %lld does not fit into %lld with padding %lld and %lld",
                             what, (long long)span, (long long)extent, (long long)w->before,
                             (long long)after);
    w->positions = (room - span) / w->stride + 1;
    return true;
}

void iso_set_output(iso_op *op, int i, iso_dtype dtype, const iso_shape *shape)
{
    op->outputs[i]->dtype = dtype;
    op->outputs[i]->shape = *shape;
}

void iso_rule_run_over(int8_t *dims, int first, int count)
{
    for (int d = 0; d < count; d++)
        dims[d] = (int8_t)(first + d);
}

static void by_channel(int8_t *dims, int rank, int rank_of_x, bool whole)
{
    if (rank == rank_of_x)
        iso_rule_run_over(dims, 0, rank - 1);
    dims[rank - 1] = whole ? ISO_WHOLE : (int8_t)(rank_of_x - 1);
}

void iso_rule_by_channel(const iso_op *op, bool whole, iso_rule *rule)
{
    int rank = op->inputs[0]->shape.rank;
    *rule = (iso_rule){
        .n_factors = whole ? rank - 1 : rank, .linear = op->type->linear, .jointly = op->type->jointly};
    for (int i = 0; i < op->n_inputs; i++)
        by_channel(rule->input[i], op->inputs[i]->shape.rank, rank, whole);
    for (int i = 0; i < op->n_outputs; i++)
        by_channel(rule->output[i], op->outputs[i]->shape.rank, rank, whole);
}

double iso_one_flop_per_element(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return iso_box_elements(&inputs[0]);
}

iso_tensor *iso_or_zeros(iso_tensor *dy, iso_tensor *like)
{
    return dy ? dy : iso_broadcast_to(iso_number(like->graph, like->dtype, 0), like->shape);
}
