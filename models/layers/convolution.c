/* Shared by the convolutions: sizes and padding of their windows. */
#include "models/layers/convolution_impl.h"

iso_conv_windows iso_conv_windows_of(const int64_t kernel_size_hw[2], int64_t kernel_size,
                                     const int64_t strides_hw[2], int64_t strides,
                                     const int64_t dilation_hw[2], int64_t dilation, iso_padding padding)
{
    iso_conv_windows conv = {.geometry.groups = 1, .padding = padding};
    iso_layer_pair(kernel_size_hw, kernel_size, 0, conv.window);
    iso_layer_pair(strides_hw, strides, 1, conv.geometry.stride);
    iso_layer_pair(dilation_hw, dilation, 1, conv.geometry.dilation);
    return conv;
}

static bool positive(const iso_layer *layer, const char *what, const int64_t value[2])
{
    if (value[0] > 0 && value[1] > 0 && value[0] <= INT32_MAX && value[1] <= INT32_MAX)
        return true;
    iso_layer_fail(layer, "%s is %lld x %lld, both must be positive", what, (long long)value[0],
                   (long long)value[1]);
    return false;
}

bool iso_conv_sizes_fit(const iso_layer *layer, const iso_conv_windows *conv)
{
    return positive(layer, "kernel_size", conv->window) &&
           positive(layer, "strides", conv->geometry.stride) &&
           positive(layer, "dilation", conv->geometry.dilation);
}

bool iso_conv_windows_fit(const iso_layer *layer, const iso_shape *x, iso_conv_windows *conv)
{
    iso_conv_geometry *geometry = &conv->geometry;
    if (!iso_conv_sizes_fit(layer, conv))
        return false;
    for (int i = 0; i < 2; i++) {
        int64_t reach = (conv->window[i] - 1) * geometry->dilation[i] + 1;
        if (conv->padding == ISO_VALID && reach > x->dim[i + 1]) {
            iso_layer_fail(layer,
                           "its kernel reaches over %lld elements, its input has %lld (padding is valid)",
                           (long long)reach, (long long)x->dim[i + 1]);
            return false;
        }
        iso_layer_pad(conv->padding, x->dim[i + 1], reach, geometry->stride[i], &geometry->pad_before[i],
                      &geometry->pad_after[i]);
    }
    return true;
}

bool iso_conv_groups_fit(const iso_layer *layer, int64_t filters, int64_t channels, int64_t groups)
{
    if (filters > 0 && groups > 0 && channels % groups == 0 && filters % groups == 0)
        return true;
    iso_layer_fail(
        layer,
        "%lld filters of %lld channels in %lld groups: filters must be positive and groups divide both",
        (long long)filters, (long long)channels, (long long)groups);
    return false;
}

void iso_conv_note(iso_layer *layer, const iso_conv_windows *conv, int dims)
{
    iso_layer_note_integers(layer, "kernel_size", conv->window + 2 - dims, dims);
    iso_layer_note_integers(layer, "strides", conv->geometry.stride + 2 - dims, dims);
    iso_layer_note_padding(layer, conv->padding);
    iso_layer_note_text(layer, "data_format", "channels_last");
    iso_layer_note_integers(layer, "dilation_rate", conv->geometry.dilation + 2 - dims, dims);
}
