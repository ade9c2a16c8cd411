/* Pooling of images: maximum or mean of windows or of the whole. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

static bool pooling2d_fill(const iso_layer *layer, const iso_pooling2d_options *options,
                           iso_pool_geometry *geometry)
{
    const iso_shape *x = iso_tensor_shape(options->x);
    iso_layer_pair(options->pool_size_hw, options->pool_size, 2, geometry->size);
    iso_layer_pair(options->strides_hw, options->strides, 0, geometry->stride);
    for (int i = 0; i < 2; i++) {
        if (geometry->stride[i] == 0)
            geometry->stride[i] = geometry->size[i];
        if (geometry->size[i] <= 0 || geometry->stride[i] <= 0) {
            iso_layer_fail(layer, "pool_size %lld, strides %lld: both must be positive",
                           (long long)geometry->size[i], (long long)geometry->stride[i]);
            return false;
        }
        if (options->padding == ISO_VALID && geometry->size[i] > x->dim[i + 1]) {
            iso_layer_fail(layer,
                           "its window reaches over %lld pixels, its input has %lld (padding is valid)",
                           (long long)geometry->size[i], (long long)x->dim[i + 1]);
            return false;
        }
        iso_layer_pad(options->padding, x->dim[i + 1], geometry->size[i], geometry->stride[i],
                      &geometry->pad_before[i], &geometry->pad_after[i]);
    }
    return true;
}

static iso_tensor *pool(const char *function, const iso_pooling2d_options *given, size_t size,
                        const char *type, const char *base,
                        iso_tensor *(*op)(iso_tensor *x, const iso_pool_geometry *geometry))
{
    ISO_LAYER_OPTIONS(iso_pooling2d_options, options, given, size);
    iso_layer layer;
    iso_pool_geometry geometry = {{0}, {0}, {0}, {0}};
    if (!iso_layer_begin(&layer, &options.x, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]") ||
        !pooling2d_fill(&layer, &options, &geometry))
        return iso_layer_broken_in(function, options.x);
    iso_layer_note_integers(&layer, "pool_size", geometry.size, 2);
    iso_layer_note_integers(&layer, "strides", geometry.stride, 2);
    iso_layer_note_padding(&layer, options.padding);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    return iso_layer_end(&layer, op(options.x, &geometry));
}

iso_tensor *iso_max_pooling2d_with(const iso_pooling2d_options *options, size_t size)
{
    return pool(__func__, options, size, "MaxPooling2D", "max_pooling2d", iso_max_pool2d_op);
}

iso_tensor *iso_average_pooling2d_with(const iso_pooling2d_options *options, size_t size)
{
    return pool(__func__, options, size, "AveragePooling2D", "average_pooling2d", iso_average_pool2d_op);
}

static iso_tensor *global(const char *function, const iso_global_pooling2d_options *given, size_t size,
                          const char *type, const char *base,
                          iso_tensor *(*reduce)(iso_tensor *x, const int *axes, int count, bool keep))
{
    ISO_LAYER_OPTIONS(iso_global_pooling2d_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]"))
        return iso_layer_broken_in(function, options.x);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    iso_layer_note_flag(&layer, "keepdims", options.keep_dims);
    return iso_layer_end(&layer, reduce(options.x, (const int[]){1, 2}, 2, options.keep_dims));
}

iso_tensor *iso_global_average_pooling2d_with(const iso_global_pooling2d_options *options, size_t size)
{
    return global(__func__, options, size, "GlobalAveragePooling2D", "global_average_pooling2d",
                  iso_reduce_mean);
}

iso_tensor *iso_global_max_pooling2d_with(const iso_global_pooling2d_options *options, size_t size)
{
    return global(__func__, options, size, "GlobalMaxPooling2D", "global_max_pooling2d", iso_reduce_max);
}

static iso_pooling2d_options from_config(const iso_layer_config *config, iso_tensor *x)
{
    iso_pooling2d_options options = {.x = x, .name = config->name, .padding = iso_config_padding(config)};
    iso_config_pair(config, "pool_size", 2, options.pool_size_hw);
    iso_config_pair(config, "strides", 0, options.strides_hw);
    return options;
}

static iso_tensor *build_max(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_pooling2d_options options = from_config(config, x[0]);
    (void)count;
    return iso_max_pooling2d_with(&options, sizeof options);
}

static iso_tensor *build_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_pooling2d_options options = from_config(config, x[0]);
    (void)count;
    return iso_average_pooling2d_with(&options, sizeof options);
}

static iso_tensor *build_global_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_global_average_pooling2d(x[0], .name = config->name,
                                        .keep_dims = iso_config_flag(config, "keepdims", false));
}

static iso_tensor *build_global_max(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_global_max_pooling2d(x[0], .name = config->name,
                                    .keep_dims = iso_config_flag(config, "keepdims", false));
}

const iso_layer_type iso_layer_max_pooling2d = {.keras = "MaxPooling2D", .build = build_max};
const iso_layer_type iso_layer_average_pooling2d = {.keras = "AveragePooling2D", .build = build_average};
const iso_layer_type iso_layer_global_average_pooling2d = {.keras = "GlobalAveragePooling2D",
                                                           .build = build_global_average};
const iso_layer_type iso_layer_global_max_pooling2d = {.keras = "GlobalMaxPooling2D",
                                                       .build = build_global_max};
