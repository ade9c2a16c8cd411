/* Batch normalisation over all but the last dimension. Its statistics are sums, which are partial if the
 * batch is split, so they are those of the global batch.
 *
 * Ioffe and Szegedy 2015, arXiv 1502.03167. With xhat = (x - mean) rstd, y = gamma xhat + beta and mean,
 * variance those of x itself: dx = gamma rstd (dy - sum(dy) / count - xhat sum(dy xhat) / count), dgamma =
 * sum(dy xhat), dbeta = sum(dy). */
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/network_impl.h"

enum { X, MEAN, VARIANCE, GAMMA };

static const iso_batch_norm_attrs *batch_norm_attrs_of(const iso_op *op)
{
    return op->attrs;
}

static iso_shape channels_of(const iso_tensor *x)
{
    return (iso_shape){1, {x->shape.dim[x->shape.rank - 1]}};
}

/* Input i has one number per channel, of any floating type. */
static bool statistic_fits(iso_op *op, int i)
{
    return iso_expect_float(op, i, 1) && iso_expect_channels(op, i);
}

static bool x_fits(iso_op *op)
{
    const iso_shape *x = &op->inputs[X]->shape;
    return iso_expect_wide(op, X) &&
           ((x->rank > 0 && x->dim[x->rank - 1] != ISO_BATCH) ||
            iso_op_refuse(op, "input 0 should have channels as its last dimension"));
}

static void by_channel(const iso_op *op, iso_rule *rule)
{
    iso_rule_by_channel(op, false, rule);
}

/* ---- statistics ---- */

static bool infer_moments(iso_op *op)
{
    if (!x_fits(op))
        return false;
    iso_shape channels = channels_of(op->inputs[X]);
    iso_set_output(op, 0, ISO_F64, &channels);
    iso_set_output(op, 1, ISO_F64, &channels);
    return true;
}

/* d/dx of sum and of sum of squares: 1 and 2 x. */
static void moments_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *x = op->inputs[X];
    if (dy[0])
        dx[0] = iso_broadcast_to(iso_cast(dy[0], x->dtype), x->shape);
    if (dy[1]) {
        iso_tensor *square = iso_multiply(x, iso_cast(iso_affine(dy[1], 2, 0), x->dtype));
        dx[0] = dx[0] ? iso_add(dx[0], square) : square;
    }
}

static double moments_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 3 * iso_box_elements(&inputs[X]);
}

/* Vectors in, two vectors out. */
static bool infer_vectors(iso_op *op)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (!statistic_fits(op, i) || !iso_expect_same_type(op, 0, i))
            return false;
    for (int i = 0; i < op->n_outputs; i++)
        iso_set_output(op, i, ISO_F64, &op->inputs[0]->shape);
    return true;
}

static void finish_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *mean = op->outputs[0], *dmean = iso_or_zeros(dy[0], mean),
               *dvariance = iso_or_zeros(dy[1], mean);
    iso_op_create_several(op->graph, &iso_op_moments_finish_grad, (iso_tensor *[]){mean, dmean, dvariance}, 3,
                          op->attrs, dx);
}

void iso_batch_moments(iso_tensor *x, iso_tensor **mean, iso_tensor **variance)
{
    if (ISO_ANY_NULL(x) || ISO_NULL_IN(x->graph, mean, variance))
        return;
    iso_tensor *sums[2], *moments[2];
    iso_moments_attrs attrs;
    attrs.per_row = iso_shape_product(&x->shape, 0, x->shape.rank - 1, &attrs.times_rows);
    iso_op_create_several(x->graph, &iso_op_batch_moments, &x, 1, NULL, sums);
    iso_op_create_several(x->graph, &iso_op_moments_finish, sums, 2, &attrs, moments);
    *mean = moments[0];
    *variance = moments[1];
}

/* ---- normalisation ---- */

static bool batch_norm_infer(iso_op *op)
{
    if (!x_fits(op) || !statistic_fits(op, MEAN) || !statistic_fits(op, VARIANCE) ||
        !iso_expect_same_type(op, MEAN, VARIANCE))
        return false;
    for (int i = GAMMA; i < op->n_inputs; i++)
        if (!iso_expect_same_type(op, X, i) || !iso_expect_channels(op, i))
            return false;
    return iso_infer_same(op);
}

static bool infer_sums(iso_op *op)
{
    return x_fits(op) && iso_expect_same_shape(op, 0, 1) && iso_expect_same_type(op, 0, 1) &&
           infer_moments(op);
}

static bool batch_norm_infer_gradient(iso_op *op)
{
    return x_fits(op) && iso_expect_same_shape(op, 0, 1) && iso_expect_same_type(op, 0, 1) &&
           iso_infer_same(op);
}

/* The moments_finish op whose outputs are mean and variance of exactly this x, or NULL. */
static const iso_op *moments_behind(const iso_op *op)
{
    const iso_op *finish = op->inputs[MEAN]->producer;
    if (finish->type != &iso_op_moments_finish || op->inputs[MEAN] != finish->outputs[0] ||
        op->inputs[VARIANCE] != finish->outputs[1])
        return NULL;
    const iso_op *moments = finish->inputs[0]->producer;
    bool of_x = moments->type == &iso_op_batch_moments && moments->inputs[0] == op->inputs[X] &&
                finish->inputs[0] == moments->outputs[0] && finish->inputs[1] == moments->outputs[1];
    return of_x ? finish : NULL;
}

static iso_tensor *gamma_of(const iso_op *op)
{
    return batch_norm_attrs_of(op)->has_gamma ? op->inputs[GAMMA] : NULL;
}

