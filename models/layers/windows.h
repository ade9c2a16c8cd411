/* Layers that move a window over images, sequences or volumes: convolutions and pooling.
 * Functions are local unless their comment says otherwise; every rank makes the same calls.
 * Pointers that functions return belong to the graph unless their comment says otherwise. */
#ifndef ISO_MODELS_LAYERS_WINDOWS_H
#define ISO_MODELS_LAYERS_WINDOWS_H

#include "models/layers/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum iso_padding {
    ISO_VALID = 0,
    ISO_SAME, /* ceil(size / stride) outputs; if the padding is odd, the larger half comes at the end */
} iso_padding;

/* x: [batch, h, w, c] -> [batch, h', w', filters]; kernel: [height, width, c / groups, filters], bias:
 * [filters]. Sizes are for both dimensions; if height and width differ, use the members that end in _hw. */
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
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_conv2d_options;
ISO_API iso_tensor *iso_conv2d_with(const iso_conv2d_options *options, size_t size);
#define iso_conv2d(...) iso_conv2d_with(ISO_OPTIONS(iso_conv2d_options, __VA_ARGS__))

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
    bool causal; /* instead of padding: zeros only at the front, so that no output depends on later inputs */
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_conv1d_options;
ISO_API iso_tensor *iso_conv1d_with(const iso_conv1d_options *options, size_t size);
#define iso_conv1d(...) iso_conv1d_with(ISO_OPTIONS(iso_conv1d_options, __VA_ARGS__))

/* Convolves each channel of sequences separately. x: [batch, steps, c] -> [batch, steps', c * depth_multiplier];
 * kernel: [kernel_size, c, depth_multiplier], bias: [c * depth_multiplier] */
typedef struct iso_depthwise_conv1d_options {
    char begin_;
    iso_tensor *x;
    int64_t kernel_size;
    int64_t strides, dilation; /* 1 */
    int64_t depth_multiplier;  /* 1 */
    iso_padding padding;
    iso_activation_kind activation;
    iso_activation_numbers activation_with;
    bool no_bias;
    iso_initializer depthwise_initializer; /* of the kernel; Glorot uniform */
    iso_initializer bias_initializer;      /* zeros */
    double depthwise_l1, bias_l1, depthwise_l2, bias_l2;
    const char *depthwise_layout, *bias_layout;
    const char *name;
    iso_weight_constraint depthwise_constraint, bias_constraint; /* applied after each update */
} iso_depthwise_conv1d_options;
ISO_API iso_tensor *iso_depthwise_conv1d_with(const iso_depthwise_conv1d_options *options, size_t size);
#define iso_depthwise_conv1d(...)                                                                            \
    iso_depthwise_conv1d_with(ISO_OPTIONS(iso_depthwise_conv1d_options, __VA_ARGS__))

/* The same, followed by a product that mixes the channels of each step. Variables: depthwise_kernel [kernel_size, c,
 * depth_multiplier], pointwise_kernel [1, c * depth_multiplier, filters], bias [filters]. */
typedef struct iso_separable_conv1d_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t strides, dilation; /* 1 */
    int64_t depth_multiplier;  /* 1 */
    iso_padding padding;
    iso_activation_kind activation;
    iso_activation_numbers activation_with;
    bool no_bias;
    iso_initializer depthwise_initializer, pointwise_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;                             /* zeros */
    double depthwise_l1, pointwise_l1, bias_l1, depthwise_l2, pointwise_l2, bias_l2;
    const char *depthwise_layout, *pointwise_layout, *bias_layout;
    const char *name;
    iso_weight_constraint depthwise_constraint, pointwise_constraint,
        bias_constraint; /* applied after each update */
} iso_separable_conv1d_options;
ISO_API iso_tensor *iso_separable_conv1d_with(const iso_separable_conv1d_options *options, size_t size);
#define iso_separable_conv1d(...)                                                                            \
    iso_separable_conv1d_with(ISO_OPTIONS(iso_separable_conv1d_options, __VA_ARGS__))

/* Convolves each channel separately. x: [batch, h, w, c] -> [batch, h', w', c * depth_multiplier]; kernel: [height,
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
    iso_weight_constraint depthwise_constraint, bias_constraint; /* applied after each update */
} iso_depthwise_conv2d_options;
ISO_API iso_tensor *iso_depthwise_conv2d_with(const iso_depthwise_conv2d_options *options, size_t size);
#define iso_depthwise_conv2d(...)                                                                            \
    iso_depthwise_conv2d_with(ISO_OPTIONS(iso_depthwise_conv2d_options, __VA_ARGS__))

