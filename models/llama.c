#include "models/llama_impl.h"

#include <math.h>

#include "models/models.h"
#include "models/transformer_impl.h"
#include "runtime/base/arguments.h"
#include "runtime/base/bf16.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/op.h"
#include "runtime/graph/origin.h"

enum { CHOICES = 2 /* experts of a token, as in Mixtral */ };

const iso_setting iso_llama_settings[] = {ISO_SETTING(iso_llama_options, COUNT, layers, 12),
                                          ISO_SETTING(iso_llama_options, COUNT, heads, 12),
                                          ISO_SETTING(iso_llama_options, COUNT, kv_heads, 4),
                                          ISO_SETTING(iso_llama_options, COUNT, width, 768),
                                          ISO_SETTING(iso_llama_options, COUNT, hidden, 2048),
                                          ISO_SETTING(iso_llama_options, COUNT, context, 1024),
                                          ISO_SETTING(iso_llama_options, REAL, wavelength, 10000),
                                          ISO_SETTING(iso_llama_options, REAL, epsilon, 1e-5),
                                          ISO_SETTING(iso_llama_options, FLAG, tied, 0),
                                          ISO_SETTING(iso_llama_options, REAL, rope_factor, 0),
                                          ISO_SETTING(iso_llama_options, REAL, rope_low, 1),
                                          ISO_SETTING(iso_llama_options, REAL, rope_high, 4),
                                          ISO_SETTING(iso_llama_options, COUNT, rope_context, 8192),
                                          ISO_SETTING(iso_llama_options, COUNT, window, 0),
                                          ISO_SETTING(iso_llama_options, COUNT, full_layers, 0),
                                          ISO_SETTING(iso_llama_options, COUNT, head_dim, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, qkv_bias, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, output_bias, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, qk_norm, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, rope_yarn, 0),
                                          ISO_SETTING(iso_llama_options, REAL, rope_attention, 0),
                                          ISO_SETTING(iso_llama_options, REAL, rope_linear, 1),
                                          ISO_SETTING(iso_llama_options, COUNT, experts, 0),
                                          ISO_SETTING(iso_llama_options, COUNT, experts_per_token, CHOICES),
                                          ISO_SETTING(iso_llama_options, FLAG, raw_shares, 0),
                                          ISO_SETTING(iso_llama_options, REAL, balance, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, zero_centered, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, gelu_tanh, 0),
                                          ISO_SETTING(iso_llama_options, REAL, embedding_scale, 1),
                                          ISO_SETTING(iso_llama_options, REAL, attention_scale, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, post_norm, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, no_pre_norm, 0),
                                          ISO_SETTING(iso_llama_options, COUNT, full_every, 0),
                                          ISO_SETTING(iso_llama_options, REAL, local_wavelength, 0),
                                          ISO_SETTING(iso_llama_options, REAL, attention_cap, 0),
                                          ISO_SETTING(iso_llama_options, REAL, logit_cap, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, qk_norm_whole, 0),
                                          ISO_SETTING(iso_llama_options, REAL, residual_scale, 1),
                                          ISO_SETTING(iso_llama_options, REAL, logit_divisor, 1),
                                          ISO_SETTING(iso_llama_options, COUNT, shared_hidden, 0),
                                          ISO_SETTING(iso_llama_options, COUNT, nope_every, 0),
                                          ISO_SETTING(iso_llama_options, FLAG, recompute, 0),
                                          {0}};

static iso_tensor *llama_norm(const iso_llama_options *o, iso_tensor *x, const char *name)
{
    return iso_rms_norm(x, .epsilon = o->epsilon, .zero_centered = o->zero_centered, .name = name);
}

static iso_tensor *pre_norm(const iso_llama_options *o, iso_tensor *x, const char *name)
{
    return o->no_pre_norm ? x : llama_norm(o, x, name);
}

/* x + h. name: of the normalisation of h */
static iso_tensor *add_branch(const iso_llama_options *o, iso_tensor *x, iso_tensor *h, const char *name)
{
    h = o->post_norm ? llama_norm(o, h, name) : h;
    return iso_add(x, o->residual_scale == 1 ? h : iso_affine(h, o->residual_scale, 0));
}

static bool has_window(const iso_llama_options *o, int64_t number)
{
    const bool full =
        number < o->full_layers || (o->full_every > 0 && number % o->full_every == o->full_every - 1);
    return o->window != 0 && !full;
}

static bool has_positions(const iso_llama_options *o, int64_t number)
{
    return o->nope_every == 0 || number % o->nope_every != o->nope_every - 1;
}

/* YaRN's default is that of its paper (Peng et al. 2023, arXiv 2309.00071, section 3.4). */
static double attention_factor(const iso_llama_options *o)
{
    if (o->rope_attention != 0)
        return o->rope_attention;
    return o->rope_yarn && o->rope_factor > 1 ? 0.1 * log(o->rope_factor) + 1 : 1;
}

