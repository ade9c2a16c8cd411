/* Inverted dropout (Srivastava et al. 2014): elements that are kept are scaled up in training, so that inference
 * changes nothing. */
#include <math.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

iso_tensor *iso_layer_drop(const iso_layer *layer, iso_tensor *x, double rate, const iso_shape *noise)
{
    iso_text path = {0};
    bool whole = iso_shape_equal(noise, iso_tensor_shape(x));
    iso_dtype type = iso_graph_precision(layer->graph); /* 1 / (1 - rate) is not rounded to bfloat16 */
    iso_tensor *kept = whole ? x : iso_broadcast_to(iso_number(layer->graph, type, 1), *noise);
    iso_layer_random_path(layer, &path);
    kept = iso_dropout_op(kept, rate, iso_layer_text(layer, &path));
    iso_text_free(&path);
    return whole ? kept : iso_multiply(iso_cast(x, type), kept);
}

/* The shape of what is kept or dropped; false, and an error, if it does not broadcast to x. */
static bool noise_of(const iso_layer *layer, const iso_dropout_options *options, iso_shape *noise)
{
    char have[160], want[160];
    const iso_shape *shape = iso_tensor_shape(options->x);
    *noise = *shape;
    if (options->noise_shape.rank == 0)
        return true;
    bool fits = options->noise_shape.rank == shape->rank;
    for (int d = 0; fits && d < shape->rank; d++) {
        int64_t size = options->noise_shape.dim[d];
        fits = size == ISO_BATCH || size == 1 || size == shape->dim[d];
        noise->dim[d] = size == 1 ? 1 : shape->dim[d];
    }
    if (!fits)
        iso_layer_fail(layer, "its noise_shape is %s, which does not broadcast to the shape of its input, %s",
                       iso_shape_text(&options->noise_shape, have, sizeof have),
                       iso_shape_text(shape, want, sizeof want));
    return fits;
}

static void note_noise(iso_layer *layer, const iso_shape *shape)
{
    if (shape->rank == 0) {
        iso_layer_note_none(layer, "noise_shape");
        return;
    }
    iso_layer list = iso_layer_note_list(layer, "noise_shape");
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == ISO_BATCH)
            iso_layer_note_none(&list, NULL);
        else
            iso_layer_note_integer(&list, NULL, shape->dim[d]);
    }
}

iso_tensor *iso_dropout_with(const iso_dropout_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dropout_options, options, given, size);
    iso_layer layer;
    iso_shape noise;
    if (!iso_layer_begin(&layer, &options.x, "Dropout", "dropout", options.name))
        return iso_layer_broken(options.x);
    if (!(options.rate >= 0 && options.rate < 1))
        return iso_layer_fail(&layer, "rate is %g, it must be at least 0 and below 1", options.rate);
    if (!noise_of(&layer, &options, &noise))
        return iso_layer_broken(options.x);
    iso_layer_note_real(&layer, "rate", options.rate);
    note_noise(&layer, &options.noise_shape);
    if (options.rate == 0)
        return iso_layer_end(&layer, options.x);
    iso_tensor *dropped = iso_layer_drop(&layer, options.x, options.rate, &noise);
    return iso_layer_end(&layer, iso_by_mode(dropped, options.x));
}

/* Keras's noise_shape: null is ISO_BATCH. */
static iso_shape noise_shape(const iso_layer_config *config)
{
    double size[ISO_MAX_RANK];
    iso_shape shape = {.rank = config->numbers(config, "noise_shape", size, ISO_MAX_RANK)};
    if (shape.rank > ISO_MAX_RANK) {
        iso_config_refuse(config, "noise_shape", "as many numbers as the input has dimensions");
        return ISO_SCALAR;
    }
    for (int d = 0; d < shape.rank; d++) {
        bool size_of_x = isnan(size[d]);
        if (!size_of_x && !(size[d] >= 1 && size[d] <= INT32_MAX && size[d] == floor(size[d])))
            iso_config_refuse(config, "noise_shape", "null and whole numbers from 1 to 2147483647");
        shape.dim[d] = size_of_x || !(fabs(size[d]) <= INT32_MAX) ? ISO_BATCH : (int64_t)size[d];
    }
    return shape;
}

static iso_tensor *dropout_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_dropout(x[0], iso_config_number(config, "rate", 0), .name = config->name,
                       .noise_shape = noise_shape(config));
}

const iso_layer_type iso_layer_dropout = {
    .keras = "Dropout", .build = dropout_build, .masks = ISO_MASKS_PASSED};