/* The same, followed by a 1 x 1 convolution that mixes the channels. Variables: depthwise_kernel
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
    iso_weight_constraint depthwise_constraint, pointwise_constraint,
        bias_constraint; /* applied after each update */
} iso_separable_conv2d_options;
ISO_API iso_tensor *iso_separable_conv2d_with(const iso_separable_conv2d_options *options, size_t size);
#define iso_separable_conv2d(...)                                                                            \
    iso_separable_conv2d_with(ISO_OPTIONS(iso_separable_conv2d_options, __VA_ARGS__))

/* The transpose of a convolution, which enlarges images: x: [batch, h, w, c] -> [batch, h', w', filters]; kernel:
 * [height, width, filters, c], bias: [filters]. Each pixel adds its c numbers times the kernel to a window of the
 * output; the windows of neighbours are `strides` apart. Sizes along a dimension, where the window reaches over
 * k = (kernel_size - 1) * dilation + 1 elements (those of Keras's Conv2DTranspose):
 *   output_padding_count 0:  valid  (h - 1) * strides + max(k, strides)      same  h * strides
 *   otherwise:               valid  (h - 1) * strides + k + output_padding   same  (h - 1) * strides + k % 2 +
 *                                                                                  output_padding */
typedef struct iso_conv2d_transpose_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t kernel_size_hw[2];
    int64_t strides; /* 1 */
    int64_t strides_hw[2];
    int64_t dilation; /* 1 */
    int64_t dilation_hw[2];
    iso_padding padding;
    int64_t output_padding[2]; /* height, width; less than strides */
    int output_padding_count;  /* 0: none is given; 1: one for both; 2 */
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_conv2d_transpose_options;
ISO_API iso_tensor *iso_conv2d_transpose_with(const iso_conv2d_transpose_options *options, size_t size);
#define iso_conv2d_transpose(...)                                                                            \
    iso_conv2d_transpose_with(ISO_OPTIONS(iso_conv2d_transpose_options, __VA_ARGS__))

/* The same of sequences: x: [batch, steps, c] -> [batch, steps', filters]; kernel: [size, filters, c], bias:
 * [filters] */
typedef struct iso_conv1d_transpose_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t strides;  /* 1 */
    int64_t dilation; /* 1 */
    iso_padding padding;
    int64_t output_padding[1];
    int output_padding_count; /* 0: none is given; 1 */
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_conv1d_transpose_options;
ISO_API iso_tensor *iso_conv1d_transpose_with(const iso_conv1d_transpose_options *options, size_t size);
#define iso_conv1d_transpose(...)                                                                            \
    iso_conv1d_transpose_with(ISO_OPTIONS(iso_conv1d_transpose_options, __VA_ARGS__))

/* x: [batch, d, h, w, c] -> [batch, d', h', w', filters]; kernel: [depth, height, width, c / groups, filters], bias:
 * [filters]. Sizes are for all three dimensions; if they differ, use the members that end in _dhw. */
typedef struct iso_conv3d_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t kernel_size_dhw[3];
    int64_t strides; /* 1 */
    int64_t strides_dhw[3];
    int64_t dilation; /* 1 */
    int64_t dilation_dhw[3];
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
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_conv3d_options;
ISO_API iso_tensor *iso_conv3d_with(const iso_conv3d_options *options, size_t size);
#define iso_conv3d(...) iso_conv3d_with(ISO_OPTIONS(iso_conv3d_options, __VA_ARGS__))

/* Its transpose: x: [batch, d, h, w, c] -> [batch, d', h', w', filters]; kernel: [depth, height, width, filters, c],
 * bias: [filters]. Sizes of the output as in iso_conv2d_transpose_options. */
