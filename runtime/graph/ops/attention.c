/* Attention of queries to keys in several heads (Vaswani et al. 2017, arXiv 1706.03762), as one op: kernels
 * compute the scores of a block of queries at a time and never hold those of all. The heads stand next to the
 * features, as the projections leave them, so that nothing is transposed in memory. */
#include <math.h>
#include <string.h>

#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/ops/classes_impl.h"

enum { QUERY, KEY, VALUE, MASKS, FROM_LAST_TO_POSITIONS = 3, MASK_RANK = 4 };

static const iso_attention_attrs *attention_attrs_of(const iso_op *op)
{
    return op->attrs;
}

/* The dimension of the positions; those before it are shared by query, key and value. */
static int attention_positions(const iso_op *op)
{
    return op->inputs[QUERY]->shape.rank - FROM_LAST_TO_POSITIONS;
}

/* ---- shapes ---- */

static bool attention_shapes_fit(iso_op *op)
{
    const iso_shape *q = &op->inputs[QUERY]->shape, *k = &op->inputs[KEY]->shape,
                    *v = &op->inputs[VALUE]->shape;
    int at = q->rank - FROM_LAST_TO_POSITIONS;
    bool fits = at >= 1 && k->rank == q->rank && v->rank == q->rank && k->dim[at + 2] == q->dim[at + 2] &&
                v->dim[at] == k->dim[at];
    for (int d = 0; fits && d < at; d++)
        fits = k->dim[d] == q->dim[d] && v->dim[d] == q->dim[d];
    for (int i = QUERY; fits && i <= VALUE; i++)
        fits = op->inputs[i]->shape.dim[at + 1] == q->dim[at + 1];
    for (int d = at; fits && d < q->rank; d++)
        fits = q->dim[d] != ISO_BATCH && k->dim[d] != ISO_BATCH && v->dim[d] != ISO_BATCH;
    return fits || iso_op_refuse(op, "takes [..., t, heads, k], [..., s, heads, k] and [..., s, heads, v]");
}

/* The mask of keys and that of queries follow the values, each if there is one. */
static int attention_masks(const iso_op *op)
{
    const iso_attention_attrs *attrs = attention_attrs_of(op);
    return (attrs->has_mask ? 1 : 0) + (attrs->has_query_mask ? 1 : 0);
}

/* One number for all keys masks queries. */
static bool attention_mask_fits(iso_op *op, int input, bool of_queries)
{
    const iso_shape *q = &op->inputs[QUERY]->shape, *mask = &op->inputs[input]->shape;
    const int64_t all[] = {q->dim[0], q->dim[2], q->dim[1], of_queries ? 1 : op->inputs[KEY]->shape.dim[1]};
    bool fits = op->inputs[input]->dtype == ISO_BOOL && q->rank == MASK_RANK && mask->rank == MASK_RANK;
    for (int d = 0; fits && d < MASK_RANK; d++)
        fits = mask->dim[d] == 1 || mask->dim[d] == all[d];
    return fits ||
           iso_op_refuse(op,
                         "takes a mask [batch or 1, heads or 1, t or 1, %s] of type bool, with a query "
                         "[batch, t, heads, k]",
                         of_queries ? "1" : "s or 1");
}

static bool attention_masks_fit(iso_op *op)
{
    const iso_attention_attrs *attrs = attention_attrs_of(op);
    return (!attrs->has_mask || attention_mask_fits(op, MASKS, false)) &&
           (!attrs->has_query_mask || attention_mask_fits(op, MASKS + (attrs->has_mask ? 1 : 0), true));
}

static bool attention_inputs_fit(iso_op *op)
{
    for (int i = QUERY; i <= VALUE; i++)
        if (!iso_expect_float(op, i, -1) || !iso_expect_same_type(op, QUERY, i))
            return false;
    return attention_shapes_fit(op) && attention_masks_fit(op);
}

