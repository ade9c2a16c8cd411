/* Pooling of sequences, computed as images of one row: over windows and over the whole. */
#include "models/layers/list.h"
#include "models/layers/masks.h"
#include "models/layers/pooling_impl.h"

static iso_tensor *pool(const char *function, const iso_pooling1d_options *given, size_t size,
                        const char *type, const char *base,
                        iso_tensor *(*op)(iso_tensor *x, const iso_pool_geometry *geometry))
{
    ISO_LAYER_OPTIONS(iso_pooling1d_options, options, given, size);
    iso_layer layer;
    iso_pool_windows windows = {.size = {options.pool_size ? options.pool_size : 2},
                                .stride = {options.strides},
                                .padding = options.padding};
    if (!iso_layer_begin(&layer, &options.x, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 3, "[batch, steps, channels]") ||
        !iso_pool_windows_fit(&layer, 1, &iso_tensor_shape(options.x)->dim[1], &windows))
        return iso_layer_broken_in(function, options.x);
    const iso_pool_geometry geometry = {.size = {1, windows.size[0]},
                                        .stride = {1, windows.stride[0]},
                                        .pad_before = {0, windows.before[0]},
                                        .pad_after = {0, windows.after[0]}};
    const iso_shape *x = iso_tensor_shape(options.x);
    iso_tensor *row = iso_reshape_to(options.x, ISO_SHAPE(x->dim[0], 1, x->dim[1], x->dim[2]));
    iso_pool_note(&layer, 1, &windows);
    return iso_layer_end(&layer, iso_reshape_to(op(row, &geometry), ISO_SHAPE(x->dim[0], -1, x->dim[2])));
}

iso_tensor *iso_max_pooling1d_with(const iso_pooling1d_options *options, size_t size)
{
    return pool(__func__, options, size, "MaxPooling1D", "max_pooling1d", iso_max_pool2d_op);
}

iso_tensor *iso_average_pooling1d_with(const iso_pooling1d_options *options, size_t size)
{
    return pool(__func__, options, size, "AveragePooling1D", "average_pooling1d", iso_average_pool2d_op);
}

/* The mean of the steps that count; NaN if there is none, as in Keras. mask: [batch, steps] */
static iso_tensor *mean_of_steps(iso_tensor *x, iso_tensor *mask, bool keep)
{
    static const int steps[] = {1};
    iso_tensor *counts = iso_mask_column(mask),
               *zero = iso_number(iso_tensor_graph(x), iso_tensor_dtype(x), 0);
    iso_tensor *sum = iso_reduce_sum(iso_where(counts, x, zero), steps, 1, keep);
    return iso_divide(sum, iso_reduce_sum(iso_cast(counts, iso_tensor_dtype(x)), steps, 1, keep));
}

/* NULL: all steps count, or an error of the layer. */
static iso_tensor *mask_of(const iso_layer *layer, const iso_global_pooling1d_options *o)
{
    if (o->mask)
        return iso_layer_given_mask(layer, o->mask, o->x, 2);
    return iso_layer_check_mask(layer, o->x, 2) ? iso_layer_mask(layer, o->x) : NULL;
}

static iso_tensor *global(const char *function, const iso_global_pooling1d_options *given, size_t size,
                          const char *type, const char *base,
                          iso_tensor *(*reduce)(iso_tensor *x, const int *axes, int count, bool keep))
{
    ISO_LAYER_OPTIONS(iso_global_pooling1d_options, options, given, size);
    iso_layer layer;
    iso_tensor *inputs[] = {options.x, options.mask};
    const bool averages = reduce == iso_reduce_mean;
    if (!iso_layer_begin_several(&layer, inputs, options.mask ? 2 : 1, type, base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, 3, "[batch, steps, channels]"))
        return iso_layer_broken_in(function, options.x);
    if (options.mask && !averages)
        return iso_layer_fail(&layer, "mask is given, which averages alone take");
    iso_layer_note_text(&layer, "data_format", "channels_last");
    iso_layer_note_flag(&layer, "keepdims", options.keep_dims);
    if (options.mask)
        iso_layer_note_mask(&layer, 1);
    iso_tensor *x = iso_layer_cast(&layer, options.x), *mask = averages ? mask_of(&layer, &options) : NULL;
    if (iso_graph_error(layer.graph) != ISO_OK)
        return iso_layer_broken_in(function, options.x);
    return iso_layer_end(&layer, mask ? mean_of_steps(x, mask, options.keep_dims)
                                      : reduce(x, (const int[]){1}, 1, options.keep_dims));
}

iso_tensor *iso_global_average_pooling1d_with(const iso_global_pooling1d_options *options, size_t size)
{
    return global(__func__, options, size, "GlobalAveragePooling1D", "global_average_pooling1d",
                  iso_reduce_mean);
}

iso_tensor *iso_global_max_pooling1d_with(const iso_global_pooling1d_options *options, size_t size)
{
    return global(__func__, options, size, "GlobalMaxPooling1D", "global_max_pooling1d", iso_reduce_max);
}

static iso_pooling1d_options from_config(const iso_layer_config *config, iso_tensor *x)
{
    return (iso_pooling1d_options){.x = x,
                                   .name = config->name,
                                   .pool_size = iso_config_size(config, "pool_size", 2),
                                   .strides = iso_config_size(config, "strides", 0),
                                   .padding = iso_config_padding(config)};
}

static iso_tensor *build_max(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_pooling1d_options options = from_config(config, x[0]);
    (void)count;
    return iso_max_pooling1d_with(&options, sizeof options);
}

static iso_tensor *build_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_pooling1d_options options = from_config(config, x[0]);
    (void)count;
    return iso_average_pooling1d_with(&options, sizeof options);
}

static iso_tensor *build_global_average(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    return iso_global_average_pooling1d(x[0], .name = config->name,
                                        .mask = iso_config_mask(config, x, &count),
                                        .keep_dims = iso_config_flag(config, "keepdims", false));
}

static iso_tensor *build_global_max(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_global_max_pooling1d(x[0], .name = config->name,
                                    .keep_dims = iso_config_flag(config, "keepdims", false));
}

const iso_layer_type iso_layer_max_pooling1d = {.keras = "MaxPooling1D", .build = build_max};
const iso_layer_type iso_layer_average_pooling1d = {.keras = "AveragePooling1D", .build = build_average};
const iso_layer_type iso_layer_global_average_pooling1d = {.keras = "GlobalAveragePooling1D",
                                                           .build = build_global_average,
                                                           .several = true,
                                                           .separate = true,
                                                           .masks = ISO_MASKS_MADE,
                                                           .takes_mask = true};
const iso_layer_type iso_layer_global_max_pooling1d = {.keras = "GlobalMaxPooling1D",
                                                       .build = build_global_max};