typedef struct iso_conv3d_transpose_options {
    char begin_;
    iso_tensor *x;
    int64_t filters;
    int64_t kernel_size;
    int64_t kernel_size_dhw[3];
    int64_t strides; /* 1 */
    int64_t strides_dhw[3];
    int64_t dilation; /* 1 */
    int64_t dilation_dhw[3];
    iso_padding padding;
    int64_t output_padding[3]; /* depth, height, width; less than strides */
    int output_padding_count;  /* 0: none is given; 1: one for all; 3 */
    iso_activation_kind activation;
    iso_activation_numbers activation_with; /* .activation_with.negative_slope = 0.1 */
    bool no_bias;
    iso_initializer kernel_initializer; /* Glorot uniform */
    iso_initializer bias_initializer;   /* zeros */
    double kernel_l1, bias_l1, kernel_l2, bias_l2;
    const char *kernel_layout, *bias_layout;
    const char *name;
    iso_weight_constraint kernel_constraint, bias_constraint; /* applied after each update */
} iso_conv3d_transpose_options;
ISO_API iso_tensor *iso_conv3d_transpose_with(const iso_conv3d_transpose_options *options, size_t size);
#define iso_conv3d_transpose(...)                                                                            \
    iso_conv3d_transpose_with(ISO_OPTIONS(iso_conv3d_transpose_options, __VA_ARGS__))

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
ISO_API iso_tensor *iso_max_pooling2d_with(const iso_pooling2d_options *options, size_t size);
ISO_API iso_tensor *iso_average_pooling2d_with(const iso_pooling2d_options *options, size_t size);
#define iso_max_pooling2d(...) iso_max_pooling2d_with(ISO_OPTIONS(iso_pooling2d_options, __VA_ARGS__))
#define iso_average_pooling2d(...) iso_average_pooling2d_with(ISO_OPTIONS(iso_pooling2d_options, __VA_ARGS__))

/* [batch, h, w, c] -> [batch, c], or [batch, 1, 1, c] */
typedef struct iso_global_pooling2d_options {
    char begin_;
    iso_tensor *x;
    bool keep_dims;
    const char *name;
} iso_global_pooling2d_options;
ISO_API iso_tensor *iso_global_average_pooling2d_with(const iso_global_pooling2d_options *options,
                                                      size_t size);
ISO_API iso_tensor *iso_global_max_pooling2d_with(const iso_global_pooling2d_options *options, size_t size);
#define iso_global_average_pooling2d(...)                                                                    \
    iso_global_average_pooling2d_with(ISO_OPTIONS(iso_global_pooling2d_options, __VA_ARGS__))
#define iso_global_max_pooling2d(...)                                                                        \
    iso_global_max_pooling2d_with(ISO_OPTIONS(iso_global_pooling2d_options, __VA_ARGS__))

/* x: [batch, steps, c] -> [batch, steps', c] */
typedef struct iso_pooling1d_options {
    char begin_;
    iso_tensor *x;
    int64_t pool_size; /* 2 */
    int64_t strides;   /* as pool_size */
    iso_padding padding;
    const char *name;
} iso_pooling1d_options;
ISO_API iso_tensor *iso_max_pooling1d_with(const iso_pooling1d_options *options, size_t size);
ISO_API iso_tensor *iso_average_pooling1d_with(const iso_pooling1d_options *options, size_t size);
#define iso_max_pooling1d(...) iso_max_pooling1d_with(ISO_OPTIONS(iso_pooling1d_options, __VA_ARGS__))
#define iso_average_pooling1d(...) iso_average_pooling1d_with(ISO_OPTIONS(iso_pooling1d_options, __VA_ARGS__))

/* [batch, steps, c] -> [batch, c], or [batch, 1, c] */
typedef struct iso_global_pooling1d_options {
    char begin_;
    iso_tensor *x;
    bool keep_dims;
    const char *name;
    iso_tensor *mask; /* of averages: ISO_BOOL [batch, steps] in place of x's own mask; NULL: x's own, if any */
} iso_global_pooling1d_options;
ISO_API iso_tensor *iso_global_average_pooling1d_with(const iso_global_pooling1d_options *options,
                                                      size_t size);
ISO_API iso_tensor *iso_global_max_pooling1d_with(const iso_global_pooling1d_options *options, size_t size);
#define iso_global_average_pooling1d(...)                                                                    \
    iso_global_average_pooling1d_with(ISO_OPTIONS(iso_global_pooling1d_options, __VA_ARGS__))
#define iso_global_max_pooling1d(...)                                                                        \
    iso_global_max_pooling1d_with(ISO_OPTIONS(iso_global_pooling1d_options, __VA_ARGS__))

