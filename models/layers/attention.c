/* MultiHeadAttention (Vaswani et al. 2017, arXiv 1706.03762) and GroupQueryAttention (Ainslie et al. 2023, arXiv
 * 2305.13245), as in Keras: products with a kernel for each of
 * query, key and value; softmax of their products in each head; a product that joins the heads. Heads are
 * independent: a mesh axis that shards them needs one sum, after the last product. */
#include <float.h>
#include <math.h>

#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "runtime/base/thread_modes.h"

typedef struct attention attention;

/* MultiHeadAttention or GroupQueryAttention. */
typedef struct attention_kind {
    const char *type, *base; /* Keras's class, and the base of automatic names */
    const char *function;    /* the public one, for messages */
    const char *heads, *key_dim;
    bool grouped;
} attention_kind;

/* The dimensions of x: [batch, lead..., attended..., features], the attended ones being the last but one. */
struct attention {
    const attention_kind *kind;
    iso_layer *layer;
    const iso_multi_head_attention_options *options;
    int lead;     /* number of dimensions before the attended ones, including the batch */
    int attended; /* number of attended dimensions */
    int64_t heads, key_dim, value_dim;
    int64_t kv_heads; /* of keys and values: a divisor of heads */
    const char *path; /* of dropout's random numbers */
};

static bool is_positive(const iso_layer *layer, const char *what, int64_t value)
{
    bool good = value > 0 && value <= INT32_MAX;
    if (!good)
        iso_layer_fail(layer, "%s is %lld, it must be positive, and below 2^31", what, (long long)value);
    return good;
}

static double scaling_factor(const attention *a)
{
    return iso_option_number(a->options->rope_scaling_factor, 1);
}

static double qk_norm_epsilon(const attention *a)
{
    return iso_option_number(a->options->qk_norm_epsilon, 1e-6);
}

/* Of cosines and sines. */
static double attention_factor(const attention *a)
{
    return a->options->rope_max_wavelength != 0 ? iso_option_number(a->options->rope_attention_factor, 1) : 1;
}

static double score_scale(const attention *a)
{
    return iso_option_number(a->options->score_scale, 1 / sqrt((double)a->key_dim));
}

static bool is_factor(double number)
{
    return number > 0 && !isinf(number);
}

/* The features of a head that rotary positions turn. */
static int64_t rotary_features(const attention *a)
{
    return a->options->rope_features ? a->options->rope_features : a->key_dim;
}

static bool rotary_fits(const attention *a)
{
    double wavelength = a->options->rope_max_wavelength, scaling = scaling_factor(a);
    bool numbers = is_factor(wavelength) && is_factor(scaling);
    if (!numbers)
        iso_layer_fail(a->layer,
                       "rope_max_wavelength is %g, rope_scaling_factor %g: both must be positive "
                       "(rope_max_wavelength 0: no rotary positions)",
                       wavelength, scaling);
    else if (!is_factor(attention_factor(a)))
        return iso_layer_fail(a->layer, "rope_attention_factor is %g, it must be positive",
                              attention_factor(a)),
               false;
    else if (rotary_features(a) < 0 || rotary_features(a) > a->key_dim)
        return iso_layer_fail(a->layer, "rope_features is %lld, it must be from 0, for all, to %s, %lld",
                              (long long)rotary_features(a), a->kind->key_dim, (long long)a->key_dim),
               false;
    else if (rotary_features(a) % 2 != 0)
        iso_layer_fail(a->layer, "%s is %lld, it must be even with rope_max_wavelength",
                       a->options->rope_features ? "rope_features" : a->kind->key_dim,
                       (long long)rotary_features(a));
    return numbers && rotary_features(a) % 2 == 0;
}

