/* The architectures: for each the keys of config.json and the names of its tensors. The same rows serve to read
 * and to write. Names and their meaning are those of transformers' models/gpt2, llama, mistral, phi3, qwen2,
 * qwen3, mixtral and qwen3_moe; encoders.c has the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/huggingface/rows_impl.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/origin.h"

/* ---- GPT-2: its Conv1D has matrices as we have; queries, keys and values are side by side ---- */

static const iso_hf_tensor gpt_tensors[] = {
    MATRIX("token_embedding/embeddings", "transformer.wte.weight", 1),
    MATRIX("position_embedding/embeddings", "transformer.wpe.weight", 1),
    VECTOR("block_#/attention_norm/gamma", "transformer.h.#.ln_1.weight"),
    VECTOR("block_#/attention_norm/beta", "transformer.h.#.ln_1.bias"),
    THIRD("block_#/attention/query/kernel", "transformer.h.#.attn.c_attn.weight", 1, 0),
    THIRD("block_#/attention/query/bias", "transformer.h.#.attn.c_attn.bias", 0, 0),
    THIRD("block_#/attention/key/kernel", "transformer.h.#.attn.c_attn.weight", 1, 1),
    THIRD("block_#/attention/key/bias", "transformer.h.#.attn.c_attn.bias", 0, 1),
    THIRD("block_#/attention/value/kernel", "transformer.h.#.attn.c_attn.weight", 1, 2),
    THIRD("block_#/attention/value/bias", "transformer.h.#.attn.c_attn.bias", 0, 2),
    MATRIX("block_#/attention/attention_output/kernel", "transformer.h.#.attn.c_proj.weight", 2),
    VECTOR("block_#/attention/attention_output/bias", "transformer.h.#.attn.c_proj.bias"),
    VECTOR("block_#/norm/gamma", "transformer.h.#.ln_2.weight"),
    VECTOR("block_#/norm/beta", "transformer.h.#.ln_2.bias"),
    MATRIX("block_#/up/kernel", "transformer.h.#.mlp.c_fc.weight", 1),
    VECTOR("block_#/up/bias", "transformer.h.#.mlp.c_fc.bias"),
    MATRIX("block_#/down/kernel", "transformer.h.#.mlp.c_proj.weight", 1),
    VECTOR("block_#/down/bias", "transformer.h.#.mlp.c_proj.bias"),
    VECTOR("norm/gamma", "transformer.ln_f.weight"),
    VECTOR("norm/beta", "transformer.ln_f.bias"),
    {0}};

/* Masks of older versions. */
static const char *const gpt_ignored[] = {"transformer.h.#.attn.bias", "transformer.h.#.attn.masked_bias",
                                          NULL};

static const iso_hf_key gpt_keys[] = {SETTING("n_layer", COUNT, "layers", 12, false),
                                      SETTING("n_head", COUNT, "heads", 12, false),
                                      SETTING("n_embd", COUNT, "width", 768, false),
                                      SETTING("n_positions", COUNT, "context", 1024, false),
                                      SETTING("n_inner", COUNT, "hidden", 0, true),
                                      SETTING("layer_norm_epsilon", REAL, "epsilon", 1e-5, false),
                                      SETTING("resid_pdrop", REAL, "dropout", 0.1, false),
                                      SETTING("embd_pdrop", REAL, "dropout", 0.1, false),
                                      SETTING("attn_pdrop", REAL, "dropout", 0.1, false),
                                      FIXED("scale_attn_weights", "true"),
                                      FIXED("scale_attn_by_inverse_layer_idx", "false"),
                                      FIXED("add_cross_attention", "false"),
                                      FIXED("tie_word_embeddings", "true"),
                                      {0}};

static const struct {
    const char *name;
    bool tanh;
} gpt_activations[] = {{"gelu_new", true}, {"gelu_pytorch_tanh", true}, {"gelu_fast", true}, {"gelu", false}};

