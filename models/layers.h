/* Layers in the manner of Keras 3: each makes its variables and ops in the graph of its input.
 *
 * Every layer is a macro over a function that takes its options as a struct: x and what it cannot do without
 * come first, without names; all else is optional and zero means Keras's default. Names: `.name`, else
 * Keras's automatic one ("dense", "dense_1", counted per graph). A layer named d1 has the variables
 * d1/kernel, d1/bias, and its result is the tensor d1/output. Shapes are global; a wrong one is an error in
 * the graph that names the layer and the shapes. Members that end in _layout are layouts of the layer's own
 * ("-, model"), which come before what a layout map says. */
#ifndef ISO_MODELS_LAYERS_H
#define ISO_MODELS_LAYERS_H

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_activation_kind {
    ISO_LINEAR = 0,
    ISO_RELU,
    ISO_SOFTMAX, /* over the last dimension */
    ISO_SIGMOID,
    ISO_TANH,
    ISO_GELU,      /* by erf, Keras's default */
    ISO_GELU_TANH, /* its approximation by tanh */
    ISO_SILU,
    ISO_ELU,
    ISO_SOFTPLUS,
    ISO_LEAKY_RELU, /* slope 0.2, as the name means in Keras; iso_leaky_relu() takes any */
    ISO_RELU6,      /* relu, at most 6 */
    ISO_SELU,
    ISO_SOFTSIGN,
    ISO_EXPONENTIAL,
    ISO_HARD_SIGMOID, /* relu6(x + 3) / 6 */
    ISO_HARD_SILU,    /* x hard_sigmoid(x) */
    ISO_MISH,         /* x tanh(softplus(x)) */
    ISO_LOG_SOFTMAX,  /* over the last dimension */
} iso_activation_kind;

/* The numbers of activations that have some; 0: those that the activation's name means. */
typedef struct iso_activation_numbers {
    double negative_slope; /* of ISO_RELU (0) and ISO_LEAKY_RELU (0.2) */
    double max_value;      /* of ISO_RELU; none */
    double threshold;      /* of ISO_RELU: what is not above it is 0; 0 */
    double alpha;          /* of ISO_ELU; 1 */
} iso_activation_numbers;

typedef enum iso_padding {
    ISO_VALID = 0,
    ISO_SAME, /* ceil(size / stride) outputs; of an odd amount of padding the larger half comes after */
} iso_padding;

/* y = x * scale + offset */
typedef struct iso_rescaling_options {
    char begin_;
    iso_tensor *x;
    double scale;
    double offset;
    const char *name;
} iso_rescaling_options;
iso_tensor *iso_rescaling_with(const iso_rescaling_options *options, size_t size);
#define iso_rescaling(...)                                                                                   \
    iso_rescaling_with(&(iso_rescaling_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_rescaling_options))

/* [batch, ...] -> [batch, product of the others] */
typedef struct iso_flatten_options {
    char begin_;
    iso_tensor *x;
    const char *name;
} iso_flatten_options;
iso_tensor *iso_flatten_with(const iso_flatten_options *options, size_t size);
#define iso_flatten(...)                                                                                     \
    iso_flatten_with(&(iso_flatten_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_flatten_options))

/* [batch, ...] -> [batch, shape...]; one dimension of the shape may be -1 */
typedef struct iso_reshape_options {
    char begin_;
    iso_tensor *x;
    iso_shape shape;
    const char *name;
} iso_reshape_options;
iso_tensor *iso_reshape_with(const iso_reshape_options *options, size_t size);
#define iso_reshape(...)                                                                                     \
    iso_reshape_with(&(iso_reshape_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_reshape_options))

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
} iso_dense_options;
iso_tensor *iso_dense_with(const iso_dense_options *options, size_t size);
#define iso_dense(...)                                                                                       \
    iso_dense_with(&(iso_dense_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_dense_options))

/* x: [batch, h, w, c] -> [batch, h', w', filters]; kernel: [height, width, c / groups, filters], bias:
 * [filters]. Sizes are for both dimensions; where height and width differ, the members that end in _hw. */
typedef struct iso_conv2d_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t kernel_size_hw[2];
    int64_t strides; /* 1 */
    int64_t strides_hw[2];
    int64_t dilation; /* 1 */
    int64_t dilation_hw[2];
    int64_t groups; /* 1 */
    iso_padding padding;
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
} iso_conv2d_options;
iso_tensor *iso_conv2d_with(const iso_conv2d_options *options, size_t size);
#define iso_conv2d(...)                                                                                      \
    iso_conv2d_with(&(iso_conv2d_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_conv2d_options))