/* The numbers among the options. */
static bool check_numbers(const attention *a)
{
    const iso_multi_head_attention_options *o = a->options;
    if (!is_positive(a->layer, a->kind->heads, a->heads) ||
        !is_positive(a->layer, "num_key_value_heads", a->kv_heads) ||
        !is_positive(a->layer, a->kind->key_dim, a->key_dim) ||
        !is_positive(a->layer, "value_dim", a->value_dim))
        return false;
    if (a->heads % a->kv_heads != 0)
        return iso_layer_fail(a->layer,
                              "num_query_heads is %lld, it must be a multiple of num_key_value_heads, %lld",
                              (long long)a->heads, (long long)a->kv_heads),
               false;
    for (int i = 0; i < o->output_shape.rank; i++)
        if (!is_positive(a->layer, "a dimension of output_shape", o->output_shape.dim[i]))
            return false;
    if (!(o->dropout >= 0 && o->dropout < 1))
        iso_layer_fail(a->layer, "dropout is %g; it must be from 0 to below 1", o->dropout);
    else if (o->sliding_window < 0)
        iso_layer_fail(a->layer, "sliding_window is %lld; it must not be negative (0: none)",
                       (long long)o->sliding_window);
    else if (o->rope_max_wavelength != 0 && !rotary_fits(a))
        return false;
    else if (o->rope_max_wavelength == 0 && o->rope_features != 0)
        iso_layer_fail(a->layer, "rope_features needs rope_max_wavelength");
    else if (o->qk_norm && !(qk_norm_epsilon(a) > 0))
        iso_layer_fail(a->layer, "qk_norm_epsilon is %g, it must be positive", qk_norm_epsilon(a));
    else if (!o->qk_norm && (o->qk_norm_zero_centered || o->qk_norm_whole))
        iso_layer_fail(a->layer, "%s needs qk_norm",
                       o->qk_norm_whole ? "qk_norm_whole" : "qk_norm_zero_centered");
    else if (!is_factor(score_scale(a)))
        iso_layer_fail(a->layer, "score_scale is %g, it must be positive", score_scale(a));
    else if (o->score_cap != 0 && !is_factor(o->score_cap))
        iso_layer_fail(a->layer, "score_cap is %g, it must be positive (0: none)", o->score_cap);
    else if (o->output_shape.rank < 0)
        iso_layer_fail(a->layer, "output_shape has %d dimensions", o->output_shape.rank);
    else
        return true;
    return false;
}

/* Finds the dimensions that are attended to: all between batch and features, or the last of them. */
static bool find_axes(attention *a, const iso_shape *x)
{
    int count = a->options->attention_axis_count;
    a->attended = count ? count : x->rank - 2;
    a->lead = x->rank - 1 - a->attended;
    bool fits = x->rank >= 3 && count >= 0 && a->attended >= 1 && a->lead >= 1;
    for (int i = 0; fits && i < count; i++) {
        int axis = a->options->attention_axes[i];
        fits = (axis < 0 ? axis + x->rank : axis) == a->lead + i;
    }
    if (!fits)
        iso_layer_fail(a->layer,
                       "attention_axes must be the last dimensions before the features, in order; its "
                       "query has %d dimensions with batch and features",
                       x->rank);
    return fits;
}

/* value and key must have the query's rank and lead dimensions, and the same shape except for the features. */
static bool check_shapes(const attention *a, const iso_shape *query, const iso_shape *value,
                         const iso_shape *key)
{
    char q[160], v[160], k[160];
    bool fits = value->rank == query->rank && key->rank == query->rank &&
                query->rank + a->options->output_shape.rank < ISO_MAX_RANK;
    for (int d = 0; fits && d < query->rank - 1; d++)
        fits = value->dim[d] == key->dim[d] && (d >= a->lead || value->dim[d] == query->dim[d]);
    if (!fits)
        iso_layer_fail(a->layer, "query %s, value %s and key %s do not fit together",
                       iso_shape_text(query, q, sizeof q), iso_shape_text(value, v, sizeof v),
                       iso_shape_text(key, k, sizeof k));
    return fits;
}

/* ---- weights ---- */

/* The form of the kernel or bias of one of the products. */
static iso_weight_form weight_form(const attention *a, const char *what, bool bias, const char *layout)
{
    const iso_multi_head_attention_options *o = a->options;
    return (iso_weight_form){.what = what,
                             .initializer = bias ? o->bias_initializer : o->kernel_initializer,
                             .default_value = bias ? ISO_INIT_ZEROS : ISO_INIT_GLOROT_UNIFORM,
                             .l1 = bias ? o->bias_l1 : o->kernel_l1,
                             .l2 = bias ? o->bias_l2 : o->kernel_l2,
                             .constraint = bias ? o->bias_constraint : o->kernel_constraint,
                             .argument = bias ? "bias" : "kernel",
                             .layout = layout};
}

/* A product with a kernel [in..., out...], of which the first `inputs` dimensions are summed over, and its bias
 * [out...]. x: [..., in] -> [..., out], where the kernel's dimensions are merged. The kernel's fans are those of the
 * matrix, as in Keras's EinsumDense, of which Keras makes the products. */
