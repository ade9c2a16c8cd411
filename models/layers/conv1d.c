/* Conv1D: convolution of sequences, computed as images of one row. */
#include "models/layers/convolution_impl.h"
#include "models/layers/list.h"

/* Zeros only at the front, so that no output depends on later inputs. */
static void pad_in_front(iso_conv_geometry *geometry, int64_t window)
{
    geometry->pad_before[1] = (window - 1) * geometry->dilation[1];
    geometry->pad_after[1] = 0;
}

static iso_conv_windows windows_of(const iso_conv1d_options *options)
{
    iso_conv_windows conv = {.window = {1, options->kernel_size}, .padding = options->padding};
    conv.geometry = (iso_conv_geometry){.stride = {1, options->strides ? options->strides : 1},
                                        .dilation = {1, options->dilation ? options->dilation : 1},
                                        .groups = options->groups ? options->groups : 1};
    if (options->causal) /* then no window is too large */
        conv.padding = ISO_SAME;
    return conv;
}

iso_tensor *iso_conv1d_with(const iso_conv1d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv1d_options, options, given, size);
    iso_layer layer;
    iso_conv_windows conv = windows_of(&options);
    int64_t groups = conv.geometry.groups;
    if (!iso_layer_begin(&layer, &options.x, "Conv1D", "conv1d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 3, "[batch, steps, channels]"))
        return iso_layer_broken(options.x);
    const iso_shape *x = iso_tensor_shape(options.x);
    int64_t channels = x->dim[2];
    iso_shape row = ISO_SHAPE(x->dim[0], 1, x->dim[1], channels);
    if (!iso_conv_groups_fit(&layer, options.filters, channels, groups) ||
        !iso_conv_windows_fit(&layer, &row, &conv))
        return iso_layer_broken(options.x);
    if (options.causal)
        pad_in_front(&conv.geometry, conv.window[1]);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_shape shape = ISO_SHAPE(conv.window[1], channels / groups, options.filters);
    iso_tensor *kernel = iso_layer_weight(&layer, &kernel_form, shape);
    kernel = iso_reshape_to(kernel, ISO_SHAPE(1, shape.dim[0], shape.dim[1], shape.dim[2]));
    iso_tensor *y = iso_conv2d_op(iso_reshape_to(options.x, row), kernel, &conv.geometry);
    y = iso_reshape_to(y, ISO_SHAPE(x->dim[0], -1, options.filters)); /* [batch, steps', filters] */
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    iso_layer_note_integer(&layer, "filters", options.filters);
    iso_conv_note(&layer, &conv, 1);
    if (options.causal)
        iso_layer_note_text(&layer, "padding", "causal");
    iso_layer_note_integer(&layer, "groups", groups);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

static iso_tensor *conv1d_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    static const char *const paddings[] = {"valid", "same", "causal", NULL};
    int padding = iso_config_choice(config, "padding", paddings);
    iso_conv1d_options options = {.x = x[0],
                                  .name = config->name,
                                  .filters = iso_config_size(config, "filters", ISO_REQUIRED),
                                  .kernel_size = iso_config_size(config, "kernel_size", ISO_REQUIRED),
                                  .strides = iso_config_size(config, "strides", 1),
                                  .dilation = iso_config_size(config, "dilation_rate", 1),
                                  .groups = iso_config_size(config, "groups", 1),
                                  .padding = padding == 1 ? ISO_SAME : ISO_VALID,
                                  .causal = padding == 2,
                                  .no_bias = !iso_config_flag(config, "use_bias", true)};
    (void)count;
    options.activation = iso_config_activation(config, iso_tensor_graph(x[0]), &options.activation_with);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv1d_with(&options, sizeof options);
}

const iso_layer_type iso_layer_conv1d = {.keras = "Conv1D", .build = conv1d_build};
