/* LLaMA (Touvron et al. 2023, arXiv 2302.13971 and 2307.09288): a decoder of pre-normalised blocks of causal
 * attention with rotary positions and a gated perceptron.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_MODELS_LLAMA_H
#define ISO_MODELS_LLAMA_H

#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: integers [batch, t] below `vocabulary` -> logits [batch, t, vocabulary] of the next tokens, which belong to
 * the graph. With `tied` the table of tokens is also the matrix of the logits. Weights are drawn with a standard
 * deviation of 0.02, and the last product of each block with 0.02 / sqrt(2 layers); biases are 0. Layers:
 * token_embedding, in each block block_0/attention_norm, block_0/attention, block_0/norm, block_0/gate, block_0/up
 * and block_0/down, and at the end norm and, unless tied, logits. The last options make it Mistral, Qwen2
 * (qkv_bias), Qwen3 (head_dim, qk_norm) or Mixtral and Qwen3-MoE (experts; the layer block_0/experts is then in
 * the place of gate, up and down). Errors stay in the graph: t above `context`, a width that the heads do not
 * divide where head_dim is 0, heads that kv_heads do not divide, heads with an odd number of features. */
typedef struct iso_llama_options {
    char begin_;
    iso_tensor *x;
    int64_t vocabulary;
    int64_t layers;    /* 12; at most 10000 */
    int64_t heads;     /* 12, of queries */
    int64_t kv_heads;  /* 4, of keys and values */
    int64_t width;     /* 768 */
    int64_t hidden;    /* 2048, of the perceptron */
    int64_t context;   /* 1024: the most tokens of a row */
    double wavelength; /* 10000, of rotary positions */
    bool recompute;    /* the backward pass computes each block again (iso_recompute_begin) */
    double epsilon;    /* 1e-5, of the normalisations */
    bool tied;         /* false */
    /* Llama 3.1's stretch of rotary positions (iso_rotary_stretch), or with rope_yarn YaRN's; rope_factor 0: none */
    double rope_factor, rope_low, rope_high;
    int64_t rope_context;
    int64_t window; /* Mistral's: a position attends to this many, the last is its own; 0: to all before it */
    int64_t full_layers; /* this many first blocks have no window; 0 */
    int64_t head_dim;    /* features of a head; width / heads */
    bool qkv_bias;       /* false; biases of queries, keys and values */
    bool output_bias;    /* false; a bias of the product that joins the heads; needs qkv_bias */
    bool qk_norm;   /* false; RMS normalisation of the heads of queries and keys, before rotary positions */
    bool rope_yarn; /* false; rope_low and rope_high are then YaRN's beta_slow and beta_fast */
    double rope_attention; /* YaRN's attention factor; with rope_yarn 0.1 log(rope_factor) + 1, otherwise 1 */
    double rope_linear;    /* 1; rotary positions are divided by it */
    int64_t experts; /* Mixtral's: each block has this many perceptrons (iso_mixture_of_experts); 0: one */
    int64_t experts_per_token; /* 2 */
    bool
        raw_shares; /* false; the shares of a token's experts are their probabilities, which do not add up to 1 */
    double
        balance; /* 0; this times the load balancing loss of all layers (iso_balance_loss) is added to the loss */
    bool zero_centered; /* false; normalisations multiply by 1 + scale (iso_rms_norm), as in Gemma */
    bool gelu_tanh;     /* false; the gate's activation is gelu by tanh, as in Gemma, not silu */
    /* 1; tokens' rows are multiplied by it, rounded to the type of the computation */
    double embedding_scale;
    double attention_scale; /* of the products of queries and keys; 1 / sqrt(head_dim) */
    /* false; the results of attention and perceptron are normalised, too, before they are added, as in Gemma 2:
     * block_0/attention_post_norm and block_0/post_norm */
    bool post_norm;
    bool no_pre_norm;   /* false; these are the only ones in a block, as in OLMo 2; needs post_norm */
    int64_t full_every; /* of so many blocks the last one has no window; 0: see full_layers */
    /* wavelength of the blocks with a window, whose positions are neither stretched nor divided, as in Gemma 3;
     * 0: all blocks have the same positions */
    double local_wavelength;
    /* 0; scores of attention become attention_cap tanh(score / attention_cap), as in Gemma 2; 0: they do not */
    double attention_cap;
    double logit_cap;   /* logits become logit_cap tanh(logits / logit_cap); 0: they do not */
    bool qk_norm_whole; /* false; with qk_norm: over all heads of a position, as in OLMo 2 */
    /* 1; the results of attention and perceptron are multiplied by it before they are added, as in Granite */
    double residual_scale;
    double logit_divisor; /* 1; logits are divided by it, as in Granite */
    /* With experts: features of a further perceptron, which all tokens take, times sigmoid(x share/kernel): the
     * layers block_0/shared/gate, up, down and share, as in Qwen2-MoE; 0: there is none */
    int64_t shared_hidden;
    int64_t
        nope_every; /* of so many blocks the last one has no rotary positions, as in SmolLM3; 0: all have */
} iso_llama_options;
ISO_API iso_tensor *iso_llama_with(const iso_llama_options *options, size_t size);
#define iso_llama(...) iso_llama_with(ISO_OPTIONS(iso_llama_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
