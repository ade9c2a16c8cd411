/* Convolutions of single channels: DepthwiseConv1D and 2D, and SeparableConv1D and 2D, which then mix the channels of
 * each pixel (Chollet 2016, arXiv 1610.02357). Sequences are images of one row. */
#include "models/layers/convolution_impl.h"
#include "models/layers/list.h"

/* `multiplier` kernels for each channel: [height, width, c, multiplier]. False, and an error, if options are
 * wrong. */
static bool fit(const iso_layer *layer, iso_tensor *x, int64_t multiplier, iso_conv_windows *conv)
{
    if (!iso_layer_check_rank(layer, x, 4, "[batch, height, width, channels]"))
        return false;
    conv->geometry.groups = iso_tensor_shape(x)->dim[3];
    if (multiplier <= 0)
        iso_layer_fail(layer, "depth_multiplier is %lld, it must be positive", (long long)multiplier);
    return multiplier > 0 && iso_conv_windows_fit(layer, iso_tensor_shape(x), conv);
}

/* [batch, h, w, c] -> [batch, h', w', c * multiplier], where c * multiplier + j is kernel j of channel c. The kernel
 * has `dims` dimensions of the window. */
static iso_tensor *convolve(const iso_layer *layer, const iso_weight_form *form, iso_tensor *x,
                            int64_t multiplier, const iso_conv_windows *conv, int dims)
{
    int64_t channels = conv->geometry.groups;
    iso_shape shape = dims == 1 ? ISO_SHAPE(conv->window[1], channels, multiplier)
                                : ISO_SHAPE(conv->window[0], conv->window[1], channels, multiplier);
    iso_shape grouped = ISO_SHAPE(conv->window[0], conv->window[1], 1, channels * multiplier);
    iso_tensor *kernel = iso_layer_weight(layer, form, shape);
    return iso_conv2d_op(x, iso_reshape_to(kernel, grouped), &conv->geometry);
}

iso_tensor *iso_depthwise_conv2d_with(const iso_depthwise_conv2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_depthwise_conv2d_options, options, given, size);
    iso_layer layer;
    iso_conv_windows conv = ISO_CONV_WINDOWS(options);
    int64_t multiplier = options.depth_multiplier ? options.depth_multiplier : 1;
    if (!iso_layer_begin(&layer, &options.x, "DepthwiseConv2D", "depthwise_conv2d", options.name) ||
        !fit(&layer, options.x, multiplier, &conv))
        return iso_layer_broken(options.x);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, depthwise, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    kernel_form.argument = kernel_form.what;
    kernel_form.what = "kernel";
    iso_tensor *y = convolve(&layer, &kernel_form, options.x, multiplier, &conv, 2);
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(conv.geometry.groups * multiplier));
    iso_layer_note_integer(&layer, "depth_multiplier", multiplier);
    iso_conv_note(&layer, &conv, 2);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

iso_tensor *iso_separable_conv2d_with(const iso_separable_conv2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_separable_conv2d_options, options, given, size);
    iso_layer layer;
    iso_conv_windows conv = ISO_CONV_WINDOWS(options);
    const iso_conv_geometry each = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    int64_t multiplier = options.depth_multiplier ? options.depth_multiplier : 1;
    if (!iso_layer_begin(&layer, &options.x, "SeparableConv2D", "separable_conv2d", options.name) ||
        !fit(&layer, options.x, multiplier, &conv))
        return iso_layer_broken(options.x);
    if (options.filters <= 0)
        return iso_layer_fail(&layer, "filters is %lld, it must be positive", (long long)options.filters);
    iso_weight_form depthwise_form = ISO_WEIGHT_FORM(options, depthwise, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form pointwise_form = ISO_WEIGHT_FORM(options, pointwise, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    depthwise_form.argument = depthwise_form.what;
    depthwise_form.what = "depthwise_kernel";
    pointwise_form.argument = pointwise_form.what;
    pointwise_form.what = "pointwise_kernel";
    iso_tensor *y = convolve(&layer, &depthwise_form, options.x, multiplier, &conv, 2);
    iso_shape shape = ISO_SHAPE(1, 1, conv.geometry.groups * multiplier, options.filters);
    y = iso_conv2d_op(y, iso_layer_weight(&layer, &pointwise_form, shape), &each);
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    iso_layer_note_integer(&layer, "filters", options.filters);
    iso_layer_note_integer(&layer, "depth_multiplier", multiplier);
    iso_conv_note(&layer, &conv, 2);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &depthwise_form, &pointwise_form, &bias_form);
}

