/* Dropout and SpatialDropout1D, 2D, 3D: inverted dropout (Srivastava et al. 2014), by which elements that are kept
 * are scaled up in training, so that inference changes nothing; AlphaDropout. */
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
    return whole ? kept : iso_cast(iso_multiply(iso_cast(x, type), kept), iso_tensor_dtype(x));
}

/* The shape of what is kept or dropped; false, and an error, if it does not broadcast to x. */
static bool noise_of(const iso_layer *layer, iso_tensor *x, const iso_shape *given, iso_shape *noise)
{
    char have[160], want[160];
    const iso_shape *shape = iso_tensor_shape(x);
    *noise = *shape;
    if (given->rank == 0)
        return true;
    bool fits = given->rank == shape->rank;
    for (int d = 0; fits && d < shape->rank; d++) {
        int64_t size = given->dim[d];
        fits = size == ISO_BATCH || size == 1 || size == shape->dim[d];
        noise->dim[d] = size == 1 ? 1 : shape->dim[d];
    }
    if (!fits)
        iso_layer_fail(layer, "its noise_shape is %s, which does not broadcast to the shape of its input, %s",
                       iso_shape_text(given, have, sizeof have), iso_shape_text(shape, want, sizeof want));
    return fits;
}

static bool check_rate(const iso_layer *layer, double rate)
{
    const bool good = rate >= 0 && rate < 1;
    if (!good)
        iso_layer_fail(layer, "rate is %g, it must be at least 0 and below 1", rate);
    return good;
}

static void note_noise(iso_layer *layer, const iso_shape *shape)
{
    if (shape->rank == 0)
        iso_layer_note_none(layer, "noise_shape");
    else
        iso_layer_note_shape(layer, "noise_shape", shape);
}

iso_tensor *iso_dropout_with(const iso_dropout_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_dropout_options, options, given, size);
    iso_layer layer;
    iso_shape noise;
    if (!iso_layer_begin(&layer, &options.x, "Dropout", "dropout", options.name))
        return iso_layer_broken(options.x);
    if (!check_rate(&layer, options.rate) || !noise_of(&layer, options.x, &options.noise_shape, &noise))
        return iso_layer_broken(options.x);
    iso_layer_note_real(&layer, "rate", options.rate);
    note_noise(&layer, &options.noise_shape);
    if (options.rate == 0)
        return iso_layer_end(&layer, options.x);
    iso_tensor *dropped = iso_layer_drop(&layer, options.x, options.rate, &noise);
    return iso_layer_end(&layer, iso_by_mode(dropped, options.x));
}

static iso_tensor *dropout_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_dropout(x[0], iso_config_number(config, "rate", 0), .name = config->name,
                       .noise_shape = iso_config_shape(config, "noise_shape"));
}

const iso_layer_type iso_layer_dropout = {
    .keras = "Dropout", .build = dropout_build, .masks = ISO_MASKS_PASSED};

/* ---- whole channels ---- */

typedef struct spatial_kind {
    const char *type, *base, *form;
    int rank;
} spatial_kind;

static const spatial_kind spatial1d = {"SpatialDropout1D", "spatial_dropout1d", "[batch, steps, channels]",
                                       3},
                          spatial2d = {"SpatialDropout2D", "spatial_dropout2d",
                                       "[batch, height, width, channels]", 4},
                          spatial3d = {"SpatialDropout3D", "spatial_dropout3d",
                                       "[batch, depth, height, width, channels]", 5};

