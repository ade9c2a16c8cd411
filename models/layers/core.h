/* Dense, rescaling, normalization and embeddings.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_CORE_H
#define ISO_MODELS_LAYERS_CORE_H

#include "models/layers/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x itself, under a name of its own. */
typedef struct iso_identity_options {
    char begin_;
    iso_tensor *x;
    const char *name;
} iso_identity_options;
ISO_API iso_tensor *iso_identity_with(const iso_identity_options *options, size_t size);
#define iso_identity(...) iso_identity_with(ISO_OPTIONS(iso_identity_options, __VA_ARGS__))

/* y = x * scale + offset */
typedef struct iso_rescaling_options {
    char begin_;
    iso_tensor *x;
    double scale;
    double offset;
    const char *name;
} iso_rescaling_options;
ISO_API iso_tensor *iso_rescaling_with(const iso_rescaling_options *options, size_t size);
#define iso_rescaling(...) iso_rescaling_with(ISO_OPTIONS(iso_rescaling_options, __VA_ARGS__))

/* y = (x - mean) / max(sqrt(variance), 1e-7), with a mean and a variance for each index of the dimensions `axis`.
 * They are given, or they are variables that training leaves as they are: mean (zeros at first), variance (ones),
 * both of the shape of these dimensions, and count, which Keras's files have. Nothing here computes them from data
 * as Keras's adapt() does: load them from a file, or assign them (iso_variable_assign). */
typedef struct iso_normalization_options {
    char begin_;
    iso_tensor *x;
    int axis[ISO_MAX_RANK], axis_count; /* axis_count 0: the last dimension (negative: from the end) */
    bool no_axis;                       /* one mean and one variance for all elements: Keras's axis=None */
    const double *mean, *variance;      /* both or neither; copied */
    iso_shape
        mean_shape; /* of both: one number, or dimensions that broadcast to those of `axis`, in the order of x */
    bool invert;    /* y = mean + x * max(sqrt(variance), 1e-7) */
    const char *mean_layout, *variance_layout;
    const char *name;
} iso_normalization_options;
ISO_API iso_tensor *iso_normalization_with(const iso_normalization_options *options, size_t size);
#define iso_normalization(...) iso_normalization_with(ISO_OPTIONS(iso_normalization_options, __VA_ARGS__))

/* x: [batch, ..., k] -> activation(x kernel + bias): [batch, ..., units]; kernel: [k, units], bias: [units]
 */
