/* StarCoder2: GPT with rotary positions, heads that share keys and values, and perhaps a window. */
#include <string.h>

#include "models/huggingface/rows_impl.h"

#define LAYER "model.layers.#."
static const iso_hf_tensor tensors[] = {
    MATRIX("token_embedding/embeddings", "model.embed_tokens.weight", 1),
    VECTOR("block_#/attention_norm/gamma", LAYER "input_layernorm.weight"),
    VECTOR("block_#/attention_norm/beta", LAYER "input_layernorm.bias"),
    TRANSPOSED("block_#/attention/query/kernel", LAYER "self_attn.q_proj.weight", 1),
    VECTOR("block_#/attention/query/bias", LAYER "self_attn.q_proj.bias"),
    TRANSPOSED("block_#/attention/key/kernel", LAYER "self_attn.k_proj.weight", 1),
    VECTOR("block_#/attention/key/bias", LAYER "self_attn.k_proj.bias"),
    TRANSPOSED("block_#/attention/value/kernel", LAYER "self_attn.v_proj.weight", 1),
    VECTOR("block_#/attention/value/bias", LAYER "self_attn.v_proj.bias"),
    TRANSPOSED("block_#/attention/attention_output/kernel", LAYER "self_attn.o_proj.weight", 2),
    VECTOR("block_#/attention/attention_output/bias", LAYER "self_attn.o_proj.bias"),
    VECTOR("block_#/norm/gamma", LAYER "post_attention_layernorm.weight"),
    VECTOR("block_#/norm/beta", LAYER "post_attention_layernorm.bias"),
    TRANSPOSED("block_#/up/kernel", LAYER "mlp.c_fc.weight", 1),
    VECTOR("block_#/up/bias", LAYER "mlp.c_fc.bias"),
    TRANSPOSED("block_#/down/kernel", LAYER "mlp.c_proj.weight", 1),
    VECTOR("block_#/down/bias", LAYER "mlp.c_proj.bias"),
    VECTOR("norm/gamma", "model.norm.weight"),
    VECTOR("norm/beta", "model.norm.bias"),
    TRANSPOSED("logits/kernel", "lm_head.weight", 1),
    {0}};

static const char *const ignored[] = {LAYER "self_attn.rotary_emb.inv_freq", NULL};

static const iso_hf_key keys[] = {SETTING("num_hidden_layers", COUNT, "layers", 30, false),
                                  SETTING("num_attention_heads", COUNT, "heads", 24, false),
                                  SETTING("num_key_value_heads", COUNT, "kv_heads", 2, false),
                                  SETTING("hidden_size", COUNT, "width", 3072, false),
                                  SETTING("intermediate_size", COUNT, "hidden", 12288, false),
                                  SETTING("max_position_embeddings", COUNT, "context", 4096, false),
                                  SETTING("sliding_window", COUNT, "window", 0, true),
                                  SETTING("norm_epsilon", POSITIVE, "epsilon", 1e-5, false),
                                  SETTING("attention_dropout", REAL, "dropout", 0, false),
                                  SETTING("residual_dropout", REAL, "dropout", 0, false),
                                  SETTING("embedding_dropout", REAL, "dropout", 0, false),
                                  FIXED("use_bias", "true"),
                                  {0}};

/* All features of a head are rotary. */
static iso_status read_positions(const char *file, const json_t *config, iso_gpt_options *o)
{
    iso_llama_options read = {.context = o->context, .wavelength = o->wavelength, .rope_linear = 1};
    const json_t *older = json_object_get(config, "rope_scaling");
    const char *key = older && !json_is_null(older) ? "rope_scaling" : "rope_parameters";
    iso_status status = iso_hf_read_rotary(file, config, &read);
    if (status == ISO_OK && (read.rope_factor != 0 || read.rope_linear != 1))
        status = iso_hf_refuse(file, key, json_object_get(config, key),
                               "of StarCoder2 the type \"default\" is supported");
    o->rotary = o->width / o->heads;
    o->wavelength = read.wavelength;
    return status;
}

static iso_status check_heads(const char *file, const json_t *config, const iso_gpt_options *o)
{
    const bool divides = o->width % o->heads == 0, even = o->width / o->heads % 2 == 0;
    if (!divides || !even)
        return iso_hf_refuse(file, "num_attention_heads", json_object_get(config, "num_attention_heads"),
                             divides ? "hidden_size / num_attention_heads must be even"
                                     : "it must divide hidden_size");
    return o->heads % o->kv_heads == 0
               ? ISO_OK
               : iso_hf_refuse(file, "num_key_value_heads", json_object_get(config, "num_key_value_heads"),
                               "it must divide num_attention_heads");
}

static iso_status read_starcoder2(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const char *const rates[] = {"attention_dropout", "residual_dropout", "embedding_dropout", NULL};
    iso_gpt_options *o = &settings->gpt;
    bool tied = true;
    iso_status status;
    ISO_TRY(check_heads(file, config, o));
    ISO_TRY(iso_hf_read_flag(file, config, "tie_word_embeddings", true, &tied));
    o->untied = !tied;
    ISO_TRY(iso_hf_read_gelu(file, config, "hidden_act", "gelu_pytorch_tanh", &o->gelu_tanh));
    ISO_TRY(iso_hf_check_rates(file, config, rates, 0));
    ISO_TRY(read_positions(file, config, o));
done:
    return status;
}

static void write_starcoder2(const iso_builtin_settings *settings, json_t *config)
{
    const iso_gpt_options *o = &settings->gpt;
    const iso_llama_options positions = {.wavelength = o->wavelength, .rope_linear = 1};
    json_object_set_new(config, "hidden_act", json_string(o->gelu_tanh ? "gelu_pytorch_tanh" : "gelu"));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(!o->untied));
    iso_hf_write_rotary(&positions, config);
}

static bool has_starcoder2(const iso_builtin_settings *settings)
{
    const iso_gpt_options *o = &settings->gpt;
    return o->rotary == o->width / o->heads && !o->parallel;
}

const iso_hf_architecture iso_hf_starcoder2 = {.type = "starcoder2",
                                               .class = "Starcoder2ForCausalLM",
                                               .builtin = "gpt",
                                               .size = sizeof(iso_gpt_options),
                                               .prefix = "model.",
                                               .tensors = tensors,
                                               .ignored = ignored,
                                               .table = "model.embed_tokens.weight",
                                               .copy = "lm_head.weight",
                                               .task = "CAUSAL_LM",
                                               .keys = keys,
                                               .read = read_starcoder2,
                                               .write = write_starcoder2,
                                               .has = has_starcoder2,
                                               .lacks = "this combination of the settings of gpt"};
