/* Attention.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_ATTENTION_H
#define ISO_MODELS_LAYERS_ATTENTION_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Attention of queries to keys in several heads (Vaswani et al. 2017, arXiv 1706.03762). x, the query:
 * [batch, t, d], value: [batch, s, dv], key (NULL: value): [batch, s, dk] -> [batch, t, output_shape or d].
 * There may be several dimensions between the first and the last. Variables: query/kernel [d,
 * heads, key_dim], query/bias [heads, key_dim], key/..., value/... [.., heads, value_dim],
 * attention_output/kernel [heads, value_dim, output...], attention_output/bias [output...]. Layouts of the
 * heads: "-, model, -" on the first three kernels, "model, -, -" on the last. */
typedef struct iso_multi_head_attention_options {
    char begin_;
    iso_tensor *x;
    iso_tensor *value;
    int64_t num_heads;
    int64_t key_dim;
    iso_tensor *key;
    /* [batch, t, s] or [batch, heads, t, s], any type: elements that are not 0 are attended to; heads, t and s may
     * be 1, which stands for all of them: [batch, 1, s] is a mask of the keys */
    iso_tensor *attention_mask;
    int64_t value_dim;      /* key_dim */
    double dropout;         /* of the attention's weights */
    bool no_bias;           /* in none of the products */
    bool use_gate;          /* multiplies the output of the heads by sigmoid(x gate/kernel + gate/bias) */
    bool causal;            /* no position attends to later ones: Keras's use_causal_mask */
    int64_t sliding_window; /* attends to fewer than this many positions before and after; 0: to all */
    /* Rotary positions, as iso_rotary_embedding (core.h): each query and key is turned by its position, with this
     * max_wavelength, as 10000; 0: not. x has 3 dimensions, key_dim is even. Keras's files cannot hold it. */
    double rope_max_wavelength;
    double rope_scaling_factor;       /* 1 */
    iso_shape output_shape;           /* of an element of the output; rank 0: [d] */
    int attention_axes[ISO_MAX_RANK]; /* the last dimensions before the features, listed; default: all */
    int attention_axis_count;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *query_layout, *key_layout, *value_layout, *gate_layout, *output_layout; /* of the kernels */
    const char *name;
    iso_rotary_stretch rope_stretch; /* of rotary positions (graph.h); .factor 0: none */
    /* RMS normalisation of each head of queries and keys, before rotary positions, as in Qwen3 (after Henry et al.
     * 2020, arXiv 2010.04245): variables query_norm/scale and key_norm/scale [key_dim], ones at first. Keras's files
     * can hold neither this nor the next options. */
    bool qk_norm;
    double qk_norm_epsilon; /* 1e-6 */
    bool no_output_bias;    /* none in the last product; those before have one unless no_bias */
    /* YaRN's: the cosines and sines of rotary positions are multiplied by it, so the products of queries and keys by
     * its square; 1 */
    double rope_attention_factor;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
    double score_scale;         /* of the products of queries and keys; 1 / sqrt(key_dim) */
    bool qk_norm_zero_centered; /* with qk_norm: the factors are 1 + scale, as in iso_rms_norm */
    /* With qk_norm: all heads of a position are one row, as in OLMo 2; the variables are [heads, key_dim]. */
    bool qk_norm_whole;
    double
        score_cap; /* scores become score_cap tanh(score / score_cap), before masks, as in Gemma 2; 0: they do not */
    /* This many first features of each head are turned by rotary positions and the others stay, as in GPT-NeoX: an
     * even number; 0: all */
    int64_t rope_features;
} iso_multi_head_attention_options;
ISO_API iso_tensor *iso_multi_head_attention_with(const iso_multi_head_attention_options *options,
                                                  size_t size);
#define iso_multi_head_attention(...)                                                                        \
    iso_multi_head_attention_with(ISO_OPTIONS(iso_multi_head_attention_options, __VA_ARGS__))