/* The three rates may differ in the file. */
static iso_status gpt_read_dropout(const char *file, const json_t *config)
{
    static const char *const keys[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
    double rates[3];
    for (int i = 0; i < 3; i++)
        if (!iso_hf_number(config, keys[i], 0.1, &rates[i]) || rates[i] != rates[0])
            return iso_hf_refuse(file, keys[i], json_object_get(config, keys[i]),
                                 "embd_pdrop, resid_pdrop and attn_pdrop must be equal");
    return ISO_OK;
}

static iso_status gpt_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    const iso_gpt_options *o = &settings->gpt;
    if (o->width % o->heads != 0)
        return iso_hf_refuse(file, "n_head", json_object_get(config, "n_head"), "it must divide n_embd");
    if (o->epsilon < 0)
        return iso_hf_refuse(file, "layer_norm_epsilon", json_object_get(config, "layer_norm_epsilon"),
                             "it must not be negative");
    const json_t *value = json_object_get(config, "activation_function");
    const char *name = value ? json_string_value(value) : "gelu_new";
    for (size_t i = 0; name && i < sizeof gpt_activations / sizeof *gpt_activations; i++)
        if (strcmp(name, gpt_activations[i].name) == 0) {
            settings->gpt.gelu_tanh = gpt_activations[i].tanh;
            return gpt_read_dropout(file, config);
        }
    return iso_hf_refuse(file, "activation_function", value, "gelu_new and gelu are supported");
}

static void gpt_write(const iso_builtin_settings *settings, json_t *config)
{
    json_object_set_new(config, "activation_function",
                        json_string(settings->gpt.gelu_tanh ? "gelu_new" : "gelu"));
}

/* ---- LLaMA and its like: PyTorch's Linear has matrices [outputs, inputs] ---- */

#define LLAMA_ATTENTION                                                                                      \
    MATRIX("token_embedding/embeddings", "model.embed_tokens.weight", 1),                                    \
        VECTOR("block_#/attention_norm/scale", "model.layers.#.input_layernorm.weight"),                     \
        TRANSPOSED("block_#/attention/query/kernel", "model.layers.#.self_attn.q_proj.weight", 1),           \
        TRANSPOSED("block_#/attention/key/kernel", "model.layers.#.self_attn.k_proj.weight", 1),             \
        TRANSPOSED("block_#/attention/value/kernel", "model.layers.#.self_attn.v_proj.weight", 1),           \
        TRANSPOSED("block_#/attention/attention_output/kernel", "model.layers.#.self_attn.o_proj.weight",    \
                   2),                                                                                       \
        VECTOR("block_#/attention/query/bias", "model.layers.#.self_attn.q_proj.bias"),                      \
        VECTOR("block_#/attention/key/bias", "model.layers.#.self_attn.k_proj.bias"),                        \
        VECTOR("block_#/attention/value/bias", "model.layers.#.self_attn.v_proj.bias"),                      \
        VECTOR("block_#/attention/attention_output/bias", "model.layers.#.self_attn.o_proj.bias"),           \
        VECTOR("block_#/attention/query_norm/scale", "model.layers.#.self_attn.q_norm.weight"),              \
        VECTOR("block_#/attention/key_norm/scale", "model.layers.#.self_attn.k_norm.weight"),                \
        VECTOR("block_#/norm/scale", "model.layers.#.post_attention_layernorm.weight")
static const iso_hf_tensor llama_tensors[] = {
    LLAMA_ATTENTION,
    TRANSPOSED("block_#/gate/kernel", "model.layers.#.mlp.gate_proj.weight", 1),
    TRANSPOSED("block_#/up/kernel", "model.layers.#.mlp.up_proj.weight", 1),
    TRANSPOSED("block_#/down/kernel", "model.layers.#.mlp.down_proj.weight", 1),
    VECTOR("norm/scale", "model.norm.weight"),
    TRANSPOSED("logits/kernel", "lm_head.weight", 1),
    {0}};

