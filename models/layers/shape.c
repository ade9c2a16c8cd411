/* Layers without weights that scale or reshape: Rescaling, Flatten, Reshape. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_rescaling_with(const iso_rescaling_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_rescaling_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "Rescaling", "rescaling", options.name))
        return iso_layer_broken(options.x);
    iso_layer_note_real(&layer, "scale", options.scale);
    iso_layer_note_real(&layer, "offset", options.offset);
    return iso_layer_end(&layer, iso_affine(options.x, options.scale, options.offset));
}

/* A tensor that has its shape already comes back as it is, with its mask, which Keras's layers take off. */
static iso_tensor *without_mask(iso_tensor *x)
{
    int same[ISO_MAX_RANK];
    for (int i = 0; i < ISO_MAX_RANK; i++)
        same[i] = i;
    return iso_tensor_mask(x) ? iso_transpose(x, same) : x;
}

iso_tensor *iso_flatten_with(const iso_flatten_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_flatten_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &options.x, "Flatten", "flatten", options.name))
        return iso_layer_broken(options.x);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    return iso_layer_end(&layer, without_mask(iso_reshape_to(options.x, ISO_SHAPE(ISO_BATCH, -1))));
}

iso_tensor *iso_reshape_with(const iso_reshape_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_reshape_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &options.x, "Reshape", "reshape", options.name))
        return iso_layer_broken(options.x);
    if (options.shape.rank < 0 || options.shape.rank >= ISO_MAX_RANK)
        return iso_layer_fail(&layer, "its shape has %d dimensions, at most %d are possible",
                              options.shape.rank, ISO_MAX_RANK - 1);
    iso_shape shape = {.rank = options.shape.rank + 1, .dim = {ISO_BATCH}};
    for (int i = 0; i < options.shape.rank; i++)
        shape.dim[i + 1] = options.shape.dim[i];
    iso_layer_note_integers(&layer, "target_shape", options.shape.dim, options.shape.rank);
    return iso_layer_end(&layer, without_mask(iso_reshape_to(options.x, shape)));
}

static iso_tensor *build_rescaling(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_rescaling(x[0], iso_config_number(config, "scale", 1), iso_config_number(config, "offset", 0),
                         .name = config->name);
}

static iso_tensor *build_flatten(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_flatten(x[0], .name = config->name);
}

static iso_tensor *build_reshape(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_shape shape = {.rank = 0};
    (void)count;
    shape.rank = iso_config_counts(config, "target_shape", shape.dim, ISO_MAX_RANK - 1);
    return iso_reshape(x[0], shape, .name = config->name);
}

const iso_layer_type iso_layer_rescaling = {
    .keras = "Rescaling", .build = build_rescaling, .any_rank = true, .masks = ISO_MASKS_PASSED};
const iso_layer_type iso_layer_flatten = {.keras = "Flatten", .build = build_flatten};
const iso_layer_type iso_layer_reshape = {.keras = "Reshape", .build = build_reshape};