static iso_tensor *drop_channels(const char *function, const iso_spatial_dropout_options *given, size_t size,
                                 const spatial_kind *kind)
{
    ISO_LAYER_OPTIONS(iso_spatial_dropout_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, kind->type, kind->base, options.name) ||
        !check_rate(&layer, options.rate) || !iso_layer_check_rank(&layer, options.x, kind->rank, kind->form))
        return iso_layer_broken_in(function, options.x);
    iso_shape noise = *iso_tensor_shape(options.x);
    for (int d = 1; d < noise.rank - 1; d++)
        noise.dim[d] = 1;
    iso_layer_note_real(&layer, "rate", options.rate);
    iso_layer_note_none(&layer, "seed");
    if (kind->rank > 3) /* Keras's SpatialDropout1D has no such argument */
        iso_layer_note_text(&layer, "data_format", "channels_last");
    if (options.rate == 0)
        return iso_layer_end(&layer, options.x);
    iso_tensor *dropped = iso_layer_drop(&layer, options.x, options.rate, &noise);
    return iso_layer_end(&layer, iso_by_mode(dropped, options.x));
}

#define SPATIAL_DROPOUT(D, KERAS)                                                                            \
    iso_tensor *iso_spatial_dropout##D##_with(const iso_spatial_dropout_options *options, size_t size)       \
    {                                                                                                        \
        return drop_channels(__func__, options, size, &spatial##D);                                          \
    }                                                                                                        \
    static iso_tensor *build##D(const iso_layer_config *config, iso_tensor *const *x, int count)             \
    {                                                                                                        \
        (void)count;                                                                                         \
        return iso_spatial_dropout##D(x[0], iso_config_number(config, "rate", 0), .name = config->name);     \
    }                                                                                                        \
    const iso_layer_type iso_layer_spatial_dropout##D = {                                                    \
        .keras = KERAS, .build = build##D, .masks = ISO_MASKS_PASSED, .not_trainable = true};
SPATIAL_DROPOUT(1d, "SpatialDropout1D")
SPATIAL_DROPOUT(2d, "SpatialDropout2D")
SPATIAL_DROPOUT(3d, "SpatialDropout3D")

/* ---- AlphaDropout ---- */

/* What SELU gives for large negative numbers: -scale * alpha. */
static const double SATURATED = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717;

/* SATURATED where an element is dropped, then a x + b with the a and b that keep a mean of 0 and a variance of 1. */
static iso_tensor *saturate(const iso_layer *layer, iso_tensor *x, double rate, const iso_shape *noise)
{
    iso_text path = {0};
    const double a = 1 / sqrt((1 - rate) * (1 + rate * SATURATED * SATURATED)), b = -a * SATURATED * rate;
    const iso_dtype type = iso_graph_precision(layer->graph);
    iso_tensor *one = iso_number(layer->graph, type, 1), *zero = iso_number(layer->graph, type, 0);
    iso_layer_random_path(layer, &path);
    iso_tensor *kept = iso_dropout_op(iso_broadcast_to(one, *noise), rate, iso_layer_text(layer, &path));
    iso_text_free(&path);
    return iso_where(iso_greater(kept, zero), iso_affine(x, a, b),
                     iso_number(layer->graph, iso_tensor_dtype(x), a * SATURATED + b));
}

iso_tensor *iso_alpha_dropout_with(const iso_alpha_dropout_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_alpha_dropout_options, options, given, size);
    iso_layer layer;
    iso_shape noise;
    if (!iso_layer_begin(&layer, &options.x, "AlphaDropout", "alpha_dropout", options.name) ||
        !check_rate(&layer, options.rate) || !noise_of(&layer, options.x, &options.noise_shape, &noise))
        return iso_layer_broken(options.x);
    iso_layer_note_real(&layer, "rate", options.rate);
    note_noise(&layer, &options.noise_shape);
    if (options.rate == 0)
        return iso_layer_end(&layer, options.x);
    return iso_layer_end(&layer, iso_by_mode(saturate(&layer, options.x, options.rate, &noise), options.x));
}

static iso_tensor *alpha_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_alpha_dropout(x[0], iso_config_number(config, "rate", 0), .name = config->name,
                             .noise_shape = iso_config_shape(config, "noise_shape"));
}

const iso_layer_type iso_layer_alpha_dropout = {
    .keras = "AlphaDropout", .build = alpha_build, .masks = ISO_MASKS_PASSED};
