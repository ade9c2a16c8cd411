/* Dense: y = activation(x kernel + bias). */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_dense_with(const iso_dense_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dense_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "Dense", "dense", options.name))
        return iso_layer_broken(options.x);
    const iso_shape *shape = iso_tensor_shape(options.x);
    if (shape->rank < 2)
        return iso_layer_fail(
            &layer, "its input has no dimension besides the batch; it must be [batch, ..., features]");
    if (options.units <= 0)
        return iso_layer_fail(&layer, "units is %lld, it must be positive", (long long)options.units);
    int64_t features = shape->dim[shape->rank - 1];
    iso_weight_form kernel_form = ISO_WEIGHT_FORM(options, kernel, ISO_INIT_GLOROT_UNIFORM);
    iso_weight_form bias_form = ISO_WEIGHT_FORM(options, bias, ISO_INIT_ZEROS);
    iso_tensor *kernel = iso_layer_weight(&layer, &kernel_form, ISO_SHAPE(features, options.units));
    iso_tensor *y = iso_matmul(options.x, kernel); /* [batch, ..., units] */
    y = iso_layer_bias(&layer, y, options.no_bias, &bias_form, ISO_SHAPE(options.units));
    y = iso_layer_adapt_product(&layer, &kernel_form, 1, options.x, y);
    iso_layer_note_integer(&layer, "units", options.units);
    y = iso_layer_activate(&layer, y, options.activation, &options.activation_with);
    return iso_layer_end_weights(&layer, y, options.no_bias, &kernel_form, &bias_form);
}

static iso_tensor *dense_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_dense_options options = {.x = x[0],
                                 .name = config->name,
                                 .units = iso_config_size(config, "units", ISO_REQUIRED),
                                 .no_bias = !iso_config_flag(config, "use_bias", true)};
    (void)count;
    options.activation = iso_config_activation(config, iso_tensor_graph(x[0]), &options.activation_with);
    ISO_CONFIG_WEIGHT(&options, config, kernel);
    ISO_CONFIG_WEIGHT(&options, config, bias);
    iso_config_lora_begin(config, x[0]);
    return iso_config_lora_end(config, x[0], iso_dense_with(&options, sizeof options));
}

const iso_layer_type iso_layer_dense = {
    .keras = "Dense", .build = dense_build, .any_rank = true, .masks = ISO_MASKS_PASSED};