/* dx if mean and variance are functions of x: through all three. */
static iso_tensor *gradient_with_moments(iso_op *op, const iso_op *finish, iso_tensor *dy, iso_op *sums)
{
    iso_batch_norm_attrs attrs = *batch_norm_attrs_of(op);
    attrs.moments = *(const iso_moments_attrs *)finish->attrs;
    iso_tensor *inputs[7] = {
        op->inputs[X],    dy,          op->inputs[MEAN], op->inputs[VARIANCE], sums->outputs[0],
        sums->outputs[1], gamma_of(op)};
    return iso_op_create(op->graph, &iso_op_batch_norm_grad, inputs, attrs.has_gamma ? 7 : 6, &attrs);
}

/* With given statistics, y is linear in x: dx = dy gamma rstd, dmean = -sum(dy) gamma rstd, dvariance =
 * -sum(dy xhat) gamma rstd^2 / 2. */
static void gradient_with_given(iso_op *op, iso_tensor *dy, iso_op *sums, iso_tensor **dx)
{
    iso_tensor *rstd = iso_rsqrt(iso_affine(op->inputs[VARIANCE], 1, batch_norm_attrs_of(op)->epsilon));
    iso_tensor *gamma = gamma_of(op), *slope = rstd;
    if (gamma)
        slope = iso_multiply(rstd, iso_cast(gamma, rstd->dtype));
    dx[X] = iso_multiply(dy, iso_cast(slope, dy->dtype));
    iso_tensor *sum = iso_cast(sums->outputs[0], rstd->dtype),
               *sum_xhat = iso_cast(sums->outputs[1], rstd->dtype);
    dx[MEAN] = iso_negate(iso_multiply(sum, slope));
    dx[VARIANCE] = iso_affine(iso_multiply(sum_xhat, iso_multiply(slope, rstd)), -0.5, 0);
}

static void batch_norm_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    const iso_batch_norm_attrs *attrs = batch_norm_attrs_of(op);
    iso_tensor *x = op->inputs[X];
    iso_tensor *inputs[] = {x, dy[0], op->inputs[MEAN], op->inputs[VARIANCE]};
    iso_tensor *sum = iso_op_create(op->graph, &iso_op_batch_norm_grad_sums, inputs, 4, attrs);
    if (!iso_tensor_good(sum))
        return;
    iso_op *sums = sum->producer;
    const iso_op *finish = moments_behind(op);
    if (finish)
        dx[X] = gradient_with_moments(op, finish, dy[0], sums);
    else
        gradient_with_given(op, dy[0], sums, dx);
    int next = GAMMA;
    if (attrs->has_gamma)
        dx[next++] = iso_cast(sums->outputs[1], x->dtype);
    if (attrs->has_beta)
        dx[next] = iso_cast(sums->outputs[0], x->dtype);
}

/* Operations for each element of x. */
static double batch_norm_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 4 * iso_box_elements(&inputs[X]);
}

static double gradient_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)op, (void)outputs;
    return 5 * iso_box_elements(&inputs[X]);
}

const iso_op_type iso_op_batch_moments = {
    .name = "batch_moments",
    .infer = infer_moments,
    .n_outputs = 2,
    .gradient = moments_gradient,
    .rule_of = by_channel,
    .flops = moments_flops,
};

const iso_op_type iso_op_moments_finish = {
    .name = "moments_finish",
    ISO_OP_ATTRS(moments),
    .infer = infer_vectors,
    .n_outputs = 2,
    .gradient = finish_gradient,
    .rule = "c,c->c,c",
};

const iso_op_type iso_op_moments_finish_grad = {
    .name = "moments_finish_grad",
    ISO_OP_ATTRS(moments),
    .infer = infer_vectors,
    .n_outputs = 2,
    .rule = "c,c,c->c,c",
    .linear = 1 << 1 | 1 << 2,
    .jointly = true,
    .no_second = true,
};

const iso_op_type iso_op_batch_norm = {
    .name = "batch_norm",
    ISO_OP_ATTRS(batch_norm),
    .infer = batch_norm_infer,
    .gradient = batch_norm_gradient,
    .rule_of = by_channel,
    .flops = batch_norm_flops,
    .in_place = 1 << X,
};

const iso_op_type iso_op_batch_norm_grad_sums = {
    .name = "batch_norm_grad_sums",
    ISO_OP_ATTRS(batch_norm),
    .infer = infer_sums,
    .n_outputs = 2,
    .rule_of = by_channel,
    .linear = 1 << 1,
    .flops = gradient_flops,
    .no_second = true,
};

/* Linear in dy and its sums together. */
const iso_op_type iso_op_batch_norm_grad = {
    .name = "batch_norm_grad",
    ISO_OP_ATTRS(batch_norm),
    .infer = batch_norm_infer_gradient,
    .rule_of = by_channel,
    .linear = 1 << 1 | 1 << 4 | 1 << 5,
    .jointly = true,
    .flops = gradient_flops,
    .in_place = 1 << 0 | 1 << 1,
    .no_second = true,
};

iso_tensor *iso_batch_norm_op(iso_tensor *x, iso_tensor *mean, iso_tensor *variance, iso_tensor *gamma,
                              iso_tensor *beta, double epsilon)
{
    ISO_NEED_TENSORS(x, mean, variance);
    iso_batch_norm_attrs attrs = {.epsilon = epsilon, .has_gamma = gamma != NULL, .has_beta = beta != NULL};
    iso_tensor *inputs[5] = {x, mean, variance};
    int count = GAMMA;
    if (gamma)
        inputs[count++] = gamma;
    if (beta)
        inputs[count++] = beta;
    return iso_op_create(x->graph, &iso_op_batch_norm, inputs, count, &attrs);
}
