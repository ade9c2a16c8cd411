/* UnitNormalization: x divided by its norm. */
#include "models/layers/unit_norm.h"

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

static const double EPSILON = 1e-12; /* as in Keras */

iso_tensor *iso_unit_vectors(iso_tensor *x, const int *axes, int count, double epsilon)
{
    iso_tensor *sum = iso_reduce_sum(iso_square(x), axes, count, true);
    iso_tensor *least = iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), epsilon * epsilon);
    return iso_multiply(x, iso_rsqrt(iso_maximum(sum, least)));
}

/* The dimensions of these bits as a list. */
static int list_axes(uint32_t axes, int list[ISO_MAX_RANK])
{
    int count = 0;
    for (int d = 0; d < ISO_MAX_RANK; d++)
        if (axes >> d & 1)
            list[count++] = d;
    return count;
}

iso_tensor *iso_unit_norm_with(const iso_unit_norm_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_unit_norm_options, options, given, size);
    iso_layer layer;
    int list[ISO_MAX_RANK], last = -1;
    if (!iso_layer_begin(&layer, &options.x, "UnitNormalization", "unit_normalization", options.name))
        return iso_layer_broken(options.x);
    if (options.axis_count < 0 || options.axis_count > ISO_MAX_RANK)
        return iso_layer_fail(&layer, "axis_count is %d", options.axis_count);
    const bool some = options.axis_count > 0;
    const uint32_t axes =
        iso_layer_axes(&layer, options.x, some ? options.axis : &last, some ? options.axis_count : 1);
    if (!axes)
        return iso_layer_broken(options.x);
    iso_layer_note_axes(&layer, "axis", axes, options.axis, options.axis_count);
    return iso_layer_end(&layer, iso_unit_vectors(options.x, list, list_axes(axes, list), EPSILON));
}

static iso_tensor *unit_norm_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t axis[ISO_MAX_RANK];
    iso_unit_norm_options options = {.x = x[0], .name = config->name};
    (void)count;
    options.axis_count = iso_config_counts(config, "axis", axis, ISO_MAX_RANK);
    for (int i = 0; i < options.axis_count; i++)
        options.axis[i] = (int)axis[i];
    return iso_unit_norm_with(&options, sizeof options);
}

const iso_layer_type iso_layer_unit_norm = {
    .keras = "UnitNormalization", .build = unit_norm_build, .masks = ISO_MASKS_PASSED};
