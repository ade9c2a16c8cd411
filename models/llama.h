/* LLaMA (Touvron et al. 2023, arXiv 2302.13971 and 2307.09288): a decoder of pre-normalised blocks of causal
 * attention with rotary positions and a gated perceptron.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_MODELS_LLAMA_H
#define ISO_MODELS_LLAMA_H

#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: integers [batch, t] below `vocabulary` -> logits [batch, t, vocabulary] of the next tokens, which belong to the
 * graph. No product has a bias. With `tied` the table of tokens is also the matrix of the logits. Weights are drawn
 * with a standard deviation of 0.02, and the last product of each block with 0.02 / sqrt(2 layers). Layers:
 * token_embedding, in each block block_0/attention_norm, block_0/attention, block_0/norm, block_0/gate, block_0/up
 * and block_0/down, and at the end norm and, unless tied, logits. Errors stay in the graph: t above `context`, a
 * width that the heads do not divide, heads that kv_heads do not divide, an odd width / heads. */
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
    /* Llama 3.1's stretch of rotary positions (iso_rotary_stretch); rope_factor 0: none */
    double rope_factor, rope_low, rope_high;
    int64_t rope_context;
    int64_t window; /* Mistral's: a position attends to this many, the last is its own; 0: to all before it */
} iso_llama_options;
ISO_API iso_tensor *iso_llama_with(const iso_llama_options *options, size_t size);
#define iso_llama(...) iso_llama_with(ISO_OPTIONS(iso_llama_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
