/* Conv2D: convolution of images, with padding, strides, dilation and groups. */
#include <string.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* What the options come to, for one input. */
typedef struct windows {
    int64_t window[2]; /* height, width of the kernel */
    iso_conv_geometry geometry;
} windows;

static bool positive(const iso_layer *layer, const char *what, const int64_t value[2])
{
    if (value[0] > 0 && value[1] > 0)
        return true;
    iso_layer_fail(layer, "%s is %lld x %lld, both must be positive", what, (long long)value[0],
                   (long long)value[1]);
    return false;
}

static bool check_groups(const iso_layer *layer, const iso_conv2d_options *options, int64_t channels,
                         int64_t groups)
{
    if (options->filters > 0 && groups > 0 && channels % groups == 0 && options->filters % groups == 0)
        return true;
    iso_layer_fail(
        layer,
        "%lld filters of %lld channels in %lld groups: filters must be positive and groups divide both",
        (long long)options->filters, (long long)channels, (long long)groups);
    return false;
}

static bool fill(const iso_layer *layer, const iso_conv2d_options *options, const iso_shape *x, windows *out)
{
    iso_conv_geometry *geometry = &out->geometry;
    iso_layer_pair(options->kernel_size_hw, options->kernel_size, 0, out->window);
    iso_layer_pair(options->strides_hw, options->strides, 1, geometry->stride);
    iso_layer_pair(options->dilation_hw, options->dilation, 1, geometry->dilation);
    geometry->groups = options->groups ? options->groups : 1;
    if (!positive(layer, "kernel_size", out->window) || !positive(layer, "strides", geometry->stride) ||
        !positive(layer, "dilation", geometry->dilation) ||
        !check_groups(layer, options, x->dim[3], geometry->groups))
        return false;
    for (int i = 0; i < 2; i++) {
        int64_t reach = (out->window[i] - 1) * geometry->dilation[i] + 1;
        if (options->padding == ISO_VALID && reach > x->dim[i + 1]) {
            iso_layer_fail(layer,
                           "its kernel reaches over %lld pixels, its input has %lld (padding is valid)",
                           (long long)reach, (long long)x->dim[i + 1]);
            return false;
        }
        iso_layer_pad(options->padding, x->dim[i + 1], reach, geometry->stride[i], &geometry->pad_before[i],
                      &geometry->pad_after[i]);
    }
    return true;
}

iso_tensor *iso_conv2d_with(const iso_conv2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv2d_options, options, given, size);
    iso_layer layer;
    windows conv;
    memset(&conv, 0, sizeof conv);
    if (!iso_layer_begin(&layer, options.x, "Conv2D", "conv2d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]") ||
        !fill(&layer, &options, iso_tensor_shape(options.x), &conv))
        return iso_layer_broken(options.x);
    int64_t channels = iso_tensor_shape(options.x)->dim[3] / conv.geometry.groups;
    iso_shape shape = ISO_SHAPE(conv.window[0], conv.window[1], channels, options.filters);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_tensor *kernel = iso_layer_weight(&layer, &kernel_form, shape);
    iso_tensor *y = iso_conv2d_op(options.x, kernel, &conv.geometry); /* [batch, h', w', filters] */
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    iso_layer_note_integer(&layer, "filters", options.filters);
    iso_layer_note_integers(&layer, "kernel_size", conv.window, 2);
    iso_layer_note_integers(&layer, "strides", conv.geometry.stride, 2);
    iso_layer_note_padding(&layer, options.padding);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    iso_layer_note_integers(&layer, "dilation_rate", conv.geometry.dilation, 2);
    iso_layer_note_integer(&layer, "groups", conv.geometry.groups);
    iso_layer_note_text(&layer, "activation", iso_activation_name(options.activation));
    iso_layer_note_flag(&layer, "use_bias", !options.no_bias);
    iso_layer_note_weight(&layer, &kernel_form);
    iso_layer_note_weight(&layer, &bias_form);
    return iso_layer_end(&layer, iso_activate(y, options.activation));
}

static iso_tensor *build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_conv2d_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_count(config, "filters", 0);
    iso_config_pair(config, "kernel_size", 0, options.kernel_size_hw);
    iso_config_pair(config, "strides", 1, options.strides_hw);
    iso_config_pair(config, "dilation_rate", 1, options.dilation_hw);
    options.groups = iso_config_count(config, "groups", 1);
    options.padding = iso_config_padding(config);
    options.activation = iso_config_activation(config, iso_tensor_graph(x[0]));
    options.no_bias = !iso_config_flag(config, "use_bias", true);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv2d_with(&options, sizeof options);
}

const iso_layer_type iso_layer_conv2d = {.keras = "Conv2D", .build = build};
