/* The decomposition of layer normalisation for sharded channels. Slots exchange only the sum and the sum
 * of squares of a row, and for its gradient two more sums. */
#include "runtime/graph/ops/layer_parts_impl.h"

static bool has_gamma(const iso_op *op)
{
    return ((const iso_layer_norm_attrs *)op->attrs)->has_gamma;
}

/* ---- shapes: the builders pass inputs that fit ---- */

static bool infer_moments(iso_op *op)
{
    iso_shape row = op->inputs[0]->shape;
    row.dim[row.rank - 1] = 1;
    for (int o = 0; o < 2; o++)
        iso_set_output(op, o, ISO_F64, &row);
    return iso_expect_float(op, 0, -1);
}

static bool infer_sums(iso_op *op)
{
    const iso_shape *x = &op->inputs[0]->shape;
    for (int o = 0; o < 2; o++)
        iso_set_output(op, o, op->inputs[0]->dtype, &(iso_shape){1, {x->dim[x->rank - 1]}});
    return iso_expect_float(op, 0, -1);
}

/* ---- rules: tensors like x have a factor for each dimension, rows hold the last one whole, vectors have
 * only that one ---- */

enum { AS_X, ROW, VECTOR };

static void rule_dims(int rank, int form, int8_t *dims)
{
    if (form == VECTOR)
        dims[0] = (int8_t)(rank - 1);
    else
        iso_rule_run_over(dims, 0, form == ROW ? rank - 1 : rank);
}

/* forms: of the inputs except the vectors, which come last; of the outputs */
static void rule_by(const iso_op *op, const int8_t *forms, int first_vector, int output, iso_rule *rule)
{
    int rank = op->inputs[0]->shape.rank;
    iso_rule_clear(op, rule);
    rule->n_factors = rank;
    rule->linear = op->type->linear;
    rule->jointly = op->type->jointly;
    for (int i = 0; i < op->n_inputs; i++)
        rule_dims(rank, i < first_vector ? forms[i] : VECTOR, rule->input[i]);
    for (int o = 0; o < op->n_outputs; o++)
        rule_dims(rank, output, rule->output[o]);
}

static const int8_t forward[] = {AS_X, ROW, ROW}, backward[] = {AS_X, AS_X, ROW, ROW, ROW, ROW};

static void rule_of_moments(const iso_op *op, iso_rule *rule)
{
    rule_by(op, forward, 1, ROW, rule);
}

static void rule_of_scale(const iso_op *op, iso_rule *rule)
{
    rule_by(op, forward, 3, AS_X, rule);
}

static void rule_of_grad_sums(const iso_op *op, iso_rule *rule)
{
    rule_by(op, backward, 4, ROW, rule);
}

static void rule_of_grad(const iso_op *op, iso_rule *rule)
{
    rule_by(op, backward, 6, AS_X, rule);
}

static void rule_of_weights(const iso_op *op, iso_rule *rule)
{
    rule_by(op, backward, 4, VECTOR, rule);
}

static double layer_parts_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 4 * iso_box_elements(&inputs[0]);
}

const iso_op_type iso_op_layer_moments = {
    .name = "layer_moments",
    .infer = infer_moments,
    .n_outputs = 2,
    .rule_of = rule_of_moments,
    .flops = layer_parts_flops,
    .shared = true,
};

const iso_op_type iso_op_layer_scale = {
    .name = "layer_scale",
    ISO_OP_ATTRS(layer_norm),
    .infer = iso_infer_same_float,
    .rule_of = rule_of_scale,
    .flops = layer_parts_flops,
    .in_place = 1 << 0,
};

const iso_op_type iso_op_layer_grad_sums = {
    .name = "layer_grad_sums",
    ISO_OP_ATTRS(layer_norm),
    .infer = infer_moments,
    .n_outputs = 2,
    .rule_of = rule_of_grad_sums,
    .linear = 1 << 1,
    .flops = layer_parts_flops,
};

const iso_op_type iso_op_layer_grad = {
    .name = "layer_grad",
    ISO_OP_ATTRS(layer_norm),
    .infer = iso_infer_same_float,
    .rule_of = rule_of_grad,
    .linear = 1 << 1 | 1 << 4 | 1 << 5,
    .jointly = true,
    .flops = layer_parts_flops,
    .in_place = 1 << 0 | 1 << 1,
};

const iso_op_type iso_op_layer_weight_sums = {
    .name = "layer_weight_sums",
    ISO_OP_ATTRS(layer_norm),
    .infer = infer_sums,
    .n_outputs = 2,
    .rule_of = rule_of_weights,
    .linear = 1 << 1,
    .flops = layer_parts_flops,
};

/* ---- the decomposed ops ---- */

/* Sum and sum of squares of each row. */
static void moments_of(iso_tensor *x, iso_tensor **moments)
{
    iso_op_create_several(x->graph, &iso_op_layer_moments, &x, 1, NULL, moments);
}

void iso_layer_split(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_tensor *inputs[5] = {in[0]};
    moments_of(in[0], inputs + 1);
    for (int i = 1; i < op->n_inputs; i++)
        inputs[2 + i] = in[i];
    out[0] = iso_op_create(in[0]->graph, &iso_op_layer_scale, inputs, op->n_inputs + 2, op->attrs);
}

void iso_layer_split_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_graph *graph = in[0]->graph;
    iso_tensor *inputs[7] = {in[0], in[1]};
    moments_of(in[0], inputs + 2);
    if (has_gamma(op))
        inputs[4] = in[2];
    iso_op_create_several(graph, &iso_op_layer_grad_sums, inputs, has_gamma(op) ? 5 : 4, op->attrs,
                          inputs + 4);
    if (has_gamma(op))
        inputs[6] = in[2];
    out[0] = iso_op_create(graph, &iso_op_layer_grad, inputs, has_gamma(op) ? 7 : 6, op->attrs);
}

void iso_layer_split_sums(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_tensor *inputs[4] = {in[0], in[1]};
    moments_of(in[0], inputs + 2);
    iso_op_create_several(in[0]->graph, &iso_op_layer_weight_sums, inputs, 4, op->attrs, out);
}