static iso_tensor *llama_attention(const iso_llama_options *o, int64_t number, iso_tensor *x)
{
    const iso_rotary_stretch stretch = {o->rope_factor, o->rope_low, o->rope_high, (double)o->rope_context,
                                        o->rope_yarn};
    const bool window = has_window(o, number), local = window && o->local_wavelength != 0;
    const double wavelength = local ? o->local_wavelength : o->wavelength;
    iso_tensor *h = pre_norm(o, x, "attention_norm");
    h = iso_grouped_query_attention(
        h, h, o->head_dim, o->heads, o->kv_heads, .causal = true, .no_bias = !o->qkv_bias,
        .no_output_bias = !o->output_bias, .qk_norm = o->qk_norm, .qk_norm_epsilon = o->epsilon,
        .qk_norm_zero_centered = o->qk_norm && o->zero_centered, .qk_norm_whole = o->qk_norm_whole,
        .sliding_window = window ? o->window : 0, .score_scale = o->attention_scale,
        .score_cap = o->attention_cap, .rope_max_wavelength = has_positions(o, number) ? wavelength : 0,
        .rope_scaling_factor = local ? 1 : o->rope_linear,
        .rope_attention_factor = local ? 1 : attention_factor(o),
        .rope_stretch = local ? (iso_rotary_stretch){0} : stretch,
        .kernel_initializer = iso_transformer_normal(0.02), .name = "attention");
    return add_branch(o, x, h, "attention_post_norm");
}

/* The sums over the blocks of what iso_balance_loss takes. */
typedef struct balance {
    iso_tensor *chosen, *probability;
} balance;

static void add_to(iso_tensor **sum, iso_tensor *x)
{
    *sum = *sum ? iso_add(*sum, x) : x;
}

/* h: [batch, t, width] -> down(activation(gate) * up) */
static iso_tensor *gated_perceptron(const iso_llama_options *o, iso_tensor *h, int64_t hidden)
{
    const iso_initializer initializer = iso_transformer_normal(0.02);
    iso_tensor *gate = iso_dense(h, hidden, .activation = o->gelu_tanh ? ISO_GELU_TANH : ISO_SILU,
                                 .no_bias = true, .kernel_initializer = initializer, .name = "gate");
    iso_tensor *up = iso_dense(h, hidden, .no_bias = true, .kernel_initializer = initializer, .name = "up");
    return iso_dense(iso_multiply(gate, up), o->width, .no_bias = true,
                     .kernel_initializer = iso_transformer_normal(0.02 / sqrt(2.0 * (double)o->layers)),
                     .name = "down");
}

/* What all tokens take, by a share of each. */
static iso_tensor *shared_expert(const iso_llama_options *o, iso_tensor *h)
{
    iso_graph *graph = iso_tensor_graph(h);
    iso_name_scope_begin(graph, "shared");
    iso_tensor *y = gated_perceptron(o, h, o->shared_hidden);
    iso_tensor *share = iso_dense(h, 1, .activation = ISO_SIGMOID, .no_bias = true,
                                  .kernel_initializer = iso_transformer_normal(0.02), .name = "share");
    return iso_name_scope_end(graph, iso_multiply(y, share));
}

static iso_tensor *llama_experts(const iso_llama_options *o, iso_tensor *h, balance *sums)
{
    const iso_initializer initializer = iso_transformer_normal(0.02);
    balance own = {0};
    iso_tensor *shared = o->shared_hidden > 0 ? shared_expert(o, h) : NULL;
    h = iso_mixture_of_experts(
        h, o->experts, o->experts_per_token, o->hidden, .no_norm = o->raw_shares,
        .activation = o->gelu_tanh ? ISO_EXPERTS_GELU_TANH : ISO_EXPERTS_SILU,
        .chosen = o->balance > 0 ? &own.chosen : NULL,
        .probability = o->balance > 0 ? &own.probability : NULL, .router_initializer = initializer,
        .gate_initializer = initializer, .up_initializer = initializer,
        .down_initializer = iso_transformer_normal(0.02 / sqrt(2.0 * (double)o->layers)), .name = "experts");
    if (own.chosen && own.probability) {
        add_to(&sums->chosen, own.chosen);
        add_to(&sums->probability, own.probability);
    }
    return shared ? iso_add(h, shared) : h;
}

static void llama_balance(const iso_llama_options *o, const balance *sums)
{
    const double layers = (double)o->layers;
    if (sums->chosen)
        iso_graph_add_loss(
            iso_tensor_graph(o->x),
            iso_affine(iso_balance_loss(sums->chosen, sums->probability), o->balance / (layers * layers), 0));
}

