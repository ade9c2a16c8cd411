/* Attention (Luong et al. 2015, arXiv 1508.04025) and AdditiveAttention (Bahdanau et al. 2014, arXiv 1409.0473),
 * as in Keras: sums of values by the softmax of the scores of queries and keys, without products with kernels. */
#include "models/layers/list.h"
#include "models/layers/masks.h"

/* Either layer while it is being built. */
typedef struct scored {
    iso_layer *layer;
    const iso_dot_attention_options *options; /* no_scale of the other one is !use_scale */
    const char *scale_layout;
    bool additive;
    iso_tensor *query, *value, *key;
    iso_tensor *mask; /* of the values, [batch, 1, s]; NULL: all count */
    int64_t t, s, features;
} scored;

enum { MASKED = -1000000000 }; /* is added to the scores of masked positions, as in Keras */

static bool check_shapes(const scored *a)
{
    char q[160], v[160], k[160];
    const iso_shape *query = iso_tensor_shape(a->query), *value = iso_tensor_shape(a->value),
                    *key = iso_tensor_shape(a->key);
    const bool fit = query->rank == 3 && value->rank == 3 && key->rank == 3 &&
                     value->dim[0] == query->dim[0] && key->dim[0] == query->dim[0] &&
                     key->dim[1] == value->dim[1] && key->dim[2] == query->dim[2];
    if (!fit)
        iso_layer_fail(a->layer,
                       "query %s, value %s and key %s do not fit together; they must be [batch, t, d], "
                       "[batch, s, v] and [batch, s, d]",
                       iso_shape_text(query, q, sizeof q), iso_shape_text(value, v, sizeof v),
                       iso_shape_text(key, k, sizeof k));
    return fit;
}

static iso_tensor *weight(const scored *a, const char *what, iso_shape shape, iso_initializer_kind kind)
{
    const iso_weight_form form = {
        .what = what, .default_value = kind, .layout = shape.rank ? a->scale_layout : NULL};
    return iso_layer_weight(a->layer, &form, shape);
}

/* [batch, n, d] -> [batch, n, 1, d] or [batch, 1, n, d] */
static iso_tensor *spread(iso_tensor *x, bool rows)
{
    const iso_shape *shape = iso_tensor_shape(x);
    const int64_t n = shape->dim[1];
    return iso_reshape_to(x, ISO_SHAPE(shape->dim[0], rows ? n : 1, rows ? 1 : n, shape->dim[2]));
}

/* The sums of tanh(scale (query + key)) over the features, or of scale tanh(query + key): [batch, t, s] */
static iso_tensor *sums_of_tanh(const scored *a, iso_tensor *inner, iso_tensor *outer)
{
    iso_tensor *x = iso_add(spread(a->query, true), spread(a->key, false)); /* [batch, t, s, d] */
    x = iso_tanh(inner ? iso_multiply(x, inner) : x);
    if (!outer)
        return iso_reduce_sum(x, (const int[]){-1}, 1, false);
    x = iso_matmul(x, iso_reshape_to(outer, ISO_SHAPE(a->features, 1)));
    return iso_reshape_to(x, ISO_SHAPE(iso_tensor_shape(a->query)->dim[0], a->t, a->s));
}

/* The queries times the scale, if there is one. */
static iso_tensor *scaled_query(const scored *a)
{
    return a->options->use_scale ? iso_multiply(a->query, weight(a, "scale", ISO_SCALAR, ISO_INIT_ONES))
                                 : a->query;
}

/* [batch, t, s] */
static iso_tensor *scores_of(const scored *a)
{
    const iso_dot_attention_options *o = a->options;
    if (a->additive) {
        const iso_shape shape = ISO_SHAPE(a->features);
        return sums_of_tanh(a, NULL,
                            o->use_scale ? weight(a, "scale", shape, ISO_INIT_GLOROT_UNIFORM) : NULL);
    }
    if (!o->concat)
        return iso_matmul_with(scaled_query(a), a->key, false, true);
    iso_tensor *scale = o->use_scale ? weight(a, "scale", ISO_SCALAR, ISO_INIT_ONES) : NULL;
    iso_tensor *factor = weight(a, "concat_score_weight", ISO_SCALAR, ISO_INIT_ONES);
    return iso_multiply(sums_of_tanh(a, scale, NULL), factor);
}