typedef struct iso_dense_options {
    char begin_;
    iso_tensor *x;
    int64_t units;
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1;          /* l1 * sum(|w|) + l2 * sum(w^2) is added to the loss */
    double kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_dense_options;
ISO_API iso_tensor *iso_dense_with(const iso_dense_options *options, size_t size);
#define iso_dense(...) iso_dense_with(ISO_OPTIONS(iso_dense_options, __VA_ARGS__))

/* x times a kernel, by an equation: "abc,cde->abde" multiplies x [batch, b, c] by a kernel [c, d, e], sums over c,
 * and gives [batch, b, d, e]. "..." before or after the letters of input and result stands for the dimensions that
 * they do not name: "...x,xy->...y". Letters of the input that stand nowhere else are summed over; no letter may
 * stand in all three. Variables: kernel, and bias if bias_axes is given. */
typedef struct iso_einsum_dense_options {
    char begin_;
    iso_tensor *x;
    const char *equation;
    iso_shape output_shape; /* of the letters of the result but the batch; ISO_BATCH: as in x */
    const char *
        bias_axes; /* letters of the result; NULL: no bias. It has the dimensions of the result from the first
                              of these letters on; those of other letters have the size 1 */
    iso_activation_kind activation;
    iso_activation_numbers activation_with;
    iso_initializer kernel_initializer; /* Glorot uniform; fans: the summed dimensions, and the others */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_einsum_dense_options;
ISO_API iso_tensor *iso_einsum_dense_with(const iso_einsum_dense_options *options, size_t size);
#define iso_einsum_dense(...) iso_einsum_dense_with(ISO_OPTIONS(iso_einsum_dense_options, __VA_ARGS__))

/* x: integers [batch, ...] -> [batch, ..., output_dim]; embeddings: [input_dim, output_dim]. An index out of
 * range is an error of the step. */
typedef struct iso_embedding_options {
    char begin_;
    iso_tensor *x;
    int64_t input_dim;
    int64_t output_dim;
    iso_initializer embeddings_initializer; /* uniform, -0.05 to 0.05 */
    double embeddings_l1, embeddings_l2;
    const char *embeddings_layout;
    const char *name;
    iso_weight_constraint embeddings_constraint; /* applied after each update */
    bool mask_zero; /* where x is 0, a step does not count: the result has a mask (iso_tensor_mask) */
} iso_embedding_options;
ISO_API iso_tensor *iso_embedding_with(const iso_embedding_options *options, size_t size);
#define iso_embedding(...) iso_embedding_with(ISO_OPTIONS(iso_embedding_options, __VA_ARGS__))

/* x: [batch, ..., features] -> x, with a mask [batch, ...] (iso_tensor_mask): a step whose features all are
 * mask_value does not count, and becomes zeros. docs/layers.md lists what each layer does with masks. */
typedef struct iso_masking_options {
    char begin_;
    iso_tensor *x;
    double mask_value;
    const char *name;
} iso_masking_options;
ISO_API iso_tensor *iso_masking_with(const iso_masking_options *options, size_t size);
#define iso_masking(...) iso_masking_with(ISO_OPTIONS(iso_masking_options, __VA_ARGS__))

/* An embedding whose table also gives the logits of a language model (tied weights: Press and Wolf 2016, arXiv
 * 1608.05859). x: integers [batch, ...] -> [batch, ..., output_dim]; with .reverse, x: [batch, ..., output_dim] ->
 * x embeddings': [batch, ..., input_dim]. The second call shares the layer and has its name:
 *     h = iso_reversible_embedding(tokens, 256, 384, .name = "tokens");
 *     iso_share_begin(g);
 *     logits = iso_reversible_embedding(h, 256, 384, .reverse = true, .name = "tokens");
 *     iso_share_end(g); */
typedef struct iso_reversible_embedding_options {
    char begin_;
    iso_tensor *x;
    int64_t input_dim;
    int64_t output_dim;
    bool reverse;
    double logit_soft_cap;                  /* logits become cap * tanh(logits / cap); 0: none */
    iso_initializer embeddings_initializer; /* uniform, -0.05 to 0.05 */
    double embeddings_l1, embeddings_l2;
    const char *embeddings_layout;
    const char *name;
    iso_weight_constraint embeddings_constraint; /* applied after each update */
    bool mask_zero;                              /* as that of iso_embedding; without .reverse */
} iso_reversible_embedding_options;
ISO_API iso_tensor *iso_reversible_embedding_with(const iso_reversible_embedding_options *options,
                                                  size_t size);
#define iso_reversible_embedding(...)                                                                        \
    iso_reversible_embedding_with(ISO_OPTIONS(iso_reversible_embedding_options, __VA_ARGS__))

/* A trained vector for each position, as in keras_hub: x: [batch, ..., t, d] -> rows 0 to t - 1 of embeddings
 * [sequence_length, d], in the shape of x, to be added to it. t is at most sequence_length. */
typedef struct iso_position_embedding_options {
    char begin_;
    iso_tensor *x;
    int64_t sequence_length;
    iso_initializer initializer; /* Glorot uniform */
    const char *embeddings_layout;
    const char *name;
} iso_position_embedding_options;
ISO_API iso_tensor *iso_position_embedding_with(const iso_position_embedding_options *options, size_t size);
#define iso_position_embedding(...)                                                                          \
    iso_position_embedding_with(ISO_OPTIONS(iso_position_embedding_options, __VA_ARGS__))

/* Rotary positions (Su et al. 2021, arXiv 2104.09864), as in keras_hub: x: [batch, ..., t, ..., features] -> the same
 * shape. At position p, from 0, features i and i + features / 2 are turned in their plane by the angle
 * p / scaling_factor * max_wavelength^(-2 i / features). The number of features is even. Angles are computed in
 * float64, so late positions are exact too; keras_hub computes them in float32. */
typedef struct iso_rotary_embedding_options {
    char begin_;
    iso_tensor *x;
    double max_wavelength; /* 10000 */
    double scaling_factor; /* 1 */
    int sequence_axis;     /* of the positions; 1; negative: from the end */
    const char *name;
} iso_rotary_embedding_options;
ISO_API iso_tensor *iso_rotary_embedding_with(const iso_rotary_embedding_options *options, size_t size);
#define iso_rotary_embedding(...)                                                                            \
    iso_rotary_embedding_with(ISO_OPTIONS(iso_rotary_embedding_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