/* Attention whose query heads share keys and values (Ainslie et al. 2023, arXiv 2305.13245): query head h has those
 * of head h / (num_query_heads / num_key_value_heads). x, value, key, attention_mask as above, with 3 dimensions.
 * Variables: query/kernel [d, query heads, head_dim], query/bias [query heads, head_dim], key/... and value/... [..,
 * key_value heads, head_dim], attention_output/kernel [query heads, head_dim, d], attention_output/bias [d]. */
typedef struct iso_grouped_query_attention_options {
    char begin_;
    iso_tensor *x;
    iso_tensor *value;
    int64_t head_dim;
    int64_t num_query_heads; /* a multiple of num_key_value_heads */
    int64_t num_key_value_heads;
    iso_tensor *key;
    iso_tensor *attention_mask;
    double dropout;
    bool no_bias;
    bool use_gate;
    bool causal;
    int64_t sliding_window;
    double rope_max_wavelength; /* head_dim is then even */
    double rope_scaling_factor;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *query_layout, *key_layout, *value_layout, *gate_layout, *output_layout; /* of the kernels */
    const char *name;
    iso_rotary_stretch rope_stretch;
    bool qk_norm;
    double qk_norm_epsilon; /* 1e-6 */
    bool no_output_bias;
    double rope_attention_factor;                             /* 1 */
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
    double score_scale;                                       /* 1 / sqrt(head_dim) */
    bool qk_norm_zero_centered, qk_norm_whole;
    double score_cap;
    int64_t rope_features; /* head_dim */
} iso_grouped_query_attention_options;
ISO_API iso_tensor *iso_grouped_query_attention_with(const iso_grouped_query_attention_options *options,
                                                     size_t size);
#define iso_grouped_query_attention(...)                                                                     \
    iso_grouped_query_attention_with(ISO_OPTIONS(iso_grouped_query_attention_options, __VA_ARGS__))

/* Keras's Attention, without kernels: x: queries [batch, t, d], value: [batch, s, v], key: [batch, s, d] or NULL
 * (value) -> [batch, t, v], the sums of the values by softmax(scores). Scores are query key', times the variable
 * scale (a number, 1 at first) with use_scale; with concat concat_score_weight sum(tanh(scale (query + key))),
 * which stores [batch, t, s, d]. Values that the mask of `value` leaves out get no weight; where that of the
 * queries is false, the result is 0. */
typedef struct iso_dot_attention_options {
    char begin_;
    iso_tensor *x;
    iso_tensor *value;
    iso_tensor *key;
    bool use_scale;
    bool concat;         /* Keras's score_mode="concat" */
    double dropout;      /* of the weights, in training functions; 0 <= dropout < 1 */
    bool causal;         /* a query attends to values up to its own position */
    iso_tensor **scores; /* if not NULL, gets the weights [batch, t, s]: Keras's return_attention_scores */
    const char *name;
} iso_dot_attention_options;
ISO_API iso_tensor *iso_dot_attention_with(const iso_dot_attention_options *options, size_t size);
#define iso_dot_attention(...) iso_dot_attention_with(ISO_OPTIONS(iso_dot_attention_options, __VA_ARGS__))

/* The same with the scores sum(scale tanh(query + key)); variable: scale [d], unless no_scale. [batch, t, s, d] is
 * stored. */
typedef struct iso_additive_attention_options {
    char begin_;
    iso_tensor *x;
    iso_tensor *value;
    iso_tensor *key;
    bool no_scale;
    double dropout;
    bool causal;
    iso_tensor **scores;
    const char *scale_layout;
    const char *name;
} iso_additive_attention_options;
ISO_API iso_tensor *iso_additive_attention_with(const iso_additive_attention_options *options, size_t size);
#define iso_additive_attention(...)                                                                          \
    iso_additive_attention_with(ISO_OPTIONS(iso_additive_attention_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