/* Mixtral and Qwen3-MoE differ in the names of their experts. */
#define EXPERTS_TENSORS(block, gate, up, down)                                                               \
    LLAMA_ATTENTION, TRANSPOSED("block_#/experts/router", block ".gate.weight", 1),                          \
        EXPERTS("block_#/experts/gate", block ".experts.@." gate ".weight"),                                 \
        EXPERTS("block_#/experts/up", block ".experts.@." up ".weight"),                                     \
        EXPERTS("block_#/experts/down", block ".experts.@." down ".weight"),                                 \
        VECTOR("norm/scale", "model.norm.weight"), TRANSPOSED("logits/kernel", "lm_head.weight", 1)
static const iso_hf_tensor mixtral_tensors[] = {
    EXPERTS_TENSORS("model.layers.#.block_sparse_moe", "w1", "w3", "w2"), {0}};
static const iso_hf_tensor qwen3_moe_tensors[] = {
    EXPERTS_TENSORS("model.layers.#.mlp", "gate_proj", "up_proj", "down_proj"), {0}};

/* Frequencies of older versions. */
static const char *const llama_ignored[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", NULL};

#define LLAMA_KEYS(hidden, epsilon) LLAMA_KEYS_WITH("intermediate_size", hidden, epsilon)
#define LLAMA_KEYS_WITH(hidden_key, hidden, epsilon)                                                         \
    SETTING("num_hidden_layers", COUNT, "layers", 32, false),                                                \
        SETTING("num_attention_heads", COUNT, "heads", 32, false),                                           \
        SETTING("hidden_size", COUNT, "width", 4096, false),                                                 \
        SETTING(hidden_key, COUNT, "hidden", hidden, false),                                                 \
        SETTING("rms_norm_eps", REAL, "epsilon", epsilon, false),                                            \
        SETTING("tie_word_embeddings", FLAG, "tied", 0, false), FIXED("hidden_act", "\"silu\""),             \
        FIXED("attention_dropout", "0.0")
static const iso_hf_key llama_keys[] = {LLAMA_KEYS(11008, 1e-6),
                                        SETTING("max_position_embeddings", COUNT, "context", 2048, false),
                                        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                        FIXED("mlp_bias", "false"),
                                        {0}};
/* Mistral has the same network, with a window of attention. */
static const iso_hf_key mistral_keys[] = {LLAMA_KEYS(14336, 1e-6),
                                          SETTING("max_position_embeddings", COUNT, "context", 131072, false),
                                          SETTING("sliding_window", COUNT, "window", 4096, true),
                                          {0}};

static const iso_hf_key qwen2_keys[] = {
    LLAMA_KEYS(22016, 1e-6), SETTING("max_position_embeddings", COUNT, "context", 32768, false), {0}};
static const iso_hf_key qwen3_keys[] = {LLAMA_KEYS(22016, 1e-6),
                                        SETTING("max_position_embeddings", COUNT, "context", 32768, false),
                                        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                        {0}};

static const iso_hf_key mixtral_keys[] = {
    LLAMA_KEYS(14336, 1e-5),
    SETTING("max_position_embeddings", COUNT, "context", 131072, false),
    SETTING("sliding_window", COUNT, "window", 0, true),
    SETTING("rope_theta", REAL, "wavelength", 1e6, false), /* others: 10000 */
    SETTING("num_local_experts", COUNT, "experts", 8, false),
    SETTING("num_experts_per_tok", COUNT, "experts_per_token", 2, false),
    FIXED("router_jitter_noise", "0.0"),
    {0}};
static const iso_hf_key qwen3_moe_keys[] = {
    LLAMA_KEYS_WITH("moe_intermediate_size", 768, 1e-6),
    SETTING("max_position_embeddings", COUNT, "context", 32768, false),
    SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
    SETTING("num_experts_per_tok", COUNT, "experts_per_token", 8, false),
    FIXED("decoder_sparse_step", "1"),
    FIXED("mlp_only_layers", "[]"),
    {0}};

/* What all have in common. head_dim: if the file lacks it; 0: hidden_size / num_attention_heads. */
static iso_status llama_read_all(const char *file, const json_t *config, int64_t head_dim,
                                 iso_llama_options *o)
{
    iso_status status;
    if (o->epsilon < 0)
        return iso_hf_refuse(file, "rms_norm_eps", json_object_get(config, "rms_norm_eps"),
                             "it must not be negative");
    ISO_TRY(iso_hf_count(file, config, "num_key_value_heads", o->heads, &o->kv_heads));
    if (o->heads % o->kv_heads != 0)
        return iso_hf_refuse(file, "num_key_value_heads", json_object_get(config, "num_key_value_heads"),
                             "it must divide num_attention_heads");
    if (head_dim == 0 && o->width % o->heads == 0)
        head_dim = o->width / o->heads;
    ISO_TRY(iso_hf_count(file, config, "head_dim", head_dim, &o->head_dim));
    if (o->head_dim % 2 != 0)
        return iso_hf_refuse(file, "head_dim", json_object_get(config, "head_dim"),
                             "features of a head, or hidden_size / num_attention_heads, must be even");
    ISO_TRY(iso_hf_read_rotary(file, config, o));
done:
    return status;
}

/* transformers has this condition for LLaMA alone. */
static iso_status llama_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_llama_options *o = &settings->llama;
    o->output_bias = o->qkv_bias;
    if (o->width % o->heads != 0)
        return iso_hf_refuse(file, "num_attention_heads", json_object_get(config, "num_attention_heads"),
                             "it must divide hidden_size");
    return llama_read_all(file, config, 0, o);
}

