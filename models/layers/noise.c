/* GaussianNoise and GaussianDropout: normal noise in training, by the counter-based generator. */
#include <math.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_gaussian_noise_with(const iso_gaussian_noise_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_gaussian_noise_options, options, given, size);
    iso_layer layer;
    iso_text path = {0};
    if (!iso_layer_begin(&layer, &options.x, "GaussianNoise", "gaussian_noise", options.name))
        return iso_layer_broken(options.x);
    if (!(options.stddev >= 0 && options.stddev <= 1)) /* Keras's range */
        return iso_layer_fail(&layer, "stddev is %g, it must be from 0 to 1", options.stddev);
    iso_layer_note_real(&layer, "stddev", options.stddev);
    iso_layer_note_none(&layer, "seed");
    if (options.stddev == 0)
        return iso_layer_end(&layer, options.x);
    iso_layer_random_path(&layer, &path);
    iso_tensor *noisy = iso_gaussian_noise_op(options.x, options.stddev, iso_layer_text(&layer, &path));
    iso_text_free(&path);
    return iso_layer_end(&layer, iso_by_mode(noisy, options.x));
}

/* x times normal numbers of mean 1, which are not rounded to bfloat16. */
static iso_tensor *multiplied(const iso_layer *layer, iso_tensor *x, double stddev)
{
    iso_text path = {0};
    const iso_dtype type = iso_graph_precision(layer->graph);
    iso_tensor *ones = iso_broadcast_to(iso_number(layer->graph, type, 1), *iso_tensor_shape(x));
    iso_layer_random_path(layer, &path);
    iso_tensor *factors = iso_gaussian_noise_op(ones, stddev, iso_layer_text(layer, &path));
    iso_text_free(&path);
    return iso_cast(iso_multiply(iso_cast(x, type), factors), iso_tensor_dtype(x));
}

iso_tensor *iso_gaussian_dropout_with(const iso_gaussian_dropout_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_gaussian_dropout_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, "GaussianDropout", "gaussian_dropout", options.name))
        return iso_layer_broken(options.x);
    if (!(options.rate >= 0 && options.rate < 1))
        return iso_layer_fail(&layer, "rate is %g, it must be at least 0 and below 1", options.rate);
    iso_layer_note_real(&layer, "rate", options.rate);
    iso_layer_note_none(&layer, "seed");
    if (options.rate == 0)
        return iso_layer_end(&layer, options.x);
    iso_tensor *noisy = multiplied(&layer, options.x, sqrt(options.rate / (1 - options.rate)));
    return iso_layer_end(&layer, iso_by_mode(noisy, options.x));
}

static iso_tensor *gaussian_dropout_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_gaussian_dropout(x[0], iso_config_number(config, "rate", 0), .name = config->name);
}

const iso_layer_type iso_layer_gaussian_dropout = {
    .keras = "GaussianDropout", .build = gaussian_dropout_build, .masks = ISO_MASKS_PASSED};

static iso_tensor *noise_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_gaussian_noise(x[0], iso_config_number(config, "stddev", 0), .name = config->name);
}

const iso_layer_type iso_layer_gaussian_noise = {
    .keras = "GaussianNoise", .build = noise_build, .masks = ISO_MASKS_PASSED};