/* [..., t, heads, v] */
static iso_shape attention_output_shape(const iso_op *op)
{
    iso_shape shape = op->inputs[QUERY]->shape;
    shape.dim[shape.rank - 1] = op->inputs[VALUE]->shape.dim[shape.rank - 1];
    return shape;
}

static bool attention_infer(iso_op *op)
{
    if (!attention_inputs_fit(op))
        return false;
    iso_shape shape = attention_output_shape(op);
    return iso_op_set_output(op, op->inputs[QUERY]->dtype, &shape);
}

static bool attention_infer_gradient(iso_op *op)
{
    int dy = op->n_inputs - 1;
    if (!attention_inputs_fit(op) || !iso_expect_same_type(op, QUERY, dy))
        return false;
    iso_shape shape = attention_output_shape(op);
    if (!iso_shape_equal(&op->inputs[dy]->shape, &shape))
        return iso_op_refuse(op, "input %d should have the shape of the output", dy);
    for (int i = QUERY; i <= VALUE; i++)
        iso_set_output(op, i, op->inputs[i]->dtype, &op->inputs[i]->shape);
    return true;
}

/* ---- sharding: everything but the keys' positions and the features of query and key ---- */

/* Factors 0, 1, ... of [..., positions, heads, features]. */
static void run_over(int8_t *dims, int at, bool whole_positions, bool whole_features)
{
    iso_rule_run_over(dims, 0, at + FROM_LAST_TO_POSITIONS);
    if (whole_positions)
        dims[at] = ISO_WHOLE;
    if (whole_features)
        dims[at + 2] = ISO_WHOLE;
}

static bool is_gradient(const iso_op *op)
{
    return op->type != &iso_op_attention;
}

/* A mask [batch, heads, t, s]; what stands for all is whole. */
static void attention_mask_rule(const iso_op *op, int input, iso_rule *rule)
{
    const iso_shape *shape = &op->inputs[input]->shape;
    const int factor[MASK_RANK] = {0, 2, 1, ISO_WHOLE};
    for (int d = 0; d < MASK_RANK; d++)
        rule->input[input][d] = (int8_t)(shape->dim[d] == 1 ? ISO_WHOLE : factor[d]);
}

/* Positions of queries that are sharded leave the gradients of keys and values partial, and features of values
 * those of queries and keys. */
static void attention_rule_of(const iso_op *op, iso_rule *rule)
{
    int at = attention_positions(op), last = op->n_inputs - 1;
    iso_rule_clear(op, rule);
    rule->n_factors = at + FROM_LAST_TO_POSITIONS;
    rule->linear = 1u << (is_gradient(op) ? last : VALUE);
    run_over(rule->input[QUERY], at, false, true);
    run_over(rule->input[KEY], at, true, true);
    run_over(rule->input[VALUE], at, true, false);
    for (int i = 0; i < attention_masks(op); i++)
        attention_mask_rule(op, MASKS + i, rule);
    run_over(is_gradient(op) ? rule->input[last] : rule->output[0], at, false, false);
    if (is_gradient(op))
        memcpy(rule->output, rule->input, sizeof rule->output[0] * (VALUE + 1));
}

/* ---- gradient ---- */

static void attention_gradient(iso_op *op, iso_tensor *const *dy, iso_tensor **dx)
{
    iso_tensor *inputs[ISO_MAX_INPUTS];
    memcpy(inputs, op->inputs, (size_t)op->n_inputs * sizeof *inputs);
    inputs[op->n_inputs] = dy[0];
    iso_op_create_several(op->graph, &iso_op_attention_grad, inputs, op->n_inputs + 1, op->attrs, dx);
}

/* Two operations for each product and sum, and 5 for each weight, of the pairs of a query and a key that the
 * band has; the gradient has five products, forward two. */
