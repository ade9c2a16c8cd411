/* Conv3D: convolution of volumes, with padding, strides, dilation and groups. */
#include "models/layers/convolution_impl.h"
#include "models/layers/list.h"

/* x: [n, d, h, w, c] -> [n, d', h, w, groups * depth * (c / groups)]: the channels of all slices that a window
 * reads */
static iso_tensor *slices_of_windows(iso_tensor *x, const iso_conv3d_windows *conv, int64_t groups)
{
    const iso_shape s = *iso_tensor_shape(x);
    const iso_unfold_geometry slices = iso_conv3d_unfolding(conv);
    const int64_t channels = slices.size * s.dim[4];
    if (groups > 1)
        x = iso_reshape_to(x, ISO_SHAPE(s.dim[0], s.dim[1], s.dim[2], s.dim[3], groups, s.dim[4] / groups));
    x = iso_unfold_op(x, 1, &slices);
    return iso_reshape_to(x, ISO_SHAPE(s.dim[0], iso_tensor_shape(x)->dim[1], s.dim[2], s.dim[3], channels));
}

/* The backward pass computes the slices of the windows again: they are as many times larger than x as the kernel is
 * deep. kernel: [depth, height, width, c / groups, filters] */
static iso_tensor *convolve_volume(iso_tensor *x, iso_tensor *kernel, const iso_conv3d_windows *conv,
                                   int64_t filters)
{
    iso_graph *graph = iso_tensor_graph(x);
    const iso_conv_geometry *geometry = &conv->slice.geometry;
    const int64_t channels = iso_tensor_shape(x)->dim[4] / geometry->groups;
    kernel = iso_conv3d_kernel_of_slices(kernel, conv, channels, filters);
    if (iso_conv3d_in_slices(conv))
        return iso_conv2d_op(x, kernel, geometry);
    iso_recompute_begin(graph);
    iso_tensor *y = iso_conv2d_op(slices_of_windows(x, conv, geometry->groups), kernel, geometry);
    iso_recompute_end(graph);
    return y;
}

iso_tensor *iso_conv3d_with(const iso_conv3d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv3d_options, options, given, size);
    iso_layer layer;
    iso_conv3d_windows conv;
    ISO_CONV3D_WINDOWS(options, &conv);
    const int64_t groups = conv.slice.geometry.groups = options.groups ? options.groups : 1;
    if (!iso_layer_begin(&layer, &options.x, "Conv3D", "conv3d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 5, "[batch, depth, height, width, channels]") ||
        !iso_conv_groups_fit(&layer, options.filters, iso_tensor_shape(options.x)->dim[4], groups) ||
        !iso_conv3d_windows_fit(&layer, iso_tensor_shape(options.x), &conv))
        return iso_layer_broken(options.x);
    iso_shape shape = ISO_SHAPE(conv.depth.window[1], conv.slice.window[0], conv.slice.window[1],
                                iso_tensor_shape(options.x)->dim[4] / groups, options.filters);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_tensor *kernel = iso_layer_weight(&layer, &kernel_form, shape);
    iso_tensor *y = convolve_volume(options.x, kernel, &conv, options.filters);
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    iso_layer_note_integer(&layer, "filters", options.filters);
    iso_conv3d_note(&layer, &conv);
    iso_layer_note_integer(&layer, "groups", groups);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

static iso_tensor *conv3d_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_conv3d_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_size(config, "filters", ISO_REQUIRED);
    options.groups = iso_config_size(config, "groups", 1);
    ISO_CONFIG_CONV(&options, config, dhw);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv3d_with(&options, sizeof options);
}

const iso_layer_type iso_layer_conv3d = {.keras = "Conv3D", .build = conv3d_build};
