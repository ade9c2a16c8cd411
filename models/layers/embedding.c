/* Embedding: rows of a table by index. */
#include "models/layers/list.h"
#include "models/layers/masks.h"

iso_tensor *iso_layer_look_up(const iso_layer *layer, const iso_weight_form *form, iso_tensor *table,
                              iso_tensor *x)
{
    iso_tensor *y = iso_embedding_op(table, x);
    const iso_layer_adapter adapter = iso_layer_adapt(layer, form, 1);
    if (!adapter.a)
        return y;
    return iso_layer_adapted(y, iso_matmul(iso_embedding_op(adapter.a, x), adapter.b), adapter.scale);
}

iso_tensor *iso_embedding_with(const iso_embedding_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_embedding_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin_uncast(&layer, options.x, "Embedding", "embedding", options.name))
        return iso_layer_broken(options.x);
    if (options.input_dim <= 0 || options.output_dim <= 0)
        return iso_layer_fail(&layer, "input_dim is %lld, output_dim %lld: both must be positive",
                              (long long)options.input_dim, (long long)options.output_dim);
    iso_weight_form form = ISO_WEIGHT_FORM(options, embeddings, ISO_INIT_RANDOM_UNIFORM);
    iso_tensor *table = iso_layer_weight(&layer, &form, ISO_SHAPE(options.input_dim, options.output_dim));
    iso_layer_note_integer(&layer, "input_dim", options.input_dim);
    iso_layer_note_integer(&layer, "output_dim", options.output_dim);
    iso_layer_note_weight(&layer, &form);
    iso_layer_note_flag(&layer, "mask_zero", options.mask_zero);
    if (options.mask_zero)
        layer.masks.built = layer.masks.run = iso_mask_of_values(options.x, 0);
    return iso_layer_end(&layer, iso_layer_look_up(&layer, &form, table, options.x));
}

static iso_tensor *embedding_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_embedding_options options = {.x = x[0],
                                     .name = config->name,
                                     .input_dim = iso_config_size(config, "input_dim", ISO_REQUIRED),
                                     .output_dim = iso_config_size(config, "output_dim", ISO_REQUIRED)};
    (void)count;
    ISO_CONFIG_WEIGHT(&options, config, embeddings);
    options.mask_zero = iso_config_flag(config, "mask_zero", false);
    iso_config_lora_begin(config, x[0]);
    return iso_config_lora_end(config, x[0], iso_embedding_with(&options, sizeof options));
}

const iso_layer_type iso_layer_embedding = {
    .keras = "Embedding", .build = embedding_build, .any_rank = true, .masks = ISO_MASKS_MADE};