static iso_status mistral_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    return llama_read_all(file, config, 0, &settings->llama);
}

static void llama_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    json_object_set_new(config, "num_key_value_heads", json_integer((json_int_t)o->kv_heads));
    json_object_set_new(config, "head_dim", json_integer((json_int_t)o->head_dim));
    iso_hf_write_rotary(o, config);
}

static bool is_dense(const iso_llama_options *o)
{
    return o->experts == 0;
}

static bool llama_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_dense(o) && iso_hf_has_rotary(o) && o->window == 0 && o->qkv_bias == o->output_bias &&
           !o->qk_norm && o->width % o->heads == 0;
}

static bool has_mistral_attention(const iso_llama_options *o)
{
    return iso_hf_has_rotary(o) && !o->qkv_bias && !o->output_bias && !o->qk_norm &&
           (o->window == 0 || o->full_layers == 0);
}

static bool mistral_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_dense(o) && has_mistral_attention(o);
}

/* ---- Qwen: the first blocks may attend to all positions and the others to a window ---- */

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
    const json_t *use = json_object_get(config, "use_sliding_window"),
                 *size = json_object_get(config, "sliding_window"),
                 *types = json_object_get(config, "layer_types");
    double full = 0;
    iso_status status = ISO_OK;
    if (use && !json_is_boolean(use))
        return iso_hf_refuse(file, "use_sliding_window", use, "it must be true or false");
    if (json_is_true(use) && !json_is_null(size)) {
        ISO_TRY(iso_hf_count(file, config, "sliding_window", 4096, &o->window));
        if (!iso_hf_number(config, "max_window_layers", 28, &full) ||
            !(full >= 0 && full <= ISO_BUILTIN_MOST))
            return iso_hf_refuse(file, "max_window_layers", json_object_get(config, "max_window_layers"),
                                 "it must be a count");
        o->full_layers = (int64_t)full;
    }
    if (types && !json_is_null(types))
        ISO_TRY(qwen_read_layer_types(file, types, o));
done:
    return status;
}

