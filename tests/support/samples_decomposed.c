/* Samples of the ops that replace ops over sharded classes and channels. Rows of statistics are computed by such ops.
 */
#include "runtime/graph/ops/classes_impl.h"
#include "runtime/graph/ops/layer_parts_impl.h"
#include "tests/support/samples.h"

#define SAMPLE(NAME) static void NAME(sample_graph *s)

static iso_tensor *logits(sample_graph *s)
{
    return sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 7));
}

/* with labels of which each row has one */
static iso_tensor *numbers(sample_graph *s)
{
    return sample_leaf(s, ISO_I32, 0, 6, ISO_SHAPE(ISO_BATCH, 2));
}

static iso_tensor *largest(iso_tensor *x, int axis)
{
    return iso_op_1(&iso_op_class_max, x, &(iso_class_attrs){.axis = axis});
}

SAMPLE(max_last)
{
    largest(logits(s), 2);
}
SAMPLE(max_middle)
{
    largest(sample_leaf(s, ISO_I64, -50, 50, ISO_SHAPE(ISO_BATCH, 6, 3)), 1);
}

static void find_first(iso_tensor *x, int axis)
{
    iso_op_2(&iso_op_class_first, x, largest(x, axis), &(iso_class_attrs){.axis = axis});
}

/* few values: many are equal */
SAMPLE(first_integers)
{
    find_first(sample_leaf(s, ISO_I32, 0, 2, ISO_SHAPE(ISO_BATCH, 9)), 1);
}
SAMPLE(first_middle)
{
    find_first(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 5, 3)), 1);
}
SAMPLE(above)
{
    iso_tensor *x = logits(s), *own = iso_class_pick(numbers(s), x, true);
    iso_op_2(&iso_op_class_above, x, own, &(iso_class_attrs){.axis = 2});
}
SAMPLE(pick)
{
    iso_class_pick(numbers(s), logits(s), false);
}
/* labels as real numbers that are whole */
SAMPLE(pick_real)
{
    iso_class_pick(iso_cast(numbers(s), ISO_F64), logits(s), true);
}
SAMPLE(sum_exp)
{
    iso_class_statistics(logits(s), 2);
}
SAMPLE(sum_exp_middle)
{
    iso_class_statistics(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 5, 3)), 1);
}

static void normalise(sample_graph *s, const iso_op_type *type, int axis)
{
    iso_tensor *x = logits(s);
    iso_class_row row = iso_class_statistics(x, axis);
    iso_op_3(type, x, row.max, row.sum, &(iso_class_attrs){.axis = axis});
}

SAMPLE(softmax)
{
    normalise(s, &iso_op_class_softmax, 2);
}
SAMPLE(softmax_middle)
{
    normalise(s, &iso_op_class_softmax, 1);
}
SAMPLE(log_softmax)
{
    normalise(s, &iso_op_class_log_softmax, 2);
}

/* labels or targets, logits, their statistics, with `sum` that of the targets, with `gradient` that of the
 * loss */
static void from_logits(sample_graph *s, const iso_op_type *type, iso_tensor *labels, bool sum, bool gradient)
{
    iso_tensor *inputs[6] = {labels, logits(s)};
    iso_class_row row = iso_class_statistics(inputs[1], 2);
    int n = 2;
    inputs[n++] = row.max;
    inputs[n++] = row.sum;
    if (sum)
        inputs[n++] = iso_class_sum(labels, 2);
    if (gradient)
        inputs[n++] = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, 2));
    iso_op_create(s->graph, type, inputs, n, &(iso_class_attrs){.axis = 2});
}

static iso_tensor *targets(sample_graph *s)
{
    return sample_leaf(s, ISO_F32, 0, 1, ISO_SHAPE(ISO_BATCH, 2, 7));
}

SAMPLE(loss)
{
    from_logits(s, &iso_op_class_loss, targets(s), false, false);
}
SAMPLE(gradient)
{
    from_logits(s, &iso_op_class_grad, targets(s), true, true);
}
SAMPLE(sparse_gradient)
{
    from_logits(s, &iso_op_class_sparse_grad, numbers(s), false, true);
}

/* The shards of layer normalisation; `inputs`: x, dy, gamma, beta as far as the op has them. */
typedef void splitter(const iso_op *op, iso_tensor *const *in, iso_tensor **out);

static void split_norm(sample_graph *s, splitter *split, bool backward, bool scaled, bool rms)
{
    iso_layer_norm_attrs attrs = {
        .epsilon = 1e-3, .has_gamma = scaled, .has_beta = scaled && !backward && !rms, .rms = rms};
    iso_tensor *in[4], *out[2];
    int n = 0;
    in[n++] = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 7));
    if (backward)
        in[n++] = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, 2, 7));
    for (int v = 0; v < attrs.has_gamma + attrs.has_beta; v++)
        in[n++] = sample_leaf(s, ISO_F32, 0.5, 2, ISO_SHAPE(7));
    split(&(iso_op){.n_inputs = n, .attrs = &attrs}, in, out);
}

static void split_layer(sample_graph *s, splitter *split, bool backward, bool scaled)
{
    split_norm(s, split, backward, scaled, false);
}

SAMPLE(layer)
{
    split_layer(s, iso_layer_split, false, true);
}
SAMPLE(layer_plain)
{
    split_layer(s, iso_layer_split, false, false);
}
SAMPLE(layer_back)
{
    split_layer(s, iso_layer_split_gradient, true, true);
}
SAMPLE(layer_back_plain)
{
    split_layer(s, iso_layer_split_gradient, true, false);
}
SAMPLE(rms)
{
    split_norm(s, iso_layer_split, false, true, true);
}
SAMPLE(rms_back)
{
    split_norm(s, iso_layer_split_gradient, true, true, true);
}
SAMPLE(layer_weights)
{
    split_layer(s, iso_layer_split_sums, true, false);
}

const sample decomposed_samples[] = {
    {"layer_moments", layer},
    {"layer_scale", layer},
    {"layer_scale", layer_plain},
    {"layer_scale", rms},
    {"layer_grad_sums", rms_back},
    {"layer_grad", rms_back},
    {"layer_grad_sums", layer_back},
    {"layer_grad_sums", layer_back_plain},
    {"layer_grad", layer_back},
    {"layer_grad", layer_back_plain},
    {"layer_weight_sums", layer_weights},
    {"class_max", max_last},
    {"class_max", max_middle},
    {"class_first", first_integers},
    {"class_first", first_middle},
    {"class_above", above},
    {"class_pick", pick},
    {"class_pick", pick_real},
    {"class_sum_exp", sum_exp},
    {"class_sum_exp", sum_exp_middle},
    {"class_softmax", softmax},
    {"class_softmax", softmax_middle},
    {"class_log_softmax", log_softmax},
    {"class_loss", loss},
    {"class_grad", gradient},
    {"class_sparse_grad", sparse_gradient},
    {NULL, NULL},
};
