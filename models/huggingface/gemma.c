/* Gemma 1 and 2, and the texts' part of Gemma 3: normalisations by 1 + weight, embeddings times the root of the
 * width, and gelu by tanh. */
#include <math.h>
#include <string.h>

#include "models/huggingface/decoders_impl.h"

static const iso_hf_tensor gemma_tensors[] = {
    ATTENTION_TENSORS, PRE_NORM_TENSORS, PERCEPTRON_TENSORS, LAST_TENSORS, {0}};
static const iso_hf_tensor gemma2_tensors[] = {
    ATTENTION_TENSORS,
    VECTOR("block_#/attention_norm/scale", "model.layers.#.input_layernorm.weight"),
    VECTOR("block_#/attention_post_norm/scale", "model.layers.#.post_attention_layernorm.weight"),
    VECTOR("block_#/norm/scale", "model.layers.#.pre_feedforward_layernorm.weight"),
    VECTOR("block_#/post_norm/scale", "model.layers.#.post_feedforward_layernorm.weight"),
    PERCEPTRON_TENSORS,
    LAST_TENSORS,
    {0}};

/* As in transformers. */
enum {
    QUERY_SCALAR = 256,
    PATTERN_2 = 2,
    PATTERN_3 = 6,
    GLOBAL_WAVELENGTH = 1000000,
    LOCAL_WAVELENGTH = 10000
};

#define GEMMA_KEYS(hidden, context)                                                                          \
    DECODER_KEYS("intermediate_size", hidden, 1e-6, 1),                                                      \
        SETTING("max_position_embeddings", COUNT, "context", context, false),                                \
        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),                                               \
        FIXED_OR_NULL("use_bidirectional_attention", "false")
static const iso_hf_key gemma_keys[] = {SIZES(28, 16, 3072), GEMMA_KEYS(24576, 8192), {0}};
static const iso_hf_key gemma2_keys[] = {
    SIZES(26, 8, 2304), GEMMA_KEYS(9216, 8192), FIXED("hidden_activation", "\"gelu_pytorch_tanh\""), {0}};
static const iso_hf_key gemma3_keys[] = {SIZES(26, 8, 2304),
                                         GEMMA_KEYS(9216, 131072),
                                         FIXED("hidden_activation", "\"gelu_pytorch_tanh\""),
                                         FIXED("attn_logit_softcapping", "null"),
                                         {0}};

/* ---- what all have in common ---- */

static iso_status read_all(const char *file, const json_t *config, int64_t kv_heads, iso_llama_options *o)
{
    const iso_hf_heads heads = {.kv_heads = kv_heads, .head_dim = 256};
    o->zero_centered = true;
    o->gelu_tanh = true;
    o->embedding_scale = sqrt((double)o->width);
    o->output_bias = o->qkv_bias;
    return iso_hf_read_heads(file, config, &heads, o);
}

static bool is_gemma(const iso_llama_options *o)
{
    return o->experts == 0 && iso_hf_has_rotary(o) && o->nope_every == 0 && o->zero_centered &&
           o->gelu_tanh && !o->no_pre_norm && o->embedding_scale == sqrt((double)o->width) &&
           o->qkv_bias == o->output_bias && !o->qk_norm_whole && o->residual_scale == 1 &&
           o->logit_divisor == 1;
}

/* ---- Gemma 1 ---- */

/* The activation has been by tanh in all versions of transformers, also where files of the first one say gelu. */
static iso_status check_activation(const char *file, const json_t *config)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(config, keys[i]);
        const char *name = json_string_value(value);
        const bool later_null = i > 0 && json_is_null(value);
        if (value && !later_null &&
            (!name || (strcmp(name, "gelu_pytorch_tanh") != 0 && (i > 0 || strcmp(name, "gelu") != 0))))
            return iso_hf_refuse(file, keys[i], value, "only \"gelu_pytorch_tanh\" is supported");
    }
    return ISO_OK;
}

static iso_status gemma_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_llama_options *o = &settings->llama;
    iso_status status;
    ISO_TRY(check_activation(file, config));
    ISO_TRY(read_all(file, config, 16, o));
    ISO_TRY(iso_hf_read_rotary(file, config, o));
done:
    return status;
}

static void gemma_write(const iso_builtin_settings *settings, json_t *config)
{
    iso_hf_write_llama(settings, config);
    json_object_set_new(config, "hidden_act", json_string("gelu_pytorch_tanh"));
}

static bool gemma_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_gemma(o) && o->window == 0 && !o->post_norm && !o->qk_norm && o->attention_scale == 0 &&
           o->attention_cap == 0 && o->logit_cap == 0;
}

/* ---- Gemma 2 and 3: blocks with a window, but for every n-th one ---- */

