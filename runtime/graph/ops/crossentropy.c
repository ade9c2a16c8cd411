/* Cross-entropy of each row, from logits and labels that are class numbers or distributions. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/classes_impl.h"

enum { LABELS, LOGITS, DLOSS };

static iso_shape crossentropy_rows_of(const iso_tensor *logits)
{
    iso_shape rows = logits->shape;
    rows.rank--;
    return rows;
}

static bool logits_fit(iso_op *op)
{
    const iso_tensor *logits = op->inputs[LOGITS];
    return iso_dtype_is_float(logits->dtype) && logits->shape.rank >= 1 &&
                   logits->shape.dim[logits->shape.rank - 1] >= 1
               ? true
               : iso_op_refuse(op, "logits should be floating point [..., classes]");
}

static bool inputs_fit_sparse(iso_op *op)
{
    if (!iso_expect_index(op, LABELS) || !logits_fit(op))
        return false;
    iso_shape rows = crossentropy_rows_of(op->inputs[LOGITS]);
    return iso_shape_equal(&rows, &op->inputs[LABELS]->shape) ||
           iso_op_refuse(op, "there should be one label for each row of logits");
}

static bool inputs_fit_dense(iso_op *op)
{
    return logits_fit(op) && iso_expect_same_type(op, LABELS, LOGITS) &&
           iso_expect_same_shape(op, LABELS, LOGITS);
}

static bool gives_losses(iso_op *op)
{
    iso_shape rows = crossentropy_rows_of(op->inputs[LOGITS]);
    return iso_op_set_output(op, op->inputs[LOGITS]->dtype, &rows);
}

static bool gives_gradient(iso_op *op)
{
    return iso_op_set_output(op, op->inputs[LOGITS]->dtype, &op->inputs[LOGITS]->shape);
}

static bool infer_sparse(iso_op *op)
{
    return inputs_fit_sparse(op) && gives_losses(op);
}

static bool infer_sparse_gradient(iso_op *op)
{
    return inputs_fit_sparse(op) && gives_gradient(op);
}

static bool infer_dense(iso_op *op)
{
    return inputs_fit_dense(op) && gives_losses(op);
}

static bool infer_dense_gradient(iso_op *op)
{
    return inputs_fit_dense(op) && gives_gradient(op);
}

static void sparse_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[LOGITS] =
        iso_op_3(&iso_op_sparse_crossentropy_grad, op->inputs[LABELS], op->inputs[LOGITS], dy[0], NULL);
}

/* Labels may depend on variables too (a teacher network): d loss / d t = -log_softmax(x). */
static void dense_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_shape column = dy[0]->shape;
    column.dim[column.rank++] = 1;
    dx[LOGITS] = iso_op_3(&iso_op_crossentropy_grad, op->inputs[LABELS], op->inputs[LOGITS], dy[0], NULL);
    dx[LABELS] =
        iso_multiply(iso_negate(iso_log_softmax(op->inputs[LOGITS], -1)), iso_reshape_to(dy[0], column));
}

/* Rows may be sharded, classes are whole. */
static void rule_of_tensor(const iso_tensor *tensor, int rows, int8_t *dims)
{
    iso_rule_run_over(dims, 0, rows);
    if (tensor->shape.rank > rows)
        dims[rows] = ISO_WHOLE;
}

static void crossentropy_rule_of(const iso_op *op, iso_rule *rule)
{
    int rows = op->inputs[LOGITS]->shape.rank - 1;
    *rule = (iso_rule){.n_factors = rows, .linear = op->type->linear};
    for (int i = 0; i < op->n_inputs; i++)
        rule_of_tensor(op->inputs[i], rows, rule->input[i]);
    rule_of_tensor(op->outputs[0], rows, rule->output[0]);
}

/* Maximum, difference, exponential, sum, and the same again for the labels' part. */
static double crossentropy_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 5 * iso_box_elements(&inputs[LOGITS]);
}