static iso_status qwen2_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_llama_options *o = &settings->llama;
    o->qkv_bias = true;
    iso_status status = llama_read_all(file, config, 0, o);
    return status == ISO_OK ? qwen_read_window(file, config, o) : status;
}

static iso_status qwen3_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    enum { HEAD_DIM = 128 };
    iso_llama_options *o = &settings->llama;
    o->qk_norm = true;
    o->output_bias = o->qkv_bias;
    iso_status status = llama_read_all(file, config, HEAD_DIM, o);
    return status == ISO_OK ? qwen_read_window(file, config, o) : status;
}

static void qwen_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    llama_write(settings, config);
    json_object_del(config, "layer_types"); /* they follow from the others */
    json_object_set_new(config, "use_sliding_window", json_boolean(o->window != 0));
    if (o->window == 0)
        return;
    json_object_set_new(config, "sliding_window", json_integer((json_int_t)o->window));
    json_object_set_new(config, "max_window_layers", json_integer((json_int_t)o->full_layers));
}

static bool qwen2_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_dense(o) && iso_hf_has_rotary(o) && o->qkv_bias && !o->output_bias && !o->qk_norm;
}

static bool qwen3_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return is_dense(o) && iso_hf_has_rotary(o) && o->qk_norm && o->qkv_bias == o->output_bias;
}

/* ---- Mixtral and Qwen3-MoE: Mistral and Qwen3 with experts ---- */

/* transformers adds the load balancing loss only to a model that gives out the logits of its routers. */
static iso_status read_experts(const char *file, const json_t *config, iso_llama_options *o)
{
    const json_t *loss = json_object_get(config, "output_router_logits");
    double balance = 0;
    if (o->experts_per_token > o->experts)
        return iso_hf_refuse(file, "num_experts_per_tok", json_object_get(config, "num_experts_per_tok"),
                             "it must not be greater than the number of experts");
    if (loss && !json_is_boolean(loss))
        return iso_hf_refuse(file, "output_router_logits", loss, "it must be true or false");
    if (!iso_hf_number(config, "router_aux_loss_coef", 0.001, &balance) || balance < 0)
        return iso_hf_refuse(file, "router_aux_loss_coef", json_object_get(config, "router_aux_loss_coef"),
                             "it must not be negative");
    o->balance = json_is_true(loss) ? balance : 0;
    return ISO_OK;
}

static void write_experts(const iso_llama_options *o, json_t *config)
{
    json_object_set_new(config, "output_router_logits", json_boolean(o->balance > 0));
    if (o->balance > 0)
        json_object_set_new(config, "router_aux_loss_coef", json_real(o->balance));
}

static iso_status mixtral_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    iso_status status = mistral_read(file, config, settings);
    return status == ISO_OK ? read_experts(file, config, &settings->llama) : status;
}

static void mixtral_write(const iso_builtin_settings *settings, json_t *config)
{
    llama_write(settings, config);
    write_experts(&settings->llama, config);
}

static bool mixtral_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return o->experts > 0 && !o->raw_shares && has_mistral_attention(o);
}

/* Newer files have num_local_experts, as Mixtral's. The window is that of all layers. */
static iso_status qwen3_moe_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    const char *experts = json_object_get(config, "num_experts") ? "num_experts" : "num_local_experts";
    const json_t *window = json_object_get(config, "use_sliding_window"),
                 *norm = json_object_get(config, "norm_topk_prob");
    iso_llama_options *o = &settings->llama;
    iso_status status;
    o->qk_norm = true;
    o->output_bias = o->qkv_bias;
    if (norm && !json_is_boolean(norm))
        return iso_hf_refuse(file, "norm_topk_prob", norm, "it must be true or false");
    if (window && !json_is_boolean(window))
        return iso_hf_refuse(file, "use_sliding_window", window, "it must be true or false");
    o->raw_shares = !json_is_true(norm);
    ISO_TRY(iso_hf_count(file, config, experts, 128, &o->experts));
    if (json_is_true(window) && !json_is_null(json_object_get(config, "sliding_window")))
        ISO_TRY(iso_hf_count(file, config, "sliding_window", 4096, &o->window));
    ISO_TRY(llama_read_all(file, config, 0, o));
    ISO_TRY(read_experts(file, config, o));
