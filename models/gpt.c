#include "models/gpt_impl.h"

#include <math.h>

#include "models/models.h"
#include "models/transformer_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/op.h"
#include "runtime/graph/origin.h"

const iso_setting iso_gpt_settings[] = {
    ISO_SETTING(iso_gpt_options, COUNT, layers, 12),  ISO_SETTING(iso_gpt_options, COUNT, heads, 12),
    ISO_SETTING(iso_gpt_options, COUNT, width, 768),  ISO_SETTING(iso_gpt_options, COUNT, context, 1024),
    ISO_SETTING(iso_gpt_options, COUNT, hidden, 0),   ISO_SETTING(iso_gpt_options, REAL, epsilon, 1e-5),
    ISO_SETTING(iso_gpt_options, REAL, dropout, 0),   ISO_SETTING(iso_gpt_options, FLAG, gelu_tanh, 0),
    ISO_SETTING(iso_gpt_options, COUNT, rotary, 0),   ISO_SETTING(iso_gpt_options, REAL, wavelength, 10000),
    ISO_SETTING(iso_gpt_options, FLAG, parallel, 0),  ISO_SETTING(iso_gpt_options, FLAG, untied, 0),
    ISO_SETTING(iso_gpt_options, COUNT, kv_heads, 0), ISO_SETTING(iso_gpt_options, COUNT, window, 0),
    ISO_SETTING(iso_gpt_options, FLAG, recompute, 0), {0}};

static iso_tensor *gpt_dropout(const iso_gpt_options *o, iso_tensor *x)
{
    return iso_transformer_dropout(x, o->dropout);
}

static iso_tensor *gpt_norm(const iso_gpt_options *o, iso_tensor *x, const char *name)
{
    return iso_transformer_layer_norm(x, o->epsilon, name);
}

/* What keras_hub's GPT-2 has is Keras's layer, which files of Keras hold. */
static iso_tensor *gpt_heads(const iso_gpt_options *o, iso_tensor *h)
{
    const iso_initializer initializer = iso_transformer_normal(0.02);
    const double wavelength = o->rotary ? o->wavelength : 0;
    if (o->kv_heads == o->heads)
        return iso_multi_head_attention(h, h, o->heads, o->width / o->heads, .causal = true,
                                        .dropout = o->dropout, .sliding_window = o->window,
                                        .rope_max_wavelength = wavelength, .rope_features = o->rotary,
                                        .kernel_initializer = initializer, .name = "attention");
    return iso_grouped_query_attention(h, h, o->width / o->heads, o->heads, o->kv_heads, .causal = true,
                                       .dropout = o->dropout, .sliding_window = o->window,
                                       .rope_max_wavelength = wavelength, .rope_features = o->rotary,
                                       .kernel_initializer = initializer, .name = "attention");
}

/* x: [batch, t, width] -> what is added to it */
static iso_tensor *gpt_attention(const iso_gpt_options *o, iso_tensor *x)
{
    return gpt_dropout(o, gpt_heads(o, gpt_norm(o, x, "attention_norm")));
}

static iso_tensor *gpt_perceptron(const iso_gpt_options *o, iso_tensor *x)
{
    iso_tensor *h = gpt_norm(o, x, "norm");
    h = iso_dense(h, o->hidden, .activation = o->gelu_tanh ? ISO_GELU_TANH : ISO_GELU,
                  .kernel_initializer = iso_transformer_normal(0.02), .name = "up");
    h = iso_dense(h, o->width,
                  .kernel_initializer = iso_transformer_normal(0.02 / sqrt(2.0 * (double)o->layers)),
                  .name = "down");
    return gpt_dropout(o, h);
}

static iso_tensor *gpt_block(const iso_gpt_options *o, int64_t number, iso_tensor *x)
{
    iso_transformer_block_begin(iso_tensor_graph(x), number, o->recompute);
    iso_tensor *y = iso_add(x, gpt_attention(o, x));
    y = iso_add(y, gpt_perceptron(o, o->parallel ? x : y));
    return iso_transformer_block_end(y, o->recompute);
}

