/* RandomContrast, RandomBrightness, RandomInvert and RandomErasing: values of pixels are changed at random. */
#include "models/layers/augmentation_impl.h"
#include "models/layers/list.h"
#include "runtime/base/memory.h"

static const iso_random_range all = {0, 1};

/* A layer while it is being built. */
typedef struct colors {
    iso_layer layer;
    iso_random_color_options options;
    iso_random_range factor, values;
} colors;

static bool begin_colors(colors *c, const char *type, const char *base, const iso_random_color_options *given,
                         size_t size)
{
    iso_options_copy(&c->options, sizeof c->options, given, size);
    c->factor = iso_random_range_of(c->options.factor, 0, 0);
    c->values = iso_random_range_of(c->options.value_range, 0, 255);
    return iso_random_begin(&c->layer, &c->options.x, type, base, c->options.name) &&
           iso_random_values_fit(&c->layer, c->values);
}

static iso_tensor *end_colors(colors *c, iso_tensor *y)
{
    iso_random_note(&c->layer, "factor", c->factor);
    iso_random_note(&c->layer, "value_range", c->values);
    return iso_random_end(&c->layer, y, c->options.x);
}

/* Numbers for the images, in the type of x. */
static iso_tensor *draw_for(const colors *c, const char *what, iso_random_range range)
{
    iso_tensor *drawn = iso_random_draw(&c->layer, c->options.x, true, what, range, ISO_UNIFORM_VALUE);
    return iso_cast(iso_random_for_pixels(drawn), iso_tensor_dtype(c->options.x));
}

/* Whether an image is chosen, [batch, 1, 1, 1], with a probability from a range. */
static iso_tensor *choose(const iso_layer *layer, iso_tensor *x, iso_random_range probability)
{
    iso_tensor *p = iso_random_draw(layer, x, true, "probability", probability, ISO_UNIFORM_VALUE);
    iso_tensor *u = iso_random_draw(layer, x, true, "threshold", all, ISO_UNIFORM_VALUE);
    return iso_random_for_pixels(iso_less(u, p));
}

static void config_colors(const iso_layer_config *config, iso_tensor *x, bool from_zero,
                          iso_random_color_options *options)
{
    *options = (iso_random_color_options){.x = x, .name = config->name};
    iso_config_range(config, "factor", from_zero, options->factor);
    iso_config_range(config, "value_range", true, options->value_range);
}

#define COLOR_LAYER(name, keras_name, from_zero)                                                             \
    static iso_tensor *name##_build(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        iso_random_color_options options;                                                                    \
        (void)count;                                                                                         \
        config_colors(config, x[0], from_zero, &options);                                                    \
        return iso_##name##_with(&options, sizeof options);                                                  \
    }                                                                                                        \
    const iso_layer_type iso_layer_##name = {.keras = keras_name, .build = name##_build};

iso_tensor *iso_random_contrast_with(const iso_random_color_options *options, size_t size)
{
    colors c;
    if (!begin_colors(&c, "RandomContrast", "random_contrast", options, size) ||
        !iso_random_range_fits(&c.layer, "factor", c.factor, -1, 1))
        return iso_layer_broken(c.options.x);
    iso_tensor *x = c.options.x, *mean = iso_reduce_mean(x, (const int[]){1, 2}, 2, true);
    iso_tensor *times = draw_for(&c, "contrast", (iso_random_range){1 - c.factor.low, 1 + c.factor.high});
    iso_tensor *y = iso_add(iso_multiply(iso_subtract(x, mean), times), mean);
    return end_colors(&c, iso_random_clip(y, c.values));
}
COLOR_LAYER(random_contrast, "RandomContrast", true)

iso_tensor *iso_random_brightness_with(const iso_random_color_options *options, size_t size)
{
    colors c;
    if (!begin_colors(&c, "RandomBrightness", "random_brightness", options, size) ||
        !iso_random_range_fits(&c.layer, "factor", c.factor, -1, 1))
        return iso_layer_broken(c.options.x);
    const double length = c.values.high - c.values.low;
    iso_tensor *more =
        draw_for(&c, "brightness", (iso_random_range){c.factor.low * length, c.factor.high * length});
    return end_colors(&c, iso_random_clip(iso_add(c.options.x, more), c.values));
}
COLOR_LAYER(random_brightness, "RandomBrightness", false)

iso_tensor *iso_random_invert_with(const iso_random_color_options *options, size_t size)
{
    colors c;
    const bool good = begin_colors(&c, "RandomInvert", "random_invert", options, size);
    c.factor = iso_random_range_of(c.options.factor, 0, 1);
    if (!good || !iso_random_range_fits(&c.layer, "factor", c.factor, 0, 1))
        return iso_layer_broken(c.options.x);
    iso_tensor *x = c.options.x, *chosen = choose(&c.layer, x, c.factor);
    return end_colors(&c, iso_where(chosen, iso_affine(x, -1, c.values.high), x));
}
COLOR_LAYER(random_invert, "RandomInvert", true)