done:
    return status;
}

static void qwen3_moe_write(const iso_builtin_settings *settings, json_t *config)
{
    const iso_llama_options *o = &settings->llama;
    mixtral_write(settings, config);
    json_object_del(config, "num_local_experts");
    json_object_set_new(config, "num_experts", json_integer((json_int_t)o->experts));
    json_object_set_new(config, "norm_topk_prob", json_boolean(!o->raw_shares));
    json_object_set_new(config, "use_sliding_window", json_boolean(o->window != 0));
    if (o->window != 0)
        json_object_set_new(config, "sliding_window", json_integer((json_int_t)o->window));
}

static bool qwen3_moe_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return o->experts > 0 && iso_hf_has_rotary(o) && o->qk_norm && o->qkv_bias == o->output_bias &&
           (o->window == 0 || o->full_layers == 0);
}

/* ---- Phi-3: LLaMA with queries, keys and values in one matrix, and gate and up in one ---- */

static const iso_hf_tensor phi3_tensors[] = {
    MATRIX("token_embedding/embeddings", "model.embed_tokens.weight", 1),
    VECTOR("block_#/attention_norm/scale", "model.layers.#.input_layernorm.weight"),
    SLICE("block_#/attention/query/kernel", "model.layers.#.self_attn.qkv_proj.weight", 0, 3, true),
    SLICE("block_#/attention/key/kernel", "model.layers.#.self_attn.qkv_proj.weight", 1, 3, true),
    SLICE("block_#/attention/value/kernel", "model.layers.#.self_attn.qkv_proj.weight", 2, 3, true),
    TRANSPOSED("block_#/attention/attention_output/kernel", "model.layers.#.self_attn.o_proj.weight", 2),
    VECTOR("block_#/norm/scale", "model.layers.#.post_attention_layernorm.weight"),
    SLICE("block_#/gate/kernel", "model.layers.#.mlp.gate_up_proj.weight", 0, 2, false),
    SLICE("block_#/up/kernel", "model.layers.#.mlp.gate_up_proj.weight", 1, 2, false),
    TRANSPOSED("block_#/down/kernel", "model.layers.#.mlp.down_proj.weight", 1),
    VECTOR("norm/scale", "model.norm.weight"),
    TRANSPOSED("logits/kernel", "lm_head.weight", 1),
    {0}};

static const iso_hf_key phi3_keys[] = {LLAMA_KEYS(8192, 1e-5),
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
    const json_t *scaling = json_object_get(config, "rope_scaling");
    const char *key = scaling && !json_is_null(scaling) ? "rope_scaling" : "rope_parameters";
    iso_status status = llama_read_all(file, config, 0, &settings->llama);
    if (status == ISO_OK && !has_default_positions(&settings->llama))
        status = iso_hf_refuse(file, key, json_object_get(config, key),
                               "of Phi-3 the type \"default\" is supported");
    return status;
}

/* ---- all ---- */

static const iso_hf_architecture gpt = {.type = "gpt2",
                                        .class = "GPT2LMHeadModel",
                                        .builtin = "gpt",
                                        .size = sizeof(iso_gpt_options),
                                        .prefix = "transformer.",
                                        .tensors = gpt_tensors,
                                        .ignored = gpt_ignored,
                                        .table = "transformer.wte.weight",
                                        .keys = gpt_keys,
                                        .read = gpt_read,
                                        .write = gpt_write};
