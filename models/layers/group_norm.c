/* GroupNormalization: normalises each row over groups of channels and all other dimensions. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* x's shape with the channels of dimension `axis` as [groups, channels of a group]; with `alone` 1 in all other
 * dimensions. */
static iso_shape grouped(const iso_shape *x, int axis, int64_t groups, bool alone)
{
    iso_shape shape = {.rank = x->rank + 1};
    for (int d = 0; d < x->rank; d++)
        shape.dim[d < axis ? d : d + 1] = alone ? 1 : x->dim[d];
    shape.dim[axis] = groups;
    shape.dim[axis + 1] = x->dim[axis] / groups;
    return shape;
}

/* Mean over all dimensions but the batch and that of the groups. */
static iso_tensor *mean_of_groups(iso_tensor *x, int axis)
{
    int axes[ISO_MAX_RANK], count = 0;
    for (int d = 1; d < iso_tensor_shape(x)->rank; d++)
        if (d != axis)
            axes[count++] = d;
    return iso_reduce_mean(x, axes, count, true);
}

/* (x - mean) / sqrt(variance + epsilon), the variance from the differences. */
static iso_tensor *normalize(iso_tensor *x, int axis, double epsilon)
{
    iso_tensor *centred = iso_subtract(x, mean_of_groups(x, axis));
    iso_tensor *variance = mean_of_groups(iso_square(centred), axis);
    return iso_multiply(centred, iso_rsqrt(iso_affine(variance, 1, epsilon)));
}

static bool group_norm_check(const iso_layer *layer, iso_tensor *x, int axis, int64_t groups, double epsilon)
{
    const iso_shape *shape = iso_tensor_shape(x);
    if (shape->rank >= ISO_MAX_RANK)
        iso_layer_fail(layer, "its input has %d dimensions, at most %d are possible", shape->rank,
                       ISO_MAX_RANK - 1);
    else if (groups < 1 || shape->dim[axis] % groups != 0)
        iso_layer_fail(layer, "%lld groups do not divide %lld channels", (long long)groups,
                       (long long)shape->dim[axis]);
    else if (!(epsilon > 0))
        iso_layer_fail(layer, "epsilon is %g, it must be positive", epsilon);
    return iso_tensor_good(x);
}

iso_tensor *iso_group_norm_with(const iso_group_norm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_group_norm_options, options, given, size);
    iso_layer layer;
    double epsilon = iso_option_number(options.epsilon, 1e-3);
    if (!iso_layer_begin_uncast(&layer, options.x, "GroupNormalization", "group_normalization", options.name))
        return iso_layer_broken(options.x);
    iso_shape shape = *iso_tensor_shape(options.x);
    uint32_t axes = iso_layer_axes(&layer, options.x, (const int[]){options.axis ? options.axis : -1}, 1);
    if (!axes)
        return iso_layer_broken(options.x);
    int axis = __builtin_ctz(axes);
    int64_t channels = shape.dim[axis], groups = options.groups ? options.groups : 32;
    groups = groups == -1 ? channels : groups;
    if (!group_norm_check(&layer, options.x, axis, groups, epsilon))
        return iso_layer_broken(options.x);
    iso_weight_form gamma_form = ISO_WEIGHT_FORM(options, gamma, ISO_INIT_ONES);
    iso_weight_form beta_form = ISO_WEIGHT_FORM(options, beta, ISO_INIT_ZEROS);
    iso_tensor *gamma = iso_layer_weight_unless(&layer, options.no_scale, &gamma_form, ISO_SHAPE(channels));
    iso_tensor *beta = iso_layer_weight_unless(&layer, options.no_center, &beta_form, ISO_SHAPE(channels));
    iso_shape each = grouped(&shape, axis, groups, true);
    iso_tensor *x = iso_layer_cast(&layer, options.x);
    iso_tensor *y = normalize(iso_reshape_to(x, grouped(&shape, axis, groups, false)), axis, epsilon);
    if (gamma)
        y = iso_multiply(y, iso_reshape_to(gamma, each));
    if (beta)
        y = iso_add(y, iso_reshape_to(beta, each));
    iso_layer_note_integer(&layer, "groups", groups);
    iso_layer_note_axes(&layer, "axis", axes, &options.axis, options.axis != 0);
    iso_layer_note_real(&layer, "epsilon", epsilon);
    iso_layer_note_flag(&layer, "center", !options.no_center);
    iso_layer_note_flag(&layer, "scale", !options.no_scale);
    iso_layer_note_weight(&layer, &beta_form);
    iso_layer_note_weight(&layer, &gamma_form);
    return iso_layer_end(&layer, iso_layer_as_input(&layer, iso_reshape_to(y, shape)));
}

static iso_tensor *group_norm_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_group_norm_options options = {.x = x[0],
                                      .name = config->name,
                                      .groups = iso_config_count(config, "groups", 32),
                                      .axis = (int)iso_config_count(config, "axis", -1),
                                      .epsilon = iso_config_option(config, "epsilon"),
                                      .no_scale = !iso_config_flag(config, "scale", true),
                                      .no_center = !iso_config_flag(config, "center", true)};
    (void)count;
    if (options.groups == 0) /* the default in options */
        iso_config_refuse(config, "groups", "-1 and whole numbers from 1");
    ISO_CONFIG_WEIGHT(&options, config, gamma);
    ISO_CONFIG_WEIGHT(&options, config, beta);
    return iso_group_norm_with(&options, sizeof options);
}

const iso_layer_type iso_layer_group_norm = {
    .keras = "GroupNormalization", .build = group_norm_build, .masks = ISO_MASKS_PASSED};
