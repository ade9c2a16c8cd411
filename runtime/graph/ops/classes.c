/* The decompositions of softmax, cross-entropy, argmax and top-k for sharded classes: the work of each
 * slot on its part of the classes, with results that are summed or maximised over slots. Slots exchange
 * only a row's maximum and the sum of its exponentials, so logits are never gathered (the "parallel
 * cross-entropy" of Shoeybi et al. 2019, arXiv 1909.08053, as ops that the partitioner knows). */
#include "runtime/graph/ops/classes_impl.h"

static int axis_of(const iso_op *op)
{
    return ((const iso_class_attrs *)op->attrs)->axis;
}

static iso_shape row_of(const iso_op *op, int x)
{
    iso_shape row = op->inputs[x]->shape;
    row.dim[axis_of(op)] = 1;
    return row;
}

/* ---- rules: every dimension of x has a factor; rows hold that of the classes whole, labels do not have
 * it ---- */

enum { AS_X, ROW, LABELS };

static void rule_dims(int rank, int axis, int form, int8_t *dims)
{
    iso_rule_run_over(dims, 0, form == LABELS ? rank - 1 : rank);
    if (form == ROW)
        dims[axis] = ISO_WHOLE;
}

/* forms: of the inputs in order, then of the output */
static void rule_by(const iso_op *op, iso_rule *rule, const int8_t *forms)
{
    int rank = op->outputs[0]->shape.rank, axis = axis_of(op);
    iso_rule_clear(op, rule);
    rule->n_factors = rank;
    rule->linear = op->type->linear;
    rule->contract_max = op->type->contract_max;
    for (int i = 0; i < op->n_inputs; i++)
        rule_dims(rank, axis, forms[i], rule->input[i]);
    rule_dims(rank, axis, forms[op->n_inputs], rule->output[0]);
}

static void rule_of_reduction(const iso_op *op, iso_rule *rule)
{
    rule_by(op, rule, op->n_inputs == 1 ? (const int8_t[]){AS_X, ROW} : (const int8_t[]){AS_X, ROW, ROW});
}

static void rule_of_pick(const iso_op *op, iso_rule *rule)
{
    rule_by(op, rule, (const int8_t[]){LABELS, AS_X, ROW});
}

static void rule_of_softmax(const iso_op *op, iso_rule *rule)
{
    rule_by(op, rule, (const int8_t[]){AS_X, ROW, ROW, AS_X});
}

static void rule_of_loss(const iso_op *op, iso_rule *rule)
{
    rule_by(op, rule, (const int8_t[]){AS_X, AS_X, ROW, ROW, ROW});
}

static void rule_of_grad(const iso_op *op, iso_rule *rule)
{
    rule_by(op, rule, (const int8_t[]){AS_X, AS_X, ROW, ROW, ROW, LABELS, AS_X});
}

static void rule_of_sparse_grad(const iso_op *op, iso_rule *rule)
{
    rule_by(op, rule, (const int8_t[]){LABELS, AS_X, ROW, ROW, LABELS, AS_X});
}

/* ---- shapes: the builders below pass inputs that fit ---- */

static bool gives_row(iso_op *op, int x, iso_dtype dtype)
{
    iso_shape row = row_of(op, x);
    return iso_op_set_output(op, dtype, &row);
}

static bool infer_max(iso_op *op)
{
    return gives_row(op, 0, op->inputs[0]->dtype);
}

static bool infer_first(iso_op *op)
{
    return gives_row(op, 0, ISO_I32);
}

static bool infer_above(iso_op *op)
{
    return iso_expect_float(op, 0, -1) && gives_row(op, 0, ISO_F64);
}

static bool infer_sum_exp(iso_op *op)
{
    return iso_expect_float(op, 0, -1) && iso_expect_same_type(op, 0, 1) &&
           gives_row(op, 0, op->inputs[0]->dtype);
}

