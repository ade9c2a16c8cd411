/* Enlarges images by interpolation. */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

enum { N, H, W, C }; /* the factors: rows, the image's height and width, channels */

static const iso_upsample_attrs *upsample_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static bool times_fit(iso_op *op)
{
    const int64_t *times = upsample_attrs_of(op)->times;
    for (int i = 0; i < 2; i++)
        if (times[i] < 1 || times[i] > INT32_MAX)
            return iso_op_refuse(op, "%lld times as large is not possible", (long long)times[i]);
    return true;
}

static bool upsample_infer(iso_op *op)
{
    if (!iso_expect_float(op, 0, 4) || !times_fit(op))
        return false;
    const iso_shape *x = &op->inputs[0]->shape;
    const int64_t *times = upsample_attrs_of(op)->times;
    iso_shape y = {6, {x->dim[0], x->dim[1], times[0], x->dim[2], times[1], x->dim[3]}};
    return iso_op_set_output(op, op->inputs[0]->dtype, &y);
}

static bool upsample_infer_gradient(iso_op *op)
{
    if (!iso_expect_float(op, 0, 6))
        return false;
    const iso_shape *dy = &op->inputs[0]->shape;
    iso_shape dx = {4, {dy->dim[0], dy->dim[1], dy->dim[3], dy->dim[5]}};
    return iso_op_set_output(op, op->inputs[0]->dtype, &dx);
}

static void upsample_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_upsample_linear_grad, dy[0], op->attrs);
}

static void second_gradient(iso_op *op, iso_tensor *const *d, iso_tensor **dx)
{
    dx[0] = iso_op_1(&iso_op_upsample_linear, d[0], op->attrs);
}

/* Window positions are the elements of x; each reads itself and its two neighbours. */
static void begin_rule(const iso_op *op, const iso_shape *x, int8_t *x_dims, int8_t *y_dims, iso_rule *rule)
{
    static const int8_t small[] = {N, H, W, C}, large[] = {N, H, ISO_WHOLE, W, ISO_WHOLE, C};
    *rule = (iso_rule){.n_factors = 4, .linear = 1};
    for (int d = 0; d < 4; d++)
        x_dims[d] = small[d];
    for (int d = 0; d < 6; d++)
        y_dims[d] = large[d];
    for (int i = 0; i < 2; i++) {
        bool alone = upsample_attrs_of(op)->times[i] == 1;
        rule->window[H + i] = (iso_sliding_window){x->dim[1 + i], alone ? 1 : 3, 1, 1, !alone};
    }
}

enum { X_WINDOWS = 1 << 1 | 1 << 2 };

static void upsample_rule_of(const iso_op *op, iso_rule *rule)
{
    begin_rule(op, &op->inputs[0]->shape, rule->input[0], rule->output[0], rule);
    rule->input_windows[0] = X_WINDOWS;
}

static void rule_of_gradient(const iso_op *op, iso_rule *rule)
{
    begin_rule(op, &op->outputs[0]->shape, rule->output[0], rule->input[0], rule);
    rule->output_windows[0] = X_WINDOWS;
}

/* By definition four products and three sums for each element of the larger one. */
static double upsample_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    return 7 * iso_box_elements(op->type == &iso_op_upsample_linear ? &outputs[0] : &inputs[0]);
}

const iso_op_type iso_op_upsample_linear = {
    .name = "upsample_linear",
    ISO_OP_ATTRS(upsample),
    .infer = upsample_infer,
    .gradient = upsample_gradient,
    .rule_of = upsample_rule_of,
    .flops = upsample_flops,
};

const iso_op_type iso_op_upsample_linear_grad = {
    .name = "upsample_linear_grad",
    ISO_OP_ATTRS(upsample),
    .infer = upsample_infer_gradient,
    .gradient = second_gradient,
    .rule_of = rule_of_gradient,
    .flops = upsample_flops,
};

iso_tensor *iso_upsample_linear_op(iso_tensor *x, const int64_t times[2])
{
    ISO_NEED_TENSORS(x);
    if (ISO_NULL_IN(x->graph, times))
        return iso_graph_bad_tensor(x->graph);
    iso_upsample_attrs attrs = {{times[0], times[1]}};
    iso_tensor *y = iso_op_1(&iso_op_upsample_linear, x, &attrs);
    if (!iso_tensor_good(y))
        return y;
    const iso_shape *s = &x->shape;
    return iso_reshape_to(y, ISO_SHAPE(s->dim[0], s->dim[1] * times[0], s->dim[2] * times[1], s->dim[3]));
}
