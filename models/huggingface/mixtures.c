/* Mixtral and Qwen3-MoE, which are Mistral and Qwen3 with experts, OLMoE and Qwen2-MoE. */

#include "models/huggingface/decoders_impl.h"

/* They differ in the names of their experts. */
#define EXPERTS_TENSORS(block, gate, up, down)                                                               \
    ATTENTION_TENSORS, PRE_NORM_TENSORS, TRANSPOSED("block_#/experts/router", block ".gate.weight", 1),      \
        EXPERTS("block_#/experts/gate", block ".experts.@." gate ".weight"),                                 \
        EXPERTS("block_#/experts/up", block ".experts.@." up ".weight"),                                     \
        EXPERTS("block_#/experts/down", block ".experts.@." down ".weight"), LAST_TENSORS
static const iso_hf_tensor mixtral_tensors[] = {
    EXPERTS_TENSORS("model.layers.#.block_sparse_moe", "w1", "w3", "w2"), {0}};
static const iso_hf_tensor qwen3_moe_tensors[] = {
    EXPERTS_TENSORS("model.layers.#.mlp", "gate_proj", "up_proj", "down_proj"), {0}};
static const iso_hf_tensor qwen2_moe_tensors[] = {
    EXPERTS_TENSORS("model.layers.#.mlp", "gate_proj", "up_proj", "down_proj"),
    TRANSPOSED("block_#/shared/gate/kernel", "model.layers.#.mlp.shared_expert.gate_proj.weight", 1),
    TRANSPOSED("block_#/shared/up/kernel", "model.layers.#.mlp.shared_expert.up_proj.weight", 1),
    TRANSPOSED("block_#/shared/down/kernel", "model.layers.#.mlp.shared_expert.down_proj.weight", 1),
    TRANSPOSED("block_#/shared/share/kernel", "model.layers.#.mlp.shared_expert_gate.weight", 1),
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
    SIZES(24, 32, 2048),
    LLAMA_KEYS_WITH("moe_intermediate_size", 768, 1e-6),
    SETTING("max_position_embeddings", COUNT, "context", 32768, false),
    SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
    SETTING("num_experts_per_tok", COUNT, "experts_per_token", 8, false),
    FIXED("decoder_sparse_step", "1"),
    FIXED_OR_NULL("mlp_only_layers", "[]"),
    {0}};

/* transformers adds the load balancing loss only to a model that gives out the logits of its routers. fallback: of
 * router_aux_loss_coef */
static iso_status read_experts(const char *file, const json_t *config, double fallback, iso_llama_options *o)
{
    bool loss = false;
    double balance = 0;
    if (o->experts_per_token > o->experts)
        return iso_hf_refuse(file, "num_experts_per_tok", json_object_get(config, "num_experts_per_tok"),
                             "it must not be greater than the number of experts");
    if (!iso_hf_number(config, "router_aux_loss_coef", fallback, &balance) || balance < 0)
        return iso_hf_refuse(file, "router_aux_loss_coef", json_object_get(config, "router_aux_loss_coef"),
                             "it must not be negative");
    iso_status status = iso_hf_read_flag(file, config, "output_router_logits", false, &loss);
    o->balance = loss ? balance : 0;
    return status;
}

static void write_experts(const iso_llama_options *o, json_t *config)
{
    json_object_set_new(config, "output_router_logits", json_boolean(o->balance > 0));
    if (o->balance > 0)
        json_object_set_new(config, "router_aux_loss_coef", json_real(o->balance));
}

static iso_status mixtral_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 8};
    iso_status status = iso_hf_read_llama(file, config, &heads, &settings->llama);
    return status == ISO_OK ? read_experts(file, config, 0.001, &settings->llama) : status;
}

static void mixtral_write(const iso_builtin_settings *settings, json_t *config)
{
    iso_hf_write_llama(settings, config);
    write_experts(&settings->llama, config);
}

static bool mixtral_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_plain_mixture(o) && o->experts > 0 && !o->raw_shares && iso_hf_has_mistral_attention(o);
}

static iso_status read_shares(const char *file, const json_t *config, iso_llama_options *o)
{
    bool norm = false;
    iso_status status = iso_hf_read_flag(file, config, "norm_topk_prob", false, &norm);
    o->raw_shares = !norm;
    return status;
}

/* Newer files have num_local_experts, as Mixtral's. The window is that of all layers. */
static iso_status qwen3_moe_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 4};
    const char *experts = json_object_get(config, "num_experts") ? "num_experts" : "num_local_experts";
    iso_llama_options *o = &settings->llama;
    iso_status status;
    o->qk_norm = true;
    o->output_bias = o->qkv_bias;
    ISO_TRY(read_shares(file, config, o));
    ISO_TRY(iso_hf_count(file, config, experts, 128, &o->experts));
    ISO_TRY(iso_hf_read_used_window(file, config, &o->window));
    ISO_TRY(iso_hf_read_llama(file, config, &heads, o));
    ISO_TRY(read_experts(file, config, 0.001, o));
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
    iso_hf_write_used_window(o, config);
}

static bool qwen3_moe_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_plain_mixture(o) && o->experts > 0 && iso_hf_has_rotary(o) && o->qk_norm &&
           o->qkv_bias == o->output_bias && (o->window == 0 || o->full_layers == 0);
}

