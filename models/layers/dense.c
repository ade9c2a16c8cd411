/* Dense: y = activation(x kernel + bias). */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_dense_with(const iso_dense_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dense_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, options.x, "Dense", "dense", options.name))
        return iso_layer_broken(options.x);
    const iso_shape *shape = iso_tensor_shape(options.x);
    if (shape->rank < 2)
        return iso_layer_fail(
            &layer, "its input has no dimension besides the batch; [batch, ..., features] is wanted");
    if (options.units <= 0)
        return iso_layer_fail(&layer, "units is %lld, it must be positive", (long long)options.units);
    int64_t features = shape->dim[shape->rank - 1];
    iso_tensor *kernel =
        iso_layer_weight(&layer, "kernel", ISO_SHAPE(features, options.units), options.kernel_initializer,
                         ISO_INIT_GLOROT_UNIFORM, options.kernel_l2);
    iso_tensor *y = iso_matmul(options.x, kernel); /* [batch, ..., units] */
    if (!options.no_bias)
        y = iso_add(y, iso_layer_weight(&layer, "bias", ISO_SHAPE(options.units), options.bias_initializer,
                                        ISO_INIT_ZEROS, options.bias_l2));
    iso_layer_set_layout(&layer, "kernel", options.kernel_layout);
    iso_layer_set_layout(&layer, "bias", options.bias_layout);
    iso_layer_note_integer(&layer, "units", options.units);
    iso_layer_note_text(&layer, "activation", iso_activation_name(options.activation));
    iso_layer_note_flag(&layer, "use_bias", !options.no_bias);
    return iso_layer_end(&layer, iso_activate(y, options.activation));
}

static iso_tensor *build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_dense(x[0], iso_config_count(config, "units", 0), .name = config->name,
                     .activation = iso_config_activation(config, iso_tensor_graph(x[0])),
                     .no_bias = !iso_config_flag(config, "use_bias", true),
                     .kernel_initializer = iso_config_initializer(config, "kernel_initializer"),
                     .bias_initializer = iso_config_initializer(config, "bias_initializer"),
                     .kernel_l2 = iso_config_l2(config, "kernel_regularizer"),
                     .bias_l2 = iso_config_l2(config, "bias_regularizer"));
}

const iso_layer_type iso_layer_dense = {.keras = "Dense", .build = build};