/* ---- sequences ---- */

/* [batch, steps, c] as [batch, 1, steps, c]; NULL, and an error, if options are wrong. */
static iso_tensor *row_of(const iso_layer *layer, iso_tensor *x, int64_t multiplier, iso_conv_windows *conv)
{
    if (!iso_layer_check_rank(layer, x, 3, "[batch, steps, channels]"))
        return NULL;
    const iso_shape *shape = iso_tensor_shape(x);
    x = iso_reshape_to(x, ISO_SHAPE(shape->dim[0], 1, shape->dim[1], shape->dim[2]));
    return fit(layer, x, multiplier, conv) ? x : NULL;
}

/* [batch, 1, steps, c] -> [batch, steps, c] */
static iso_tensor *steps_of(iso_tensor *y)
{
    const iso_shape *shape = iso_tensor_shape(y);
    return iso_reshape_to(y, ISO_SHAPE(shape->dim[0], shape->dim[2], shape->dim[3]));
}

/* The windows from the members of a layer's options. */
#define ROW_WINDOWS(options)                                                                                 \
    iso_conv_windows_of((const int64_t[]){1, (options).kernel_size}, 0,                                      \
                        (const int64_t[]){1, (options).strides ? (options).strides : 1}, 0,                  \
                        (const int64_t[]){1, (options).dilation ? (options).dilation : 1}, 0,                \
                        (options).padding)

iso_tensor *iso_depthwise_conv1d_with(const iso_depthwise_conv1d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_depthwise_conv1d_options, options, given, size);
    iso_layer layer;
    iso_conv_windows conv = ROW_WINDOWS(options);
    int64_t multiplier = options.depth_multiplier ? options.depth_multiplier : 1;
    if (!iso_layer_begin(&layer, &options.x, "DepthwiseConv1D", "depthwise_conv1d", options.name))
        return iso_layer_broken(options.x);
    iso_tensor *x = row_of(&layer, options.x, multiplier, &conv);
    if (!x)
        return iso_layer_broken(options.x);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, depthwise, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    kernel_form.argument = kernel_form.what;
    kernel_form.what = "kernel";
    iso_tensor *y = steps_of(convolve(&layer, &kernel_form, x, multiplier, &conv, 1));
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(conv.geometry.groups * multiplier));
    iso_layer_note_integer(&layer, "depth_multiplier", multiplier);
    iso_conv_note(&layer, &conv, 1);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

