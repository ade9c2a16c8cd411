/* Pooling of volumes: maximum or mean of windows or of the whole. */
#include "models/layers/list.h"
#include "models/layers/pooling_impl.h"

typedef iso_tensor *pool_along(iso_tensor *x, int axis, const iso_pool_geometry *geometry);

/* Of each slice, and then along the depth: so the first of equal elements of a window, in the order of its slices,
 * rows and columns, is the first of those that are left. x: [batch, d, h, w, c] */
static iso_tensor *pool_volume(iso_tensor *x, const iso_pool_windows *w, pool_along *along)
{
    const iso_pool_geometry slice = {.size = {w->size[1], w->size[2]},
                                     .stride = {w->stride[1], w->stride[2]},
                                     .pad_before = {w->before[1], w->before[2]},
                                     .pad_after = {w->after[1], w->after[2]}};
    const iso_pool_geometry depth = {.size = {w->size[0], 1},
                                     .stride = {w->stride[0], 1},
                                     .pad_before = {w->before[0], 0},
                                     .pad_after = {w->after[0], 0}};
    x = along(x, 2, &slice);
    return w->size[0] == 1 && w->stride[0] == 1 ? x : along(x, 1, &depth);
}

static iso_tensor *pool(const char *function, const iso_pooling3d_options *given, size_t size,
                        const char *type, const char *base, pool_along *along)
{
    ISO_LAYER_OPTIONS(iso_pooling3d_options, options, given, size);
    iso_layer layer;
    iso_pool_windows windows = {.padding = options.padding};
    iso_layer_sizes(3, options.pool_size_dhw, options.pool_size, 2, windows.size);
    iso_layer_sizes(3, options.strides_dhw, options.strides, 0, windows.stride);
    if (!iso_layer_begin(&layer, &options.x, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 5, "[batch, depth, height, width, channels]") ||
        !iso_pool_windows_fit(&layer, 3, &iso_tensor_shape(options.x)->dim[1], &windows))
        return iso_layer_broken_in(function, options.x);
    iso_pool_note(&layer, 3, &windows);
    return iso_layer_end(&layer, pool_volume(options.x, &windows, along));
}

iso_tensor *iso_max_pooling3d_with(const iso_pooling3d_options *options, size_t size)
{
    return pool(__func__, options, size, "MaxPooling3D", "max_pooling3d", iso_max_pool2d_along);
}

iso_tensor *iso_average_pooling3d_with(const iso_pooling3d_options *options, size_t size)
{
    return pool(__func__, options, size, "AveragePooling3D", "average_pooling3d", iso_average_pool2d_along);
}

static iso_tensor *global(const char *function, const iso_global_pooling3d_options *given, size_t size,
                          const char *type, const char *base,
                          iso_tensor *(*reduce)(iso_tensor *x, const int *axes, int count, bool keep))
{
    ISO_LAYER_OPTIONS(iso_global_pooling3d_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin(&layer, &options.x, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 5, "[batch, depth, height, width, channels]"))
        return iso_layer_broken_in(function, options.x);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    iso_layer_note_flag(&layer, "keepdims", options.keep_dims);
    return iso_layer_end(&layer, reduce(options.x, (const int[]){1, 2, 3}, 3, options.keep_dims));
}

iso_tensor *iso_global_average_pooling3d_with(const iso_global_pooling3d_options *options, size_t size)
{
    return global(__func__, options, size, "GlobalAveragePooling3D", "global_average_pooling3d",
                  iso_reduce_mean);
}

iso_tensor *iso_global_max_pooling3d_with(const iso_global_pooling3d_options *options, size_t size)
{
    return global(__func__, options, size, "GlobalMaxPooling3D", "global_max_pooling3d", iso_reduce_max);
}

static iso_pooling3d_options from_config(const iso_layer_config *config, iso_tensor *x)
{
    iso_pooling3d_options options = {.x = x, .name = config->name, .padding = iso_config_padding(config)};
    iso_config_sizes(config, "pool_size", 2, 3, options.pool_size_dhw);
    iso_config_sizes(config, "strides", 0, 3, options.strides_dhw);
    return options;
}

static iso_tensor *build_max(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_pooling3d_options options = from_config(config, x[0]);
    (void)count;
    return iso_max_pooling3d_with(&options, sizeof options);
}

static iso_tensor *build_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_pooling3d_options options = from_config(config, x[0]);
    (void)count;
    return iso_average_pooling3d_with(&options, sizeof options);
}

static iso_tensor *build_global_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_global_average_pooling3d(x[0], .name = config->name,
                                        .keep_dims = iso_config_flag(config, "keepdims", false));
}

static iso_tensor *build_global_max(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_global_max_pooling3d(x[0], .name = config->name,
                                    .keep_dims = iso_config_flag(config, "keepdims", false));
}

const iso_layer_type iso_layer_max_pooling3d = {.keras = "MaxPooling3D", .build = build_max};
const iso_layer_type iso_layer_average_pooling3d = {.keras = "AveragePooling3D", .build = build_average};
const iso_layer_type iso_layer_global_average_pooling3d = {.keras = "GlobalAveragePooling3D",
                                                           .build = build_global_average};
const iso_layer_type iso_layer_global_max_pooling3d = {.keras = "GlobalMaxPooling3D",
                                                       .build = build_global_max};
