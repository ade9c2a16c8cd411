/* Pooling of images: maximum or mean of windows or of the whole. */
#include "models/layers/list.h"
#include "models/layers/pooling_impl.h"

static iso_tensor *pool(const char *function, const iso_pooling2d_options *given, size_t size,
                        const char *type, const char *base,
                        iso_tensor *(*op)(iso_tensor *x, const iso_pool_geometry *geometry))
{
    ISO_LAYER_OPTIONS(iso_pooling2d_options, options, given, size);
    iso_layer layer;
    iso_pool_windows windows = {.padding = options.padding};
    iso_layer_sizes(2, options.pool_size_hw, options.pool_size, 2, windows.size);
    iso_layer_sizes(2, options.strides_hw, options.strides, 0, windows.stride);
    if (!iso_layer_begin(&layer, &options.x, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]") ||
        !iso_pool_windows_fit(&layer, 2, &iso_tensor_shape(options.x)->dim[1], &windows))
        return iso_layer_broken_in(function, options.x);
    const iso_pool_geometry geometry = {.size = {windows.size[0], windows.size[1]},
                                        .stride = {windows.stride[0], windows.stride[1]},
                                        .pad_before = {windows.before[0], windows.before[1]},
                                        .pad_after = {windows.after[0], windows.after[1]}};
    iso_pool_note(&layer, 2, &windows);
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
    iso_config_sizes(config, "pool_size", 2, 2, options.pool_size_hw);
    iso_config_sizes(config, "strides", 0, 2, options.strides_hw);
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
