/* Matrix products. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

/* The roles of an operand's dimensions: rows or columns of the product, or k. Leading dimensions precede
 * both. */
typedef struct roles {
    int m, k_a, k_b, n; /* m: -1 if a is a vector */
    int lead_a, lead_b; /* number of leading dimensions */
} roles;

static roles roles_of(const iso_op *op)
{
    const iso_matmul_attrs *attrs = op->attrs;
    int a = op->inputs[0]->shape.rank, b = op->inputs[1]->shape.rank;
    if (attrs->contract)
        return (roles){.lead_a = a - 1, .lead_b = b - 1, .m = a - 1, .n = b - 1};
    roles r = {.lead_a = a > 2 ? a - 2 : 0, .lead_b = b - 2};
    r.k_a = attrs->transpose_a ? a - 2 : a - 1;
    r.m = attrs->transpose_a ? a - 1 : a - 2;
    r.k_b = attrs->transpose_b ? b - 1 : b - 2;
    r.n = attrs->transpose_b ? b - 2 : b - 1;
    return r;
}

/* For messages: "batch" or the number. */
static const char *dim_text(int64_t dim, char text[24])
{
    if (dim == ISO_BATCH)
        return "batch";
    snprintf(text, 24, "%" PRId64, dim);
    return text;
}

static bool infer_contraction(iso_op *op)
{
    char of_a[24], of_b[24];
    const iso_shape *a = &op->inputs[0]->shape, *b = &op->inputs[1]->shape;
    if (a->rank < 2 || a->rank != b->rank)
        return iso_op_refuse(op, "a contraction takes [..., k] and [..., n]");
    for (int i = 0; i + 1 < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return iso_op_refuse(op, "dimensions %d differ: %s and %s", i, dim_text(a->dim[i], of_a),
                                 dim_text(b->dim[i], of_b));
    iso_shape shape = {2, {a->dim[a->rank - 1], b->dim[b->rank - 1]}};
    return iso_op_set_output(op, op->inputs[0]->dtype, &shape);
}

static bool infer_matmul(iso_op *op)
{
    const iso_matmul_attrs *attrs = op->attrs;
    const iso_shape *a = &op->inputs[0]->shape, *b = &op->inputs[1]->shape;
    char of_a[24], of_b[24];
    if (!iso_dtype_is_float(op->inputs[0]->dtype) || op->inputs[0]->dtype != op->inputs[1]->dtype)
        return iso_op_refuse(op, "takes two operands of float32 or two of float64");
    if (attrs->contract)
        return infer_contraction(op);
    if (a->rank < 1 || b->rank < 2 || (b->rank > 2 && a->rank != b->rank) ||
        (attrs->transpose_a && a->rank != b->rank))
        return iso_op_refuse(op, "takes [..., k] and [k, n], or [..., m, k] and [..., k, n]");
    roles r = roles_of(op);
    if (a->dim[r.k_a] != b->dim[r.k_b])
        return iso_op_refuse(op, "the inner dimensions differ: %s and %s", dim_text(a->dim[r.k_a], of_a),
                             dim_text(b->dim[r.k_b], of_b));
    for (int i = 0; i < r.lead_b; i++)
        if (a->dim[i] != b->dim[i])
            return iso_op_refuse(op, "dimensions %d differ: %s and %s", i, dim_text(a->dim[i], of_a),
                                 dim_text(b->dim[i], of_b));
    iso_shape shape = *a;
    if (r.m >= 0)
        shape.dim[a->rank - 2] = a->dim[r.m];
    shape.dim[a->rank - 1] = b->dim[r.n];
    return iso_op_set_output(op, op->inputs[0]->dtype, &shape);
}

/* Every leading dimension, m, n and k is a factor; k, or for a contraction the leading ones, is contracted.
 */
static void matmul_rule(const iso_op *op, iso_rule *rule)
{
    const iso_matmul_attrs *attrs = op->attrs;
    roles r = roles_of(op);
    int rank = op->outputs[0]->shape.rank;
    iso_rule_clear(op, rule);
    rule->linear = 3;
    for (int i = 0; i < r.lead_a; i++) {
        rule->input[0][i] = iso_rule_factor(rule);
        if (i < r.lead_b)
            rule->input[1][i] = rule->input[0][i];
        if (!attrs->contract)
            rule->output[0][i] = rule->input[0][i];
    }
    if (r.m >= 0)
        rule->output[0][rank - 2] = rule->input[0][r.m] = iso_rule_factor(rule);
    rule->output[0][rank - 1] = rule->input[1][r.n] = iso_rule_factor(rule);
    if (!attrs->contract)
        rule->input[0][r.k_a] = rule->input[1][r.k_b] = iso_rule_factor(rule);
}

static iso_tensor *matmul(iso_tensor *a, iso_tensor *b, bool transpose_a, bool transpose_b, bool contract)
{
    iso_matmul_attrs attrs = {transpose_a, transpose_b, contract};
    return iso_op_2(&iso_op_matmul, a, b, &attrs);
}

/* The gradient of a weight [k, n] shared by all leading dimensions of x and dy. */
static iso_tensor *weight_gradient(iso_tensor *x, iso_tensor *dy)
{
    if (x->shape.rank == 2)
        return matmul(x, dy, true, false, false);
    if (x->shape.rank == 1) { /* one row */
        x = iso_reshape_to(x, ISO_SHAPE(1, x->shape.dim[0]));
        return matmul(x, iso_reshape_to(dy, ISO_SHAPE(1, dy->shape.dim[0])), true, false, false);
    }
    return matmul(x, dy, false, false, true);
}

static void matmul_backward(iso_op *op, iso_tensor *const *grad, iso_tensor **dx)
{
    const iso_matmul_attrs *attrs = op->attrs;
    iso_tensor *a = op->inputs[0], *b = op->inputs[1], *dy = grad[0];
    bool ta = attrs->transpose_a, tb = attrs->transpose_b;
    if (attrs->contract) { /* y = a' b over the leading dimensions */
        dx[0] = matmul(b, dy, false, true, false);
        dx[1] = matmul(a, dy, false, false, false);
        return;
    }
    dx[0] = ta ? matmul(b, dy, tb, true, false) : matmul(dy, b, false, !tb, false);
    if (a->shape.rank != b->shape.rank)
        dx[1] = tb ? weight_gradient(dy, a) : weight_gradient(a, dy);
    else
        dx[1] = tb ? matmul(dy, a, true, ta, false) : matmul(a, dy, !ta, false, false);
}

static double matmul_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    const iso_matmul_attrs *attrs = op->attrs;
    double inner = 1;
    roles r = roles_of(op);
    if (!attrs->contract)
        inner = (double)inputs[0].extent[r.k_a];
    for (int i = 0; attrs->contract && i < r.lead_a; i++)
        inner *= (double)inputs[0].extent[i];
    return 2 * inner * iso_box_elements(&outputs[0]);
}

const iso_op_type iso_op_matmul = {
    .name = "matmul",
    ISO_OP_ATTRS(matmul),
    .infer = infer_matmul,
    .gradient = matmul_backward,
    .rule_of = matmul_rule,
    .flops = matmul_flops,
};

iso_tensor *iso_matmul(iso_tensor *a, iso_tensor *b)
{
    ISO_NEED_TENSORS(a, b);
    return matmul(a, b, false, false, false);
}

iso_tensor *iso_matmul_with(iso_tensor *a, iso_tensor *b, bool transpose_a, bool transpose_b)
{
    ISO_NEED_TENSORS(a, b);
    return matmul(a, b, transpose_a, transpose_b, false);
}