#define LLAMA_LIKE(name, class_name, rows)                                                                   \
    .type = name, .class = class_name, .builtin = "llama", .size = sizeof(iso_llama_options),                \
    .prefix = "model.", .tensors = rows, .ignored = llama_ignored, .table = "model.embed_tokens.weight",     \
    .lacks = "this combination of window, full_layers, qkv_bias, output_bias, qk_norm, rope_factor, "        \
             "rope_linear, rope_attention, experts and raw_shares of llama"
static const iso_hf_architecture llama = {LLAMA_LIKE("llama", "LlamaForCausalLM", llama_tensors),
                                          .keys = llama_keys, .read = llama_read, .write = llama_write,
                                          .has = llama_has};
static const iso_hf_architecture mistral = {LLAMA_LIKE("mistral", "MistralForCausalLM", llama_tensors),
                                            .keys = mistral_keys, .read = mistral_read, .write = llama_write,
                                            .has = mistral_has};
static const iso_hf_architecture qwen2 = {LLAMA_LIKE("qwen2", "Qwen2ForCausalLM", llama_tensors),
                                          .keys = qwen2_keys, .read = qwen2_read, .write = qwen_write,
                                          .has = qwen2_has};
static const iso_hf_architecture qwen3 = {LLAMA_LIKE("qwen3", "Qwen3ForCausalLM", llama_tensors),
                                          .keys = qwen3_keys, .read = qwen3_read, .write = qwen_write,
                                          .has = qwen3_has};
static const iso_hf_architecture phi3 = {LLAMA_LIKE("phi3", "Phi3ForCausalLM", phi3_tensors),
                                         .keys = phi3_keys, .read = phi3_read, .write = llama_write,
                                         .has = phi3_has};
static const iso_hf_architecture mixtral = {LLAMA_LIKE("mixtral", "MixtralForCausalLM", mixtral_tensors),
                                            .keys = mixtral_keys, .read = mixtral_read,
                                            .write = mixtral_write, .has = mixtral_has};
static const iso_hf_architecture qwen3_moe = {
    LLAMA_LIKE("qwen3_moe", "Qwen3MoeForCausalLM", qwen3_moe_tensors), .keys = qwen3_moe_keys,
    .read = qwen3_moe_read, .write = qwen3_moe_write, .has = qwen3_moe_has};
/* For a model without a file the first that has it is taken. */
const iso_hf_architecture *const iso_hf_architectures[] = {
    &gpt, &llama, &mistral, &qwen2, &qwen3, &phi3, &mixtral, &qwen3_moe, ISO_HF_ENCODERS, NULL};

const iso_hf_architecture *iso_hf_architecture_find(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    for (int i = 0; type && iso_hf_architectures[i]; i++)
        if (strcmp(iso_hf_architectures[i]->type, type) == 0)
            return iso_hf_architectures[i];
    return NULL;
}

iso_status iso_hf_architecture_of(iso_model *model, const char *use, const iso_hf_architecture **architecture,
                                  iso_builtin_settings *settings)
{
    bool one = iso_model_input_count(model) == 1 && iso_model_output_count(model) == 1;
    const char *lacks = NULL;
    for (int i = 0; one && iso_hf_architectures[i]; i++) {
        const iso_hf_architecture *a = iso_hf_architectures[i];
        const void *options = iso_graph_origin(iso_model_input(model), iso_model_output(model), a->builtin);
        if (!options)
            continue;
        lacks = a->lacks;
        *settings = (iso_builtin_settings){0};
        memcpy(settings, options, a->size);
        if (a->has && !a->has(settings))
            continue;
        *architecture = a;
        return ISO_OK;
    }
    if (lacks)
        return iso_error(ISO_INVALID, "'%s': no model of transformers that is supported has %s", use, lacks);
    return iso_error(ISO_INVALID,
                     "'%s': the model is not a built-in gpt, llama, bert or vit, which alone are exchanged "
                     "with Hugging Face",
                     use);
}