static iso_tensor *gpt_embed(const iso_gpt_options *o)
{
    const iso_initializer initializer = iso_transformer_normal(0.02);
    iso_tensor *h =
        o->untied
            ? iso_embedding(o->x, o->vocabulary, o->width, .embeddings_initializer = initializer,
                            .name = "token_embedding")
            : iso_reversible_embedding(o->x, o->vocabulary, o->width, .embeddings_initializer = initializer,
                                       .name = "token_embedding");
    if (o->rotary)
        return gpt_dropout(o, h);
    iso_tensor *positions =
        iso_position_embedding(h, o->context, .initializer = initializer, .name = "position_embedding");
    return gpt_dropout(o, iso_add(h, positions));
}

static iso_tensor *gpt_logits(const iso_gpt_options *o, iso_tensor *h)
{
    return o->untied ? iso_dense(h, o->vocabulary, .no_bias = true,
                                 .kernel_initializer = iso_transformer_normal(0.02), .name = "logits")
                     : iso_transformer_tied_logits(h, o->vocabulary, o->width);
}

/* The options of heads and positions. */
static bool gpt_heads_fit(const iso_gpt_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (o->width % o->heads != 0)
        iso_graph_fail(graph, "gpt: width %lld is not a multiple of its %lld heads", (long long)o->width,
                       (long long)o->heads);
    else if (o->heads % o->kv_heads != 0)
        iso_graph_fail(graph, "gpt: heads %lld is not a multiple of kv_heads, %lld", (long long)o->heads,
                       (long long)o->kv_heads);
    else if (o->rotary < 0 || o->rotary > o->width / o->heads || o->rotary % 2 != 0)
        iso_graph_fail(graph,
                       "gpt: rotary is %lld; it must be an even number of the %lld features of a head, or 0",
                       (long long)o->rotary, (long long)(o->width / o->heads));
    else if (!(o->wavelength > 0) || isinf(o->wavelength))
        iso_graph_fail(graph, "gpt: wavelength is %g; it must be positive", o->wavelength);
    return iso_graph_error(graph) == ISO_OK;
}

/* Whether rows are not longer than `context`; without rotary positions, their layer refuses them. */
static bool gpt_rows_fit(const iso_gpt_options *o)
{
    const iso_shape *shape = iso_tensor_shape(o->x);
    const int64_t tokens = shape->dim[shape->rank - 1];
    if (o->rotary && shape->rank == 2 && tokens > o->context)
        iso_graph_fail(iso_tensor_graph(o->x), "gpt: rows of %lld tokens, and context is %lld",
                       (long long)tokens, (long long)o->context);
    return iso_graph_error(iso_tensor_graph(o->x)) == ISO_OK;
}

static bool gpt_numbers_fit(const iso_gpt_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (!iso_transformer_count_fits(graph, "gpt", "layers", o->layers, ISO_TRANSFORMER_MOST_LAYERS) ||
        !iso_transformer_count_fits(graph, "gpt", "heads", o->heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "gpt", "width", o->width, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "gpt", "hidden", o->hidden, ISO_TRANSFORMER_MOST_HIDDEN) ||
        !iso_transformer_epsilon_fits(graph, "gpt", o->epsilon) ||
        !iso_transformer_count_fits(graph, "gpt", "kv_heads", o->kv_heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "gpt", "context", o->context, ISO_BUILTIN_MOST))
        return false;
    return iso_transformer_rate_fits(graph, "gpt", "dropout", o->dropout) && gpt_heads_fit(o) &&
           gpt_rows_fit(o);
}

iso_tensor *iso_gpt_with(const iso_gpt_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_gpt_options o = {0};
    iso_options_copy(&o, sizeof o, options, size);
    ISO_NEED_TENSORS(o.x);
    for (const iso_setting *s = iso_gpt_settings; s->name; s++)
        iso_setting_set(s, &o, iso_setting_option(s, &o));
    o.hidden = o.hidden ? o.hidden : ISO_TRANSFORMER_WIDER * o.width;
    o.kv_heads = o.kv_heads ? o.kv_heads : o.heads;
    iso_graph *graph = iso_tensor_graph(o.x);
    if (!gpt_numbers_fit(&o))
        return iso_graph_bad_tensor(graph);
    iso_tensor *h = gpt_embed(&o);
    for (int64_t i = 0; i < o.layers; i++)
        h = gpt_block(&o, i, h);
    h = gpt_logits(&o, gpt_norm(&o, h, "norm"));
    iso_graph_set_origin(o.x, h, "gpt", &o, sizeof o);
    return h;
}
