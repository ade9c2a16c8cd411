/* Conv2DTranspose, Conv1DTranspose, which is computed as images of one row, and Conv3DTranspose, whose slices are
 * added up. */
#include "models/layers/convolution_impl.h"
#include "models/layers/list.h"

typedef struct transposed {
    iso_conv_windows conv;
    int64_t output_padding[2];
    bool padding_given;
    int64_t size[2]; /* of the output */
} transposed;

/* The size of the output along dimension i of an input of n elements, and the padding of the convolution whose
 * transpose this one is. As Keras on JAX: of the zeros around the stretched input, `left` come before it. */
static void lay_out(transposed *t, int i, int64_t n)
{
    iso_conv_geometry *geometry = &t->conv.geometry;
    int64_t stride = geometry->stride[i], reach = (t->conv.window[i] - 1) * geometry->dilation[i] + 1;
    int64_t left = reach - 1, zeros; /* in all */
    if (t->conv.padding == ISO_VALID) {
        zeros = 2 * left;
        zeros += t->padding_given ? t->output_padding[i] : reach < stride ? stride - reach : 0;
    } else {
        zeros = t->padding_given ? reach + reach % 2 - 2 + t->output_padding[i] : stride + reach - 2;
        int64_t half = zeros / 2 + zeros % 2;
        left = half < left ? half : left;
    }
    int64_t right = zeros - left;
    t->size[i] = (n - 1) * stride + 2 + zeros - reach;
    geometry->pad_before[i] = reach - 1 - left;
    geometry->pad_after[i] =
        right < reach - 1 ? reach - 1 - right : 0; /* else no window reads the last elements */
}

static bool output_padding_fits(const iso_layer *layer, const transposed *t, int i)
{
    int64_t given = t->output_padding[i], stride = t->conv.geometry.stride[i];
    if (!t->padding_given || (given >= 0 && given < stride))
        return true;
    iso_layer_fail(layer, "output_padding is %lld; it must be less than strides, %lld, and not negative",
                   (long long)given, (long long)stride);
    return false;
}

static bool filters_fit(const iso_layer *layer, int64_t filters)
{
    if (filters <= 0)
        iso_layer_fail(layer, "filters is %lld, it must be positive", (long long)filters);
    return filters > 0;
}

/* x: [n, h, w, c] */
static bool fit(const iso_layer *layer, const iso_shape *x, transposed *t)
{
    if (!iso_conv_sizes_fit(layer, &t->conv) || !output_padding_fits(layer, t, 0) ||
        !output_padding_fits(layer, t, 1))
        return false;
    for (int i = 0; i < 2; i++) {
        lay_out(t, i, x->dim[1 + i]);
        if (t->size[i] < 1 || t->size[i] > INT32_MAX) {
            iso_layer_fail(layer, "its output would have %lld elements where its input has %lld",
                           (long long)t->size[i], (long long)x->dim[1 + i]);
            return false;
        }
    }
    return true;
}

static void note_output_padding(iso_layer *layer, bool given, const int64_t *padding, int dims)
{
    if (given)
        iso_layer_note_integers(layer, "output_padding", padding, dims);
    else
        iso_layer_note_none(layer, "output_padding");
}

static void note(iso_layer *layer, const transposed *t, int64_t filters, int dims)
{
    iso_layer_note_integer(layer, "filters", filters);
    iso_conv_note(layer, &t->conv, dims);
    note_output_padding(layer, t->padding_given, t->output_padding + 2 - dims, dims);
}

iso_tensor *iso_conv2d_transpose_with(const iso_conv2d_transpose_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv2d_transpose_options, options, given, size);
    iso_layer layer;
    int64_t width_padding = options.output_padding[options.output_padding_count == 2];
    transposed t = {.conv = ISO_CONV_WINDOWS(options),
                    .output_padding = {options.output_padding[0], width_padding},
                    .padding_given = options.output_padding_count > 0};
    if (!iso_layer_begin(&layer, &options.x, "Conv2DTranspose", "conv2d_transpose", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]") ||
        !filters_fit(&layer, options.filters) || !fit(&layer, iso_tensor_shape(options.x), &t))
        return iso_layer_broken(options.x);
    int64_t channels = iso_tensor_shape(options.x)->dim[3];
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_shape shape = ISO_SHAPE(t.conv.window[0], t.conv.window[1], options.filters, channels);
    iso_tensor *kernel = iso_layer_weight(&layer, &kernel_form, shape);
    iso_tensor *y = iso_conv2d_transpose_op(options.x, kernel, &t.conv.geometry, t.size[0], t.size[1]);
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.filters));
    note(&layer, &t, options.filters, 2);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