bool iso_hf_architecture_fits(const iso_hf_architecture *other, const iso_hf_architecture *architecture,
                              const iso_builtin_settings *settings)
{
    return strcmp(other->builtin, architecture->builtin) == 0 && (!other->has || other->has(settings));
}

/* The digits at the beginning of a text as a number, as it is written here: without zeros before it. Returns what
 * follows them; NULL: there are none. */
static const char *read_number(const char *text, int64_t *number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    *number = strtoll(text, &end, 10);
    return *text == '0' && end != text + 1 ? NULL : end;
}

/* Whether a text is the pattern with numbers in the places of '#' and '@', and any end in the place of a last '*'. */
static bool fits(const char *pattern, const char *text, int64_t *block, int64_t *expert)
{
    *block = *expert = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '#')
            text = read_number(text, block);
        else if (*pattern == '@')
            text = read_number(text, expert);
        else if (*pattern == '*' && !pattern[1])
            return true;
        else if (*text++ != *pattern)
            return false;
        if (!text)
            return false;
    }
    return *text == '\0';
}

/* The same for a name that may lack the prefix. */
static bool fits_name(const iso_hf_architecture *a, const char *pattern, const char *name, int64_t *block,
                      int64_t *expert)
{
    const size_t prefix = strlen(a->prefix);
    return fits(pattern, name, block, expert) ||
           (strncmp(pattern, a->prefix, prefix) == 0 && fits(pattern + prefix, name, block, expert));
}

const iso_hf_tensor *iso_hf_tensor_of(const iso_hf_architecture *a, const char *path, int64_t *block)
{
    int64_t expert;
    for (const iso_hf_tensor *t = a->tensors; t->ours; t++)
        if (fits(t->ours, path, block, &expert))
            return t;
    return NULL;
}

bool iso_hf_is_theirs(const iso_variable *variable)
{
    return !iso_path_below_optimizer(iso_variable_path(variable)) && !iso_variable_is_adapter(variable);
}

/* Copies a pattern with the numbers in the places of '#' and '@'. */
static char *fill_in_name(const char *pattern, int64_t block, int64_t expert, char text[ISO_HF_NAME])
{
    size_t length = 0;
    for (; *pattern && length < ISO_HF_NAME; pattern++)
        if (*pattern == '#' || *pattern == '@')
            length += (size_t)snprintf(text + length, ISO_HF_NAME - length, "%lld",
                                       (long long)(*pattern == '#' ? block : expert));
        else
            text[length++] = *pattern;
    text[length < ISO_HF_NAME ? length : ISO_HF_NAME - 1] = '\0';
    return text;
}

bool iso_hf_name_fits(const iso_hf_tensor *row, const char *name, char ours[ISO_HF_NAME])
{
    int64_t block, expert;
    if (!fits(row->theirs, name, &block, &expert))
        return false;
    fill_in_name(row->ours, block, expert, ours);
    return true;
}

char *iso_hf_name(const iso_hf_tensor *row, int64_t block, int64_t expert, char text[ISO_HF_NAME])
{
    return fill_in_name(row->theirs, block, expert, text);
}

bool iso_hf_is_known(const iso_hf_architecture *a, iso_graph *graph, const char *name)
{
    char path[ISO_HF_NAME];
    int64_t block, expert;
    for (const iso_hf_tensor *t = a->tensors; t->ours; t++) {
        if (!fits_name(a, t->theirs, name, &block, &expert))
            continue;
        const iso_variable *variable =
            iso_graph_find_variable(graph, fill_in_name(t->ours, block, expert, path));
        if (variable && expert < iso_hf_tensor_count(t, iso_variable_shape(variable)))
            return true;
    }
    return false;
}

bool iso_hf_is_ignored(const iso_hf_architecture *a, const char *name)
{
    int64_t block, expert;
    for (int i = 0; a->ignored[i]; i++)
        if (fits_name(a, a->ignored[i], name, &block, &expert))
            return true;
    return false;
}