/* Which keys a query attends to, broadcast to [batch, t, s]; NULL: all. */
static iso_tensor *attended(const scored *a)
{
    if (!a->options->causal)
        return a->mask;
    const iso_shape shape = ISO_SHAPE(iso_tensor_shape(a->query)->dim[0], a->t, a->s);
    iso_tensor *one = iso_number(a->layer->graph, ISO_F32, 1);
    iso_tensor *before = iso_mask_of_values(iso_band_op(iso_broadcast_to(one, shape), true, 0, 0), 0);
    return a->mask ? iso_logical_and(before, a->mask) : before;
}

/* By scores that are stored; *weights gets what each query gives to each value. */
static iso_tensor *attend_by_scores(const scored *a, iso_tensor **weights)
{
    const double rate = a->options->dropout;
    iso_tensor *scores = scores_of(a), *mask = attended(a);
    if (!iso_tensor_good(scores))
        return scores;
    if (mask)
        scores = iso_where(mask, scores, iso_affine(scores, 1, MASKED));
    iso_tensor *shares = iso_softmax(scores, -1);
    if (rate > 0 && iso_tensor_good(shares))
        shares = iso_by_mode(iso_layer_drop(a->layer, shares, rate, iso_tensor_shape(shares)), shares);
    *weights = shares;
    return iso_matmul(shares, a->value);
}

/* The same by the op that stores no scores: [batch, t, 1, v] */
static iso_tensor *attend_by_op(const scored *a)
{
    iso_text path = {0};
    iso_tensor *query = scaled_query(a), *mask = a->mask;
    const int64_t batch = iso_tensor_shape(a->query)->dim[0];
    if (!iso_tensor_good(query))
        return query;
    if (mask)
        mask = iso_reshape_to(mask, ISO_SHAPE(batch, 1, 1, a->s));
    iso_tensor *q = spread(query, true), *k = spread(a->key, true), *v = spread(a->value, true);
    iso_attention_form form = {.scale = 1, .masked = MASKED, .causal = a->options->causal};
    form.adds = mask && iso_tensor_dtype(query) != ISO_BF16; /* where each sum would be rounded to MASKED */
    iso_tensor *y = iso_attention_op(q, k, v, mask, &form);
    if (a->options->dropout == 0)
        return y;
    iso_layer_random_path(a->layer, &path);
    form.dropout = a->options->dropout;
    form.path = iso_layer_text(a->layer, &path);
    y = iso_by_mode(iso_attention_op(q, k, v, mask, &form), y);
    iso_text_free(&path);
    return y;
}

static iso_tensor *attend(const scored *a)
{
    const iso_dot_attention_options *o = a->options;
    iso_tensor *weights = NULL;
    if (a->additive || o->concat || o->scores) {
        iso_tensor *y = attend_by_scores(a, &weights);
        if (o->scores)
            a->layer->others[a->layer->n_others++] = weights ? weights : y;
        return y;
    }
    const iso_shape *value = iso_tensor_shape(a->value);
    return iso_reshape_to(attend_by_op(a), ISO_SHAPE(value->dim[0], a->t, value->dim[2]));
}

/* The mask of an input as [batch, n, 1] or [batch, 1, n]; NULL: none. Of a list of inputs, Keras keeps no masks when
 * the model is built. */
static iso_tensor *mask_of(const iso_tensor *x, bool rows)
{
    iso_tensor *mask = iso_tensor_masks(x).run;
    if (!mask)
        return NULL;
    const int64_t batch = iso_tensor_shape(mask)->dim[0], n = iso_tensor_shape(mask)->dim[1];
    return iso_reshape_to(mask, rows ? ISO_SHAPE(batch, n, 1) : ISO_SHAPE(batch, 1, n));
}

static void note(scored *a)
{
    const iso_dot_attention_options *o = a->options;
    iso_layer_note_flag(a->layer, "use_scale", o->use_scale);
    if (!a->additive)
        iso_layer_note_text(a->layer, "score_mode", o->concat ? "concat" : "dot");
    iso_layer_note_real(a->layer, "dropout", o->dropout);
    iso_layer_note_none(a->layer, "seed");
    if (o->scores)
        iso_layer_note_call(
            a->layer,
            (iso_attribute){.kind = ISO_ATTRIBUTE_FLAG, .name = "return_attention_scores", .integer = 1});
    if (o->causal)
        iso_layer_note_call(
            a->layer, (iso_attribute){.kind = ISO_ATTRIBUTE_FLAG, .name = "use_causal_mask", .integer = 1});
}