/* ---- OLMoE: the heads of queries and keys are normalised together ---- */

static const iso_hf_key olmoe_keys[] = {SIZES(16, 16, 2048),
                                        LLAMA_KEYS_WITH("intermediate_size", 2048, 1e-5),
                                        SETTING("max_position_embeddings", COUNT, "context", 4096, false),
                                        SETTING("attention_bias", FLAG, "qkv_bias", 0, false),
                                        SETTING("num_experts", COUNT, "experts", 64, false),
                                        SETTING("num_experts_per_tok", COUNT, "experts_per_token", 8, false),
                                        FIXED("clip_qkv", "null"),
                                        {0}};

/* Its normalisations have hidden_size / num_attention_heads features for each head. */
static bool has_even_heads(const iso_llama_options *o)
{
    return o->head_dim * o->heads == o->width;
}

static iso_status olmoe_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.null_kv_heads = true};
    iso_llama_options *o = &settings->llama;
    iso_status status;
    o->qk_norm = o->qk_norm_whole = true;
    o->output_bias = o->qkv_bias;
    ISO_TRY(read_shares(file, config, o));
    ISO_TRY(iso_hf_read_llama(file, config, &heads, o));
    if (!has_even_heads(o))
        return iso_hf_refuse(file, "head_dim", json_object_get(config, "head_dim"),
                             "it must be hidden_size / num_attention_heads");
    ISO_TRY(read_experts(file, config, 0.01, o));
done:
    return status;
}

static void olmoe_write(const iso_builtin_settings *settings, json_t *config)
{
    mixtral_write(settings, config);
    json_object_set_new(config, "norm_topk_prob", json_boolean(!settings->llama.raw_shares));
}

static bool olmoe_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_like_llama(o) && o->experts > 0 && o->shared_hidden == 0 && !o->post_norm &&
           iso_hf_has_rotary(o) && o->window == 0 && o->qk_norm && o->qk_norm_whole &&
           o->qkv_bias == o->output_bias && has_even_heads(o);
}

/* ---- Qwen2-MoE: a perceptron that all tokens take, beside the experts ---- */

static const iso_hf_key qwen2_moe_keys[] = {
    SIZES(24, 16, 2048),
    LLAMA_KEYS_WITH("moe_intermediate_size", 1408, 1e-6),
    SETTING("max_position_embeddings", COUNT, "context", 32768, false),
    SETTING("qkv_bias", FLAG, "qkv_bias", 1, false),
    SETTING("num_experts", COUNT, "experts", 60, false),
    SETTING("num_experts_per_tok", COUNT, "experts_per_token", 4, false),
    SETTING("shared_expert_intermediate_size", COUNT, "shared_hidden", 5632, false),
    FIXED("decoder_sparse_step", "1"),
    FIXED_OR_NULL("mlp_only_layers", "[]"),
    FIXED("use_sliding_window", "false"),
    {0}};

static iso_status qwen2_moe_read(const char *file, const json_t *config, iso_builtin_settings *settings)
{
    static const iso_hf_heads heads = {.kv_heads = 16};
    iso_llama_options *o = &settings->llama;
    iso_status status;
    ISO_TRY(iso_hf_check_full(file, config, o));
    ISO_TRY(read_shares(file, config, o));
    ISO_TRY(iso_hf_read_llama(file, config, &heads, o));
    ISO_TRY(read_experts(file, config, 0.001, o));
done:
    return status;
}

static void qwen2_moe_write(const iso_builtin_settings *settings, json_t *config)
{
    olmoe_write(settings, config);
    json_object_del(config, "layer_types"); /* all are full_attention without */
}

static bool qwen2_moe_has(const iso_builtin_settings *settings)
{
    const iso_llama_options *o = &settings->llama;
    return iso_hf_is_like_llama(o) && o->experts > 0 && o->shared_hidden > 0 && !o->post_norm &&
           iso_hf_has_rotary(o) && o->window == 0 && !o->qk_norm && !o->output_bias;
}

/* ---- all ---- */

const iso_hf_architecture iso_hf_mixtral = {LLAMA_LIKE("mixtral", "MixtralForCausalLM", mixtral_tensors),
                                            .keys = mixtral_keys, .read = mixtral_read,
                                            .write = mixtral_write, .has = mixtral_has};
const iso_hf_architecture iso_hf_qwen3_moe = {
    LLAMA_LIKE("qwen3_moe", "Qwen3MoeForCausalLM", qwen3_moe_tensors), .keys = qwen3_moe_keys,
    .read = qwen3_moe_read, .write = qwen3_moe_write, .has = qwen3_moe_has};
const iso_hf_architecture iso_hf_olmoe = {LLAMA_LIKE("olmoe", "OlmoeForCausalLM", qwen3_moe_tensors),
                                          .keys = olmoe_keys, .read = olmoe_read, .write = olmoe_write,
                                          .has = olmoe_has};
const iso_hf_architecture iso_hf_qwen2_moe = {
    LLAMA_LIKE("qwen2_moe", "Qwen2MoeForCausalLM", qwen2_moe_tensors), .keys = qwen2_moe_keys,
    .read = qwen2_moe_read, .write = qwen2_moe_write, .has = qwen2_moe_has};
