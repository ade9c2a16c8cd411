/* PositionEmbedding of keras_hub: a trained vector for each position. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* The first rows of the table, one for each position of x, in the shape of x. */
static iso_tensor *position_rows(const iso_layer *layer, const iso_position_embedding_options *options,
                                 iso_tensor *table)
{
    const iso_shape *shape = iso_tensor_shape(options->x);
    int64_t begin[] = {0, 0}, size[] = {shape->dim[shape->rank - 2], shape->dim[shape->rank - 1]};
    if (size[0] > options->sequence_length)
        return iso_layer_fail(layer, "its input has %lld positions, and sequence_length is %lld",
                              (long long)size[0], (long long)options->sequence_length);
    if (size[0] < options->sequence_length)
        table = iso_slice(table, begin, size);
    return iso_broadcast_to(table, *shape);
}

iso_tensor *iso_position_embedding_with(const iso_position_embedding_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_position_embedding_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "PositionEmbedding", "position_embedding", options.name))
        return iso_layer_broken(options.x);
    const iso_shape *shape = iso_tensor_shape(options.x);
    if (options.sequence_length <= 0)
        return iso_layer_fail(&layer, "sequence_length is %lld, it must be positive",
                              (long long)options.sequence_length);
    if (shape->rank < 3)
        return iso_layer_fail(
            &layer, "its input has %d dimensions, it must be [batch, ..., positions, features]", shape->rank);
    iso_initializer initializer = options.initializer;
    if (initializer.kind == ISO_INIT_DEFAULT)
        initializer.kind = ISO_INIT_GLOROT_UNIFORM;
    iso_weight_form form = {
        .what = "embeddings", .initializer = initializer, .layout = options.embeddings_layout};
    iso_tensor *table =
        iso_layer_weight(&layer, &form, ISO_SHAPE(options.sequence_length, shape->dim[shape->rank - 1]));
    iso_layer_note_integer(&layer, "sequence_length", options.sequence_length);
    iso_layer_note_initializer(&layer, "initializer", &initializer);
    return iso_layer_end(&layer, position_rows(&layer, &options, table));
}

static iso_tensor *position_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_position_embedding_options options = {.x = x[0],
                                              .name = config->name,
                                              .sequence_length =
                                                  iso_config_size(config, "sequence_length", ISO_REQUIRED),
                                              .initializer = iso_config_initializer(config, "initializer")};
    (void)count;
    return iso_position_embedding_with(&options, sizeof options);
}

const iso_layer_type iso_layer_position_embedding = {.keras = "PositionEmbedding",
                                                     .module = "keras_hub.layers",
                                                     .registered = "keras_hub>PositionEmbedding",
                                                     .build = position_build};