/* x: [batch, steps, c] -> [batch, steps', filters]; kernel: [size, c / groups, filters], bias: [filters] */
typedef struct iso_conv1d_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t strides;  /* 1 */
    int64_t dilation; /* 1 */
    int64_t groups;   /* 1 */
    iso_padding padding;
    bool causal; /* instead of padding: zeros in front alone, so that no place looks ahead */
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
} iso_conv1d_options;
iso_tensor *iso_conv1d_with(const iso_conv1d_options *options, size_t size);
#define iso_conv1d(...)                                                                                      \
    iso_conv1d_with(&(iso_conv1d_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_conv1d_options))

/* Each channel by itself. x: [batch, h, w, c] -> [batch, h', w', c * depth_multiplier]; kernel: [height,
 * width, c, depth_multiplier], bias: [c * depth_multiplier] */
typedef struct iso_depthwise_conv2d_options {
    char begin_;
    iso_tensor *x;
    int64_t kernel_size;
    int64_t kernel_size_hw[2];
    int64_t strides; /* 1 */
    int64_t strides_hw[2];
    int64_t dilation; /* 1 */
    int64_t dilation_hw[2];
    int64_t depth_multiplier; /* 1 */
    iso_padding padding;
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer depthwise_initializer; /* of the kernel; Glorot uniform */
    iso_initializer bias_initializer;      /* zeros */
    double depthwise_l1, bias_l1, depthwise_l2, bias_l2;
    const char *depthwise_layout, *bias_layout;
    const char *name;
} iso_depthwise_conv2d_options;
iso_tensor *iso_depthwise_conv2d_with(const iso_depthwise_conv2d_options *options, size_t size);
#define iso_depthwise_conv2d(...)                                                                            \
    iso_depthwise_conv2d_with(&(iso_depthwise_conv2d_options){.begin_ = 0, __VA_ARGS__},                     \
                              sizeof(iso_depthwise_conv2d_options))

/* The same, and then a convolution by single elements that mixes the channels. Variables: depthwise_kernel
 * [height, width, c, depth_multiplier], pointwise_kernel [1, 1, c * depth_multiplier, filters], bias
 * [filters]. */
typedef struct iso_separable_conv2d_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t kernel_size_hw[2];
    int64_t strides; /* 1 */
    int64_t strides_hw[2];
    int64_t dilation; /* 1 */
    int64_t dilation_hw[2];
    int64_t depth_multiplier; /* 1 */
    iso_padding padding;
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer depthwise_initializer, pointwise_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;                             /* zeros */
    double depthwise_l1, pointwise_l1, bias_l1, depthwise_l2, pointwise_l2, bias_l2;
    const char *depthwise_layout, *pointwise_layout, *bias_layout;
    const char *name;
} iso_separable_conv2d_options;
iso_tensor *iso_separable_conv2d_with(const iso_separable_conv2d_options *options, size_t size);
#define iso_separable_conv2d(...)                                                                            \
    iso_separable_conv2d_with(&(iso_separable_conv2d_options){.begin_ = 0, __VA_ARGS__},                     \
                              sizeof(iso_separable_conv2d_options))

/* Zeros around images: [batch, h, w, c] -> [batch, top + h + bottom, left + w + right, c] */
typedef struct iso_zero_padding2d_options {
    char begin_;
    iso_tensor *x;
    int64_t padding;     /* 1, on all four sides */
    int64_t sides[2][2]; /* {{top, bottom}, {left, right}} where they differ */
    const char *name;
} iso_zero_padding2d_options;
iso_tensor *iso_zero_padding2d_with(const iso_zero_padding2d_options *options, size_t size);
#define iso_zero_padding2d(...)                                                                              \
    iso_zero_padding2d_with(&(iso_zero_padding2d_options){.begin_ = 0, __VA_ARGS__},                         \
                            sizeof(iso_zero_padding2d_options))

/* Edges off images */
typedef struct iso_cropping2d_options {
    char begin_;
    iso_tensor *x;
    int64_t cropping;    /* 0, on all four sides */
    int64_t sides[2][2]; /* {{top, bottom}, {left, right}} where they differ */
    const char *name;
} iso_cropping2d_options;
iso_tensor *iso_cropping2d_with(const iso_cropping2d_options *options, size_t size);
#define iso_cropping2d(...)                                                                                  \
    iso_cropping2d_with(&(iso_cropping2d_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_cropping2d_options))