static iso_tensor *product(const attention *a, const char *name, const char *layout, int inputs, bool biased,
                           iso_shape shape, iso_tensor *x)
{
    iso_text kernel_name = {0}, bias_name = {0};
    int64_t rows = 1, columns = 1;
    iso_shape out = {.rank = shape.rank - inputs};
    for (int d = 0; d < shape.rank; d++)
        *(d < inputs ? &rows : &columns) *= shape.dim[d];
    for (int d = 0; d < out.rank; d++)
        out.dim[d] = shape.dim[inputs + d];
    iso_text_add(&kernel_name, "%s/kernel", name);
    iso_text_add(&bias_name, "%s/bias", name);
    const iso_weight_form form = weight_form(a, iso_layer_text(a->layer, &kernel_name), false, layout),
                          bias = weight_form(a, iso_layer_text(a->layer, &bias_name), true, NULL);
    iso_tensor *kernel = iso_layer_weight(a->layer, &form, shape);
    iso_layer_set_fans(a->layer, form.what, (double)rows, (double)columns);
    iso_tensor *y = iso_matmul(x, iso_reshape_to(kernel, ISO_SHAPE(rows, columns)));
    if (biased)
        y = iso_add(y, iso_reshape_to(iso_layer_weight(a->layer, &bias, out), ISO_SHAPE(columns)));
    y = iso_layer_adapt_product(a->layer, &form, inputs, x, y);
    iso_text_free(&kernel_name);
    iso_text_free(&bias_name);
    return y;
}

/* x with its attended dimensions merged into one. */
static iso_tensor *attention_join(const attention *a, iso_tensor *x)
{
    iso_shape shape = *iso_tensor_shape(x), joined = {.rank = a->lead + 2};
    for (int d = 0; d < a->lead; d++)
        joined.dim[d] = shape.dim[d];
    joined.dim[a->lead] = -1;
    joined.dim[a->lead + 1] = shape.dim[shape.rank - 1];
    return iso_reshape_to(x, joined);
}

/* x: [lead..., s, d] -> [lead..., s, heads, k] */
static iso_tensor *project(const attention *a, iso_tensor *x, const char *name, int64_t heads, int64_t k,
                           const char *layout)
{
    if (!iso_tensor_good(x))
        return x;
    iso_shape shape = *iso_tensor_shape(x);
    const iso_shape kernel = ISO_SHAPE(shape.dim[shape.rank - 1], heads, k);
    iso_tensor *y = product(a, name, layout, 1, !a->options->no_bias, kernel, x);
    shape.dim[shape.rank - 1] = heads;
    shape.dim[shape.rank++] = k;
    return iso_reshape_to(y, shape);
}

/* Keys or values for every head of the queries: [lead..., s, kv_heads, k] -> [lead..., s, heads, k], each of them
 * heads / kv_heads times, one beside the other. */
static iso_tensor *repeat_heads(const attention *a, iso_tensor *x)
{
    if (!iso_tensor_good(x) || a->kv_heads == a->heads)
        return x;
    iso_shape shape = *iso_tensor_shape(x), groups = shape;
    int at = shape.rank - 2;
    groups.dim[at + 1] = 1;
    groups.dim[at + 2] = shape.dim[at + 1];
    groups.rank++;
    x = iso_reshape_to(x, groups);
    groups.dim[at + 1] = a->heads / a->kv_heads;
    shape.dim[at] = a->heads;
    return iso_reshape_to(iso_broadcast_to(x, groups), shape);
}

/* y: [lead..., t, heads, v] -> [lead..., attended..., output...] */
static iso_tensor *join_heads(const attention *a, iso_tensor *y)
{
    iso_shape shape = *iso_tensor_shape(a->options->x), out = a->options->output_shape;
    if (out.rank == 0)
        out = ISO_SHAPE(shape.dim[shape.rank - 1]);
    iso_shape kernel = {.rank = 2 + out.rank, .dim = {a->heads, a->value_dim}};
    int64_t rows = a->heads * a->value_dim, columns;
    if (iso_shape_count(&out, &columns) != ISO_OK)
        return iso_layer_fail(a->layer, "output_shape: %s", iso_error_message());
    for (int i = 0; i < out.rank; i++)
        kernel.dim[2 + i] = shape.dim[shape.rank - 1 + i] = out.dim[i];
    shape.rank += out.rank - 1;
    iso_shape joined = *iso_tensor_shape(y);
    joined.rank--;
    joined.dim[joined.rank - 1] = rows;
    y = product(a, "attention_output", a->options->output_layout, 2,
                !a->options->no_bias && !a->options->no_output_bias, kernel, iso_reshape_to(y, joined));
    return iso_reshape_to(y, shape);
}

/* ---- attention ---- */

/* The score of masked positions. Keras computes with its function dot_product_attention, but with dropout with its
 * layer Softmax. */
static double masked_score(const attention *a)
{
    return a->options->dropout != 0 ? -1e9 : -0.7 * FLT_MAX;
}