/* x: [batch, d, h, w, c] -> [batch, d', h', w', c] */
typedef struct iso_pooling3d_options {
    char begin_;
    iso_tensor *x;
    int64_t pool_size; /* 2 */
    int64_t pool_size_dhw[3];
    int64_t strides; /* as pool_size */
    int64_t strides_dhw[3];
    iso_padding padding;
    const char *name;
} iso_pooling3d_options;
ISO_API iso_tensor *iso_max_pooling3d_with(const iso_pooling3d_options *options, size_t size);
ISO_API iso_tensor *iso_average_pooling3d_with(const iso_pooling3d_options *options, size_t size);
#define iso_max_pooling3d(...) iso_max_pooling3d_with(ISO_OPTIONS(iso_pooling3d_options, __VA_ARGS__))
#define iso_average_pooling3d(...) iso_average_pooling3d_with(ISO_OPTIONS(iso_pooling3d_options, __VA_ARGS__))

/* [batch, d, h, w, c] -> [batch, c], or [batch, 1, 1, 1, c] */
typedef struct iso_global_pooling3d_options {
    char begin_;
    iso_tensor *x;
    bool keep_dims;
    const char *name;
} iso_global_pooling3d_options;
ISO_API iso_tensor *iso_global_average_pooling3d_with(const iso_global_pooling3d_options *options,
                                                      size_t size);
ISO_API iso_tensor *iso_global_max_pooling3d_with(const iso_global_pooling3d_options *options, size_t size);
#define iso_global_average_pooling3d(...)                                                                    \
    iso_global_average_pooling3d_with(ISO_OPTIONS(iso_global_pooling3d_options, __VA_ARGS__))
#define iso_global_max_pooling3d(...)                                                                        \
    iso_global_max_pooling3d_with(ISO_OPTIONS(iso_global_pooling3d_options, __VA_ARGS__))

/* Pools of sequences, images and volumes whose windows follow from the size of the result: [batch, n..., c] ->
 * [batch, output_size..., c]. Along a dimension of n elements, window i is the elements from i n / output_size,
 * rounded down, to (i + 1) n / output_size, rounded up. Unless all windows have one size and one distance, a layer
 * makes three ops for each window. */
typedef struct iso_adaptive_pooling_options {
    char begin_;
    iso_tensor *x;
    int64_t output_size;     /* along each dimension, */
    int64_t output_sizes[3]; /* or {height, width}, {depth, height, width} if they differ */
    const char *name;
} iso_adaptive_pooling_options;
ISO_API iso_tensor *iso_adaptive_average_pooling1d_with(const iso_adaptive_pooling_options *options,
                                                        size_t size);
ISO_API iso_tensor *iso_adaptive_average_pooling2d_with(const iso_adaptive_pooling_options *options,
                                                        size_t size);
ISO_API iso_tensor *iso_adaptive_average_pooling3d_with(const iso_adaptive_pooling_options *options,
                                                        size_t size);
ISO_API iso_tensor *iso_adaptive_max_pooling1d_with(const iso_adaptive_pooling_options *options, size_t size);
ISO_API iso_tensor *iso_adaptive_max_pooling2d_with(const iso_adaptive_pooling_options *options, size_t size);
ISO_API iso_tensor *iso_adaptive_max_pooling3d_with(const iso_adaptive_pooling_options *options, size_t size);
#define iso_adaptive_average_pooling1d(...)                                                                  \
    iso_adaptive_average_pooling1d_with(ISO_OPTIONS(iso_adaptive_pooling_options, __VA_ARGS__))
#define iso_adaptive_average_pooling2d(...)                                                                  \
    iso_adaptive_average_pooling2d_with(ISO_OPTIONS(iso_adaptive_pooling_options, __VA_ARGS__))
#define iso_adaptive_average_pooling3d(...)                                                                  \
    iso_adaptive_average_pooling3d_with(ISO_OPTIONS(iso_adaptive_pooling_options, __VA_ARGS__))
#define iso_adaptive_max_pooling1d(...)                                                                      \
    iso_adaptive_max_pooling1d_with(ISO_OPTIONS(iso_adaptive_pooling_options, __VA_ARGS__))
#define iso_adaptive_max_pooling2d(...)                                                                      \
    iso_adaptive_max_pooling2d_with(ISO_OPTIONS(iso_adaptive_pooling_options, __VA_ARGS__))
#define iso_adaptive_max_pooling3d(...)                                                                      \
    iso_adaptive_max_pooling3d_with(ISO_OPTIONS(iso_adaptive_pooling_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
