/* LayerNormalization: normalises each row over its last dimensions. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* A weight over the normalised dimensions in the op's shape, [features]; NULL if it is omitted. */
static iso_tensor *weight(const iso_layer *layer, bool left_out, const iso_weight_form *form, iso_shape shape,
                          int64_t features)
{
    iso_tensor *value = iso_layer_weight_unless(layer, left_out, form, shape);
    return !value || shape.rank == 1 ? value : iso_reshape_to(value, ISO_SHAPE(features));
}

/* The dimensions that are normalised, as bits; 0, and an error, if the options name no valid ones. */
static uint32_t axes_of(const iso_layer *layer, const iso_layer_norm_options *options, iso_tensor *x)
{
    int rank = iso_tensor_shape(x)->rank, axes = options->axes ? options->axes : 1;
    if (options->axis_count > 0 && options->axis_count <= ISO_MAX_RANK)
        return iso_layer_axes(layer, x, options->axis, options->axis_count);
    if (axes >= 1 && axes < rank)
        return ((1u << axes) - 1) << (rank - axes);
    iso_layer_fail(layer, "axes is %d of %d dimensions besides the batch", axes, rank - 1);
    return 0;
}

/* Over the last `axes` dimensions of x. */
static iso_tensor *normalize(const iso_layer *layer, const iso_layer_norm_options *options,
                             const iso_weight_form *gamma_form, const iso_weight_form *beta_form,
                             iso_tensor *x, int axes, double epsilon)
{
    iso_shape shape = *iso_tensor_shape(x), joined;
    int64_t features;
    iso_shape normalised = iso_layer_last_dims(&shape, axes, &joined, &features);
    iso_tensor *gamma = weight(layer, options->no_scale, gamma_form, normalised, features);
    iso_tensor *beta = weight(layer, options->no_center, beta_form, normalised, features);
    if (axes > 1)
        x = iso_reshape_to(x, joined);
    iso_tensor *y = iso_layer_norm_op(x, gamma, beta, epsilon);
    return axes > 1 ? iso_reshape_to(y, shape) : y;
}

iso_tensor *iso_layer_norm_with(const iso_layer_norm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_layer_norm_options, options, given, size);
    iso_layer layer;
    int back[ISO_MAX_RANK];
    double epsilon = iso_option_number(options.epsilon, 1e-3);
    if (!iso_layer_begin_uncast(&layer, options.x, "LayerNormalization", "layer_normalization", options.name))
        return iso_layer_broken(options.x);
    if (!(epsilon > 0))
        return iso_layer_fail(&layer, "epsilon is %g, it must be positive", epsilon);
    uint32_t axes = axes_of(&layer, &options, options.x);
    if (!axes)
        return iso_layer_broken(options.x);
    iso_weight_form gamma_form = ISO_WEIGHT_FORM(options, gamma, ISO_INIT_ONES);
    iso_weight_form beta_form = ISO_WEIGHT_FORM(options, beta, ISO_INIT_ZEROS);
    iso_tensor *y = normalize(&layer, &options, &gamma_form, &beta_form,
                              iso_layer_axes_last(iso_layer_cast(&layer, options.x), axes, back),
                              __builtin_popcount(axes), epsilon);
    iso_layer_note_axes(&layer, "axis", axes, options.axis, options.axis_count);
    iso_layer_note_real(&layer, "epsilon", epsilon);
    iso_layer_note_flag(&layer, "center", !options.no_center);
    iso_layer_note_flag(&layer, "scale", !options.no_scale);
    iso_layer_note_weight(&layer, &gamma_form);
    iso_layer_note_weight(&layer, &beta_form);
    return iso_layer_end(&layer, iso_layer_as_input(&layer, iso_layer_axes_back(y, back)));
}

static iso_tensor *layer_norm_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t axis[ISO_MAX_RANK];
    (void)count;
    iso_layer_norm_options options = {.x = x[0],
                                      .name = config->name,
                                      .epsilon = iso_config_option(config, "epsilon"),
                                      .no_scale = !iso_config_flag(config, "scale", true),
                                      .no_center = !iso_config_flag(config, "center", true)};
    ISO_CONFIG_WEIGHT(&options, config, gamma);
    ISO_CONFIG_WEIGHT(&options, config, beta);
    options.axis_count = iso_config_counts(config, "axis", axis, ISO_MAX_RANK);
    for (int i = 0; i < options.axis_count; i++)
        options.axis[i] = (int)axis[i];
    return iso_layer_norm_with(&options, sizeof options);
}

const iso_layer_type iso_layer_layer_norm = {
    .keras = "LayerNormalization", .build = layer_norm_build, .masks = ISO_MASKS_PASSED};
