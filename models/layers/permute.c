/* Permute: reorders the dimensions after the batch. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_permute_with(const iso_permute_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_permute_options, options, given, size);
    iso_layer layer;
    int permutation[ISO_MAX_RANK] = {0};
    uint32_t seen = 1;
    char text[160];
    if (!iso_layer_begin_any(&layer, &options.x, "Permute", "permute", options.name))
        return iso_layer_broken(options.x);
    const iso_shape *shape = iso_tensor_shape(options.x);
    bool fits = options.dims.rank == shape->rank - 1;
    for (int i = 0; fits && i < options.dims.rank; i++) {
        int64_t from = options.dims.dim[i];
        fits = from >= 1 && from < shape->rank && !(seen >> from & 1);
        permutation[i + 1] = (int)from;
        seen |= fits ? 1u << from : 0;
    }
    if (!fits)
        return iso_layer_fail(&layer,
                              "dims must have the numbers 1 to %d, each once, for an input of the shape %s",
                              shape->rank - 1, iso_shape_text(shape, text, sizeof text));
    iso_layer_note_integers(&layer, "dims", options.dims.dim, options.dims.rank);
    return iso_layer_end(&layer, iso_transpose(options.x, permutation));
}

static iso_tensor *permute_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_shape dims = {0};
    (void)count;
    dims.rank = iso_config_counts(config, "dims", dims.dim, ISO_MAX_RANK);
    return iso_permute(x[0], dims, .name = config->name);
}

const iso_layer_type iso_layer_permute = {.keras = "Permute", .build = permute_build};