/* ---- over sharded classes ---- */

static void split_sparse(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    int axis = op->inputs[LOGITS]->shape.rank - 1;
    iso_class_row row = iso_class_statistics(in[LOGITS], axis);
    iso_tensor *own = iso_class_pick(in[LABELS], in[LOGITS], false);
    out[0] = iso_class_drop(iso_subtract(iso_add(iso_log(row.sum), row.max), own), axis);
}

static void split_sparse_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_class_attrs attrs = {.axis = op->inputs[LOGITS]->shape.rank - 1};
    iso_class_row row = iso_class_statistics(in[LOGITS], attrs.axis);
    iso_tensor *inputs[] = {in[LABELS], in[LOGITS], row.max, row.sum, in[DLOSS]};
    out[0] = iso_op_create(in[LOGITS]->graph, &iso_op_class_sparse_grad, inputs, 5, &attrs);
}

static void split_dense(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_class_attrs attrs = {.axis = op->inputs[LOGITS]->shape.rank - 1};
    iso_class_row row = iso_class_statistics(in[LOGITS], attrs.axis);
    iso_tensor *inputs[] = {in[LABELS], in[LOGITS], row.max, row.sum};
    iso_tensor *loss = iso_op_create(in[LOGITS]->graph, &iso_op_class_loss, inputs, 4, &attrs);
    out[0] = iso_class_drop(loss, attrs.axis);
}

static void split_dense_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    iso_class_attrs attrs = {.axis = op->inputs[LOGITS]->shape.rank - 1};
    iso_class_row row = iso_class_statistics(in[LOGITS], attrs.axis);
    iso_tensor *sum = iso_class_sum(in[LABELS], attrs.axis);
    iso_tensor *inputs[] = {in[LABELS], in[LOGITS], row.max, row.sum, sum, in[DLOSS]};
    out[0] = iso_op_create(in[LOGITS]->graph, &iso_op_class_grad, inputs, 6, &attrs);
}

const iso_op_type iso_op_sparse_crossentropy = {
    .name = "sparse_crossentropy",
    .infer = infer_sparse,
    .gradient = sparse_gradient,
    .rule_of = crossentropy_rule_of,
    .flops = crossentropy_flops,
    .decompose = split_sparse,
    .index = ISO_LABELS,
};

const iso_op_type iso_op_sparse_crossentropy_grad = {
    .name = "sparse_crossentropy_grad",
    .infer = infer_sparse_gradient,
    .rule_of = crossentropy_rule_of,
    .linear = 1 << DLOSS,
    .flops = crossentropy_flops,
    .decompose = split_sparse_gradient,
    .in_place = 1 << LOGITS,
    .no_second = true,
    .index = ISO_LABELS,
};

const iso_op_type iso_op_crossentropy = {
    .name = "crossentropy",
    .infer = infer_dense,
    .gradient = dense_gradient,
    .rule_of = crossentropy_rule_of,
    .linear = 1 << LABELS,
    .flops = crossentropy_flops,
    .decompose = split_dense,
};

const iso_op_type iso_op_crossentropy_grad = {
    .name = "crossentropy_grad",
    .infer = infer_dense_gradient,
    .rule_of = crossentropy_rule_of,
    .linear = 1 << LABELS | 1 << DLOSS,
    .flops = crossentropy_flops,
    .decompose = split_dense_gradient,
    .in_place = 1 << LOGITS,
    .no_second = true,
};

iso_tensor *iso_sparse_crossentropy_op(iso_tensor *labels, iso_tensor *logits)
{
    ISO_NEED_TENSORS(labels, logits);
    return iso_op_2(&iso_op_sparse_crossentropy, labels, logits, NULL);
}

iso_tensor *iso_crossentropy_op(iso_tensor *labels, iso_tensor *logits)
{
    ISO_NEED_TENSORS(labels, logits);
    return iso_op_2(&iso_op_crossentropy, labels, logits, NULL);
}