/* Images made larger: [batch, h, w, c] -> [batch, h * size, w * size, c], each element repeated, or in
 * between its neighbours linearly (by centres; at the edges as the edge is). */
typedef struct iso_up_sampling2d_options {
    char begin_;
    iso_tensor *x;
    int64_t size; /* 2 */
    int64_t size_hw[2];
    bool bilinear;
    const char *name;
} iso_up_sampling2d_options;
iso_tensor *iso_up_sampling2d_with(const iso_up_sampling2d_options *options, size_t size);
#define iso_up_sampling2d(...)                                                                               \
    iso_up_sampling2d_with(&(iso_up_sampling2d_options){.begin_ = 0, __VA_ARGS__},                           \
                           sizeof(iso_up_sampling2d_options))

/* Normalises over all dimensions but that of the channels. In training functions by mean and (biased)
 * variance of the global batch, which also move the moving statistics: moving = momentum * moving + (1 -
 * momentum) * batch; elsewhere by these. Variables: gamma, beta, moving_mean, moving_variance: [c]. */
typedef struct iso_batch_norm_options {
    char begin_;
    iso_tensor *x;
    bool no_scale, no_center;
    double momentum;                                                      /* 0.99; ISO_ZERO for 0 */
    double epsilon;                                                       /* 1e-3 */
    int axis;                                                             /* of the channels; 0: the last */
    iso_initializer gamma_initializer, beta_initializer;                  /* ones, zeros */
    iso_initializer moving_mean_initializer, moving_variance_initializer; /* zeros, ones */
    double gamma_l1, beta_l1, gamma_l2, beta_l2;
    const char *gamma_layout, *beta_layout, *moving_mean_layout, *moving_variance_layout;
    const char *name;
} iso_batch_norm_options;
iso_tensor *iso_batch_norm_with(const iso_batch_norm_options *options, size_t size);
#define iso_batch_norm(...)                                                                                  \
    iso_batch_norm_with(&(iso_batch_norm_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_batch_norm_options))

/* Normalises each row over its last `axes` dimensions, or over those listed. Variables: gamma, beta, of their
 * shape. */
typedef struct iso_layer_norm_options {
    char begin_;
    iso_tensor *x;
    bool no_scale, no_center;
    double epsilon; /* 1e-3 */
    int axes;       /* 1: the last dimension */
    int axis[ISO_MAX_RANK],
        axis_count; /* where axis_count is not 0: these dimensions (negative: from the end) */
    iso_initializer gamma_initializer, beta_initializer; /* ones, zeros */
    double gamma_l1, beta_l1, gamma_l2, beta_l2;
    const char *gamma_layout, *beta_layout;
    const char *name;
} iso_layer_norm_options;
iso_tensor *iso_layer_norm_with(const iso_layer_norm_options *options, size_t size);
#define iso_layer_norm(...)                                                                                  \
    iso_layer_norm_with(&(iso_layer_norm_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_layer_norm_options))

/* Normalises each row over groups of channels and all other dimensions (Wu and He 2018, arXiv 1803.08494).
 * Variables: gamma, beta: [c]. */
typedef struct iso_group_norm_options {
    char begin_;
    iso_tensor *x;
    int64_t groups; /* 32; -1: each channel by itself */
    int axis;       /* of the channels; 0: the last */
    double epsilon; /* 1e-3 */
    bool no_scale, no_center;
    iso_initializer gamma_initializer, beta_initializer; /* ones, zeros */
    double gamma_l1, beta_l1, gamma_l2, beta_l2;
    const char *gamma_layout, *beta_layout;
    const char *name;
} iso_group_norm_options;
iso_tensor *iso_group_norm_with(const iso_group_norm_options *options, size_t size);
#define iso_group_norm(...)                                                                                  \
    iso_group_norm_with(&(iso_group_norm_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_group_norm_options))

/* x: integers [batch, ...] -> [batch, ..., output_dim]; embeddings: [input_dim, output_dim]. An index outside
 * is an error of the step. */
typedef struct iso_embedding_options {
    char begin_;
    iso_tensor *x;
    int64_t input_dim;
    int64_t output_dim;
    iso_initializer embeddings_initializer; /* uniform, -0.05 to 0.05 */
    double embeddings_l1, embeddings_l2;
    const char *embeddings_layout;
    const char *name;
} iso_embedding_options;
iso_tensor *iso_embedding_with(const iso_embedding_options *options, size_t size);
#define iso_embedding(...)                                                                                   \
    iso_embedding_with(&(iso_embedding_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_embedding_options))