/* ---- RandomErasing ---- */

/* 0, 1, ..., count - 1 */
static iso_tensor *numbers_to(const iso_layer *layer, iso_dtype type, iso_shape shape, int64_t count)
{
    double *number = iso_new((size_t)count * sizeof *number);
    if (!number) {
        iso_graph_fail_memory(layer->graph, layer->name, (size_t)count * sizeof *number);
        return iso_graph_bad_tensor(layer->graph);
    }
    for (int64_t i = 0; i < count; i++)
        number[i] = (double)i;
    iso_tensor *numbers = iso_constant(layer->graph, type, shape, number);
    iso_free(number);
    return numbers;
}

/* Along one dimension of x, the height (1) or the width (2): whether a pixel is within the rectangle, [batch, height
 * or 1, 1 or width, 1]. */
static iso_tensor *within(const iso_layer *layer, iso_tensor *x, int dimension, iso_random_range scale)
{
    const bool high = dimension == 1;
    const int64_t extent = iso_tensor_shape(x)->dim[dimension];
    iso_tensor *share = iso_random_draw(layer, x, true, high ? "height" : "width", scale, ISO_UNIFORM_VALUE);
    iso_tensor *corner = iso_random_draw(layer, x, true, high ? "top" : "left", all, ISO_UNIFORM_VALUE);
    iso_tensor *length = iso_affine(iso_sqrt(share), (double)extent, 0);
    iso_tensor *begin = iso_multiply(corner, iso_affine(length, -1, (double)extent));
    iso_tensor *end = iso_add(begin, length);
    const iso_dtype type = iso_tensor_dtype(begin);
    iso_tensor *numbers =
        numbers_to(layer, type, high ? ISO_SHAPE(1, extent, 1, 1) : ISO_SHAPE(1, 1, extent, 1), extent);
    return iso_logical_and(iso_greater_equal(numbers, iso_random_for_pixels(begin)),
                           iso_less(numbers, iso_random_for_pixels(end)));
}

static iso_tensor *filling(const iso_layer *layer, const iso_random_erasing_options *o,
                           iso_random_range values)
{
    const iso_dtype type = iso_tensor_dtype(o->x);
    if (o->constant)
        return iso_random_clip(iso_number(layer->graph, type, o->fill_value), values);
    iso_text path = {0};
    iso_layer_random_path(layer, &path);
    iso_text_add(&path, "/fill");
    iso_tensor *zeros = iso_broadcast_to(iso_number(layer->graph, type, 0), *iso_tensor_shape(o->x));
    iso_tensor *normal = iso_gaussian_noise_op(zeros, 1, iso_layer_text(layer, &path));
    iso_text_free(&path);
    return iso_random_clip(iso_affine(normal, values.high, 0), values);
}

iso_tensor *iso_random_erasing_with(const iso_random_erasing_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_random_erasing_options, options, given, size);
    iso_layer layer;
    const iso_random_range factor = iso_random_range_of(options.factor, 0, 1),
                           scale = iso_random_range_of(options.scale, 0.02, 0.33),
                           values = iso_random_range_of(options.value_range, 0, 255);
    if (!iso_random_begin(&layer, &options.x, "RandomErasing", "random_erasing", options.name) ||
        !iso_random_range_fits(&layer, "factor", factor, 0, 1) ||
        !iso_random_range_fits(&layer, "scale", scale, 0, 1) || !iso_random_values_fit(&layer, values))
        return iso_layer_broken(options.x);
    iso_random_note(&layer, "factor", factor);
    iso_random_note(&layer, "scale", scale);
    if (options.constant)
        iso_layer_note_real(&layer, "fill_value", options.fill_value);
    else
        iso_layer_note_none(&layer, "fill_value");
    iso_random_note(&layer, "value_range", values);
    iso_tensor *x = options.x, *erased = choose(&layer, x, factor);
    erased =
        iso_logical_and(erased, iso_logical_and(within(&layer, x, 1, scale), within(&layer, x, 2, scale)));
    return iso_random_end(&layer, iso_where(erased, filling(&layer, &options, values), x), x);
}

static iso_tensor *random_erasing_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_random_erasing_options options = {.x = x[0], .name = config->name};
    (void)count;
    iso_config_range(config, "factor", true, options.factor);
    iso_config_range(config, "scale", true, options.scale);
    iso_config_range(config, "value_range", true, options.value_range);
    options.constant = config->numbers(config, "fill_value", &options.fill_value, 1) > 0;
    options.fill_value = iso_config_number(config, "fill_value", 0);
    return iso_random_erasing_with(&options, sizeof options);
}

const iso_layer_type iso_layer_random_erasing = {.keras = "RandomErasing", .build = random_erasing_build};