iso_tensor *iso_separable_conv1d_with(const iso_separable_conv1d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_separable_conv1d_options, options, given, size);
    iso_layer layer;
    iso_conv_windows conv = ROW_WINDOWS(options);
    int64_t multiplier = options.depth_multiplier ? options.depth_multiplier : 1;
    if (!iso_layer_begin(&layer, &options.x, "SeparableConv1D", "separable_conv1d", options.name))
        return iso_layer_broken(options.x);
    if (options.filters <= 0)
        return iso_layer_fail(&layer, "filters is %lld, it must be positive", (long long)options.filters);
    iso_tensor *x = row_of(&layer, options.x, multiplier, &conv);
    if (!x)
        return iso_layer_broken(options.x);
    iso_weight_form depthwise_form = ISO_WEIGHT_FORM(options, depthwise, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form pointwise_form = ISO_WEIGHT_FORM(options, pointwise, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    depthwise_form.argument = depthwise_form.what;
    depthwise_form.what = "depthwise_kernel";
    pointwise_form.argument = pointwise_form.what;
    pointwise_form.what = "pointwise_kernel";
    const int64_t channels = conv.geometry.groups * multiplier;
    iso_tensor *y = steps_of(convolve(&layer, &depthwise_form, x, multiplier, &conv, 1));
    iso_tensor *kernel = iso_layer_weight(&layer, &pointwise_form, ISO_SHAPE(1, channels, options.filters));
    y = iso_matmul(y, iso_reshape_to(kernel, ISO_SHAPE(channels, options.filters)));
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    iso_layer_note_integer(&layer, "filters", options.filters);
    iso_layer_note_integer(&layer, "depth_multiplier", multiplier);
    iso_conv_note(&layer, &conv, 1);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &depthwise_form, &pointwise_form, &bias_form);
}

/* The arguments that both have in a config, into the members of options. */
#define CONFIG_ROW(options, config)                                                                          \
    do {                                                                                                     \
        (options)->kernel_size = iso_config_size(config, "kernel_size", ISO_REQUIRED);                       \
        (options)->strides = iso_config_size(config, "strides", 1);                                          \
        (options)->dilation = iso_config_size(config, "dilation_rate", 1);                                   \
        (options)->depth_multiplier = iso_config_size(config, "depth_multiplier", 1);                        \
        (options)->padding = iso_config_padding(config);                                                     \
        (options)->no_bias = !iso_config_flag(config, "use_bias", true);                                     \
        (options)->activation =                                                                              \
            iso_config_activation(config, iso_tensor_graph((options)->x), &(options)->activation_with);      \
        ISO_CONFIG_WEIGHT(options, config, depthwise);                                                       \
        ISO_CONFIG_WEIGHT(options, config, bias);                                                            \
    } while (0)

static iso_tensor *build_depthwise1d(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_depthwise_conv1d_options options = {.x = x[0], .name = config->name};
    (void)count;
    CONFIG_ROW(&options, config);
    return iso_depthwise_conv1d_with(&options, sizeof options);
}

static iso_tensor *build_separable1d(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_separable_conv1d_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_size(config, "filters", ISO_REQUIRED);
    CONFIG_ROW(&options, config);
    ISO_CONFIG_WEIGHT(&options, config, pointwise);
    return iso_separable_conv1d_with(&options, sizeof options);
}

/* ---- from data ---- */

static iso_tensor *build_depthwise(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_depthwise_conv2d_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.depth_multiplier = iso_config_size(config, "depth_multiplier", 1);
    ISO_CONFIG_CONV(&options, config, hw);
    ISO_CONFIG_WEIGHT(&options, config, depthwise);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_depthwise_conv2d_with(&options, sizeof options);
}

static iso_tensor *build_separable(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_separable_conv2d_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_size(config, "filters", ISO_REQUIRED);
    options.depth_multiplier = iso_config_size(config, "depth_multiplier", 1);
    ISO_CONFIG_CONV(&options, config, hw);
    ISO_CONFIG_WEIGHT(&options, config, depthwise);
    ISO_CONFIG_WEIGHT(&options, config, pointwise);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_separable_conv2d_with(&options, sizeof options);
}

const iso_layer_type iso_layer_depthwise_conv1d = {.keras = "DepthwiseConv1D", .build = build_depthwise1d};
const iso_layer_type iso_layer_separable_conv1d = {.keras = "SeparableConv1D", .build = build_separable1d};
const iso_layer_type iso_layer_depthwise_conv2d = {.keras = "DepthwiseConv2D", .build = build_depthwise};
const iso_layer_type iso_layer_separable_conv2d = {.keras = "SeparableConv2D", .build = build_separable};
