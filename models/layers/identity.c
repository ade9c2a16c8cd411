/* Identity: a name for a place of a network. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_identity_with(const iso_identity_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_identity_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &options.x, "Identity", "identity", options.name))
        return iso_layer_broken(options.x);
    return iso_layer_end(&layer, options.x);
}

static iso_tensor *identity_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_identity(x[0], .name = config->name);
}

const iso_layer_type iso_layer_identity = {
    .keras = "Identity", .build = identity_build, .any_rank = true, .masks = ISO_MASKS_PASSED};