static double attention_flops(const iso_op *op, const iso_box *inputs, const iso_box *outputs)
{
    (void)outputs;
    const iso_box *q = &inputs[QUERY], *v = &inputs[VALUE];
    int at = attention_positions(op);
    double k = (double)q->extent[at + 2], n = (double)v->extent[at + 2], groups = 1;
    double pairs = iso_band_elements(&attention_attrs_of(op)->band, q->offset[at], q->extent[at],
                                     inputs[KEY].extent[at]);
    for (int d = 0; d < at + 2; d++)
        if (d != at)
            groups *= (double)q->extent[d];
    return groups * pairs * (is_gradient(op) ? 6 * k + 4 * n + 10 : 2 * k + 2 * n + 5);
}

/* ---- with keys sharded by an axis that does not shard queries: products, a softmax and transpositions ---- */

/* Converts [..., n, heads, k] to [..., heads, n, k], or back. */
static iso_tensor *attention_swap(iso_tensor *x)
{
    int permutation[ISO_MAX_RANK], rank = x->shape.rank;
    for (int d = 0; d < rank; d++)
        permutation[d] = d;
    permutation[rank - 3] = rank - 2;
    permutation[rank - 2] = rank - 3;
    return iso_transpose(x, permutation);
}

typedef struct decomposed {
    const iso_attention_attrs *attrs;
    iso_tensor *bounded;             /* tanh(scores / cap); NULL: there is no cap */
    iso_tensor *query, *key, *value; /* [..., heads, n, features]; query: scaled */
    iso_tensor *mask;                /* of both; or NULL */
    iso_tensor *weights, *dropped;   /* [..., heads, t, s]; dropped: after dropout */
} decomposed;

static iso_tensor *where_masked(const decomposed *d, iso_tensor *x, double other)
{
    return d->mask ? iso_where(d->mask, x, iso_number(x->graph, x->dtype, other)) : x;
}

static iso_tensor *within_band(const decomposed *d, iso_tensor *x, double fill)
{
    const iso_band_attrs *band = &d->attrs->band;
    return band->causal || band->window ? iso_band_op(x, band->causal, band->window, fill) : x;
}

/* Scores with the fill, or what it adds, where they are outside the band or masked. */
static iso_tensor *filled(const decomposed *d, iso_tensor *score)
{
    const double fill = d->attrs->band.fill;
    if (!d->attrs->adds)
        return where_masked(d, within_band(d, score, fill), fill);
    iso_tensor *lower = iso_affine(score, 1, fill), *inside = within_band(d, score, 0);
    if (inside != score)
        inside = iso_add(inside, iso_subtract(lower, within_band(d, lower, 0)));
    return d->mask ? iso_where(d->mask, inside, lower) : inside;
}

/* Applies dropout to the weights after softmax. It is linear in x, and so its own gradient. */
static iso_tensor *drop(const decomposed *d, iso_tensor *x)
{
    if (d->attrs->zero_masked)
        x = where_masked(d, x, 0);
    return d->attrs->dropout.threshold ? iso_op_1(&iso_op_dropout, x, &d->attrs->dropout) : x;
}

static decomposed attention_decompose_weights(const iso_op *op, iso_tensor *const *in)
{
    decomposed d = {.attrs = op->attrs, .key = attention_swap(in[KEY]), .value = attention_swap(in[VALUE])};
    if (attention_masks(op) > 0)
        d.mask = attention_masks(op) > 1 ? iso_logical_and(in[MASKS], in[MASKS + 1]) : in[MASKS];
    d.query = iso_affine(attention_swap(in[QUERY]), d.attrs->scale, 0);
    iso_tensor *score = iso_matmul_with(d.query, d.key, false, true);
    if (d.attrs->cap != 0) {
        d.bounded = iso_tanh(iso_affine(score, 1 / d.attrs->cap, 0));
        score = iso_affine(d.bounded, d.attrs->cap, 0);
    }
    score = filled(&d, score);
    d.weights = iso_softmax_by_statistics(score, score->shape.rank - 1);
    d.dropped = drop(&d, d.weights);
    return d;
}