static transposed of_sequence(const iso_conv1d_transpose_options *options)
{
    transposed t = {.conv = {.window = {1, options->kernel_size}, .padding = options->padding},
                    .output_padding = {0, options->output_padding[0]},
                    .padding_given = options->output_padding_count > 0};
    t.conv.geometry = (iso_conv_geometry){.stride = {1, options->strides ? options->strides : 1},
                                          .dilation = {1, options->dilation ? options->dilation : 1},
                                          .groups = 1};
    return t;
}

iso_tensor *iso_conv1d_transpose_with(const iso_conv1d_transpose_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv1d_transpose_options, options, given, size);
    iso_layer layer;
    transposed t = of_sequence(&options);
    if (!iso_layer_begin(&layer, &options.x, "Conv1DTranspose", "conv1d_transpose", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 3, "[batch, steps, channels]"))
        return iso_layer_broken(options.x);
    const iso_shape *x = iso_tensor_shape(options.x);
    int64_t channels = x->dim[2], filters = options.filters;
    iso_shape row = ISO_SHAPE(x->dim[0], 1, x->dim[1], channels);
    if (!filters_fit(&layer, filters) || !fit(&layer, &row, &t))
        return iso_layer_broken(options.x);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_tensor *kernel =
        iso_layer_weight(&layer, &kernel_form, ISO_SHAPE(t.conv.window[1], filters, channels));
    kernel = iso_reshape_to(kernel, ISO_SHAPE(1, t.conv.window[1], filters, channels));
    iso_tensor *y =
        iso_conv2d_transpose_op(iso_reshape_to(options.x, row), kernel, &t.conv.geometry, 1, t.size[1]);
    y = iso_reshape_to(y, ISO_SHAPE(x->dim[0], t.size[1], filters));
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(filters));
    note(&layer, &t, filters, 1);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

/* ---- volumes ---- */

typedef struct transposed_volume {
    transposed depth, slice;
    int64_t output_padding[3];
} transposed_volume;

static transposed_volume of_volume(const iso_conv3d_transpose_options *options)
{
    const int64_t *padding = options->output_padding;
    const bool given = options->output_padding_count > 0, one = options->output_padding_count == 1;
    transposed_volume t = {.output_padding = {padding[0], padding[one ? 0 : 1], padding[one ? 0 : 2]}};
    iso_conv3d_windows conv;
    ISO_CONV3D_WINDOWS(*options, &conv);
    t.depth =
        (transposed){.conv = conv.depth, .output_padding = {0, t.output_padding[0]}, .padding_given = given};
    t.slice = (transposed){.conv = conv.slice,
                           .output_padding = {t.output_padding[1], t.output_padding[2]},
                           .padding_given = given};
    return t;
}

static iso_conv3d_windows volume_windows(const transposed_volume *t)
{
    return (iso_conv3d_windows){.depth = t->depth.conv, .slice = t->slice.conv};
}

/* Each slice of x gives as many slices as the kernel is deep; those that lie at one place are added.
 * x: [n, d, h, w, c], kernel: [depth, height, width, filters, c] */
static iso_tensor *transpose_volume(iso_tensor *x, iso_tensor *kernel, const transposed_volume *t,
                                    int64_t filters)
{
    const iso_conv3d_windows conv = volume_windows(t);
    const iso_shape shape = *iso_tensor_shape(x);
    const iso_unfold_geometry slices = iso_conv3d_unfolding(&conv);
    kernel = iso_conv3d_kernel_of_slices(kernel, &conv, filters, shape.dim[4]);
    iso_tensor *y =
        iso_conv2d_transpose_op(x, kernel, &conv.slice.geometry, t->slice.size[0], t->slice.size[1]);
    if (iso_conv3d_in_slices(&conv) && t->depth.size[1] == shape.dim[1])
        return y;
    y = iso_reshape_to(
        y, ISO_SHAPE(shape.dim[0], shape.dim[1], t->slice.size[0], t->slice.size[1], slices.size, filters));
    return iso_fold_op(y, 1, &slices, t->depth.size[1]); /* [n, d', h', w', filters] */
}