/* In training functions each element is kept with probability 1 - rate and divided by it; elsewhere nothing
 * happens. */
typedef struct iso_dropout_options {
    char begin_;
    iso_tensor *x;
    double rate; /* 0 <= rate < 1 */
    const char *name;
} iso_dropout_options;
iso_tensor *iso_dropout_with(const iso_dropout_options *options, size_t size);
#define iso_dropout(...)                                                                                     \
    iso_dropout_with(&(iso_dropout_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_dropout_options))

/* In training functions adds normal noise of this standard deviation; elsewhere nothing happens. */
typedef struct iso_gaussian_noise_options {
    char begin_;
    iso_tensor *x;
    double stddev;
    const char *name;
} iso_gaussian_noise_options;
iso_tensor *iso_gaussian_noise_with(const iso_gaussian_noise_options *options, size_t size);
#define iso_gaussian_noise(...)                                                                              \
    iso_gaussian_noise_with(&(iso_gaussian_noise_options){.begin_ = 0, __VA_ARGS__},                         \
                            sizeof(iso_gaussian_noise_options))

/* max(x, 0) - alpha * max(-x, 0). alpha, trained: x's shape without the batch, 1 along the shared axes. */
typedef struct iso_prelu_options {
    char begin_;
    iso_tensor *x;
    int shared_axes[ISO_MAX_RANK]; /* dimensions of x: {1, 2} gives an image's channels one alpha each */
    int shared_axis_count;
    iso_initializer alpha_initializer; /* zeros */
    double alpha_l1, alpha_l2;
    const char *alpha_layout;
    const char *name;
} iso_prelu_options;
iso_tensor *iso_prelu_with(const iso_prelu_options *options, size_t size);
#define iso_prelu(...)                                                                                       \
    iso_prelu_with(&(iso_prelu_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_prelu_options))

/* Dimension i + 1 of the output is dimension dims[i] of x, counted from 1 behind the batch: ISO_SHAPE(2, 1).
 */
typedef struct iso_permute_options {
    char begin_;
    iso_tensor *x;
    iso_shape dims;
    const char *name;
} iso_permute_options;
iso_tensor *iso_permute_with(const iso_permute_options *options, size_t size);
#define iso_permute(...)                                                                                     \
    iso_permute_with(&(iso_permute_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_permute_options))

/* An activation as a layer of its own; with one of the numbers it is Keras's layer that has it: ReLU,
 * LeakyReLU, ELU, Softmax. The bare ops (iso_relu(x), iso_softmax(x, axis), ...) are in graph.h. */
typedef struct iso_activation_options {
    char begin_;
    iso_tensor *x;
    iso_activation_kind kind;
    double negative_slope; /* of ISO_RELU (0) and ISO_LEAKY_RELU (0.2; 0.3 as Keras's layer LeakyReLU) */
    double max_value;      /* of ISO_RELU; none */
    double threshold;      /* of ISO_RELU: what is not above it is 0; 0 */
    double alpha;          /* of ISO_ELU; 1 */
    int axis[ISO_MAX_RANK], axis_count; /* of ISO_SOFTMAX; the last dimension */
    const char *name;
} iso_activation_options;
iso_tensor *iso_activation_with(const iso_activation_options *options, size_t size);
#define iso_activation(...)                                                                                  \
    iso_activation_with(&(iso_activation_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_activation_options))

/* x: [batch, h, w, c] -> [batch, h', w', c] */
typedef struct iso_pooling2d_options {
    char begin_;
    iso_tensor *x;
    int64_t pool_size; /* 2 */
    int64_t pool_size_hw[2];
    int64_t strides; /* as pool_size */
    int64_t strides_hw[2];
    iso_padding padding;
    const char *name;
} iso_pooling2d_options;
iso_tensor *iso_max_pooling2d_with(const iso_pooling2d_options *options, size_t size);
iso_tensor *iso_average_pooling2d_with(const iso_pooling2d_options *options, size_t size);
#define iso_max_pooling2d(...)                                                                               \
    iso_max_pooling2d_with(&(iso_pooling2d_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_pooling2d_options))
#define iso_average_pooling2d(...)                                                                           \
    iso_average_pooling2d_with(&(iso_pooling2d_options){.begin_ = 0, __VA_ARGS__},                           \
                               sizeof(iso_pooling2d_options))