/* Whether attention_mask is not 0, as [batch or 1, heads or 1, t or 1, s or 1]; NULL: there is none. */
static iso_tensor *given_mask(const attention *a, int64_t t, int64_t s)
{
    iso_tensor *mask = a->options->attention_mask;
    char text[160];
    if (!mask)
        return NULL;
    if (a->lead != 1)
        return iso_layer_fail(
            a->layer,
            "attention_mask needs a query of which all dimensions between batch and features "
            "are attended to; attention_axes leaves out %d",
            a->lead - 1);
    iso_shape shape = *iso_tensor_shape(mask);
    bool by_heads = shape.rank == 4 && (shape.dim[1] == a->heads || shape.dim[1] == 1);
    bool queries = shape.rank > 2 && (shape.dim[shape.rank - 2] == t || shape.dim[shape.rank - 2] == 1);
    bool keys = shape.rank > 2 && (shape.dim[shape.rank - 1] == s || shape.dim[shape.rank - 1] == 1);
    int64_t rows = shape.dim[shape.rank - 2], columns = shape.dim[shape.rank - 1];
    if ((shape.rank != 3 && !by_heads) || !queries || !keys)
        return iso_layer_fail(a->layer, "its attention_mask is %s, it must be [batch, %lld, %lld]",
                              iso_shape_text(&shape, text, sizeof text), (long long)t, (long long)s);
    if (iso_tensor_dtype(mask) != ISO_BOOL)
        mask = iso_not_equal(mask, iso_number(a->layer->graph, iso_tensor_dtype(mask), 0));
    return shape.rank == 4 ? mask : iso_reshape_to(mask, ISO_SHAPE(shape.dim[0], 1, rows, columns));
}

/* The mask of an input: of its calls with several inputs, Keras keeps no masks when the model is built. */
static iso_tensor *mask_of_input(iso_tensor *x)
{
    return iso_tensor_masks(x).run;
}

/* all & mask, where the mask [batch, n] is that of t or s in [batch, 1, t, s]; either may be NULL */
static iso_tensor *and_mask(iso_tensor *all, iso_tensor *mask, int64_t t, int64_t s)
{
    if (mask)
        mask = iso_reshape_to(mask, ISO_SHAPE(iso_tensor_shape(mask)->dim[0], 1, t, s));
    return all && mask ? iso_logical_and(all, mask) : mask ? mask : all;
}

static bool masks_fit(const attention *a, iso_tensor *key)
{
    const iso_multi_head_attention_options *o = a->options;
    const bool masked = mask_of_input(o->x) || mask_of_input(o->value) || mask_of_input(key);
    if (masked && (a->lead != 1 || a->attended != 1))
        iso_layer_fail(a->layer,
                       "one of its inputs has a mask; it then takes [batch, steps, features] alone, its "
                       "query has %d dimensions",
                       iso_tensor_shape(o->x)->rank);
    else if (masked && o->attention_mask && iso_tensor_shape(o->attention_mask)->rank != 3)
        iso_layer_fail(a->layer, "one of its inputs has a mask; attention_mask is then [batch, t, s]");
    else
        return true;
    return false;
}

/* What attention_mask and the masks of values and keys leave of all places, [batch or 1, heads or 1, t or 1, s or 1];
 * NULL: all. */
static iso_tensor *mask_of(const attention *a, int64_t t, int64_t s)
{
    const iso_multi_head_attention_options *o = a->options;
    iso_tensor *given = given_mask(a, t, s), *mask = and_mask(NULL, mask_of_input(o->value), 1, s);
    if (o->key && !iso_mask_equal(mask_of_input(o->key), mask_of_input(o->value)))
        mask = and_mask(mask, mask_of_input(o->key), 1, s);
    return mask && given ? iso_logical_and(given, mask) : mask ? mask : given;
}

/* query, key, value: [lead..., n, heads, features] -> [lead..., t, heads, v]; dropout in training alone */
static iso_tensor *attend(const attention *a, iso_tensor *query, iso_tensor *key, iso_tensor *value)
{
    const iso_multi_head_attention_options *o = a->options;
    if (!iso_tensor_good(query) || !iso_tensor_good(key) || !iso_tensor_good(value))
        return value;
    const double factor = attention_factor(a);
    iso_attention_form form = {.scale = factor * factor * score_scale(a),
                               .masked = masked_score(a),
                               .cap = o->score_cap,
                               .causal = o->causal,
                               .window = o->sliding_window,
                               .zero_masked = o->dropout != 0}; /* as in Keras */
    const int64_t t = iso_tensor_shape(query)->dim[a->lead], s = iso_tensor_shape(key)->dim[a->lead];
    iso_tensor *mask = mask_of(a, t, s);
    form.query_mask = and_mask(NULL, mask_of_input(o->x), t, 1);
    iso_tensor *y = iso_attention_op(query, key, value, mask, &form);
    if (o->dropout == 0)
        return y;
    form.dropout = o->dropout;
    form.path = a->path;
    return iso_by_mode(iso_attention_op(query, key, value, mask, &form), y);
}

