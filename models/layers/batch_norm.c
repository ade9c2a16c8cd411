/* BatchNormalization over the global batch (Ioffe and Szegedy 2015, arXiv 1502.03167), as in Keras. */
#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "runtime/base/thread_modes.h"

/* moving = momentum * moving + (1 - momentum) * batch, in training functions; later calls of a shared layer
 * update the result of earlier ones */
static void move(const iso_layer *layer, iso_variable *moving, iso_tensor *batch, double momentum)
{
    iso_tensor *old = iso_graph_shares(layer->graph) ? iso_graph_training_value(layer->graph, moving)
                                                     : iso_variable_value(moving);
    old = iso_cast(old, ISO_F64);
    iso_tensor *value = iso_add(iso_affine(old, momentum, 0), iso_affine(batch, 1 - momentum, 0));
    iso_update *update = iso_assign(moving, iso_cast(value, iso_variable_dtype(moving)));
    iso_graph_add_training_update(layer->graph, iso_update_unless_frozen(update));
}

static bool batch_norm_check(const iso_layer *layer, iso_tensor *x, double momentum, double epsilon)
{
    if (iso_tensor_shape(x)->rank < 2)
        iso_layer_fail(layer,
                       "its input has no dimension besides the batch; it must be [batch, ..., channels]");
    else if (!(momentum >= 0 && momentum <= 1) || !(epsilon > 0))
        iso_layer_fail(layer, "momentum %g must be from 0 to 1, epsilon %g positive", momentum, epsilon);
    return iso_tensor_good(x);
}

/* Records the initializer of a variable that is not trained. */
static void note_initializer(iso_layer *layer, const char *key, iso_initializer chosen,
                             iso_initializer_kind default_value)
{
    if (chosen.kind == ISO_INIT_DEFAULT)
        chosen.kind = default_value;
    iso_layer_note_initializer(layer, key, &chosen);
}

static void batch_norm_note(iso_layer *layer, const iso_batch_norm_options *options, uint32_t axes,
                            double momentum, double epsilon)
{
    iso_weight_form gamma_form = ISO_WEIGHT_FORM(*options, gamma, ISO_INIT_ONES);
    iso_weight_form beta_form = ISO_WEIGHT_FORM(*options, beta, ISO_INIT_ZEROS);
    iso_layer_note_axes(layer, "axis", axes, &options->axis, options->axis != 0);
    iso_layer_note_real(layer, "momentum", momentum);
    iso_layer_note_real(layer, "epsilon", epsilon);
    iso_layer_note_flag(layer, "center", !options->no_center);
    iso_layer_note_flag(layer, "scale", !options->no_scale);
    iso_layer_note_weight(layer, &gamma_form);
    iso_layer_note_weight(layer, &beta_form);
    note_initializer(layer, "moving_mean_initializer", options->moving_mean_initializer, ISO_INIT_ZEROS);
    note_initializer(layer, "moving_variance_initializer", options->moving_variance_initializer,
                     ISO_INIT_ONES);
}

/* Keras casts an input of real numbers as for any layer, and back to float32 to compute. */
static iso_tensor *rounded(const iso_layer *layer, iso_tensor *x)
{
    bool real = iso_dtype_is_float(iso_tensor_dtype(x));
    return real && iso_graph_compute_type(layer->graph) == ISO_BF16 ? iso_cast(x, ISO_BF16) : x;
}

/* A mask [batch, ...] of x: [batch, ..., features], for each element. */
static iso_tensor *mask_of_elements(const iso_layer *layer, iso_tensor *x)
{
    iso_tensor *mask = iso_layer_mask(layer, x);
    return mask ? iso_broadcast_to(iso_mask_column(mask), *iso_tensor_shape(x)) : NULL;
}

/* The sum of the elements that count, over all dimensions but the last, by their number, in float64; Keras adds its
 * epsilon to it. */
static iso_tensor *mean_of_counted(iso_tensor *x, iso_tensor *mask)
{
    int axes[ISO_MAX_RANK], count = iso_tensor_shape(x)->rank - 1;
    for (int i = 0; i < count; i++)
        axes[i] = i;
    iso_tensor *zero = iso_number(iso_tensor_graph(x), ISO_F64, 0);
    iso_tensor *number = iso_reduce_sum(iso_cast(mask, ISO_F64), axes, count, false);
    return iso_divide(iso_reduce_sum(iso_where(mask, x, zero), axes, count, false),
                      iso_affine(number, 1, 1e-7));
}

/* The statistics of the elements that count. They are not those of iso_batch_moments: y's gradient goes through them
 * as through any tensor. */
static iso_tensor *normalize_counted(iso_tensor *x, iso_tensor *mask, iso_tensor *gamma, iso_tensor *beta,
                                     double epsilon, iso_tensor **mean, iso_tensor **variance)
{
    const iso_dtype type = iso_tensor_dtype(x);
    iso_tensor *wide = iso_cast(x, ISO_F64);
    *mean = mean_of_counted(wide, mask);
    iso_tensor *centred = iso_subtract(wide, *mean);
    *variance = mean_of_counted(iso_square(centred), mask);
    iso_tensor *y = iso_cast(iso_multiply(centred, iso_rsqrt(iso_affine(*variance, 1, epsilon))), type);
    y = gamma ? iso_multiply(y, gamma) : y;
    return beta ? iso_add(y, beta) : y;
}

