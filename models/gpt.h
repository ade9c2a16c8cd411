/* GPT-2 (Radford et al. 2019) and its like: a decoder of pre-normalised blocks of causal attention and a perceptron.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
#ifndef ISO_MODELS_GPT_H
#define ISO_MODELS_GPT_H

#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x: integers [batch, t] below `vocabulary` -> logits [batch, t, vocabulary] of the next tokens, which belong to the
 * graph. Weights are drawn with a standard deviation of 0.02, and the last product of each block with 0.02 / sqrt(2
 * layers); biases are 0. The table of tokens is also the last product's. gelu is exact, as in nanoGPT, or with
 * gelu_tanh by tanh, as in GPT-2 itself. Layers: token_embedding, position_embedding, in each block
 * block_0/attention_norm, block_0/attention, block_0/norm, block_0/up and block_0/down, and at the end norm and, with
 * `untied`, logits. The last options make it GPT-NeoX (Black et al. 2022, arXiv 2204.06745: rotary, parallel, untied)
 * or StarCoder2 (Lozhkov et al. 2024, arXiv 2402.19173: rotary, kv_heads, window). Errors stay in the graph: t above
 * `context`, a width that the heads do not divide, heads that kv_heads do not divide. */
typedef struct iso_gpt_options {
    char begin_;
    iso_tensor *x;
    int64_t vocabulary;
    int64_t layers;  /* 12; at most 10000 */
    int64_t heads;   /* 12 */
    int64_t width;   /* 768 */
    int64_t context; /* positions that there are vectors for; 1024 */
    double dropout;  /* 0, after the embeddings, attention and perceptrons, and of the attention's weights */
    bool recompute;  /* false; true: the backward pass computes each block again (iso_recompute_begin) */
    int64_t hidden;  /* features of the perceptron; 4 width */
    double epsilon;  /* 1e-5, of the normalisations */
    bool gelu_tanh;  /* false: gelu by erf */
    /* 0; positions are rotary and turn this many first features of each head, an even number: there is no layer
     * position_embedding. 0: positions have vectors, which are trained */
    int64_t rotary;
    double wavelength; /* 10000, of rotary positions */
    bool
        parallel; /* false; true: the perceptron takes what attention takes, and both results are added to it */
    bool untied;      /* false; true: the last product has a matrix of its own, logits/kernel */
    int64_t kv_heads; /* heads; fewer: heads of queries share keys and values */
    int64_t window;   /* a position attends to this many, the last is its own; 0: to all before it */
} iso_gpt_options;
ISO_API iso_tensor *iso_gpt_with(const iso_gpt_options *options, size_t size);
#define iso_gpt(...) iso_gpt_with(ISO_OPTIONS(iso_gpt_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
