/* RotaryEmbedding of keras_hub: turns pairs of features by angles that grow with the position. */
#include <math.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

static bool is_positive(double number)
{
    return number > 0 && !isinf(number);
}

iso_tensor *iso_rotary_embedding_with(const iso_rotary_embedding_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_rotary_embedding_options, options, given, size);
    iso_layer layer;
    double wavelength = iso_option_number(options.max_wavelength, 10000);
    double scaling = iso_option_number(options.scaling_factor, 1);
    if (!iso_layer_begin(&layer, &options.x, "RotaryEmbedding", "rotary_embedding", options.name))
        return iso_layer_broken(options.x);
    const iso_shape *shape = iso_tensor_shape(options.x);
    int axis = options.sequence_axis ? options.sequence_axis : 1, last = shape->rank - 1;
    axis += axis < 0 ? shape->rank : 0;
    if (axis < 1 || axis >= last)
        return iso_layer_fail(&layer,
                              "sequence_axis is %d of an input of %d dimensions; it must lie between the "
                              "batch and the features, which are the last",
                              options.sequence_axis ? options.sequence_axis : 1, shape->rank);
    if (shape->dim[last] % 2 != 0)
        return iso_layer_fail(&layer, "its input has %lld features, it must have an even number",
                              (long long)shape->dim[last]);
    if (!is_positive(wavelength) || !is_positive(scaling))
        return iso_layer_fail(&layer, "max_wavelength is %g, scaling_factor %g: both must be positive",
                              wavelength, scaling);
    iso_layer_note_real(&layer, "max_wavelength", wavelength);
    iso_layer_note_real(&layer, "scaling_factor", scaling);
    iso_layer_note_integer(&layer, "sequence_axis", axis);
    iso_layer_note_integer(&layer, "feature_axis", -1);
    return iso_layer_end(&layer, iso_rotary_op(options.x, axis, wavelength, scaling));
}

/* The arguments that have one supported value, and those that have an effect with another rope_type alone. */
static void check_kind(const iso_layer_config *config, int rank)
{
    static const char *const kinds[] = {"linear", NULL};
    static const char *const of_yarn[] = {"beta_fast", "beta_slow", "original_max_position_embeddings",
                                          "truncate"};
    iso_config_choice(config, "rope_type", kinds);
    for (size_t i = 0; i < sizeof of_yarn / sizeof *of_yarn; i++)
        iso_config_number(config, of_yarn[i], 0);
    int64_t features = iso_config_count(config, "feature_axis", -1);
    if (features != -1 && features != rank - 1)
        iso_config_refuse(config, "feature_axis", "-1, the last dimension");
}

static iso_tensor *rotary_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t axis = iso_config_count(config, "sequence_axis", 1);
    iso_rotary_embedding_options options = {.x = x[0],
                                            .name = config->name,
                                            .max_wavelength = iso_config_option(config, "max_wavelength"),
                                            .scaling_factor = iso_config_option(config, "scaling_factor"),
                                            .sequence_axis = (int)axis};
    (void)count;
    check_kind(config, iso_tensor_shape(x[0])->rank);
    if (axis == 0 || axis != (int)axis)
        iso_config_refuse(config, "sequence_axis", "a dimension between the batch and the features");
    return iso_rotary_embedding_with(&options, sizeof options);
}

const iso_layer_type iso_layer_rotary_embedding = {.keras = "RotaryEmbedding",
                                                   .module = "keras_hub.layers",
                                                   .registered = "keras_hub>RotaryEmbedding",
                                                   .build = rotary_build};
