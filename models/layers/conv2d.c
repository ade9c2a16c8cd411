/* Conv2D: convolution of images, with padding, strides, dilation and groups. */
#include "models/layers/convolution_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_conv2d_with(const iso_conv2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv2d_options, options, given, size);
    iso_layer layer;
    iso_conv_windows conv = ISO_CONV_WINDOWS(options);
    conv.geometry.groups = options.groups ? options.groups : 1;
    if (!iso_layer_begin(&layer, &options.x, "Conv2D", "conv2d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]") ||
        !iso_conv_groups_fit(&layer, options.filters, iso_tensor_shape(options.x)->dim[3],
                             conv.geometry.groups) ||
        !iso_conv_windows_fit(&layer, iso_tensor_shape(options.x), &conv))
        return iso_layer_broken(options.x);
    int64_t channels = iso_tensor_shape(options.x)->dim[3] / conv.geometry.groups;
    iso_shape shape = ISO_SHAPE(conv.window[0], conv.window[1], channels, options.filters);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_tensor *kernel = iso_layer_weight(&layer, &kernel_form, shape);
    iso_tensor *y = iso_conv2d_op(options.x, kernel, &conv.geometry); /* [batch, h', w', filters] */
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    iso_layer_note_integer(&layer, "filters", options.filters);
    iso_conv_note(&layer, &conv, 2);
    iso_layer_note_integer(&layer, "groups", conv.geometry.groups);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

static iso_tensor *conv2d_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_conv2d_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_size(config, "filters", ISO_REQUIRED);
    options.groups = iso_config_size(config, "groups", 1);
    ISO_CONFIG_CONV(&options, config, hw);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv2d_with(&options, sizeof options);
}

const iso_layer_type iso_layer_conv2d = {.keras = "Conv2D", .build = conv2d_build};
