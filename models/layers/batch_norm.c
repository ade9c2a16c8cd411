/* BatchNormalization over the global batch (Ioffe and Szegedy 2015, arXiv 1502.03167), as Keras has it. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* moving = momentum * moving + (1 - momentum) * batch, in training functions; a shared layer's later calls
 * move what the earlier ones have moved */
static void move(const iso_layer *layer, iso_variable *moving, iso_tensor *batch, double momentum)
{
    iso_tensor *old = iso_graph_shares(layer->graph) ? iso_graph_training_value(layer->graph, moving)
                                                     : iso_variable_value(moving);
    old = iso_cast(old, ISO_F64);
    iso_tensor *value = iso_add(iso_affine(old, momentum, 0), iso_affine(batch, 1 - momentum, 0));
    iso_graph_add_training_update(layer->graph,
                                  iso_assign(moving, iso_cast(value, iso_variable_dtype(moving))));
}

static bool check(const iso_layer *layer, iso_tensor *x, double momentum, double epsilon)
{
    if (iso_tensor_shape(x)->rank < 2)
        iso_layer_fail(layer,
                       "its input has no dimension besides the batch; [batch, ..., channels] is wanted");
    else if (!(momentum >= 0 && momentum <= 1) || !(epsilon > 0))
        iso_layer_fail(layer, "momentum %g must be from 0 to 1, epsilon %g positive", momentum, epsilon);
    return iso_tensor_good(x);
}

iso_tensor *iso_batch_norm_with(const iso_batch_norm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_batch_norm_options, options, given, size);
    iso_layer layer;
    iso_tensor *x = options.x, *gamma = NULL, *beta = NULL, *mean = NULL, *variance = NULL;
    double momentum = iso_option_number(options.momentum, 0.99),
           epsilon = iso_option_number(options.epsilon, 1e-3);
    if (!iso_layer_begin(&layer, x, "BatchNormalization", "batch_normalization", options.name) ||
        !check(&layer, x, momentum, epsilon))
        return iso_layer_broken(x);
    iso_shape channels = ISO_SHAPE(iso_tensor_shape(x)->dim[iso_tensor_shape(x)->rank - 1]);
    iso_initializer usual = {.kind = ISO_INIT_DEFAULT};
    if (!options.no_scale)
        gamma = iso_layer_weight(&layer, "gamma", channels, usual, ISO_INIT_ONES, 0);
    if (!options.no_center)
        beta = iso_layer_weight(&layer, "beta", channels, usual, ISO_INIT_ZEROS, 0);
    iso_variable *moving_mean =
        iso_layer_variable(&layer, "moving_mean", channels, usual, ISO_INIT_ZEROS, false);
    iso_variable *moving_variance =
        iso_layer_variable(&layer, "moving_variance", channels, usual, ISO_INIT_ONES, false);
    iso_tensor *y = iso_batch_norm_op(x, iso_variable_value(moving_mean), iso_variable_value(moving_variance),
                                      gamma, beta, epsilon);
    if (!iso_graph_freezes(layer.graph)) { /* a frozen one trains nothing and infers always, as in Keras */
        iso_batch_moments(x, &mean, &variance);
        move(&layer, moving_mean, mean, momentum);
        move(&layer, moving_variance, variance, momentum);
        y = iso_by_mode(iso_batch_norm_op(x, mean, variance, gamma, beta, epsilon), y);
    }
    iso_layer_set_layout(&layer, "gamma", options.gamma_layout);
    iso_layer_set_layout(&layer, "beta", options.beta_layout);
    iso_layer_set_layout(&layer, "moving_mean", options.moving_mean_layout);
    iso_layer_set_layout(&layer, "moving_variance", options.moving_variance_layout);
    return iso_layer_end(&layer, y);
}

static iso_tensor *build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_batch_norm(x[0], .name = config->name, .momentum = iso_config_number(config, "momentum", 0),
                          .epsilon = iso_config_number(config, "epsilon", 0),
                          .no_scale = !iso_config_flag(config, "scale", true),
                          .no_center = !iso_config_flag(config, "center", true));
}

const iso_layer_type iso_layer_batch_norm = {.keras = "BatchNormalization", .build = build};
