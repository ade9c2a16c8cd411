/* Elementwise ops of one operand: mathematical functions and activations. */
#include "runtime/base/bf16.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/ops_impl.h"

/* ---- gradients, as the list names them ---- */
static void from_input(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_2(&iso_op_unary_gradient, op->inputs[0], dy[0], op->attrs);
}

/* The slope is a function of y, so that x need not be kept. */
static void from_output(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_2(&iso_op_unary_gradient, op->outputs[0], dy[0], op->attrs);
}

static void of_negate(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    (void)op;
    dx[0] = iso_negate(dy[0]);
}

/* ---- one descriptor and one function each; all of them cost about one pass over memory ---- */
static iso_tensor *unary(const iso_op_type *type, iso_tensor *x, iso_unary_kind kind, double alpha)
{
    iso_unary_attrs attrs = {kind, alpha};
    return iso_op_1(type, x, &attrs);
}

#define UNARY_WITH(NAME, KIND, GRADIENT, LINEAR)                                                             \
    const iso_op_type iso_op_##NAME = {.name = #NAME,                                                        \
                                       ISO_OP_ATTRS(unary),                                                  \
                                       .infer = iso_infer_same_float,                                        \
                                       .gradient = GRADIENT,                                                 \
                                       .rule = "...->...",                                                   \
                                       .linear = LINEAR,                                                     \
                                       .in_place = 1};
#define UNARY(NAME, KIND, GRADIENT, LINEAR)                                                                  \
    UNARY_WITH(NAME, KIND, GRADIENT, LINEAR)                                                                 \
    iso_tensor *iso_##NAME(iso_tensor *x)                                                                    \
    {                                                                                                        \
        ISO_NEED_TENSORS(x);                                                                                 \
        return unary(&iso_op_##NAME, x, ISO_UNARY_##KIND, 0);                                                \
    }
#include "runtime/graph/ops/unary.h"

iso_tensor *iso_leaky_relu(iso_tensor *x, double negative_slope)
{
    ISO_NEED_TENSORS(x);
    return unary(&iso_op_leaky_relu, x, ISO_UNARY_LEAKY_RELU, negative_slope);
}

iso_tensor *iso_clipped_relu(iso_tensor *x, double largest)
{
    ISO_NEED_TENSORS(x);
    return unary(&iso_op_clipped_relu, x, ISO_UNARY_CLIPPED_RELU, largest);
}

iso_tensor *iso_elu(iso_tensor *x, double alpha)
{
    ISO_NEED_TENSORS(x);
    return unary(&iso_op_elu, x, ISO_UNARY_ELU, alpha);
}

iso_tensor *iso_gelu(iso_tensor *x, bool approximate)
{
    ISO_NEED_TENSORS(x);
    return unary(&iso_op_gelu, x, approximate ? ISO_UNARY_GELU_APPROXIMATE : ISO_UNARY_GELU, 0);
}

/* ---- derivatives ---- */
static bool infer_unary_gradient(iso_op *op)
{
    const iso_tensor *s = op->inputs[0], *dy = op->inputs[1];
    if (s->dtype != dy->dtype || !iso_shape_equal(&s->shape, &dy->shape))
        return iso_op_refuse(op, "gradient and value differ in type or shape");
    return iso_infer_same_float(op);
}

static iso_tensor *times(iso_tensor *a, iso_tensor *b)
{
    return iso_multiply(a, b);
}

/* s' of the sigmoid s */
static iso_tensor *sigmoid_slope(iso_tensor *sigmoid)
{
    return times(sigmoid, iso_affine(sigmoid, -1, 1));
}

/* x^2 -> the density of the normal distribution */
static iso_tensor *normal_density(iso_tensor *square)
{
    return iso_affine(iso_exp(iso_affine(square, -0.5, 0)), 0.39894228040143267794, 0);
}

/* The derivative, by s, of the derivative that unary_gradient computes as a function of s. NULL: it is 0
 * almost everywhere. */
static iso_tensor *second_derivative(const iso_unary_attrs *attrs, iso_tensor *s)
{
    iso_tensor *t;
    switch (attrs->kind) {
    case ISO_UNARY_EXP:
        return iso_affine(s, 0, 1);
    case ISO_UNARY_LOG:
        return iso_negate(iso_square(iso_exp(iso_negate(iso_log(s)))));
    case ISO_UNARY_SQRT:
        return iso_divide(iso_affine(s, 0, -0.5), iso_square(s));
    case ISO_UNARY_RSQRT:
        return iso_affine(iso_square(s), -1.5, 0);
    case ISO_UNARY_SQUARE:
        return iso_affine(s, 0, 2);
    case ISO_UNARY_ELU:
        t = iso_affine(iso_exp(s), attrs->alpha, 0);
        return iso_where(iso_greater(s, iso_number(s->graph, s->dtype, 0)), iso_affine(s, 0, 0), t);
    case ISO_UNARY_SIGMOID:
        return iso_affine(s, -2, 1);
    case ISO_UNARY_TANH:
        return iso_affine(s, -2, 0);
    case ISO_UNARY_SOFTPLUS:
        return sigmoid_slope(iso_sigmoid(s));
    case ISO_UNARY_SILU: /* g (2 + x (1 - 2 g')): g the sigmoid's slope */
        t = iso_sigmoid(s);
        return times(sigmoid_slope(t), iso_affine(times(s, iso_affine(t, -2, 1)), 1, 2));
    case ISO_UNARY_GELU:
        t = iso_square(s);
        return times(normal_density(t), iso_affine(t, -1, 2));
    case ISO_UNARY_GELU_APPROXIMATE:
        iso_graph_fail(
            s->graph, "second derivatives of the approximate gelu are not available; the exact one has them");
        return NULL;
    case ISO_UNARY_NEGATE: /* piecewise linear */
    case ISO_UNARY_ABS:
    case ISO_UNARY_SIGN:
    case ISO_UNARY_RELU:
    case ISO_UNARY_CLIPPED_RELU:
    case ISO_UNARY_LEAKY_RELU:
        break;
    }
    return NULL;
}

static void unary_gradient_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_unary_attrs *attrs = op->attrs;
    iso_tensor *second = second_derivative(attrs, op->inputs[0]);
    if (second)
        dx[0] = times(times(second, op->inputs[1]), dy[0]);
    dx[1] = iso_op_2(&iso_op_unary_gradient, op->inputs[0], dy[0], attrs);
}

