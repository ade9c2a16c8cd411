/* What decoders like LLaMA have in common: PyTorch's Linear has matrices [outputs, inputs]. For models/huggingface
 * only. */
#ifndef ISO_MODELS_HUGGINGFACE_DECODERS_IMPL_H
#define ISO_MODELS_HUGGINGFACE_DECODERS_IMPL_H

#include "models/huggingface/rows_impl.h"

/* ---- tensors ---- */

#define ATTENTION_TENSORS                                                                                    \
    MATRIX("token_embedding/embeddings", "model.embed_tokens.weight", 1),                                    \
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
        VECTOR("block_#/attention/key_norm/scale", "model.layers.#.self_attn.k_norm.weight")
/* Of blocks that normalise what attention and perceptron take. */
#define PRE_NORM_TENSORS                                                                                     \
    VECTOR("block_#/attention_norm/scale", "model.layers.#.input_layernorm.weight"),                         \
        VECTOR("block_#/norm/scale", "model.layers.#.post_attention_layernorm.weight")
#define PERCEPTRON_TENSORS                                                                                   \
    TRANSPOSED("block_#/gate/kernel", "model.layers.#.mlp.gate_proj.weight", 1),                             \
        TRANSPOSED("block_#/up/kernel", "model.layers.#.mlp.up_proj.weight", 1),                             \
        TRANSPOSED("block_#/down/kernel", "model.layers.#.mlp.down_proj.weight", 1)
#define LAST_TENSORS                                                                                         \
    VECTOR("norm/scale", "model.norm.weight"), TRANSPOSED("logits/kernel", "lm_head.weight", 1)

extern const iso_hf_tensor iso_hf_llama_tensors[];
/* Of OLMo 2 and 3. */
extern const iso_hf_tensor iso_hf_olmo2_tensors[];
/* Frequencies of older versions. */
extern const char *const iso_hf_llama_ignored[];

/* ---- keys ---- */

#define SIZES(layers, heads, width)                                                                          \
    SETTING("num_hidden_layers", COUNT, "layers", layers, false),                                            \
        SETTING("num_attention_heads", COUNT, "heads", heads, false),                                        \
        SETTING("hidden_size", COUNT, "width", width, false)
#define DECODER_KEYS(hidden_key, hidden, epsilon, is_tied)                                                   \
    SETTING(hidden_key, COUNT, "hidden", hidden, false),                                                     \
        SETTING("rms_norm_eps", POSITIVE, "epsilon", epsilon, false),                                        \
        SETTING("tie_word_embeddings", FLAG, "tied", is_tied, false), FIXED("attention_dropout", "0.0")
#define LLAMA_KEYS_WITH(hidden_key, hidden, epsilon)                                                         \
    DECODER_KEYS(hidden_key, hidden, epsilon, 0), FIXED("hidden_act", "\"silu\"")
#define LLAMA_KEYS(hidden, epsilon) SIZES(32, 32, 4096), LLAMA_KEYS_WITH("intermediate_size", hidden, epsilon)

/* The numbers of heads and of their features where a file lacks them. */
typedef struct iso_hf_heads {
    int64_t kv_heads;   /* 0: as many as of queries */
    bool null_kv_heads; /* null is allowed: as many as of queries */
    int64_t head_dim;   /* 0: hidden_size / num_attention_heads, which null is then too */
} iso_hf_heads;
/* What all have in common. ISO_INVALID: iso_hf_refuse. */
iso_status iso_hf_read_llama(const char *file, const json_t *config, const iso_hf_heads *heads,
                             iso_llama_options *o);
/* The same without rotary positions. */
iso_status iso_hf_read_heads(const char *file, const json_t *config, const iso_hf_heads *heads,
                             iso_llama_options *o);
/* num_attention_heads must divide hidden_size; transformers has this condition for some alone. */
iso_status iso_hf_check_width(const char *file, const json_t *config, const iso_llama_options *o);
void iso_hf_write_llama(const iso_builtin_settings *settings, json_t *config);
/* The window of a file that has use_sliding_window; 0: none. */
iso_status iso_hf_read_used_window(const char *file, const json_t *config, int64_t *window);
void iso_hf_write_used_window(const iso_llama_options *o, json_t *config);

/* The window of blocks, of which of so many (`pattern`) the last one has none unless layer_types say others; and the
 * keys of both. */
iso_status iso_hf_read_windows(const char *file, const json_t *config, int64_t pattern, iso_llama_options *o);
void iso_hf_write_windows(const iso_llama_options *o, json_t *config);
/* ISO_INVALID: layer_types are there and not "full_attention" for each layer. */
iso_status iso_hf_check_full(const char *file, const json_t *config, const iso_llama_options *o);
/* Whether keys of two kinds of rotary positions can say what the settings do: without a wavelength of their own,
 * blocks with a window have the same positions as the others. */
bool iso_hf_has_two_rotaries(const iso_llama_options *o);

/* Whether normalisations, activation, windows, scales and caps of a model are LLaMA's. */
bool iso_hf_is_like_llama(const iso_llama_options *o);
/* Whether a model has nothing of what makes it a Gemma, an OLMo 2 or a Granite, nor experts. */
bool iso_hf_is_plain(const iso_llama_options *o);
/* The same but for experts. */
bool iso_hf_is_plain_mixture(const iso_llama_options *o);
bool iso_hf_has_mistral_attention(const iso_llama_options *o);

/* ---- rows ---- */

#define LLAMA_LIKE(name, class_name, rows)                                                                   \
    .type = name, .class = class_name, .builtin = "llama", .size = sizeof(iso_llama_options),                \
    .prefix = "model.", .tensors = rows, .ignored = iso_hf_llama_ignored,                                    \
    .table = "model.embed_tokens.weight", .copy = "lm_head.weight", .task = "CAUSAL_LM",                     \
    .lacks = "this combination of the settings of llama"

#endif
