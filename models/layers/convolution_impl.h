/* Shared by the convolutions: sizes and padding of their windows. For models/layers only. */
#ifndef ISO_MODELS_LAYERS_CONVOLUTION_IMPL_H
#define ISO_MODELS_LAYERS_CONVOLUTION_IMPL_H

#include "models/layers/layer_impl.h"

typedef struct iso_conv_windows {
    int64_t window[2]; /* height, width of the kernel */
    iso_conv_geometry geometry;
    iso_padding padding;
} iso_conv_windows;

/* The windows of a convolution, from the members of a layer's options; without groups. */
#define ISO_CONV_WINDOWS(options)                                                                            \
    iso_conv_windows_of((options).kernel_size_hw, (options).kernel_size, (options).strides_hw,               \
                        (options).strides, (options).dilation_hw, (options).dilation, (options).padding)
iso_conv_windows iso_conv_windows_of(const int64_t kernel_size_hw[2], int64_t kernel_size,
                                     const int64_t strides_hw[2], int64_t strides,
                                     const int64_t dilation_hw[2], int64_t dilation, iso_padding padding);
/* False, with an error in the graph, if a size, stride or dilation is not positive. */
bool iso_conv_sizes_fit(const iso_layer *layer, const iso_conv_windows *conv);
/* Fills in the padding for x [n, h, w, c]. False, with an error in the graph, if a size is wrong or the kernel
 * too large. */
bool iso_conv_windows_fit(const iso_layer *layer, const iso_shape *x, iso_conv_windows *conv);
/* False, with an error in the graph, if groups do not divide channels and filters, or there are no filters. */
bool iso_conv_groups_fit(const iso_layer *layer, int64_t filters, int64_t channels, int64_t groups);
/* Records kernel_size, strides, padding, data_format and dilation_rate of the last `dims` dimensions. */
void iso_conv_note(iso_layer *layer, const iso_conv_windows *conv, int dims);

/* ---- of volumes [n, d, h, w, c] ---- A slice of the output is a convolution of an image, whose channels are those
 * of as many slices of the input as the kernel is deep. */

typedef struct iso_conv3d_windows {
    iso_conv_windows depth; /* along the width of images of one row */
    iso_conv_windows slice; /* along height and width */
} iso_conv3d_windows;

/* The windows of a convolution, from the members of a layer's options; without groups. */
#define ISO_CONV3D_WINDOWS(options, conv)                                                                    \
    do {                                                                                                     \
        int64_t window_[3], stride_[3], dilation_[3];                                                        \
        iso_layer_sizes(3, (options).kernel_size_dhw, (options).kernel_size, 0, window_);                    \
        iso_layer_sizes(3, (options).strides_dhw, (options).strides, 1, stride_);                            \
        iso_layer_sizes(3, (options).dilation_dhw, (options).dilation, 1, dilation_);                        \
        *(conv) = iso_conv3d_windows_of(window_, stride_, dilation_, (options).padding);                     \
    } while (0)
iso_conv3d_windows iso_conv3d_windows_of(const int64_t window[3], const int64_t stride[3],
                                         const int64_t dilation[3], iso_padding padding);
/* As the functions for images. */
bool iso_conv3d_sizes_fit(const iso_layer *layer, const iso_conv3d_windows *conv);
bool iso_conv3d_windows_fit(const iso_layer *layer, const iso_shape *x, iso_conv3d_windows *conv);
void iso_conv3d_note(iso_layer *layer, const iso_conv3d_windows *conv);
/* Of x [n, d, h, w, c]: [n, 1, d, c] and [n, h, w, c]. */
iso_shape iso_conv3d_depth_of(const iso_shape *x);
iso_shape iso_conv3d_slice_of(const iso_shape *x);
/* Whether each slice of the output is made of one of the input, in the same order. */
bool iso_conv3d_in_slices(const iso_conv3d_windows *conv);
/* The slices that a window reads. */
iso_unfold_geometry iso_conv3d_unfolding(const iso_conv3d_windows *conv);
/* kernel: [depth, height, width, rows, columns] -> [height, width, depth * rows, columns] */
iso_tensor *iso_conv3d_kernel_of_slices(iso_tensor *kernel, const iso_conv3d_windows *conv, int64_t rows,
                                        int64_t columns);

/* The arguments that all convolutions have in a config, into the members of options; SUFFIX: hw, dhw. */
#define ISO_CONFIG_CONV(options, config, SUFFIX)                                                             \
    do {                                                                                                     \
        const int dims_ = sizeof(options)->strides_##SUFFIX / sizeof *(options)->strides_##SUFFIX;           \
        iso_config_sizes(config, "kernel_size", ISO_REQUIRED, dims_, (options)->kernel_size_##SUFFIX);       \
        iso_config_sizes(config, "strides", 1, dims_, (options)->strides_##SUFFIX);                          \
        iso_config_sizes(config, "dilation_rate", 1, dims_, (options)->dilation_##SUFFIX);                   \
        (options)->padding = iso_config_padding(config);                                                     \
        (options)->activation =                                                                              \
            iso_config_activation(config, iso_tensor_graph((options)->x), &(options)->activation_with);      \
        (options)->no_bias = !iso_config_flag(config, "use_bias", true);                                     \
    } while (0)

#endif
