/* LLaMA, Mistral, Qwen 2 and 3, Phi-3, OLMo 2 and Granite. */
#include <math.h>
#include <string.h>

#include "models/huggingface/decoders_impl.h"

const char *const iso_hf_llama_ignored[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", NULL};

/* ---- what all have in common ---- */

iso_status iso_hf_read_heads(const char *file, const json_t *config, const iso_hf_heads *heads,
                             iso_llama_options *o)
{
    static const char kv[] = "num_key_value_heads", dim[] = "head_dim";
    int64_t kv_heads = heads->kv_heads ? heads->kv_heads : o->heads, head_dim = heads->head_dim;
    iso_status status;
    if (heads->null_kv_heads && json_is_null(json_object_get(config, kv)))
        o->kv_heads = o->heads;
    else
        ISO_TRY(iso_hf_count(file, config, kv, kv_heads, &o->kv_heads));
    if (o->heads % o->kv_heads != 0)
        return iso_hf_refuse(file, kv, json_object_get(config, kv), "it must divide num_attention_heads");
    if (head_dim == 0 && o->width % o->heads == 0)
        head_dim = o->width / o->heads;
    if (heads->head_dim == 0 && head_dim > 0 && json_is_null(json_object_get(config, dim)))
        o->head_dim = head_dim;
    else
        ISO_TRY(iso_hf_count(file, config, dim, head_dim, &o->head_dim));
    if (o->head_dim % 2 != 0)
        return iso_hf_refuse(file, dim, json_object_get(config, dim),
                             "features of a head, or hidden_size / num_attention_heads, must be even");
done:
    return status;
}

iso_status iso_hf_read_llama(const char *file, const json_t *config, const iso_hf_heads *heads,
                             iso_llama_options *o)
{
    iso_status status = iso_hf_read_heads(file, config, heads, o);
    return status == ISO_OK ? iso_hf_read_rotary(file, config, o) : status;
}

iso_status iso_hf_check_width(const char *file, const json_t *config, const iso_llama_options *o)
{
    return o->width % o->heads == 0
               ? ISO_OK
               : iso_hf_refuse(file, "num_attention_heads", json_object_get(config, "num_attention_heads"),
                               "it must divide hidden_size");
}

void iso_hf_write_llama(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    json_object_set_new(config, "num_key_value_heads", json_integer((json_int_t)o->kv_heads));
    json_object_set_new(config, "head_dim", json_integer((json_int_t)o->head_dim));
    iso_hf_write_rotary(o, config);
}

iso_status iso_hf_read_used_window(const char *file, const json_t *config, int64_t *window)
{
    bool use = false;
    iso_status status = iso_hf_read_flag(file, config, "use_sliding_window", false, &use);
    *window = 0;
    if (status == ISO_OK && use && !json_is_null(json_object_get(config, "sliding_window")))
        status = iso_hf_count(file, config, "sliding_window", 4096, window);
    return status;
}

void iso_hf_write_used_window(const iso_llama_options *o, json_t *config)
{
    json_object_set_new(config, "use_sliding_window", json_boolean(o->window != 0));
    if (o->window != 0)
        json_object_set_new(config, "sliding_window", json_integer((json_int_t)o->window));
}

/* With scales of its own, or without. */
static bool is_like_granite(const iso_llama_options *o)
{
    const bool windows = o->window != 0 && (o->full_every != 0 || o->local_wavelength != 0);
    return !o->zero_centered && !o->gelu_tanh && o->nope_every == 0 && !windows && o->attention_cap == 0 &&
           o->logit_cap == 0;
}

bool iso_hf_is_like_llama(const iso_llama_options *o)
{
    return is_like_granite(o) && o->embedding_scale == 1 && o->attention_scale == 0 &&
           o->residual_scale == 1 && o->logit_divisor == 1;
}

bool iso_hf_is_plain_mixture(const iso_llama_options *o)
{
    return iso_hf_is_like_llama(o) && !o->post_norm && !o->qk_norm_whole && o->shared_hidden == 0;
}

bool iso_hf_is_plain(const iso_llama_options *o)
{
    return o->experts == 0 && iso_hf_is_plain_mixture(o);
}

bool iso_hf_has_mistral_attention(const iso_llama_options *o)
{
    return iso_hf_has_rotary(o) && !o->qkv_bias && !o->output_bias && !o->qk_norm &&
           (o->window == 0 || o->full_layers == 0);
}

/* ---- LLaMA; Mistral, the same with a window of attention ---- */

const iso_hf_tensor iso_hf_llama_tensors[] = {
    ATTENTION_TENSORS, PRE_NORM_TENSORS, PERCEPTRON_TENSORS, LAST_TENSORS, {0}};

static const iso_hf_key llama_keys[] = {LLAMA_KEYS(11008, 1e-6),
                                        SETTING("max_position_embeddings", COUNT, "context", 2048, false),
                                        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                        FIXED("mlp_bias", "false"),
                                        {0}};
static const iso_hf_key mistral_keys[] = {LLAMA_KEYS(14336, 1e-6),
                                          SETTING("max_position_embeddings", COUNT, "context", 131072, false),
                                          SETTING("sliding_window", COUNT, "window", 4096, true),
                                          {0}};

static iso_status llama_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.null_kv_heads = true};
    iso_llama_options *o = &settings->llama;
    o->output_bias = o->qkv_bias;
    iso_status status = iso_hf_check_width(file, config, o);
    return status == ISO_OK ? iso_hf_read_llama(file, config, &heads, o) : status;
}

