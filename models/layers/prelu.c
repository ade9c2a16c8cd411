/* PReLU (He, Zhang, Ren and Sun 2015, arXiv 1502.01852): y = max(x, 0) - alpha * max(-x, 0), alpha being
 * trained. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* alpha has x's shape without the batch, 1 along the shared axes. */
static iso_shape shape_of_alpha(const iso_shape *x, uint32_t shared)
{
    iso_shape alpha = {.rank = x->rank - 1};
    for (int d = 1; d < x->rank; d++)
        alpha.dim[d - 1] = shared >> d & 1 ? 1 : x->dim[d];
    return alpha;
}

/* Records a list, also of one axis, or null. */
static void note_axes(iso_layer *layer, const int *axis, int count)
{
    int64_t list[ISO_MAX_RANK];
    for (int i = 0; i < count; i++)
        list[i] = axis[i];
    if (count)
        iso_layer_note_integers(layer, "shared_axes", list, count);
    else
        iso_layer_note_none(layer, "shared_axes");
}

iso_tensor *iso_prelu_with(const iso_prelu_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_prelu_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "PReLU", "p_re_lu", options.name))
        return iso_layer_broken(options.x);
    if (options.shared_axis_count < 0 || options.shared_axis_count > ISO_MAX_RANK)
        return iso_layer_fail(&layer, "there are %d shared axes", options.shared_axis_count);
    uint32_t shared = iso_layer_axes(&layer, options.x, options.shared_axes, options.shared_axis_count);
    if (!iso_tensor_good(options.x))
        return iso_layer_broken(options.x);
    iso_weight_form form = ISO_WEIGHT_FORM(options, alpha, ISO_INIT_ZEROS);
    iso_tensor *x = options.x;
    iso_tensor *alpha = iso_layer_weight(&layer, &form, shape_of_alpha(iso_tensor_shape(x), shared));
    iso_layer_note_weight(&layer, &form);
    note_axes(&layer, options.shared_axes, options.shared_axis_count);
    return iso_layer_end(&layer, iso_subtract(iso_relu(x), iso_multiply(iso_relu(iso_negate(x)), alpha)));
}

static iso_tensor *prelu_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_prelu_options options = {.x = x[0], .name = config->name};
    int64_t axis[ISO_MAX_RANK];
    (void)count;
    options.shared_axis_count = iso_config_counts(config, "shared_axes", axis, ISO_MAX_RANK);
    for (int i = 0; i < options.shared_axis_count; i++)
        options.shared_axes[i] = (int)axis[i];
    ISO_CONFIG_WEIGHT(&options, config, alpha);
    return iso_prelu_with(&options, sizeof options);
}

const iso_layer_type iso_layer_prelu = {.keras = "PReLU", .build = prelu_build, .masks = ISO_MASKS_PASSED};