static bool volume_fits(const iso_layer *layer, iso_tensor *x, int64_t filters, transposed_volume *t)
{
    const iso_conv3d_windows conv = volume_windows(t);
    if (!iso_layer_check_rank(layer, x, 5, "[batch, depth, height, width, channels]") ||
        !filters_fit(layer, filters) || !iso_conv3d_sizes_fit(layer, &conv))
        return false;
    const iso_shape *shape = iso_tensor_shape(x);
    const iso_shape row = iso_conv3d_depth_of(shape), slice = iso_conv3d_slice_of(shape);
    return fit(layer, &row, &t->depth) && fit(layer, &slice, &t->slice);
}

iso_tensor *iso_conv3d_transpose_with(const iso_conv3d_transpose_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_conv3d_transpose_options, options, given, size);
    iso_layer layer;
    const int64_t filters = options.filters;
    transposed_volume t = of_volume(&options);
    if (!iso_layer_begin(&layer, &options.x, "Conv3DTranspose", "conv3d_transpose", options.name) ||
        !volume_fits(&layer, options.x, filters, &t))
        return iso_layer_broken(options.x);
    const iso_conv3d_windows conv = volume_windows(&t);
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_shape shape = ISO_SHAPE(conv.depth.window[1], conv.slice.window[0], conv.slice.window[1], filters,
                                iso_tensor_shape(options.x)->dim[4]);
    iso_tensor *y = transpose_volume(options.x, iso_layer_weight(&layer, &kernel_form, shape), &t, filters);
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(filters));
    iso_layer_note_integer(&layer, "filters", filters);
    iso_conv3d_note(&layer, &conv);
    note_output_padding(&layer, options.output_padding_count > 0, t.output_padding, 3);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

static iso_tensor *conv3d_transpose_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_conv3d_transpose_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_size(config, "filters", ISO_REQUIRED);
    options.output_padding_count = iso_config_counts(config, "output_padding", options.output_padding, 3);
    if (options.output_padding_count == 2)
        iso_config_refuse(config, "output_padding", "a number, or one for each dimension");
    ISO_CONFIG_CONV(&options, config, dhw);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv3d_transpose_with(&options, sizeof options);
}

static iso_tensor *conv2d_transpose_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_conv2d_transpose_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.filters = iso_config_size(config, "filters", ISO_REQUIRED);
    options.output_padding_count = iso_config_counts(config, "output_padding", options.output_padding, 2);
    ISO_CONFIG_CONV(&options, config, hw);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv2d_transpose_with(&options, sizeof options);
}

static iso_tensor *conv1d_transpose_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_conv1d_transpose_options options = {.x = x[0],
                                            .name = config->name,
                                            .filters = iso_config_size(config, "filters", ISO_REQUIRED),
                                            .kernel_size =
                                                iso_config_size(config, "kernel_size", ISO_REQUIRED),
                                            .strides = iso_config_size(config, "strides", 1),
                                            .dilation = iso_config_size(config, "dilation_rate", 1),
                                            .padding = iso_config_padding(config),
                                            .no_bias = !iso_config_flag(config, "use_bias", true)};
    (void)count;
    options.output_padding_count = iso_config_counts(config, "output_padding", options.output_padding, 1);
    options.activation = iso_config_activation(config, iso_tensor_graph(x[0]), &options.activation_with);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    return iso_conv1d_transpose_with(&options, sizeof options);
}

const iso_layer_type iso_layer_conv2d_transpose = {.keras = "Conv2DTranspose",
                                                   .build = conv2d_transpose_build};
const iso_layer_type iso_layer_conv1d_transpose = {.keras = "Conv1DTranspose",
                                                   .build = conv1d_transpose_build};
const iso_layer_type iso_layer_conv3d_transpose = {.keras = "Conv3DTranspose",
                                                   .build = conv3d_transpose_build};