static iso_status mistral_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 8};
    return iso_hf_read_llama(file, config, &heads, &settings->llama);
}

static bool llama_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_plain(o) && iso_hf_has_rotary(o) && o->window == 0 && o->qkv_bias == o->output_bias &&
           !o->qk_norm && o->width % o->heads == 0;
}

static bool mistral_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_plain(o) && iso_hf_has_mistral_attention(o);
}

/* ---- Qwen: the first blocks may attend to all positions and the others to a window ---- */

static const iso_hf_key qwen2_keys[] = {
    LLAMA_KEYS(22016, 1e-6), SETTING("max_position_embeddings", COUNT, "context", 32768, false), {0}};
static const iso_hf_key qwen3_keys[] = {LLAMA_KEYS(22016, 1e-6),
                                        SETTING("max_position_embeddings", COUNT, "context", 32768, false),
                                        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                        {0}};

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* The number of first blocks that layer_types calls "full_attention", if the others are "sliding_attention". */
static iso_status qwen_read_layer_types(const char *file, const json_t *types, iso_llama_options *o)
{
    const int64_t count = (int64_t)json_array_size(types);
    int64_t full = 0, sliding;
    while (full < count && is_text(json_array_get(types, (size_t)full), "full_attention"))
        full++;
    for (sliding = full; sliding < count; sliding++)
        if (!is_text(json_array_get(types, (size_t)sliding), "sliding_attention"))
            break;
    if (count != o->layers || sliding != count || (full < count && o->window == 0))
        return iso_hf_refuse(file, "layer_types", types,
                             "supported: for each layer \"full_attention\", then, with use_sliding_window, "
                             "\"sliding_attention\"");
    o->full_layers = full;
    return ISO_OK;
}

static iso_status qwen_read_window(const char *file, const json_t *config, iso_llama_options *o)
{
    const json_t *types = json_object_get(config, "layer_types");
    double full = 0;
    iso_status status;
    ISO_TRY(iso_hf_read_used_window(file, config, &o->window));
    if (!iso_hf_number(config, "max_window_layers", 28, &full) || !(full >= 0 && full <= ISO_BUILTIN_MOST))
        return iso_hf_refuse(file, "max_window_layers", json_object_get(config, "max_window_layers"),
                             "it must be a count");
    o->full_layers = o->window ? (int64_t)full : 0;
    if (types && !json_is_null(types))
        ISO_TRY(qwen_read_layer_types(file, types, o));
done:
    return status;
}

static iso_status qwen2_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 32, .null_kv_heads = true};
    iso_llama_options *o = &settings->llama;
    o->qkv_bias = true;
    iso_status status = iso_hf_read_llama(file, config, &heads, o);
    return status == ISO_OK ? qwen_read_window(file, config, o) : status;
}

static iso_status qwen3_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 32, .null_kv_heads = true, .head_dim = 128};
    iso_llama_options *o = &settings->llama;
    o->qk_norm = true;
    o->output_bias = o->qkv_bias;
    iso_status status = iso_hf_read_llama(file, config, &heads, o);
    return status == ISO_OK ? qwen_read_window(file, config, o) : status;
}