static iso_tensor *llama_perceptron(const iso_llama_options *o, iso_tensor *x, balance *sums)
{
    iso_tensor *h = pre_norm(o, x, "norm");
    h = o->experts > 0 ? llama_experts(o, h, sums) : gated_perceptron(o, h, o->hidden);
    return add_branch(o, x, h, "post_norm");
}

static iso_tensor *llama_block(const iso_llama_options *o, int64_t number, iso_tensor *x, balance *sums)
{
    iso_transformer_block_begin(iso_tensor_graph(x), number, o->recompute);
    iso_tensor *y = llama_perceptron(o, llama_attention(o, number, x), sums);
    return iso_transformer_block_end(y, o->recompute);
}

/* Sets head_dim if it is 0. Whether the heads divide what they share. */
static bool llama_heads_fit(iso_llama_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    const char *of = o->head_dim ? "head_dim" : "width / heads";
    if (o->head_dim == 0 && o->width % o->heads != 0)
        iso_graph_fail(graph, "llama: width %lld is not a multiple of its %lld heads", (long long)o->width,
                       (long long)o->heads);
    o->head_dim = o->head_dim ? o->head_dim : o->width / o->heads;
    if (o->heads % o->kv_heads != 0)
        iso_graph_fail(graph, "llama: heads %lld is not a multiple of kv_heads, %lld", (long long)o->heads,
                       (long long)o->kv_heads);
    else if (o->head_dim % 2 != 0)
        iso_graph_fail(graph, "llama: a head has %lld features, %s; it must be an even number",
                       (long long)o->head_dim, of);
    else if (o->output_bias && !o->qkv_bias)
        iso_graph_fail(graph, "llama: output_bias needs qkv_bias");
    return iso_graph_error(graph) == ISO_OK &&
           iso_transformer_count_fits(graph, "llama", "head_dim", o->head_dim, ISO_BUILTIN_MOST);
}

static bool llama_experts_fit(const iso_llama_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (o->experts < 0 || o->experts > ISO_BUILTIN_MOST)
        iso_graph_fail(graph, "llama: experts is %lld; it must be from 0, for none, to %d",
                       (long long)o->experts, ISO_BUILTIN_MOST);
    else if (o->experts > 0 && (o->experts_per_token < 1 || o->experts_per_token > o->experts))
        iso_graph_fail(graph, "llama: experts_per_token is %lld; it must be from 1 to experts, %lld",
                       (long long)o->experts_per_token, (long long)o->experts);
    else if (!(o->balance >= 0) || o->balance > 1e6)
        iso_graph_fail(graph, "llama: balance is %g; it must be from 0 to 1e6", o->balance);
    else if (o->shared_hidden < 0 || o->shared_hidden > ISO_BUILTIN_MOST)
        iso_graph_fail(graph, "llama: shared_hidden is %lld; it must be from 0, for none, to %d",
                       (long long)o->shared_hidden, ISO_BUILTIN_MOST);
    else if (o->experts == 0 &&
             (o->balance > 0 || o->raw_shares || o->experts_per_token != CHOICES || o->shared_hidden > 0))
        iso_graph_fail(graph, "llama: %s needs experts",
                       o->balance > 0         ? "balance"
                       : o->raw_shares        ? "raw_shares"
                       : o->shared_hidden > 0 ? "shared_hidden"
                                              : "experts_per_token");
    return iso_graph_error(graph) == ISO_OK;
}

/* A number that is positive, or 0 where that is its default. */
static bool scale_fits(const iso_llama_options *o, const char *setting, double value, bool may_be_zero)
{
    bool fits = (value > 0 && !isinf(value)) || (value == 0 && may_be_zero);
    if (!fits)
        iso_graph_fail(iso_tensor_graph(o->x), "llama: %s is %g; it must be positive%s", setting, value,
                       may_be_zero ? ", or 0 for its default" : "");
    return fits;
}

static bool llama_scales_fit(const iso_llama_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (o->no_pre_norm && !o->post_norm)
        iso_graph_fail(graph, "llama: no_pre_norm needs post_norm");
    else if (o->qk_norm_whole && !o->qk_norm)
        iso_graph_fail(graph, "llama: qk_norm_whole needs qk_norm");
    return iso_graph_error(graph) == ISO_OK && scale_fits(o, "embedding_scale", o->embedding_scale, false) &&
           scale_fits(o, "attention_scale", o->attention_scale, true) &&
           scale_fits(o, "local_wavelength", o->local_wavelength, true) &&
           scale_fits(o, "attention_cap", o->attention_cap, true) &&
           scale_fits(o, "logit_cap", o->logit_cap, true) &&
           scale_fits(o, "residual_scale", o->residual_scale, false) &&
           scale_fits(o, "logit_divisor", o->logit_divisor, false);
}