/* x: [lead..., n, heads, key_dim]; scale: [heads, key_dim], if all heads are one row, otherwise [key_dim] */
static iso_tensor *normalise_rows(const attention *a, iso_tensor *x, iso_tensor *scale)
{
    const iso_shape shape = *iso_tensor_shape(x);
    if (!a->options->qk_norm_whole)
        return iso_rms_norm_op(x, scale, qk_norm_epsilon(a));
    iso_shape joined = shape;
    const int64_t features = shape.dim[shape.rank - 2] * shape.dim[shape.rank - 1];
    joined.dim[--joined.rank - 1] = features;
    scale = iso_reshape_to(scale, ISO_SHAPE(features));
    return iso_reshape_to(iso_rms_norm_op(iso_reshape_to(x, joined), scale, qk_norm_epsilon(a)), shape);
}

/* x: [lead..., n, heads, key_dim], queries or keys. As other normalisations, it is in the type of variables. */
static iso_tensor *normalise_heads(const attention *a, iso_tensor *x, const char *scale)
{
    const iso_multi_head_attention_options *o = a->options;
    const iso_weight_form form = {.what = scale,
                                  .default_value = o->qk_norm_zero_centered ? ISO_INIT_ZEROS : ISO_INIT_ONES};
    iso_layer uncast = *a->layer;
    if (!o->qk_norm || !iso_tensor_good(x))
        return x;
    uncast.uncast = true;
    const iso_shape *shape = iso_tensor_shape(x);
    iso_tensor *weight = iso_layer_weight(
        &uncast, &form,
        o->qk_norm_whole ? ISO_SHAPE(shape->dim[shape->rank - 2], a->key_dim) : ISO_SHAPE(a->key_dim));
    if (o->qk_norm_zero_centered)
        weight = iso_affine(weight, 1, 1);
    return iso_layer_cast(a->layer, normalise_rows(a, iso_layer_cast(&uncast, x), weight));
}

/* x: [batch, t, heads, features] */
static iso_tensor *turn_all(const attention *a, iso_tensor *x)
{
    return iso_rotary_stretched_op(x, a->lead, a->options->rope_max_wavelength, scaling_factor(a),
                                   &a->options->rope_stretch);
}

static iso_tensor *turn_by_positions(const attention *a, iso_tensor *x)
{
    const int64_t rotary = rotary_features(a), others = a->key_dim - rotary;
    if (a->options->rope_max_wavelength == 0)
        return x;
    if (others == 0)
        return turn_all(a, x);
    iso_tensor *parts[] = {
        turn_all(a, iso_slice(x, (const int64_t[]){0, 0, 0}, (const int64_t[]){-1, -1, rotary})),
        iso_slice(x, (const int64_t[]){0, 0, rotary}, (const int64_t[]){-1, -1, others})};
    return iso_concat(parts, 2, 3);
}

static iso_tensor *build_attention(const attention *a, iso_tensor *value, iso_tensor *key)
{
    const iso_multi_head_attention_options *o = a->options;
    iso_tensor *x = attention_join(a, iso_layer_cast(a->layer, o->x)), *gate = NULL;
    iso_tensor *q = project(a, x, "query", a->heads, a->key_dim, o->query_layout);
    iso_tensor *keys = attention_join(a, iso_layer_cast(a->layer, key));
    iso_tensor *k = project(a, keys, "key", a->kv_heads, a->key_dim, o->key_layout);
    if (o->use_gate)
        gate = iso_sigmoid(project(a, x, "gate", a->heads, a->value_dim, o->gate_layout));
    iso_tensor *values = attention_join(a, iso_layer_cast(a->layer, value));
    iso_tensor *v = project(a, values, "value", a->kv_heads, a->value_dim, o->value_layout);
    q = turn_by_positions(a, normalise_heads(a, q, "query_norm/scale"));
    k = turn_by_positions(a, normalise_heads(a, k, "key_norm/scale"));
    iso_tensor *y = attend(a, q, repeat_heads(a, k), repeat_heads(a, v));
    if (!iso_tensor_good(y))
        return y;
    return join_heads(a, gate ? iso_multiply(y, gate) : y);
}

/* ---- the layer ---- */

static void note_sizes(iso_layer *layer, const attention *a)
{
    if (a->kind->grouped) {
        iso_layer_note_integer(layer, "head_dim", a->key_dim);
        iso_layer_note_integer(layer, "num_query_heads", a->heads);
        iso_layer_note_integer(layer, "num_key_value_heads", a->kv_heads);
    } else {
        iso_layer_note_integer(layer, "num_heads", a->heads);
        iso_layer_note_integer(layer, "key_dim", a->key_dim);
        iso_layer_note_integer(layer, "value_dim", a->value_dim);
    }
}