static void qwen_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    iso_hf_write_llama(settings, config);
    json_object_del(config, "layer_types"); /* they follow from the others */
    iso_hf_write_used_window(o, config);
    if (o->window != 0)
        json_object_set_new(config, "max_window_layers", json_integer((json_int_t)o->full_layers));
}

static bool qwen2_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_plain(o) && iso_hf_has_rotary(o) && o->qkv_bias && !o->output_bias && !o->qk_norm;
}

static bool qwen3_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_plain(o) && iso_hf_has_rotary(o) && o->qk_norm && o->qkv_bias == o->output_bias;
}

/* ---- Phi-3: LLaMA with queries, keys and values in one matrix, and gate and up in one ---- */

static const iso_hf_tensor phi3_tensors[] = {
    MATRIX("token_embedding/embeddings", "model.embed_tokens.weight", 1),
    VECTOR("block_#/attention_norm/scale", "model.layers.#.input_layernorm.weight"),
    SLICE("block_#/attention/query/kernel", "model.layers.#.self_attn.qkv_proj.weight", 0, 3,
          ISO_HF_BY_HEADS),
    SLICE("block_#/attention/key/kernel", "model.layers.#.self_attn.qkv_proj.weight", 1, 3, ISO_HF_BY_HEADS),
    SLICE("block_#/attention/value/kernel", "model.layers.#.self_attn.qkv_proj.weight", 2, 3,
          ISO_HF_BY_HEADS),
    TRANSPOSED("block_#/attention/attention_output/kernel", "model.layers.#.self_attn.o_proj.weight", 2),
    VECTOR("block_#/norm/scale", "model.layers.#.post_attention_layernorm.weight"),
    SLICE("block_#/gate/kernel", "model.layers.#.mlp.gate_up_proj.weight", 0, 2, ISO_HF_EQUAL),
    SLICE("block_#/up/kernel", "model.layers.#.mlp.gate_up_proj.weight", 1, 2, ISO_HF_EQUAL),
    TRANSPOSED("block_#/down/kernel", "model.layers.#.mlp.down_proj.weight", 1),
    VECTOR("norm/scale", "model.norm.weight"),
    TRANSPOSED("logits/kernel", "lm_head.weight", 1),
    {0}};

static const iso_hf_key phi3_keys[] = {SIZES(32, 32, 3072),
                                       LLAMA_KEYS_WITH("intermediate_size", 8192, 1e-5),
                                       SETTING("max_position_embeddings", COUNT, "context", 4096, false),
                                       SETTING("sliding_window", COUNT, "window", 0, true),
                                       FIXED("attention_bias", "false"),
                                       FIXED("resid_pdrop", "0.0"),
                                       FIXED("embd_pdrop", "0.0"),
                                       {0}};

static bool has_default_positions(const iso_llama_options *o)
{
    return o->rope_factor == 0 && o->rope_linear == 1 && o->rope_attention == 0;
}

static bool phi3_has(const iso_builtin_settings *settings)
{
    return has_default_positions(&settings->llama) && mistral_has(settings);
}

static iso_status phi3_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.null_kv_heads = true};
    const json_t *scaling = json_object_get(config, "rope_scaling");
    const char *key = scaling && !json_is_null(scaling) ? "rope_scaling" : "rope_parameters";
    iso_status status = iso_hf_read_llama(file, config, &heads, &settings->llama);
    if (status == ISO_OK && !has_default_positions(&settings->llama))
        status = iso_hf_refuse(file, key, json_object_get(config, key),
                               "of Phi-3 the type \"default\" is supported");
    return status;
}

/* ---- OLMo 2: the results of attention and perceptron are normalised instead of what they take ---- */

const iso_hf_tensor iso_hf_olmo2_tensors[] = {
    ATTENTION_TENSORS,
    VECTOR("block_#/attention_post_norm/scale", "model.layers.#.post_attention_layernorm.weight"),
    VECTOR("block_#/post_norm/scale", "model.layers.#.post_feedforward_layernorm.weight"),
    PERCEPTRON_TENSORS,
    LAST_TENSORS,
    {0}};

static const iso_hf_key olmo2_keys[] = {LLAMA_KEYS(11008, 1e-5),
                                        SETTING("max_position_embeddings", COUNT, "context", 2048, false),
                                        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                        {0}};