/* Which blocks differ from the others. */
static bool llama_blocks_fit(const iso_llama_options *o)
{
    const struct {
        const char *name;
        int64_t count;
    } settings[] = {
        {"full_layers", o->full_layers}, {"full_every", o->full_every}, {"nope_every", o->nope_every}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (settings[i].count < 0) {
            iso_graph_fail(iso_tensor_graph(o->x), "llama: %s is %lld; it must not be negative",
                           settings[i].name, (long long)settings[i].count);
            return false;
        }
    return true;
}

static bool llama_numbers_fit(iso_llama_options *o)
{
    iso_graph *graph = iso_tensor_graph(o->x);
    if (!iso_transformer_count_fits(graph, "llama", "layers", o->layers, ISO_TRANSFORMER_MOST_LAYERS) ||
        !iso_transformer_count_fits(graph, "llama", "heads", o->heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "llama", "kv_heads", o->kv_heads, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "llama", "width", o->width, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "llama", "hidden", o->hidden, ISO_BUILTIN_MOST) ||
        !iso_transformer_count_fits(graph, "llama", "context", o->context, ISO_BUILTIN_MOST) ||
        !iso_transformer_epsilon_fits(graph, "llama", o->epsilon))
        return false;
    if (!(o->wavelength > 0) || isinf(o->wavelength)) {
        iso_graph_fail(graph, "llama: wavelength %g; it must be positive", o->wavelength);
        return false;
    }
    if (!(o->rope_linear > 0) || isinf(o->rope_linear)) {
        iso_graph_fail(graph, "llama: rope_linear is %g; it must be positive", o->rope_linear);
        return false;
    }
    return llama_blocks_fit(o) && llama_scales_fit(o) && llama_heads_fit(o) && llama_experts_fit(o);
}

/* Whether x is [batch, t], t being at most `context`; other shapes are refused by the embedding and the attention. */
static bool llama_rows_fit(const iso_llama_options *o)
{
    const iso_shape *shape = iso_tensor_shape(o->x);
    int64_t tokens = shape->dim[shape->rank - 1];
    if (shape->rank == 2 && tokens > o->context)
        iso_graph_fail(iso_tensor_graph(o->x), "llama: rows of %lld tokens, and context is %lld",
                       (long long)tokens, (long long)o->context);
    return iso_graph_error(iso_tensor_graph(o->x)) == ISO_OK;
}

static iso_tensor *llama_embed(const iso_llama_options *o)
{
    const iso_initializer initializer = iso_transformer_normal(0.02);
    iso_tensor *h =
        o->tied ? iso_reversible_embedding(o->x, o->vocabulary, o->width,
                                           .embeddings_initializer = initializer, .name = "token_embedding")
                : iso_embedding(o->x, o->vocabulary, o->width, .embeddings_initializer = initializer,
                                .name = "token_embedding");
    const bool narrow = iso_graph_compute_type(iso_tensor_graph(o->x)) == ISO_BF16;
    const double scale =
        narrow ? iso_bf16_to_float(iso_bf16_of_double(o->embedding_scale)) : o->embedding_scale;
    return scale == 1 ? h : iso_affine(h, scale, 0);
}

static iso_tensor *llama_logits(const iso_llama_options *o, iso_tensor *h)
{
    h = o->tied ? iso_transformer_tied_logits(h, o->vocabulary, o->width)
                : iso_dense(h, o->vocabulary, .no_bias = true,
                            .kernel_initializer = iso_transformer_normal(0.02), .name = "logits");
    h = o->logit_divisor == 1 ? h : iso_affine(h, 1 / o->logit_divisor, 0);
    return o->logit_cap == 0 ? h : iso_affine(iso_tanh(iso_affine(h, 1 / o->logit_cap, 0)), o->logit_cap, 0);
}

iso_tensor *iso_llama_with(const iso_llama_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_llama_options o = {0};
    iso_options_copy(&o, sizeof o, options, size);
    ISO_NEED_TENSORS(o.x);
    for (const iso_setting *s = iso_llama_settings; s->name; s++)
        iso_setting_set(s, &o, iso_setting_option(s, &o));
    iso_graph *graph = iso_tensor_graph(o.x);
    if (!llama_numbers_fit(&o) || !llama_rows_fit(&o))
        return iso_graph_bad_tensor(graph);
    balance sums = {0};
    iso_tensor *h = llama_embed(&o);
    for (int64_t i = 0; i < o.layers; i++)
        h = llama_block(&o, i, h, &sums);
    llama_balance(&o, &sums);
    h = llama_logits(&o, llama_norm(&o, h, "norm"));
    iso_graph_set_origin(o.x, h, "llama", &o, sizeof o);
    return h;
}