/* The arguments that MultiHeadAttention alone has. */
static void note_shapes(iso_layer *layer, const attention *a)
{
    const iso_multi_head_attention_options *o = a->options;
    int64_t axes[ISO_MAX_RANK];
    for (int i = 0; i < a->attended; i++)
        axes[i] = a->lead + i;
    if (o->output_shape.rank)
        iso_layer_note_integers(layer, "output_shape", o->output_shape.dim, o->output_shape.rank);
    else
        iso_layer_note_none(layer, "output_shape");
    iso_layer_note_integers(layer, "attention_axes", axes, a->attended);
}

/* Only if there is one: the configs of layers without it are as they were. */
static void note_stretch(iso_layer *layer, const iso_rotary_stretch *stretch)
{
    if (stretch->factor == 0)
        return;
    iso_layer_note_real(layer, "rope_stretch_factor", stretch->factor);
    iso_layer_note_real(layer, "rope_stretch_low", stretch->low);
    iso_layer_note_real(layer, "rope_stretch_high", stretch->high);
    iso_layer_note_real(layer, "rope_stretch_context", stretch->context);
    if (stretch->yarn)
        iso_layer_note_flag(layer, "rope_stretch_yarn", true);
}

/* What Keras's layers do not have, likewise. */
static void note_extensions(iso_layer *layer, const attention *a)
{
    const iso_multi_head_attention_options *o = a->options;
    if (o->rope_max_wavelength != 0) {
        iso_layer_note_real(layer, "rope_max_wavelength", o->rope_max_wavelength);
        iso_layer_note_real(layer, "rope_scaling_factor", scaling_factor(a));
        note_stretch(layer, &o->rope_stretch);
        if (attention_factor(a) != 1)
            iso_layer_note_real(layer, "rope_attention_factor", attention_factor(a));
        if (o->rope_features != 0)
            iso_layer_note_integer(layer, "rope_features", o->rope_features);
    }
    if (o->qk_norm)
        iso_layer_note_real(layer, "qk_norm_epsilon", qk_norm_epsilon(a));
    if (o->qk_norm_zero_centered)
        iso_layer_note_flag(layer, "qk_norm_zero_centered", true);
    if (o->qk_norm_whole)
        iso_layer_note_flag(layer, "qk_norm_whole", true);
    if (o->no_output_bias && !o->no_bias)
        iso_layer_note_flag(layer, "use_output_bias", false);
    if (o->score_scale != 0)
        iso_layer_note_real(layer, "score_scale", o->score_scale);
    if (o->score_cap != 0)
        iso_layer_note_real(layer, "score_cap", o->score_cap);
}

/* Their order is part of a model's hash in checkpoints. */
static void attention_note(iso_layer *layer, const attention *a)
{
    const iso_multi_head_attention_options *o = a->options;
    iso_weight_form kernel_form = {.what = "kernel",
                                   .initializer = o->kernel_initializer,
                                   .default_value = ISO_INIT_GLOROT_UNIFORM,
                                   .l1 = o->kernel_l1,
                                   .l2 = o->kernel_l2,
                                   .constraint = o->kernel_constraint};
    iso_weight_form bias_form = {.what = "bias",
                                 .initializer = o->bias_initializer,
                                 .default_value = ISO_INIT_ZEROS,
                                 .l1 = o->bias_l1,
                                 .l2 = o->bias_l2,
                                 .constraint = o->bias_constraint};
    note_sizes(layer, a);
    iso_layer_note_real(layer, "dropout", o->dropout);
    iso_layer_note_flag(layer, "use_bias", !o->no_bias);
    iso_layer_note_flag(layer, "use_gate", o->use_gate);
    if (!a->kind->grouped)
        note_shapes(layer, a);
    if (o->sliding_window)
        iso_layer_note_integer(layer, "sliding_window", o->sliding_window);
    else
        iso_layer_note_none(layer, "sliding_window");
    note_extensions(layer, a);
    iso_layer_note_weight(layer, &kernel_form);
    iso_layer_note_weight(layer, &bias_form);
    iso_layer_note_none(layer, "seed");
    if (o->causal)
        iso_layer_note_call(layer,
                            (iso_attribute){ISO_ATTRIBUTE_FLAG, .name = "use_causal_mask", .integer = true});
    if (o->attention_mask)
        iso_layer_note_call(
            layer, (iso_attribute){ISO_ATTRIBUTE_INPUT, .name = "attention_mask", .integer = o->key ? 3 : 2});
}

/* The inputs that are given, in the order of the call. */
static int list_inputs(const iso_multi_head_attention_options *o, iso_tensor *input[4])
{
    int count = 2;
    input[0] = o->x;
    input[1] = o->value;
    if (o->key)
        input[count++] = o->key;
    if (o->attention_mask)
        input[count++] = o->attention_mask;
    return count;
}

