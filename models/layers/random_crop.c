/* RandomCrop: one part of all images, at a place that is drawn for each step. */
#include "models/layers/augmentation_impl.h"
#include "models/layers/list.h"

/* The first pixel of the part along a dimension of `extent`, [1, 1], a whole number. */
static iso_tensor *draw_start(const iso_layer *layer, iso_tensor *x, const char *what, int64_t extent,
                              int64_t size)
{
    const iso_random_range range = {0, (double)(extent - size + 1)};
    iso_tensor *u = iso_random_draw(layer, x, false, what, range, ISO_UNIFORM_VALUE);
    return iso_cast(iso_cast(u, ISO_I32), iso_tensor_dtype(u));
}

/* size: height and width of the part. */
static iso_tensor *random_part(const iso_layer *layer, iso_tensor *x, const int64_t size[2])
{
    const iso_shape *s = iso_tensor_shape(x);
    const iso_warp_form form = {
        .height = size[0], .width = size[1], .fill_mode = ISO_FILL_NEAREST, .nearest = true};
    iso_tensor *row = draw_start(layer, x, "height", s->dim[1], size[0]);
    iso_tensor *column = draw_start(layer, x, "width", s->dim[2], size[1]);
    const iso_dtype type = iso_tensor_dtype(row);
    iso_tensor *zero = iso_broadcast_to(iso_number(layer->graph, type, 0), ISO_SHAPE(1, 1));
    iso_tensor *one = iso_broadcast_to(iso_number(layer->graph, type, 1), ISO_SHAPE(1, 1));
    iso_tensor *map = iso_concat((iso_tensor *const[]){one, zero, column, zero, one, row}, 6, 1);
    return iso_warp_op(x, iso_broadcast_to(map, ISO_SHAPE(s->dim[0], 6)), &form);
}

/* The part in the middle. */
static iso_tensor *middle_part(iso_tensor *x, const int64_t size[2])
{
    const iso_shape *s = iso_tensor_shape(x);
    return iso_slice(x, (const int64_t[]){(s->dim[1] - size[0]) / 2, (s->dim[2] - size[1]) / 2, 0},
                     (const int64_t[]){size[0], size[1], -1});
}

/* x in another size, as keras.ops.image.resize: pixels are where their middles are. */
static iso_tensor *resize(const iso_layer *layer, iso_tensor *x, const int64_t size[2])
{
    const iso_shape *s = iso_tensor_shape(x);
    const iso_dtype type = iso_graph_precision(layer->graph) == ISO_F64 ? ISO_F64 : ISO_F32;
    const double rows = (double)s->dim[1] / (double)size[0], columns = (double)s->dim[2] / (double)size[1];
    const double map[6] = {columns, 0, (columns - 1) / 2, 0, rows, (rows - 1) / 2};
    const iso_warp_form form = {.height = size[0], .width = size[1], .fill_mode = ISO_FILL_NEAREST};
    iso_tensor *maps = iso_constant(layer->graph, type, ISO_SHAPE(1, 6), map);
    return iso_warp_op(x, iso_broadcast_to(maps, ISO_SHAPE(s->dim[0], 6)), &form);
}

static int64_t between(int64_t value, int64_t most)
{
    return value < 1 ? 1 : value < most ? value : most;
}

static iso_tensor *inference_part(const iso_layer *layer, iso_tensor *x, const int64_t size[2])
{
    const iso_shape *s = iso_tensor_shape(x);
    const int64_t largest[2] = {between(s->dim[2] * size[0] / size[1], s->dim[1]),
                                between(s->dim[1] * size[1] / size[0], s->dim[2])};
    iso_tensor *part = middle_part(x, largest);
    if ((largest[0] == size[0] && largest[1] == size[1]) || !iso_tensor_good(part))
        return part;
    return resize(layer, part, size);
}

iso_tensor *iso_random_crop_with(const iso_random_crop_options *given, size_t bytes)
{
    ISO_LAYER_OPTIONS(iso_random_crop_options, options, given, bytes);
    iso_layer layer;
    if (!iso_random_begin(&layer, &options.x, "RandomCrop", "random_crop", options.name))
        return iso_layer_broken(options.x);
    const iso_shape *x = iso_tensor_shape(options.x);
    const int64_t size[2] = {options.height, options.width};
    if (size[0] < 1 || size[1] < 1 || size[0] > x->dim[1] || size[1] > x->dim[2])
        return iso_layer_fail(
            &layer,
            "height is %lld and width %lld of images of %lld x %lld: both must be positive and "
            "not larger than the images",
            (long long)size[0], (long long)size[1], (long long)x->dim[1], (long long)x->dim[2]);
    iso_layer_note_integer(&layer, "height", size[0]);
    iso_layer_note_integer(&layer, "width", size[1]);
    const bool moves = size[0] < x->dim[1] && size[1] < x->dim[2];
    return iso_random_end(&layer, moves ? random_part(&layer, options.x, size) : middle_part(options.x, size),
                          inference_part(&layer, options.x, size));
}

static iso_tensor *random_crop_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_random_crop(x[0], iso_config_size(config, "height", ISO_REQUIRED),
                           iso_config_size(config, "width", ISO_REQUIRED), .name = config->name);
}

const iso_layer_type iso_layer_random_crop = {.keras = "RandomCrop", .build = random_crop_build};
