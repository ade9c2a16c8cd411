/* ReversibleEmbedding: rows of a table by index, and products with its rows. */
#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "runtime/base/thread_modes.h"

static bool reversible_begin(iso_layer *layer, iso_reversible_embedding_options *options)
{
    static const char type[] = "ReversibleEmbedding", base[] = "reversible_embedding";
    return options->reverse ? iso_layer_begin(layer, &options->x, type, base, options->name)
                            : iso_layer_begin_uncast(layer, options->x, type, base, options->name);
}

/* x: [..., output_dim] */
static iso_tensor *reversible_logits(const iso_layer *layer, const iso_reversible_embedding_options *options,
                                     const iso_weight_form *form, iso_tensor *table)
{
    const double cap = options->logit_soft_cap;
    const iso_shape *shape = iso_tensor_shape(options->x);
    char text[160];
    if (shape->rank < 2 || shape->dim[shape->rank - 1] != options->output_dim)
        return iso_layer_fail(layer, "its input in reverse is %s, it must be [batch, ..., %lld]",
                              iso_shape_text(shape, text, sizeof text), (long long)options->output_dim);
    iso_tensor *y = iso_matmul_with(options->x, table, false, true);
    const iso_layer_adapter adapter = iso_layer_adapt(layer, form, 1);
    if (adapter.a) {
        iso_tensor *low = iso_matmul_with(options->x, adapter.b, false, true);
        y = iso_layer_adapted(y, iso_matmul_with(low, adapter.a, false, true), adapter.scale);
    }
    return cap == 0 ? y : iso_affine(iso_tanh(iso_affine(y, 1 / cap, 0)), cap, 0);
}

static void reversible_note(iso_layer *layer, const iso_reversible_embedding_options *options,
                            const iso_weight_form *form)
{
    iso_layer_note_integer(layer, "input_dim", options->input_dim);
    iso_layer_note_integer(layer, "output_dim", options->output_dim);
    iso_layer_note_weight(layer, form);
    iso_layer_note_flag(layer, "mask_zero", options->mask_zero);
    iso_layer_note_flag(layer, "tie_weights", true);
    iso_layer_note_none(layer, "reverse_dtype");
    if (options->logit_soft_cap != 0)
        iso_layer_note_real(layer, "logit_soft_cap", options->logit_soft_cap);
    else
        iso_layer_note_none(layer, "logit_soft_cap");
    if (options->reverse)
        iso_layer_note_call(layer, (iso_attribute){ISO_ATTRIBUTE_FLAG, .name = "reverse", .integer = true});
}

iso_tensor *iso_reversible_embedding_with(const iso_reversible_embedding_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_LAYER_OPTIONS(iso_reversible_embedding_options, options, given, size);
    iso_layer layer;
    if (!reversible_begin(&layer, &options))
        return iso_layer_broken(options.x);
    if (options.input_dim <= 0 || options.output_dim <= 0)
        return iso_layer_fail(&layer, "input_dim is %lld, output_dim %lld: both must be positive",
                              (long long)options.input_dim, (long long)options.output_dim);
    if (!(options.logit_soft_cap >= 0))
        return iso_layer_fail(&layer, "logit_soft_cap is %g, it must be positive; 0: none",
                              options.logit_soft_cap);
    iso_weight_form form = ISO_WEIGHT_FORM(options, embeddings, ISO_INIT_RANDOM_UNIFORM);
    iso_tensor *table = iso_layer_weight(&layer, &form, ISO_SHAPE(options.input_dim, options.output_dim));
    reversible_note(&layer, &options, &form);
    if (options.mask_zero && !options.reverse) /* in Keras the layer sets it as it runs */
        layer.masks.run = iso_mask_of_values(options.x, 0);
    return iso_layer_end(&layer, options.reverse ? reversible_logits(&layer, &options, &form, table)
                                                 : iso_layer_look_up(&layer, &form, table, options.x));
}

static iso_tensor *reversible_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_reversible_embedding_options options = {
        .x = x[0],
        .name = config->name,
        .input_dim = iso_config_size(config, "input_dim", ISO_REQUIRED),
        .output_dim = iso_config_size(config, "output_dim", ISO_REQUIRED),
        .reverse = iso_config_flag(config, "reverse", false),
        .logit_soft_cap = iso_config_number(config, "logit_soft_cap", 0)};
    (void)count;
    ISO_CONFIG_WEIGHT(&options, config, embeddings);
    options.mask_zero = iso_config_flag(config, "mask_zero", false);
    if (!iso_config_flag(config, "tie_weights", true))
        iso_config_refuse(config, "tie_weights",
                          "true; an Embedding and a Dense without bias have weights each");
    return iso_reversible_embedding_with(&options, sizeof options);
}

const iso_layer_type iso_layer_reversible_embedding = {
    .keras = "ReversibleEmbedding", .build = reversible_build, .masks = ISO_MASKS_MADE};