/* Casts the inputs and finds sizes and masks. False, and an error, if they do not fit. */
static bool prepare(scored *a, iso_tensor *const *inputs)
{
    const iso_dot_attention_options *o = a->options;
    a->query = iso_layer_cast(a->layer, inputs[0]);
    a->value = iso_layer_cast(a->layer, inputs[1]);
    a->key = o->key ? iso_layer_cast(a->layer, o->key) : a->value;
    if (!(o->dropout >= 0 && o->dropout < 1)) {
        iso_layer_fail(a->layer, "dropout is %g; it must be from 0 to below 1", o->dropout);
        return false;
    }
    if (!check_shapes(a) || !iso_layer_check_mask(a->layer, inputs[0], 2) ||
        !iso_layer_check_mask(a->layer, inputs[1], 2))
        return false;
    a->t = iso_tensor_shape(a->query)->dim[1];
    a->s = iso_tensor_shape(a->value)->dim[1];
    a->features = iso_tensor_shape(a->query)->dim[2];
    a->mask = mask_of(inputs[1], false);
    return true;
}

static iso_tensor *build(const char *function, const iso_dot_attention_options *o, bool additive,
                         const char *scale_layout)
{
    iso_layer layer;
    iso_tensor *inputs[] = {o->x, o->value, o->key};
    scored a = {.layer = &layer, .options = o, .additive = additive, .scale_layout = scale_layout};
    if (!o->x ||
        !iso_layer_begin_several(&layer, inputs, o->key ? 3 : 2, additive ? "AdditiveAttention" : "Attention",
                                 additive ? "additive_attention" : "attention", o->name))
        return iso_layer_broken_in(function, o->x);
    if (!o->value)
        return iso_layer_fail(&layer, "value is NULL");
    if (!iso_tensor_good(o->value) || (o->key && !iso_tensor_good(o->key)) || !prepare(&a, inputs))
        return iso_layer_broken_in(function, o->x);
    iso_tensor *y = attend(&a), *counts = mask_of(inputs[0], true);
    if (counts && iso_tensor_good(y))
        y = iso_where(counts, y, iso_number(layer.graph, iso_tensor_dtype(y), 0));
    layer.masks = iso_tensor_masks(inputs[0]);
    note(&a);
    y = iso_layer_end(&layer, y);
    if (o->scores)
        *o->scores = layer.n_others ? layer.others[0] : y;
    return y;
}

iso_tensor *iso_dot_attention_with(const iso_dot_attention_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dot_attention_options, options, given, size);
    return build(__func__, &options, false, NULL);
}

iso_tensor *iso_additive_attention_with(const iso_additive_attention_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_additive_attention_options, options, given, size);
    const iso_dot_attention_options same = {.x = options.x,
                                            .value = options.value,
                                            .key = options.key,
                                            .use_scale = !options.no_scale,
                                            .dropout = options.dropout,
                                            .causal = options.causal,
                                            .scores = options.scores,
                                            .name = options.name};
    return build(__func__, &same, true, options.scale_layout);
}

/* ---- from data ---- */

static bool find_inputs(const iso_layer_config *config, int count)
{
    if (count != 2 && count != 3)
        iso_config_refuse(config, "inputs", "query, value and optionally key");
    return count == 2 || count == 3;
}

static iso_tensor *attention_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    static const char *const modes[] = {"dot", "concat", NULL};
    iso_tensor *scores;
    if (!find_inputs(config, count))
        return x[0];
    return iso_dot_attention(x[0], x[1], .key = count > 2 ? x[2] : NULL, .name = config->name,
                             .use_scale = iso_config_flag(config, "use_scale", false),
                             .concat = iso_config_choice(config, "score_mode", modes) == 1,
                             .dropout = iso_config_number(config, "dropout", 0),
                             .causal = iso_config_flag(config, "use_causal_mask", false),
                             .scores =
                                 iso_config_flag(config, "return_attention_scores", false) ? &scores : NULL);
}

static iso_tensor *additive_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_tensor *scores;
    if (!find_inputs(config, count))
        return x[0];
    return iso_additive_attention(
        x[0], x[1], .key = count > 2 ? x[2] : NULL, .name = config->name,
        .no_scale = !iso_config_flag(config, "use_scale", true),
        .dropout = iso_config_number(config, "dropout", 0),
        .causal = iso_config_flag(config, "use_causal_mask", false),
        .scores = iso_config_flag(config, "return_attention_scores", false) ? &scores : NULL);
}

const iso_layer_type iso_layer_dot_attention = {
    .keras = "Attention", .build = attention_build, .several = true, .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_additive_attention = {
    .keras = "AdditiveAttention", .build = additive_build, .several = true, .masks = ISO_MASKS_MADE};