/* The scores' factor: the root of 1 / query_pre_attn_scalar. */
static iso_status read_scale(const char *file, const json_t *config, iso_llama_options *o)
{
    int64_t scalar = 0;
    iso_status status = iso_hf_count(file, config, "query_pre_attn_scalar", QUERY_SCALAR, &scalar);
    o->attention_scale = scalar == o->head_dim ? 0 : 1 / sqrt((double)scalar);
    return status;
}

static int64_t query_scalar(const iso_llama_options *o)
{
    return o->attention_scale == 0 ? o->head_dim : llround(1 / (o->attention_scale * o->attention_scale));
}

static bool has_scalar(const iso_llama_options *o)
{
    return o->attention_scale == 0 || 1 / sqrt((double)query_scalar(o)) == o->attention_scale;
}

/* null: there is none. */
static iso_status read_cap(const char *file, const json_t *config, const char *key, double fallback,
                           double *cap)
{
    const json_t *value = json_object_get(config, key);
    *cap = value ? 0 : fallback;
    return !value || json_is_null(value) ? ISO_OK : iso_hf_positive(file, config, key, 0, cap);
}

static json_t *cap_of(double cap)
{
    return cap == 0 ? json_null() : json_real(cap);
}

static iso_status gemma2_read_all(const char *file, const json_t *config, int64_t pattern,
                                  iso_llama_options *o)
{
    iso_status status;
    o->post_norm = true;
    ISO_TRY(iso_hf_check_width(file, config, o));
    ISO_TRY(read_all(file, config, 4, o));
    ISO_TRY(iso_hf_read_windows(file, config, pattern, o));
    ISO_TRY(read_scale(file, config, o));
done:
    return status;
}

static iso_status gemma2_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_llama_options *o = &settings->llama;
    iso_status status;
    ISO_TRY(gemma2_read_all(file, config, PATTERN_2, o));
    ISO_TRY(read_cap(file, config, "attn_logit_softcapping", 50, &o->attention_cap));
    ISO_TRY(read_cap(file, config, "final_logit_softcapping", 30, &o->logit_cap));
    ISO_TRY(iso_hf_read_rotary(file, config, o));
done:
    return status;
}

static iso_status gemma3_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_llama_options *o = &settings->llama;
    int64_t pattern = PATTERN_3;
    iso_status status;
    o->qk_norm = true;
    o->wavelength = GLOBAL_WAVELENGTH;
    o->local_wavelength = LOCAL_WAVELENGTH;
    ISO_TRY(iso_hf_count(file, config, "sliding_window_pattern", PATTERN_3, &pattern));
    ISO_TRY(gemma2_read_all(file, config, pattern, o));
    ISO_TRY(read_cap(file, config, "final_logit_softcapping", 0, &o->logit_cap));
    ISO_TRY(iso_hf_read_two_rotaries(file, config, o));
done:
    return status;
}

static void gemma2_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    iso_hf_write_llama(settings, config);
    iso_hf_write_windows(o, config);
    json_object_set_new(config, "query_pre_attn_scalar", json_integer((json_int_t)query_scalar(o)));
    json_object_set_new(config, "attn_logit_softcapping", cap_of(o->attention_cap));
    json_object_set_new(config, "final_logit_softcapping", cap_of(o->logit_cap));
}

static void gemma3_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    gemma2_write(settings, config);
    json_object_del(config, "sliding_window_pattern"); /* layer_types say it */
    iso_hf_write_two_rotaries(o, o->local_wavelength ? o->local_wavelength : o->wavelength, config);
}

static bool is_gemma2(const iso_llama_options *o)
{
    return is_gemma(o) && o->post_norm && has_scalar(o) && (o->window == 0 || o->full_layers == 0) &&
           o->width % o->heads == 0;
}

static bool gemma2_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_gemma2(o) && !o->qk_norm && (o->window == 0 || o->local_wavelength == 0);
}

static bool gemma3_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_gemma2(o) && o->qk_norm && o->attention_cap == 0 && iso_hf_has_two_rotaries(o);
}

/* ---- all ---- */

const iso_hf_architecture iso_hf_gemma = {LLAMA_LIKE("gemma", "GemmaForCausalLM", gemma_tensors),
                                          .keys = gemma_keys, .read = gemma_read, .write = gemma_write,
                                          .has = gemma_has};
const iso_hf_architecture iso_hf_gemma2 = {LLAMA_LIKE("gemma2", "Gemma2ForCausalLM", gemma2_tensors),
                                           .keys = gemma2_keys, .read = gemma2_read, .write = gemma2_write,
                                           .has = gemma2_has};
const iso_hf_architecture iso_hf_gemma3 = {LLAMA_LIKE("gemma3_text", "Gemma3ForCausalLM", gemma2_tensors),
                                           .keys = gemma3_keys, .read = gemma3_read, .write = gemma3_write,
                                           .has = gemma3_has};