/* [batch, h, w, c] -> [batch, c], or [batch, 1, 1, c] */
typedef struct iso_global_pooling2d_options {
    char begin_;
    iso_tensor *x;
    bool keep_dims;
    const char *name;
} iso_global_pooling2d_options;
iso_tensor *iso_global_average_pooling2d_with(const iso_global_pooling2d_options *options, size_t size);
iso_tensor *iso_global_max_pooling2d_with(const iso_global_pooling2d_options *options, size_t size);
#define iso_global_average_pooling2d(...)                                                                    \
    iso_global_average_pooling2d_with(&(iso_global_pooling2d_options){.begin_ = 0, __VA_ARGS__},             \
                                      sizeof(iso_global_pooling2d_options))
#define iso_global_max_pooling2d(...)                                                                        \
    iso_global_max_pooling2d_with(&(iso_global_pooling2d_options){.begin_ = 0, __VA_ARGS__},                 \
                                  sizeof(iso_global_pooling2d_options))

/* x: [batch, steps, c] -> [batch, steps', c] */
typedef struct iso_pooling1d_options {
    char begin_;
    iso_tensor *x;
    int64_t pool_size; /* 2 */
    int64_t strides;   /* as pool_size */
    iso_padding padding;
    const char *name;
} iso_pooling1d_options;
iso_tensor *iso_max_pooling1d_with(const iso_pooling1d_options *options, size_t size);
iso_tensor *iso_average_pooling1d_with(const iso_pooling1d_options *options, size_t size);
#define iso_max_pooling1d(...)                                                                               \
    iso_max_pooling1d_with(&(iso_pooling1d_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_pooling1d_options))
#define iso_average_pooling1d(...)                                                                           \
    iso_average_pooling1d_with(&(iso_pooling1d_options){.begin_ = 0, __VA_ARGS__},                           \
                               sizeof(iso_pooling1d_options))

/* [batch, steps, c] -> [batch, c], or [batch, 1, c] */
typedef struct iso_global_pooling1d_options {
    char begin_;
    iso_tensor *x;
    bool keep_dims;
    const char *name;
} iso_global_pooling1d_options;
iso_tensor *iso_global_average_pooling1d_with(const iso_global_pooling1d_options *options, size_t size);
iso_tensor *iso_global_max_pooling1d_with(const iso_global_pooling1d_options *options, size_t size);
#define iso_global_average_pooling1d(...)                                                                    \
    iso_global_average_pooling1d_with(&(iso_global_pooling1d_options){.begin_ = 0, __VA_ARGS__},             \
                                      sizeof(iso_global_pooling1d_options))
#define iso_global_max_pooling1d(...)                                                                        \
    iso_global_max_pooling1d_with(&(iso_global_pooling1d_options){.begin_ = 0, __VA_ARGS__},                 \
                                  sizeof(iso_global_pooling1d_options))

/* Attention of queries to keys in several heads (Vaswani et al. 2017, arXiv 1706.03762). x, the query:
 * [batch, t, d], value: [batch, s, dv], key (value where it is NULL): [batch, s, dk] -> [batch, t,
 * output_shape or d]. Between batch and the last there may be several dimensions. Variables: query/kernel [d,
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
    /* [batch, t, s] or [batch, heads, t, s], any type: what is not 0 is attended to */
    iso_tensor *attention_mask;
    int64_t value_dim;      /* key_dim */
    double dropout;         /* of the attention's weights */
    bool no_bias;           /* in none of the products */
    bool use_gate;          /* multiplies what the heads found by sigmoid(x gate/kernel + gate/bias) */
    bool causal;            /* no place attends to those behind it: Keras's use_causal_mask */
    int64_t sliding_window; /* attends to less than this many places before and behind; 0: to all */
    iso_shape output_shape; /* of an element of the output; [d] where its rank is 0 */
    int attention_axes[ISO_MAX_RANK]; /* the last dimensions before the features, listed; usually all */
    int attention_axis_count;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *query_layout, *key_layout, *value_layout, *gate_layout, *output_layout; /* of the kernels */
    const char *name;
} iso_multi_head_attention_options;
iso_tensor *iso_multi_head_attention_with(const iso_multi_head_attention_options *options, size_t size);
#define iso_multi_head_attention(...)                                                                        \
    iso_multi_head_attention_with(&(iso_multi_head_attention_options){.begin_ = 0, __VA_ARGS__},             \
                                  sizeof(iso_multi_head_attention_options))