static void attention_decompose(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    decomposed d = attention_decompose_weights(op, in);
    out[0] = attention_swap(iso_matmul(d.dropped, d.value));
}

static void attention_decompose_gradient(const iso_op *op, iso_tensor *const *in, iso_tensor **out)
{
    decomposed d = attention_decompose_weights(op, in);
    iso_tensor *dy = attention_swap(in[op->n_inputs - 1]);
    iso_tensor *dropped = drop(&d, iso_matmul_with(dy, d.value, false, true));
    iso_tensor *score = iso_softmax_grad_by_sum(d.weights, dropped, dropped->shape.rank - 1);
    if (!d.attrs->adds)
        score = within_band(&d, where_masked(&d, score, 0), 0);
    if (d.bounded)
        score = iso_multiply(score, iso_affine(iso_multiply(d.bounded, d.bounded), -1, 1));
    out[QUERY] = attention_swap(iso_affine(iso_matmul(score, d.key), d.attrs->scale, 0));
    out[KEY] = attention_swap(iso_matmul_with(score, d.query, true, false));
    out[VALUE] = attention_swap(iso_matmul_with(d.dropped, dy, true, false));
}

const iso_op_type iso_op_attention = {
    .name = "attention",
    ISO_OP_ATTRS(attention),
    .infer = attention_infer,
    .gradient = attention_gradient,
    .rule_of = attention_rule_of,
    .flops = attention_flops,
    .repeats_work = true,
    .decompose = attention_decompose,
    .divided_by_first = true,
    .random = true,
};

const iso_op_type iso_op_attention_grad = {
    .name = "attention_grad",
    ISO_OP_ATTRS(attention),
    .infer = attention_infer_gradient,
    .n_outputs = 3,
    .rule_of = attention_rule_of,
    .flops = attention_flops,
    .repeats_work = true,
    .decompose = attention_decompose_gradient,
    .divided_by_first = true,
    .random = true,
    .no_second = true,
};

iso_tensor *iso_attention_op(iso_tensor *query, iso_tensor *key, iso_tensor *value, iso_tensor *mask,
                             const iso_attention_form *form)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_TENSORS(query, key, value);
    iso_graph *graph = query->graph;
    if (ISO_NULL_IN(graph, form) || (form->dropout != 0 && ISO_NULL_IN(graph, form->path)))
        return iso_graph_bad_tensor(graph);
    if (!(form->dropout >= 0 && form->dropout <= 1) || form->window < 0) {
        iso_graph_fail(graph, "attention: dropout is %g (from 0 to 1), the window %lld (not negative)",
                       form->dropout, (long long)form->window);
        return iso_graph_bad_tensor(graph);
    }
    if (!(form->cap >= 0) || isinf(form->cap)) {
        iso_graph_fail(graph, "attention: cap is %g; it must be positive, or 0 for none", form->cap);
        return iso_graph_bad_tensor(graph);
    }
    if (form->cap != 0 && form->adds) {
        iso_graph_fail(graph, "attention: cap is %g; it must be 0 with adds", form->cap);
        return iso_graph_bad_tensor(graph);
    }
    iso_attention_attrs attrs = {.scale = form->scale,
                                 .band = {form->masked, form->window, form->causal},
                                 .has_mask = mask != NULL,
                                 .has_query_mask = form->query_mask != NULL,
                                 .adds = form->adds,
                                 .cap = form->cap,
                                 .zero_masked = (mask || form->query_mask) && form->zero_masked};
    if (form->dropout != 0)
        attrs.dropout = iso_dropout_attrs_of(graph, form->dropout, form->path);
    iso_tensor *inputs[MASKS + 2] = {query, key, value};
    int count = MASKS;
    if (mask)
        inputs[count++] = mask;
    if (form->query_mask)
        inputs[count++] = form->query_mask;
    return iso_op_create(graph, &iso_op_attention, inputs, count, &attrs);
}