static bool infer_pick(iso_op *op)
{
    return iso_expect_index(op, 0) && iso_expect_float(op, 1, op->inputs[0]->shape.rank + 1) &&
           gives_row(op, 1, op->inputs[1]->dtype);
}

static bool infer_loss(iso_op *op)
{
    return iso_expect_same_shape(op, 0, 1) && iso_expect_same_type(op, 0, 1) &&
           gives_row(op, 1, op->inputs[1]->dtype);
}

static bool classes_infer_gradient(iso_op *op)
{
    return iso_expect_float(op, 1, -1) && iso_op_set_output(op, op->inputs[1]->dtype, &op->inputs[1]->shape);
}

/* ---- operations for each element of x ---- */

static double three_for_each(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 3 * iso_box_elements(&inputs[0]);
}

static double four_for_each(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 4 * iso_box_elements(&inputs[1]);
}

/* One for each row whose label is in the part: on average, the part's share of the rows. */
static double one_for_each_label(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    double classes = (double)op->inputs[1]->shape.dim[axis_of(op)];
    return iso_box_elements(&outputs[0]) * (double)inputs[1].extent[axis_of(op)] / classes;
}

#define CLASS_OP(NAME, INFER, RULE, FLOPS, ...)                                                              \
    const iso_op_type iso_op_##NAME = {.name = #NAME,                                                        \
                                       ISO_OP_ATTRS(class),                                                  \
                                       .shared = true,                                                       \
                                       .infer = INFER,                                                       \
                                       .rule_of = RULE,                                                      \
                                       .flops = FLOPS,                                                       \
                                       __VA_ARGS__};

CLASS_OP(class_max, infer_max, rule_of_reduction, iso_one_flop_per_element, .contract_max = true)
CLASS_OP(class_first, infer_first, rule_of_reduction, iso_one_flop_per_element, .contract_max = true)
CLASS_OP(class_above, infer_above, rule_of_reduction, iso_one_flop_per_element, )
CLASS_OP(class_sum_exp, infer_sum_exp, rule_of_reduction, three_for_each, )
CLASS_OP(class_pick, infer_pick, rule_of_pick, one_for_each_label, .linear = 1 << 1, .index = ISO_LABELS)
CLASS_OP(class_softmax, iso_infer_same_float, rule_of_softmax, three_for_each, .in_place = 1 << 0)
CLASS_OP(class_log_softmax, iso_infer_same_float, rule_of_softmax, three_for_each, .in_place = 1 << 0)
CLASS_OP(class_loss, infer_loss, rule_of_loss, four_for_each, .linear = 1 << 0)
CLASS_OP(class_grad, classes_infer_gradient, rule_of_grad, four_for_each, .linear = 1 << 5,
         .in_place = 1 << 1)
CLASS_OP(class_sparse_grad, classes_infer_gradient, rule_of_sparse_grad, four_for_each, .linear = 1 << 4,
         .in_place = 1 << 1, .index = ISO_LABELS)

/* ---- builders ---- */

iso_class_row iso_class_statistics(iso_tensor *x, int axis)
{
    iso_class_attrs attrs = {.axis = axis};
    iso_class_row row = {.max = iso_op_1(&iso_op_class_max, x, &attrs)};
    row.sum = iso_op_2(&iso_op_class_sum_exp, x, row.max, &attrs);
    return row;
}

iso_tensor *iso_class_sum(iso_tensor *x, int axis)
{
    return iso_reduce_sum(x, &axis, 1, true);
}

iso_tensor *iso_class_pick(iso_tensor *labels, iso_tensor *x, bool lenient)
{
    iso_class_attrs attrs = {.axis = x->shape.rank - 1, .lenient = lenient};
    return iso_op_2(&iso_op_class_pick, labels, x, &attrs);
}

iso_tensor *iso_class_drop(iso_tensor *row, int axis)
{
    iso_shape shape = {0};
    for (int d = 0; d < row->shape.rank; d++)
        if (d != axis)
            shape.dim[shape.rank++] = row->shape.dim[d];
    return iso_reshape_to(row, shape);
}
