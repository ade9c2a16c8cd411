/* Masking: steps that consist of one value do not count. */
#include "models/layers/list.h"
#include "models/layers/masks.h"

static iso_tensor *masked(iso_layer *layer, iso_tensor *x, double value)
{
    iso_tensor *mask = iso_mask_any(iso_mask_of_values(x, value));
    layer->masks = (iso_masks){mask, mask};
    return iso_where(iso_mask_column(mask), x, iso_number(layer->graph, iso_tensor_dtype(x), 0));
}

iso_tensor *iso_masking_with(const iso_masking_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_masking_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &options.x, "Masking", "masking", options.name))
        return iso_layer_broken(options.x);
    if (iso_tensor_shape(options.x)->rank < 2)
        return iso_layer_fail(
            &layer, "its input has no dimension besides the batch; it must be [batch, ..., features]");
    const double value = iso_option_number(options.mask_value, 0);
    iso_layer_note_real(&layer, "mask_value", value);
    return iso_layer_end(&layer, masked(&layer, options.x, value));
}

static iso_tensor *masking_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_masking(x[0], .mask_value = iso_config_number(config, "mask_value", 0), .name = config->name);
}

const iso_layer_type iso_layer_masking = {
    .keras = "Masking", .build = masking_build, .masks = ISO_MASKS_MADE};