static bool inputs_fit(const iso_layer *layer)
{
    for (int i = 0; i < layer->n_inputs; i++) {
        if (!layer->inputs[i])
            iso_layer_fail(layer, "its input %d is NULL", i);
        else if (iso_tensor_graph(layer->inputs[i]) != layer->graph)
            iso_layer_fail(layer, "its input %d belongs to another graph", i);
    }
    return iso_graph_error(layer->graph) == ISO_OK;
}

static bool check_rank(const attention *a)
{
    const iso_multi_head_attention_options *o = a->options;
    int rank = iso_tensor_shape(o->x)->rank;
    const char *what = a->kind->grouped                 ? "attention with groups of heads needs"
                       : o->causal || o->sliding_window ? "causal and sliding_window need"
                       : o->rope_max_wavelength != 0    ? "rope_max_wavelength needs"
                                                        : NULL;
    if (what && rank != 3)
        iso_layer_fail(a->layer, "%s a query of 3 dimensions, batch, positions and features; it has %d", what,
                       rank);
    return !what || rank == 3;
}

static const attention_kind multi_head = {.type = "MultiHeadAttention",
                                          .base = "multi_head_attention",
                                          .function = "iso_multi_head_attention_with",
                                          .heads = "num_heads",
                                          .key_dim = "key_dim"};
static const attention_kind grouped = {.type = "GroupQueryAttention",
                                       .base = "grouped_query_attention",
                                       .function = "iso_grouped_query_attention_with",
                                       .heads = "num_query_heads",
                                       .key_dim = "head_dim",
                                       .grouped = true};

/* Keras's MultiHeadAttention takes the masks off its inputs as it runs, unless it casts them. */
static void take_mask(const iso_layer *layer, iso_tensor *x)
{
    if (iso_tensor_dtype(x) == iso_graph_compute_type(layer->graph))
        iso_tensor_set_masks(x, (iso_masks){.built = iso_tensor_masks(x).built});
}

static iso_tensor *build_layer(const attention_kind *kind, const iso_multi_head_attention_options *o,
                               int64_t kv_heads)
{
    iso_layer layer;
    iso_tensor *input[4];
    iso_text path = {0};
    int count = list_inputs(o, input);
    if (o->x && !o->value) {
        iso_null_argument(kind->function, "value", 0);
        iso_null_in(iso_tensor_graph(o->x));
        return iso_layer_broken_in(kind->function, o->x);
    }
    if (!o->x)
        iso_null_tensor(&o->value, 1);
    if (!iso_layer_begin_several(&layer, input, count, kind->type, kind->base, o->name) ||
        !inputs_fit(&layer))
        return iso_layer_broken_in(kind->function, o->x);
    iso_tensor *key = o->key ? o->key : o->value;
    attention a = {.kind = kind,
                   .layer = &layer,
                   .options = o,
                   .heads = o->num_heads,
                   .kv_heads = kv_heads,
                   .key_dim = o->key_dim,
                   .value_dim = o->value_dim ? o->value_dim : o->key_dim};
    if (!check_numbers(&a) || !find_axes(&a, iso_tensor_shape(o->x)) ||
        !check_shapes(&a, iso_tensor_shape(o->x), iso_tensor_shape(o->value), iso_tensor_shape(key)) ||
        !check_rank(&a) || !masks_fit(&a, key))
        return iso_layer_broken_in(kind->function, o->x);
    iso_layer_random_path(&layer, &path);
    iso_text_add(&path, "/dropout");
    a.path = iso_layer_text(&layer, &path);
    iso_tensor *y = build_attention(&a, o->value, key);
    iso_text_free(&path);
    attention_note(&layer, &a);
    layer.masks = iso_tensor_masks(o->x);
    y = iso_layer_end(&layer, y);
    for (int i = 0; !kind->grouped && i < layer.n_inputs; i++)
        take_mask(&layer, input[i]);
    return y;
}

iso_tensor *iso_multi_head_attention_with(const iso_multi_head_attention_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_LAYER_OPTIONS(iso_multi_head_attention_options, options, given, size);
    return build_layer(&multi_head, &options, options.num_heads);
}

