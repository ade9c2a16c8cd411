/* Shared by the convolutions: sizes and padding of their windows. */
#include "models/layers/convolution_impl.h"

iso_conv_windows iso_conv_windows_of(const int64_t kernel_size_hw[2], int64_t kernel_size,
                                     const int64_t strides_hw[2], int64_t strides,
                                     const int64_t dilation_hw[2], int64_t dilation, iso_padding padding)
{
    iso_conv_windows conv = {.geometry.groups = 1, .padding = padding};
    iso_layer_sizes(2, kernel_size_hw, kernel_size, 0, conv.window);
    iso_layer_sizes(2, strides_hw, strides, 1, conv.geometry.stride);
    iso_layer_sizes(2, dilation_hw, dilation, 1, conv.geometry.dilation);
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

static void note_sizes(iso_layer *layer, const int64_t *window, const int64_t *stride,
                       const int64_t *dilation, int dims, iso_padding padding)
{
    iso_layer_note_integers(layer, "kernel_size", window, dims);
    iso_layer_note_integers(layer, "strides", stride, dims);
    iso_layer_note_padding(layer, padding);
    iso_layer_note_text(layer, "data_format", "channels_last");
    iso_layer_note_integers(layer, "dilation_rate", dilation, dims);
}

void iso_conv_note(iso_layer *layer, const iso_conv_windows *conv, int dims)
{
    const int first = 2 - dims;
    note_sizes(layer, conv->window + first, conv->geometry.stride + first, conv->geometry.dilation + first,
               dims, conv->padding);
}

/* ---- of volumes ---- */

iso_conv3d_windows iso_conv3d_windows_of(const int64_t window[3], const int64_t stride[3],
                                         const int64_t dilation[3], iso_padding padding)
{
    return (iso_conv3d_windows){
        .depth = {.window = {1, window[0]},
                  .geometry = {.stride = {1, stride[0]}, .dilation = {1, dilation[0]}, .groups = 1},
                  .padding = padding},
        .slice = {.window = {window[1], window[2]},
                  .geometry = {.stride = {stride[1], stride[2]},
                               .dilation = {dilation[1], dilation[2]},
                               .groups = 1},
                  .padding = padding}};
}

static bool all_positive(const iso_layer *layer, const char *what, const int64_t *depth,
                         const int64_t slice[2])
{
    if (*depth > 0 && *depth <= INT32_MAX && slice[0] > 0 && slice[0] <= INT32_MAX && slice[1] > 0 &&
        slice[1] <= INT32_MAX)
        return true;
    iso_layer_fail(layer, "%s is %lld x %lld x %lld, all must be positive", what, (long long)*depth,
                   (long long)slice[0], (long long)slice[1]);
    return false;
}

bool iso_conv3d_sizes_fit(const iso_layer *layer, const iso_conv3d_windows *conv)
{
    const iso_conv_windows *depth = &conv->depth, *slice = &conv->slice;
    return all_positive(layer, "kernel_size", &depth->window[1], slice->window) &&
           all_positive(layer, "strides", &depth->geometry.stride[1], slice->geometry.stride) &&
           all_positive(layer, "dilation", &depth->geometry.dilation[1], slice->geometry.dilation);
}

bool iso_conv3d_windows_fit(const iso_layer *layer, const iso_shape *x, iso_conv3d_windows *conv)
{
    iso_shape row = iso_conv3d_depth_of(x), slice = iso_conv3d_slice_of(x);
    return iso_conv3d_sizes_fit(layer, conv) && iso_conv_windows_fit(layer, &row, &conv->depth) &&
           iso_conv_windows_fit(layer, &slice, &conv->slice);
}

iso_shape iso_conv3d_depth_of(const iso_shape *x)
{
    return ISO_SHAPE(x->dim[0], 1, x->dim[1], x->dim[4]);
}

iso_shape iso_conv3d_slice_of(const iso_shape *x)
{
    return ISO_SHAPE(x->dim[0], x->dim[2], x->dim[3], x->dim[4]);
}

bool iso_conv3d_in_slices(const iso_conv3d_windows *conv)
{
    const iso_conv_geometry *depth = &conv->depth.geometry;
    return conv->depth.window[1] == 1 && depth->stride[1] == 1 && depth->pad_before[1] == 0 &&
           depth->pad_after[1] == 0;
}

iso_unfold_geometry iso_conv3d_unfolding(const iso_conv3d_windows *conv)
{
    const iso_conv_geometry *depth = &conv->depth.geometry;
    return (iso_unfold_geometry){.size = conv->depth.window[1],
                                 .stride = depth->stride[1],
                                 .dilation = depth->dilation[1],
                                 .pad_before = depth->pad_before[1],
                                 .pad_after = depth->pad_after[1]};
}

iso_tensor *iso_conv3d_kernel_of_slices(iso_tensor *kernel, const iso_conv3d_windows *conv, int64_t rows,
                                        int64_t columns)
{
    kernel = iso_transpose(kernel, (const int[]){1, 2, 0, 3, 4});
    return iso_reshape_to(kernel, ISO_SHAPE(conv->slice.window[0], conv->slice.window[1],
                                            conv->depth.window[1] * rows, columns));
}

void iso_conv3d_note(iso_layer *layer, const iso_conv3d_windows *conv)
{
    const iso_conv_geometry *depth = &conv->depth.geometry, *slice = &conv->slice.geometry;
    note_sizes(layer, (const int64_t[]){conv->depth.window[1], conv->slice.window[0], conv->slice.window[1]},
               (const int64_t[]){depth->stride[1], slice->stride[0], slice->stride[1]},
               (const int64_t[]){depth->dilation[1], slice->dilation[0], slice->dilation[1]}, 3,
               conv->slice.padding);
}
