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
    ISO_SETTING(iso_gpt_options, FLAG, recompute, 0), {0}};

static iso_tensor *gpt_dropout(const iso_gpt_options *o, iso_tensor *x)
{
    return iso_transformer_dropout(x, o->dropout);
}

static iso_tensor *gpt_norm(const iso_gpt_options *o, iso_tensor *x, const char *name)
{
    return iso_transformer_layer_norm(x, o->epsilon, name);
}

static iso_tensor *gpt_attention(const iso_gpt_options *o, iso_tensor *x)
{
    iso_tensor *h = gpt_norm(o, x, "attention_norm");
    h = iso_multi_head_attention(h, h, o->heads, o->width / o->heads, .causal = true, .dropout = o->dropout,
                                 .kernel_initializer = iso_transformer_normal(0.02), .name = "attention");
    return iso_add(x, gpt_dropout(o, h));
}

static iso_tensor *gpt_perceptron(const iso_gpt_options *o, iso_tensor *x)
{
    iso_tensor *h = gpt_norm(o, x, "norm");
    h = iso_dense(h, o->hidden, .activation = o->gelu_tanh ? ISO_GELU_TANH : ISO_GELU,
                  .kernel_initializer = iso_transformer_normal(0.02), .name = "up");
    h = iso_dense(h, o->width,
                  .kernel_initializer = iso_transformer_normal(0.02 / sqrt(2.0 * (double)o->layers)),
                  .name = "down");
    return iso_add(x, gpt_dropout(o, h));
}

static iso_tensor *gpt_block(const iso_gpt_options *o, int64_t number, iso_tensor *x)
{
    iso_transformer_block_begin(iso_tensor_graph(x), number, o->recompute);
    iso_tensor *y = gpt_perceptron(o, gpt_attention(o, x));
    return iso_transformer_block_end(y, o->recompute);
}

static iso_tensor *gpt_embed(const iso_gpt_options *o)
{
    iso_tensor *h = iso_reversible_embedding(o->x, o->vocabulary, o->width,
                                             .embeddings_initializer = iso_transformer_normal(0.02),
                                             .name = "token_embedding");
    iso_tensor *positions = iso_position_embedding(h, o->context, .initializer = iso_transformer_normal(0.02),
                                                   .name = "position_embedding");
    return gpt_dropout(o, iso_add(h, positions));
}

static bool gpt_numbers_fit(const iso_gpt_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (!iso_transformer_count_fits(graph, "gpt", "layers", o->layers, ISO_TRANSFORMER_MOST_LAYERS) ||
        !iso_transformer_count_fits(graph, "gpt", "heads", o->heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "gpt", "width", o->width, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "gpt", "hidden", o->hidden, ISO_TRANSFORMER_MOST_HIDDEN) ||
        !iso_transformer_epsilon_fits(graph, "gpt", o->epsilon) ||
        !iso_transformer_count_fits(graph, "gpt", "context", o->context, ISO_BUILTIN_MOST))
        return false;
    bool divides = o->width % o->heads == 0, drops = o->dropout >= 0 && o->dropout < 1;
    if (!divides)
        iso_graph_fail(graph, "gpt: width %lld is not a multiple of its %lld heads", (long long)o->width,
                       (long long)o->heads);
    else if (!drops)
        iso_graph_fail(graph, "gpt: dropout %g; it must be from 0 to below 1", o->dropout);
    return divides && drops;
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
    iso_graph *graph = iso_tensor_graph(o.x);
    if (!gpt_numbers_fit(&o))
        return iso_graph_bad_tensor(graph);
    iso_tensor *h = gpt_embed(&o);
    for (int64_t i = 0; i < o.layers; i++)
        h = gpt_block(&o, i, h);
    h = gpt_norm(&o, h, "norm");
    h = iso_transformer_tied_logits(h, o.vocabulary, o.width);
    iso_graph_set_origin(o.x, h, "gpt", &o, sizeof o);
    return h;
}