iso_tensor *iso_grouped_query_attention_with(const iso_grouped_query_attention_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_LAYER_OPTIONS(iso_grouped_query_attention_options, o, given, size);
    const iso_multi_head_attention_options options = {.x = o.x,
                                                      .value = o.value,
                                                      .num_heads = o.num_query_heads,
                                                      .key_dim = o.head_dim,
                                                      .key = o.key,
                                                      .attention_mask = o.attention_mask,
                                                      .dropout = o.dropout,
                                                      .no_bias = o.no_bias,
                                                      .use_gate = o.use_gate,
                                                      .causal = o.causal,
                                                      .sliding_window = o.sliding_window,
                                                      .rope_max_wavelength = o.rope_max_wavelength,
                                                      .rope_scaling_factor = o.rope_scaling_factor,
                                                      .kernel_initializer = o.kernel_initializer,
                                                      .bias_initializer = o.bias_initializer,
                                                      .kernel_l1 = o.kernel_l1,
                                                      .bias_l1 = o.bias_l1,
                                                      .kernel_l2 = o.kernel_l2,
                                                      .bias_l2 = o.bias_l2,
                                                      .query_layout = o.query_layout,
                                                      .key_layout = o.key_layout,
                                                      .value_layout = o.value_layout,
                                                      .gate_layout = o.gate_layout,
                                                      .output_layout = o.output_layout,
                                                      .name = o.name,
                                                      .rope_stretch = o.rope_stretch,
                                                      .qk_norm = o.qk_norm,
                                                      .qk_norm_epsilon = o.qk_norm_epsilon,
                                                      .no_output_bias = o.no_output_bias,
                                                      .rope_attention_factor = o.rope_attention_factor,
                                                      .kernel_constraint = o.kernel_constraint,
                                                      .bias_constraint = o.bias_constraint,
                                                      .score_scale = o.score_scale,
                                                      .qk_norm_zero_centered = o.qk_norm_zero_centered,
                                                      .qk_norm_whole = o.qk_norm_whole,
                                                      .score_cap = o.score_cap,
                                                      .rope_features = o.rope_features};
    return build_layer(&grouped, &options, o.num_key_value_heads);
}

/* The inputs of a call: query, value, then key and attention_mask if they are given. */
typedef struct call_inputs {
    iso_tensor *key, *mask;
} call_inputs;

static bool find_inputs(const iso_layer_config *config, iso_tensor *const *x, int count, call_inputs *in)
{
    bool masked = iso_config_flag(config, "attention_mask", false);
    int tensors = count - masked;
    bool fits = tensors == 2 || tensors == 3;
    if (!fits)
        iso_config_refuse(config, "inputs", "query, value, optionally key and attention_mask");
    else
        *in = (call_inputs){tensors > 2 ? x[2] : NULL, masked ? x[count - 1] : NULL};
    return fits;
}

static iso_tensor *attention_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t axes[ISO_MAX_RANK];
    call_inputs in;
    if (!find_inputs(config, x, count, &in))
        return x[0];
    iso_multi_head_attention_options options = {
        .x = x[0],
        .value = x[1],
        .key = in.key,
        .attention_mask = in.mask,
        .name = config->name,
        .num_heads = iso_config_size(config, "num_heads", ISO_REQUIRED),
        .key_dim = iso_config_size(config, "key_dim", ISO_REQUIRED),
        .value_dim = iso_config_count(config, "value_dim", 0),
        .dropout = iso_config_number(config, "dropout", 0),
        .no_bias = !iso_config_flag(config, "use_bias", true),
        .use_gate = iso_config_flag(config, "use_gate", false),
        .causal = iso_config_flag(config, "use_causal_mask", false),
        .sliding_window = iso_config_size(config, "sliding_window", 0)};
    options.output_shape.rank =
        iso_config_counts(config, "output_shape", options.output_shape.dim, ISO_MAX_RANK);
    options.attention_axis_count = iso_config_counts(config, "attention_axes", axes, ISO_MAX_RANK);
    for (int i = 0; i < options.attention_axis_count; i++)
        options.attention_axes[i] = (int)axes[i];
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_multi_head_attention_with(&options, sizeof options);
}

static iso_tensor *grouped_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    call_inputs in;
    if (!find_inputs(config, x, count, &in))
        return x[0];
    iso_grouped_query_attention_options options = {
        .x = x[0],
        .value = x[1],
        .key = in.key,
        .attention_mask = in.mask,
        .name = config->name,
        .head_dim = iso_config_size(config, "head_dim", ISO_REQUIRED),
        .num_query_heads = iso_config_size(config, "num_query_heads", ISO_REQUIRED),
        .num_key_value_heads = iso_config_size(config, "num_key_value_heads", ISO_REQUIRED),
        .dropout = iso_config_number(config, "dropout", 0),
        .no_bias = !iso_config_flag(config, "use_bias", true),
        .use_gate = iso_config_flag(config, "use_gate", false),
        .causal = iso_config_flag(config, "use_causal_mask", false),
        .sliding_window = iso_config_size(config, "sliding_window", 0)};
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_grouped_query_attention_with(&options, sizeof options);
}

const iso_layer_type iso_layer_multi_head_attention = {.keras = "MultiHeadAttention",
                                                       .build = attention_build,
                                                       .several = true,
                                                       .separate = true,
                                                       .masks = ISO_MASKS_MADE};
const iso_layer_type iso_layer_grouped_query_attention = {.keras = "GroupQueryAttention",
                                                          .build = grouped_build,
                                                          .several = true,
                                                          .separate = true,
                                                          .masks = ISO_MASKS_MADE};