static iso_status olmo2_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.null_kv_heads = true};
    iso_llama_options *o = &settings->llama;
    o->post_norm = o->no_pre_norm = true;
    o->qk_norm = o->qk_norm_whole = true;
    o->output_bias = o->qkv_bias;
    return iso_hf_read_llama(file, config, &heads, o);
}

static bool olmo2_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_like_llama(o) && o->experts == 0 && iso_hf_has_rotary(o) && o->window == 0 &&
           o->post_norm && o->no_pre_norm && o->qk_norm && o->qk_norm_whole && o->qkv_bias == o->output_bias;
}

/* ---- Granite: LLaMA with four scales ---- */

static const iso_hf_key granite_keys[] = {LLAMA_KEYS(11008, 1e-6),
                                          SETTING("max_position_embeddings", COUNT, "context", 2048, false),
                                          SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                          FIXED("mlp_bias", "false"),
                                          SETTING("embedding_multiplier", REAL, "embedding_scale", 1, false),
                                          SETTING("attention_multiplier", REAL, "attention_scale", 1, false),
                                          SETTING("residual_multiplier", REAL, "residual_scale", 1, false),
                                          SETTING("logits_scaling", REAL, "logit_divisor", 1, false),
                                          {0}};

static iso_status granite_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.null_kv_heads = true};
    static const char *const scales[] = {"embedding_multiplier", "attention_multiplier",
                                         "residual_multiplier", "logits_scaling"};
    iso_llama_options *o = &settings->llama;
    double scale;
    iso_status status = ISO_OK;
    o->output_bias = o->qkv_bias;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        ISO_TRY(iso_hf_positive(file, config, scales[i], 1, &scale));
    ISO_TRY(iso_hf_read_llama(file, config, &heads, o));
done:
    return status;
}

static void granite_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    iso_hf_write_llama(settings, config);
    if (o->attention_scale == 0)
        json_object_set_new(config, "attention_multiplier", json_real(1 / sqrt((double)o->head_dim)));
}

static bool granite_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_like_granite(o) && o->experts == 0 && iso_hf_has_rotary(o) && o->window == 0 && !o->post_norm &&
           !o->qk_norm && o->qkv_bias == o->output_bias;
}

/* ---- all ---- */

const iso_hf_architecture iso_hf_llama = {LLAMA_LIKE("llama", "LlamaForCausalLM", iso_hf_llama_tensors),
                                          .keys = llama_keys, .read = llama_read, .write = iso_hf_write_llama,
                                          .has = llama_has};
const iso_hf_architecture iso_hf_mistral = {LLAMA_LIKE("mistral", "MistralForCausalLM", iso_hf_llama_tensors),
                                            .keys = mistral_keys, .read = mistral_read,
                                            .write = iso_hf_write_llama, .has = mistral_has};
const iso_hf_architecture iso_hf_qwen2 = {LLAMA_LIKE("qwen2", "Qwen2ForCausalLM", iso_hf_llama_tensors),
                                          .keys = qwen2_keys, .read = qwen2_read, .write = qwen_write,
                                          .has = qwen2_has};
const iso_hf_architecture iso_hf_qwen3 = {LLAMA_LIKE("qwen3", "Qwen3ForCausalLM", iso_hf_llama_tensors),
                                          .keys = qwen3_keys, .read = qwen3_read, .write = qwen_write,
                                          .has = qwen3_has};
const iso_hf_architecture iso_hf_phi3 = {LLAMA_LIKE("phi3", "Phi3ForCausalLM", phi3_tensors),
                                         .keys = phi3_keys, .read = phi3_read, .write = iso_hf_write_llama,
                                         .has = phi3_has};
const iso_hf_architecture iso_hf_olmo2 = {LLAMA_LIKE("olmo2", "Olmo2ForCausalLM", iso_hf_olmo2_tensors),
                                          .keys = olmo2_keys, .read = olmo2_read, .write = iso_hf_write_llama,
                                          .has = olmo2_has};
const iso_hf_architecture iso_hf_granite = {LLAMA_LIKE("granite", "GraniteForCausalLM", iso_hf_llama_tensors),
                                            .keys = granite_keys, .read = granite_read,
                                            .write = granite_write, .has = granite_has};
