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

/* The arguments that all convolutions have in a config, into the members of options. */
#define ISO_CONFIG_CONV(options, config)                                                                     \
    do {                                                                                                     \
        iso_config_pair(config, "kernel_size", 0, (options)->kernel_size_hw);                                \
        iso_config_pair(config, "strides", 1, (options)->strides_hw);                                        \
        iso_config_pair(config, "dilation_rate", 1, (options)->dilation_hw);                                 \
        (options)->padding = iso_config_padding(config);                                                     \
        (options)->activation =                                                                              \
            iso_config_activation(config, iso_tensor_graph((options)->x), &(options)->activation_with);      \
        (options)->no_bias = !iso_config_flag(config, "use_bias", true);                                     \
    } while (0)

#endif