/* y in training, and the statistics of the batch. mask: of x's shape, or NULL */
static iso_tensor *normalize_by_batch(iso_tensor *x, iso_tensor *mask, iso_tensor *gamma, iso_tensor *beta,
                                      double epsilon, iso_tensor **mean, iso_tensor **variance)
{
    if (mask)
        return normalize_counted(x, mask, gamma, beta, epsilon, mean, variance);
    iso_batch_moments(x, mean, variance);
    return iso_batch_norm_op(x, *mean, *variance, gamma, beta, epsilon);
}

iso_tensor *iso_batch_norm_with(const iso_batch_norm_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_LAYER_OPTIONS(iso_batch_norm_options, options, given, size);
    iso_layer layer;
    iso_tensor *x = options.x, *gamma = NULL, *beta = NULL, *mean = NULL, *variance = NULL;
    double momentum = iso_option_number(options.momentum, 0.99),
           epsilon = iso_option_number(options.epsilon, 1e-3);
    if (!iso_layer_begin_uncast(&layer, x, "BatchNormalization", "batch_normalization", options.name) ||
        !batch_norm_check(&layer, x, momentum, epsilon))
        return iso_layer_broken(x);
    int back[ISO_MAX_RANK];
    uint32_t axes = iso_layer_axes(&layer, x, (const int[]){options.axis ? options.axis : -1}, 1);
    if (!axes)
        return iso_layer_broken(x);
    if (!iso_layer_check_mask(&layer, layer.single, iso_tensor_shape(x)->rank - 1))
        return iso_layer_broken(x);
    iso_tensor *mask = mask_of_elements(&layer, layer.single);
    layer.masks = iso_layer_masks_used(&layer, layer.single);
    mask = mask ? iso_layer_axes_last(mask, axes, back) : NULL;
    x = iso_layer_axes_last(iso_layer_cast(&layer, rounded(&layer, x)), axes, back);
    iso_shape channels = ISO_SHAPE(iso_tensor_shape(x)->dim[iso_tensor_shape(x)->rank - 1]);
    iso_weight_form gamma_form = ISO_WEIGHT_FORM(options, gamma, ISO_INIT_ONES);
    iso_weight_form beta_form = ISO_WEIGHT_FORM(options, beta, ISO_INIT_ZEROS);
    gamma = iso_layer_weight_unless(&layer, options.no_scale, &gamma_form, channels);
    beta = iso_layer_weight_unless(&layer, options.no_center, &beta_form, channels);
    iso_variable *moving_mean = iso_layer_variable(&layer, "moving_mean", channels,
                                                   options.moving_mean_initializer, ISO_INIT_ZEROS, false);
    iso_variable *moving_variance = iso_layer_variable(
        &layer, "moving_variance", channels, options.moving_variance_initializer, ISO_INIT_ONES, false);
    iso_tensor *y = iso_batch_norm_op(x, iso_variable_value(moving_mean), iso_variable_value(moving_variance),
                                      gamma, beta, epsilon);
    iso_tensor *by_batch = normalize_by_batch(x, mask, gamma, beta, epsilon, &mean, &variance);
    move(&layer, moving_mean, mean, momentum);
    move(&layer, moving_variance, variance, momentum);
    /* A frozen layer is not trained and is always in inference mode, as in Keras. */
    y = iso_by_mode_unless_frozen(moving_mean, by_batch, y);
    iso_layer_set_layout(&layer, "moving_mean", options.moving_mean_layout);
    iso_layer_set_layout(&layer, "moving_variance", options.moving_variance_layout);
    batch_norm_note(&layer, &options, axes, momentum, epsilon);
    return iso_layer_end(&layer, iso_layer_axes_back(y, back));
}

static iso_tensor *batch_norm_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_batch_norm_options options = {.x = x[0],
                                      .name = config->name,
                                      .axis = (int)iso_config_count(config, "axis", -1),
                                      .momentum = iso_config_option(config, "momentum"),
                                      .epsilon = iso_config_option(config, "epsilon"),
                                      .no_scale = !iso_config_flag(config, "scale", true),
                                      .no_center = !iso_config_flag(config, "center", true)};
    (void)count;
    iso_config_flag(config, "synchronized", false); /* it always is */
    ISO_CONFIG_WEIGHT(&options, config, gamma);
    ISO_CONFIG_WEIGHT(&options, config, beta);
    options.moving_mean_initializer = iso_config_initializer(config, "moving_mean_initializer");
    options.moving_variance_initializer = iso_config_initializer(config, "moving_variance_initializer");
    return iso_batch_norm_with(&options, sizeof options);
}

const iso_layer_type iso_layer_batch_norm = {
    .keras = "BatchNormalization", .build = batch_norm_build, .masks = ISO_MASKS_MADE};
