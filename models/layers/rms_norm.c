/* RMSNormalization: divides each row by the root of the mean square of its last dimensions. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

static iso_tensor *divide_by_root(const iso_layer *layer, const iso_rms_norm_options *options, iso_tensor *x,
                                  int axes, double epsilon)
{
    const iso_weight_form form = {.what = "scale",
                                  .default_value = options->zero_centered ? ISO_INIT_ZEROS : ISO_INIT_ONES,
                                  .layout = options->scale_layout};
    iso_shape shape = *iso_tensor_shape(x), joined;
    int64_t features;
    iso_shape last = iso_layer_last_dims(&shape, axes, &joined, &features);
    iso_tensor *scale = iso_layer_weight(layer, &form, last);
    if (options->zero_centered)
        scale = iso_affine(scale, 1, 1);
    if (axes == 1)
        return iso_rms_norm_op(x, scale, epsilon);
    scale = iso_reshape_to(scale, ISO_SHAPE(features));
    return iso_reshape_to(iso_rms_norm_op(iso_reshape_to(x, joined), scale, epsilon), shape);
}

iso_tensor *iso_rms_norm_with(const iso_rms_norm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_rms_norm_options, options, given, size);
    iso_layer layer;
    double epsilon = iso_option_number(options.epsilon, 1e-6);
    int axes = options.axes ? options.axes : 1;
    if (!iso_layer_begin_uncast(&layer, options.x, "RMSNormalization", "rms_normalization", options.name))
        return iso_layer_broken(options.x);
    int rank = iso_tensor_shape(options.x)->rank;
    if (!(epsilon > 0))
        return iso_layer_fail(&layer, "epsilon is %g, it must be positive", epsilon);
    if (axes < 1 || axes >= rank)
        return iso_layer_fail(&layer, "axes is %d of %d dimensions besides the batch", axes, rank - 1);
    iso_tensor *y = divide_by_root(&layer, &options, iso_layer_cast(&layer, options.x), axes, epsilon);
    iso_layer_note_axes(&layer, "axis", ((1u << axes) - 1) << (rank - axes), NULL, 0);
    iso_layer_note_real(&layer, "epsilon", epsilon);
    if (options.zero_centered) /* only then: the configs of other layers are as they were */
        iso_layer_note_flag(&layer, "zero_centered", true);
    return iso_layer_end(&layer, iso_layer_as_input(&layer, y));
}

/* The number of dimensions that "axis" lists; Keras scales the last ones even if it lists others: refused. */
static int last_axes(const iso_layer_config *config, iso_tensor *x)
{
    int64_t axis[ISO_MAX_RANK];
    int count = iso_config_counts(config, "axis", axis, ISO_MAX_RANK), rank = iso_tensor_shape(x)->rank;
    for (int i = 0; i < count; i++)
        if ((axis[i] < 0 ? axis[i] + rank : axis[i]) != rank - count + i)
            iso_config_refuse(config, "axis", "the last dimensions, in order");
    return count;
}

static iso_tensor *rms_norm_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    iso_rms_norm_options options = {.x = x[0],
                                    .name = config->name,
                                    .epsilon = iso_config_option(config, "epsilon"),
                                    .axes = last_axes(config, x[0])};
    return iso_rms_norm_with(&options, sizeof options);
}

const iso_layer_type iso_layer_rms_norm = {.keras = "RMSNormalization", .build = rms_norm_build};
