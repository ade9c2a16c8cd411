/* Rows of a table, looked up by index. A slot that holds a part of the table returns the rows that it has,
 * and zeros for the others, so that the sum over slots is the result. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

static bool embedding_infer(iso_op *op)
{
    const iso_tensor *table = op->inputs[0], *index = op->inputs[1];
    if (!iso_expect_float(op, 0, 2) || !iso_expect_index(op, 1))
        return false;
    if (index->shape.rank + 1 > ISO_MAX_RANK)
        return iso_op_refuse(op, "the result would have %d dimensions, at most %d are possible",
                             index->shape.rank + 1, ISO_MAX_RANK);
    iso_shape y = index->shape; /* [..., d] */
    y.dim[y.rank++] = table->shape.dim[1];
    return iso_op_set_output(op, table->dtype, &y);
}

static bool embedding_infer_gradient(iso_op *op)
{
    const iso_embedding_attrs *attrs = op->attrs;
    const iso_tensor *dy = op->inputs[1];
    if (!iso_expect_index(op, 0) || !iso_expect_float(op, 1, op->inputs[0]->shape.rank + 1))
        return false;
    return iso_op_set_output(op, dy->dtype,
                             &(iso_shape){2, {attrs->rows, dy->shape.dim[dy->shape.rank - 1]}});
}

static bool embedding_infer_added(iso_op *op)
{
    const iso_embedding_attrs *attrs = op->attrs;
    const iso_tensor *dtable = op->inputs[0], *index = op->inputs[1], *dy = op->inputs[2];
    if (!iso_expect_float(op, 0, 2) || !iso_expect_index(op, 1) ||
        !iso_expect_float(op, 2, index->shape.rank + 1) || !iso_expect_same_type(op, 0, 2))
        return false;
    iso_shape table = {2, {attrs->rows, dy->shape.dim[dy->shape.rank - 1]}};
    if (!iso_shape_equal(&table, &dtable->shape))
        return iso_op_refuse(op,
                             "input 0 should have the %lld rows of the table, as wide as those of input 2",
                             (long long)attrs->rows);
    return iso_op_set_output(op, dtable->dtype, &table);
}

static void embedding_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_embedding_attrs attrs = {.rows = op->inputs[0]->shape.dim[0]};
    dx[0] = iso_op_2(&iso_op_embedding_grad, op->inputs[1], dy[0], &attrs);
}

static void gradient_of_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    dx[1] = iso_embedding_op(d[0], op->inputs[0]);
}

static void gradient_of_added(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    dx[0] = d[0];
    dx[2] = iso_embedding_op(d[0], op->inputs[1]);
}

/* Factors: the index's dimensions, the table's rows, its columns. The rows are contracted. */
static void embedding_rule_of(const iso_op *op, iso_rule *rule)
{
    int rank = op->inputs[1]->shape.rank;
    *rule = (iso_rule){.n_factors = rank + 2, .linear = 1 << 0};
    iso_rule_run_over(rule->input[0], rank, 2);
    iso_rule_run_over(rule->input[1], 0, rank);
    iso_rule_run_over(rule->output[0], 0, rank);
    rule->output[0][rank] = (int8_t)(rank + 1);
}

/* The index's dimensions are contracted; rows of the result may be split, and each slot then adds up its
 * own. */
static void rule_of_gradient(const iso_op *op, iso_rule *rule)
{
    int rank = op->inputs[0]->shape.rank;
    *rule = (iso_rule){.n_factors = rank + 2, .linear = 1 << 1};
    iso_rule_run_over(rule->input[0], 0, rank);
    iso_rule_run_over(rule->input[1], 0, rank);
    rule->input[1][rank] = (int8_t)(rank + 1);
    iso_rule_run_over(rule->output[0], rank, 2);
}

/* Factors: the table's rows, its columns. Partial sums are added to partial sums. */
static void rule_of_added(const iso_op *op, iso_rule *rule)
{
    int rank = op->inputs[1]->shape.rank;
    *rule = (iso_rule){.n_factors = 2, .linear = 1 << 0 | 1 << 2, .jointly = true};
    for (int d = 0; d < rank; d++)
        rule->input[1][d] = rule->input[2][d] = ISO_WHOLE;
    iso_rule_run_over(rule->input[0], 0, 2);
    iso_rule_run_over(rule->output[0], 0, 2);
    rule->input[2][rank] = 1;
}

/* The share of the looked-up rows that a slot finds in its part of the table: on average, the part's share of the
 * table. */
static double embedding_share(const iso_tensor *table, const iso_box *part)
{
    return table->shape.dim[0] > 0 ? (double)part->extent[0] / (double)table->shape.dim[0] : 0;
}

static double embedding_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    return iso_box_elements(&outputs[0]) * embedding_share(op->inputs[0], &inputs[0]);
}

/* An addition for each element of dy, the last input. */
static double gradient_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    return iso_box_elements(&inputs[op->n_inputs - 1]) * embedding_share(op->outputs[0], &outputs[0]);
}

const iso_op_type iso_op_embedding = {
    .name = "embedding",
    .infer = embedding_infer,
    .gradient = embedding_gradient,
    .rule_of = embedding_rule_of,
    .flops = embedding_flops,
    .index = {"index", "rows of the table"},
};

const iso_op_type iso_op_embedding_grad = {
    .name = "embedding_grad",
    ISO_OP_ATTRS(embedding),
    .infer = embedding_infer_gradient,
    .gradient = gradient_of_gradient,
    .rule_of = rule_of_gradient,
    .flops = gradient_flops,
    .index = {"index", "rows of the table"},
};

const iso_op_type iso_op_embedding_grad_add = {
    .name = "embedding_grad_add",
    ISO_OP_ATTRS(embedding),
    .infer = embedding_infer_added,
    .gradient = gradient_of_added,
    .rule_of = rule_of_added,
    .flops = gradient_flops,
    .in_place = 1 << 0,
    .index = {"index", "rows of the table"},
};

iso_tensor *iso_embedding_op(iso_tensor *table, iso_tensor *index)
{
    ISO_NEED_TENSORS(table, index);
    return iso_op_2(&iso_op_embedding, table, index, NULL);
}

iso_tensor *iso_segment_sum(iso_tensor *values, iso_tensor *index, int64_t count)
{
    ISO_NEED_TENSORS(values, index);
    if (count < 1)
        iso_graph_fail(iso_tensor_graph(values), "segment_sum: count is %lld, it must be positive",
                       (long long)count);
    return iso_op_2(&iso_op_embedding_grad, index, values, &(iso_embedding_attrs){.rows = count});
}
