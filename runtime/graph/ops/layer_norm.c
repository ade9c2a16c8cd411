/* Layer normalisation over the last dimension (Ba, Kiros and Hinton 2016, arXiv 1607.06450), and that by the root of
 * the mean square (Zhang and Sennrich 2019, arXiv 1910.07467). */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/layer_parts_impl.h"

static const iso_layer_norm_attrs *layer_norm_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static bool x_fits(iso_op *op)
{
    const iso_shape *x = &op->inputs[0]->shape;
    return iso_expect_wide(op, 0) &&
           ((x->rank > 0 && x->dim[x->rank - 1] != ISO_BATCH) ||
            iso_op_refuse(op, "input 0 should have channels as its last dimension"));
}

/* Inputs from `first` on must be vectors. */
static bool vectors_fit(iso_op *op, int first)
{
    for (int i = first; i < op->n_inputs; i++)
        if (!iso_expect_same_type(op, 0, i) || !iso_expect_channels(op, i))
            return false;
    return true;
}

static bool dy_fits(iso_op *op)
{
    return iso_expect_same_type(op, 0, 1) && iso_expect_same_shape(op, 0, 1);
}

static bool layer_norm_infer(iso_op *op)
{
    return x_fits(op) && vectors_fit(op, 1) && iso_infer_same(op);
}

static bool layer_norm_infer_gradient(iso_op *op)
{
    return x_fits(op) && dy_fits(op) && vectors_fit(op, 2) && iso_infer_same(op);
}

static bool infer_sums(iso_op *op)
{
    if (!x_fits(op) || !dy_fits(op))
        return false;
    const iso_tensor *x = op->inputs[0];
    iso_shape channels = {1, {x->shape.dim[x->shape.rank - 1]}};
    iso_set_output(op, 0, x->dtype, &channels);
    iso_set_output(op, 1, x->dtype, &channels);
    return true;
}

static void layer_norm_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_layer_norm_attrs *attrs = layer_norm_attrs_of(op);
    iso_tensor *inputs[] = {op->inputs[0], dy[0], attrs->has_gamma ? op->inputs[1] : NULL};
    dx[0] = iso_op_create(op->graph, &iso_op_layer_norm_grad, inputs, attrs->has_gamma ? 3 : 2, attrs);
    if (op->n_inputs == 1)
        return;
    iso_tensor *sums[2];
    iso_op_create_several(op->graph, &iso_op_layer_norm_grad_sums, (iso_tensor *[]){op->inputs[0], dy[0]}, 2,
                          attrs, sums);
    int next = 1;
    if (attrs->has_gamma)
        dx[next++] = sums[0];
    if (attrs->has_beta)
        dx[next] = sums[1];
}

static void whole_channels(const iso_op *op, iso_rule *rule)
{
    iso_rule_by_channel(op, true, rule);
}

/* Mean, variance and the scaling: about this many operations for each element; and the sum with the residual. */
static double layer_norm_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)outputs;
    return ((op->type == &iso_op_layer_norm ? 8 : 12) + layer_norm_attrs_of(op)->residual) *
           iso_box_elements(&inputs[0]);
}

const iso_op_type iso_op_layer_norm = {
    .name = "layer_norm",
    ISO_OP_ATTRS(layer_norm),
    .infer = layer_norm_infer,
    .gradient = layer_norm_gradient,
    .rule_of = whole_channels,
    .flops = layer_norm_flops,
    .decompose = iso_layer_split,
    .in_place = 1 << 0,
};

const iso_op_type iso_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    ISO_OP_ATTRS(layer_norm),
    .infer = layer_norm_infer_gradient,
    .rule_of = whole_channels,
    .linear = 1 << 1,
    .flops = layer_norm_flops,
    .decompose = iso_layer_split_gradient,
    .in_place = 1 << 0 | 1 << 1,
    .no_second = true,
};

const iso_op_type iso_op_layer_norm_grad_sums = {
    .name = "layer_norm_grad_sums",
    ISO_OP_ATTRS(layer_norm),
    .infer = infer_sums,
    .n_outputs = 2,
    .rule_of = whole_channels,
    .linear = 1 << 1,
    .flops = layer_norm_flops,
    .decompose = iso_layer_split_sums,
    .no_second = true,
};

static iso_tensor *make(iso_tensor *x, iso_tensor *gamma, iso_tensor *beta, iso_layer_norm_attrs attrs)
{
    iso_tensor *inputs[3] = {x};
    int count = 1;
    if (gamma)
        inputs[count++] = gamma;
    if (beta)
        inputs[count++] = beta;
    attrs.has_gamma = gamma != NULL;
    attrs.has_beta = beta != NULL;
    return iso_op_create(x->graph, &iso_op_layer_norm, inputs, count, &attrs);
}

iso_tensor *iso_layer_norm_op(iso_tensor *x, iso_tensor *gamma, iso_tensor *beta, double epsilon)
{
    if (ISO_ANY_NULL(x))
        return iso_null_tensor((iso_tensor *const[]){gamma, beta}, 2);
    return make(x, gamma, beta, (iso_layer_norm_attrs){.epsilon = epsilon});
}

iso_tensor *iso_rms_norm_op(iso_tensor *x, iso_tensor *gamma, double epsilon)
{
    if (ISO_ANY_NULL(x))
        return iso_null_tensor(&gamma, 1);
    return make(x, gamma, NULL, (iso_layer_norm_attrs){.epsilon = epsilon, .rms = true});
}