/* Sum, product, mean, largest and smallest (with broadcasting) and concatenation of several tensors, and the
 * difference of two, as layers with names: iso_merge_add(parts, 3). The bare ops of two operands are iso_add,
 * iso_multiply, ... */
typedef struct iso_merge_options {
    char begin_;
    iso_tensor *const *x;
    int count;
    int axis; /* of concatenation; 0: the last dimension */
    const char *name;
} iso_merge_options;
iso_tensor *iso_merge_add_with(const iso_merge_options *options, size_t size);
iso_tensor *iso_merge_multiply_with(const iso_merge_options *options, size_t size);
iso_tensor *iso_merge_subtract_with(const iso_merge_options *options, size_t size);
iso_tensor *iso_merge_average_with(const iso_merge_options *options, size_t size);
iso_tensor *iso_merge_maximum_with(const iso_merge_options *options, size_t size);
iso_tensor *iso_merge_minimum_with(const iso_merge_options *options, size_t size);
iso_tensor *iso_concatenate_with(const iso_merge_options *options, size_t size);
#define iso_merge_add(...)                                                                                   \
    iso_merge_add_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))
#define iso_merge_multiply(...)                                                                              \
    iso_merge_multiply_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))
#define iso_merge_subtract(...)                                                                              \
    iso_merge_subtract_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))
#define iso_merge_average(...)                                                                               \
    iso_merge_average_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))
#define iso_merge_maximum(...)                                                                               \
    iso_merge_maximum_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))
#define iso_merge_minimum(...)                                                                               \
    iso_merge_minimum_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))
#define iso_concatenate(...)                                                                                 \
    iso_concatenate_with(&(iso_merge_options){.begin_ = 0, __VA_ARGS__}, sizeof(iso_merge_options))

/* ---- a network as a table ----
 * One layer a row, without its input, as Keras's Sequential has them:
 *     static const iso_layer_row network[] = ISO_LAYERS(ISO_LAYER(flatten), ISO_LAYER(dense, 10, .name =
 * "d1")); Every layer that has one input can be a row. */
typedef iso_pooling2d_options iso_max_pooling2d_options, iso_average_pooling2d_options;
typedef iso_global_pooling2d_options iso_global_average_pooling2d_options, iso_global_max_pooling2d_options;
typedef iso_pooling1d_options iso_max_pooling1d_options, iso_average_pooling1d_options;
typedef iso_global_pooling1d_options iso_global_average_pooling1d_options, iso_global_max_pooling1d_options;
typedef struct iso_layer_row {
    iso_tensor *(*build)(const void *options, size_t size, iso_tensor *x);
    const void *options; /* the layer's, of which x is not looked at */
    size_t size;
} iso_layer_row;
#define ISO_LAYER(layer, ...)                                                                                \
    {                                                                                                        \
        iso_##layer##_row, &(iso_##layer##_options){.begin_ = 0, NULL, __VA_ARGS__},                         \
            sizeof(iso_##layer##_options)                                                                    \
    }
#define ISO_LAYERS(...)                                                                                      \
    {                                                                                                        \
        __VA_ARGS__,                                                                                         \
        {                                                                                                    \
            NULL, NULL, 0                                                                                    \
        }                                                                                                    \
    }
iso_tensor *iso_rescaling_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_flatten_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_reshape_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_dense_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_conv2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_batch_norm_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_layer_norm_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_embedding_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_dropout_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_activation_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_max_pooling2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_average_pooling2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_global_average_pooling2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_global_max_pooling2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_conv1d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_depthwise_conv2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_separable_conv2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_zero_padding2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_cropping2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_up_sampling2d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_group_norm_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_gaussian_noise_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_prelu_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_permute_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_max_pooling1d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_average_pooling1d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_global_average_pooling1d_row(const void *options, size_t size, iso_tensor *x);
iso_tensor *iso_global_max_pooling1d_row(const void *options, size_t size, iso_tensor *x);
/* The layers of a table (which ends with an empty row) one after another. */
iso_tensor *iso_sequential_rows(iso_tensor *x, const iso_layer_row *rows);
/* iso_sequential(x, ISO_LAYER(flatten), ISO_LAYER(dense, 10)) */
#define iso_sequential(x, ...) iso_sequential_rows(x, (const iso_layer_row[])ISO_LAYERS(__VA_ARGS__))

/* x after an activation (what layers do with their `.activation`). */
iso_tensor *iso_activate(iso_tensor *x, iso_activation_kind kind);

#ifdef __cplusplus
}
#endif
#endif
