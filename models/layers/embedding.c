/* Embedding: rows of a table by index. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_embedding_with(const iso_embedding_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_embedding_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, options.x, "Embedding", "embedding", options.name))
        return iso_layer_broken(options.x);
    if (options.input_dim <= 0 || options.output_dim <= 0)
        return iso_layer_fail(&layer, "input_dim is %lld, output_dim %lld: both must be positive",
                              (long long)options.input_dim, (long long)options.output_dim);
    iso_tensor *table =
        iso_layer_weight(&layer, "embeddings", ISO_SHAPE(options.input_dim, options.output_dim),
                         options.embeddings_initializer, ISO_INIT_RANDOM_UNIFORM, 0);
    iso_layer_set_layout(&layer, "embeddings", options.embeddings_layout);
    return iso_layer_end(&layer, iso_embedding_op(table, options.x));
}

static iso_tensor *build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_embedding(x[0], (int64_t)iso_config_number(config, "input_dim", 0),
                         (int64_t)iso_config_number(config, "output_dim", 0), .name = config->name);
}

const iso_layer_type iso_layer_embedding = {.keras = "Embedding", .build = build};