const iso_op_type iso_op_unary_gradient = {
    .name = "unary_gradient",
    ISO_OP_ATTRS(unary),
    .infer = infer_unary_gradient,
    .gradient = unary_gradient_backward,
    .rule = "...,...->...",
    .linear = 2,
    .in_place = 3,
};

/* ---- linear functions ---- */
static void affine_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_affine_attrs *attrs = op->attrs;
    dx[0] = iso_affine(dy[0], attrs->scale, 0);
}

static void affine_rule(const iso_op *op, iso_rule *rule)
{
    const iso_affine_attrs *attrs = op->attrs;
    iso_rule_parse(op, "...->...", rule);
    rule->linear = attrs->shift == 0;
}

const iso_op_type iso_op_affine = {
    .name = "affine",
    ISO_OP_ATTRS(affine),
    .infer = iso_infer_same_float,
    .gradient = affine_backward,
    .rule_of = affine_rule,
    .in_place = 1,
};

iso_tensor *iso_affine(iso_tensor *x, double scale, double shift)
{
    ISO_NEED_TENSORS(x);
    iso_affine_attrs attrs = {scale, shift};
    if (x->dtype == ISO_BF16) {
        attrs.scale = iso_bf16_to_float(iso_bf16_of_double(scale));
        attrs.shift = iso_bf16_to_float(iso_bf16_of_double(shift));
    }
    return iso_op_1(&iso_op_affine, x, &attrs);
}

static void scale_by_count_backward(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_scale_by_count, dy[0], op->attrs);
}

const iso_op_type iso_op_scale_by_count = {
    .name = "scale_by_count",
    ISO_OP_ATTRS(count),
    .infer = iso_infer_same_float,
    .gradient = scale_by_count_backward,
    .rule = "...->...",
    .linear = 1,
    .in_place = 1,
};

const iso_op_type iso_op_stop_gradient = {
    .name = "stop_gradient",
    .infer = iso_infer_same,
    .rule = "...->...",
    .linear = 1,
    .in_place = 1,
};

iso_tensor *iso_stop_gradient(iso_tensor *x)
{
    ISO_NEED_TENSORS(x);
    return iso_op_1(&iso_op_stop_gradient, x, NULL);
}
