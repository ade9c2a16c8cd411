/* Layers that networks of keras.applications define for themselves, as files have them: LayerScale and
 * StochasticDepth of ConvNeXt, CustomScaleLayer of InceptionResNetV2. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* x times a weight for each channel (Touvron et al. 2021, arXiv 2103.17239). */
static iso_tensor *layer_scale_build(const iso_layer_config *config, iso_tensor *const *inputs, int count)
{
    iso_layer layer;
    iso_tensor *x = inputs[0];
    double first = iso_config_number(config, "init_values", 0);
    int64_t channels = iso_config_size(config, "projection_dim", ISO_REQUIRED);
    iso_weight_form gamma = {.what = "gamma", .initializer = {.kind = ISO_INIT_CONSTANT, .value = first}};
    (void)count;
    if (!iso_layer_begin(&layer, &x, "LayerScale", "layer_scale", config->name))
        return iso_layer_broken(x);
    if (channels <= 0)
        return iso_layer_fail(&layer, "projection_dim is %lld, it must be positive", (long long)channels);
    iso_layer_note_real(&layer, "init_values", first);
    iso_layer_note_integer(&layer, "projection_dim", channels);
    return iso_layer_end(&layer, iso_multiply(x, iso_layer_weight(&layer, &gamma, ISO_SHAPE(channels))));
}

/* Rows of x as wholes (Huang et al. 2016, arXiv 1603.09382). */
static iso_tensor *stochastic_depth_build(const iso_layer_config *config, iso_tensor *const *inputs,
                                          int count)
{
    iso_layer layer;
    iso_tensor *x = inputs[0];
    double rate = iso_config_number(config, "drop_path_rate", 0);
    (void)count;
    if (!iso_layer_begin(&layer, &x, "StochasticDepth", "stochastic_depth", config->name))
        return iso_layer_broken(x);
    if (!(rate >= 0 && rate < 1))
        return iso_layer_fail(&layer, "drop_path_rate is %g, it must be at least 0 and below 1", rate);
    iso_layer_note_real(&layer, "drop_path_rate", rate);
    iso_shape row = *iso_tensor_shape(x);
    for (int d = 1; d < row.rank; d++)
        row.dim[d] = 1;
    return iso_layer_end(&layer, rate == 0 ? x : iso_by_mode(iso_layer_drop(&layer, x, rate, &row), x));
}

/* The first input plus the second times a number. */
static iso_tensor *custom_scale_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_layer layer;
    double scale = iso_config_number(config, "scale", 1);
    if (!iso_layer_begin_several(&layer, x, count, "CustomScaleLayer", "custom_scale_layer", config->name))
        return iso_layer_broken(x[0]);
    if (count != 2)
        return iso_layer_fail(&layer, "it has %d inputs, it takes two", count);
    iso_layer_note_real(&layer, "scale", scale);
    return iso_layer_end(
        &layer, iso_add(iso_layer_cast(&layer, x[0]), iso_affine(iso_layer_cast(&layer, x[1]), scale, 0)));
}

#define CONVNEXT "keras.src.applications.convnext"

const iso_layer_type iso_layer_layer_scale = {
    .keras = "LayerScale", .module = CONVNEXT, .registered = "LayerScale", .build = layer_scale_build};
const iso_layer_type iso_layer_stochastic_depth = {.keras = "StochasticDepth",
                                                   .module = CONVNEXT,
                                                   .registered = "StochasticDepth",
                                                   .build = stochastic_depth_build};
const iso_layer_type iso_layer_custom_scale = {.keras = "CustomScaleLayer",
                                               .module = "keras.src.applications.inception_resnet_v2",
                                               .registered = "CustomScaleLayer",
                                               .build = custom_scale_build,
                                               .several = true};
