/* Inverted dropout (Srivastava et al. 2014): elements that are kept are scaled up in training, so that inference
 * changes nothing. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_dropout_with(const iso_dropout_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dropout_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "Dropout", "dropout", options.name))
        return iso_layer_broken(options.x);
    if (!(options.rate >= 0 && options.rate < 1))
        return iso_layer_fail(&layer, "rate is %g, it must be at least 0 and below 1", options.rate);
    iso_layer_note_real(&layer, "rate", options.rate);
    if (options.rate == 0)
        return iso_layer_end(&layer, options.x);
    iso_text path = {0};
    iso_layer_random_path(&layer, &path);
    iso_tensor *dropped = iso_dropout_op(options.x, options.rate, iso_layer_text(&layer, &path));
    iso_text_free(&path);
    return iso_layer_end(&layer, iso_by_mode(dropped, options.x));
}

static iso_tensor *dropout_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_dropout(x[0], iso_config_number(config, "rate", 0), .name = config->name);
}

const iso_layer_type iso_layer_dropout = {.keras = "Dropout", .build = dropout_build};
