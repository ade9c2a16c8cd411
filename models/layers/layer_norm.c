/* LayerNormalization: each row by itself over its last dimensions. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* The last `axes` dimensions of a shape, and the shape in which they are one. */
static iso_shape tail(const iso_shape *shape, int axes, iso_shape *joined, int64_t *features)
{
    iso_shape out = {.rank = axes};
    *joined = (iso_shape){.rank = shape->rank - axes + 1};
    *features = 1;
    for (int i = 0; i < shape->rank - axes; i++)
        joined->dim[i] = shape->dim[i];
    for (int i = 0; i < axes; i++) {
        out.dim[i] = shape->dim[shape->rank - axes + i];
        *features *= out.dim[i];
    }
    joined->dim[joined->rank - 1] = *features;
    return out;
}

/* A weight over the normalised dimensions, as the op wants it: [features]. */
static iso_tensor *weight(const iso_layer *layer, const char *what, iso_shape shape, int64_t features,
                          iso_initializer_kind kind)
{
    iso_tensor *value = iso_layer_weight(layer, what, shape, (iso_initializer){.kind = kind}, kind, 0);
    return shape.rank == 1 ? value : iso_reshape_to(value, ISO_SHAPE(features));
}

iso_tensor *iso_layer_norm_with(const iso_layer_norm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_layer_norm_options, options, given, size);
    iso_layer layer;
    int axes = options.axes ? options.axes : 1;
    double epsilon = iso_option_number(options.epsilon, 1e-3);
    if (!iso_layer_begin(&layer, options.x, "LayerNormalization", "layer_normalization", options.name))
        return iso_layer_broken(options.x);
    iso_shape shape = *iso_tensor_shape(options.x), joined;
    int64_t features;
    if (axes < 1 || axes >= shape.rank || !(epsilon > 0))
        return iso_layer_fail(
            &layer, "axes is %d of %d dimensions besides the batch, epsilon %g (positive is wanted)", axes,
            shape.rank - 1, epsilon);
    iso_shape normalised = tail(&shape, axes, &joined, &features);
    iso_tensor *gamma = NULL, *beta = NULL, *x = options.x;
    if (!options.no_scale)
        gamma = weight(&layer, "gamma", normalised, features, ISO_INIT_ONES);
    if (!options.no_center)
        beta = weight(&layer, "beta", normalised, features, ISO_INIT_ZEROS);
    if (axes > 1)
        x = iso_reshape_to(x, joined);
    iso_tensor *y = iso_layer_norm_op(x, gamma, beta, epsilon);
    iso_layer_set_layout(&layer, "gamma", options.gamma_layout);
    iso_layer_set_layout(&layer, "beta", options.beta_layout);
    return iso_layer_end(&layer, axes > 1 ? iso_reshape_to(y, shape) : y);
}

static iso_tensor *build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    double axis[ISO_MAX_RANK];
    (void)count;
    int axes = config->numbers(config, "axis", axis, ISO_MAX_RANK); /* these and no others: the last ones */
    return iso_layer_norm(x[0], .name = config->name, .axes = axes,
                          .epsilon = iso_config_number(config, "epsilon", 0),
                          .no_scale = !iso_config_flag(config, "scale", true),
                          .no_center = !iso_config_flag(config, "center", true));
}

const iso_layer_type iso_layer_layer_norm = {.keras = "LayerNormalization", .build = build};
