/* AdaptiveAveragePooling1D, 2D, 3D and AdaptiveMaxPooling1D, 2D, 3D: pools whose windows follow from the size of
 * the result. Of `out` windows over n elements, window i reaches from i n / out, rounded down, to (i + 1) n / out,
 * rounded up. Dimensions are pooled one after another. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

enum { MOST_DIMS = 3 };

typedef struct adaptive_kind {
    const char *type, *base;
    int dims; /* between the batch and the channels */
    iso_tensor *(*reduce)(iso_tensor *x, const int *axes, int count, bool keep);
    iso_tensor *(*along)(iso_tensor *x, int axis, const iso_pool_geometry *geometry);
} adaptive_kind;

static int64_t begin_of(int64_t window, int64_t n, int64_t out)
{
    return window * n / out;
}

static int64_t end_of(int64_t window, int64_t n, int64_t out)
{
    return ((window + 1) * n + out - 1) / out;
}

/* Whether all windows have one size and one distance. */
static bool are_even(int64_t n, int64_t out)
{
    const int64_t size = end_of(0, n, out), stride = out > 1 ? begin_of(1, n, out) : n;
    bool even = stride > 0;
    for (int64_t i = 0; even && i < out; i++)
        even = begin_of(i, n, out) == i * stride && end_of(i, n, out) == i * stride + size;
    return even;
}

/* Even windows along a dimension: an op over it and one of its neighbours, where windows have one element. */
static iso_tensor *pool_evenly(const adaptive_kind *kind, iso_tensor *x, int axis, int64_t out)
{
    iso_shape shape = *iso_tensor_shape(x);
    const int64_t n = shape.dim[axis], size = end_of(0, n, out), stride = out > 1 ? begin_of(1, n, out) : n;
    const bool last = axis == shape.rank - 2;
    const iso_pool_geometry geometry = {.size = {last ? 1 : size, last ? size : 1},
                                        .stride = {last ? 1 : stride, last ? stride : 1}};
    if (shape.rank > 3)
        return kind->along(x, last ? axis - 1 : axis, &geometry);
    x = iso_reshape_to(x,
                       ISO_SHAPE(shape.dim[0], 1, n, shape.dim[2])); /* a sequence, as an image of one row */
    return iso_reshape_to(kind->along(x, 1, &geometry), ISO_SHAPE(shape.dim[0], out, shape.dim[2]));
}

/* The elements of one window along a dimension, reduced to one. */
static iso_tensor *reduce_window(const adaptive_kind *kind, iso_tensor *x, int axis, int64_t begin,
                                 int64_t end)
{
    int64_t from[ISO_MAX_RANK] = {0}, size[ISO_MAX_RANK];
    for (int d = 0; d < ISO_MAX_RANK; d++)
        size[d] = -1;
    from[axis - 1] = begin;
    size[axis - 1] = end - begin;
    return kind->reduce(iso_slice(x, from, size), &axis, 1, true);
}

/* Joins windows i to i + count - 1 along the dimension. */
static iso_tensor *join_windows(const adaptive_kind *kind, iso_tensor *x, int axis, int64_t out, int64_t i,
                                int64_t count)
{
    iso_tensor *part[ISO_MAX_INPUTS];
    const int64_t n = iso_tensor_shape(x)->dim[axis];
    const int64_t each = (count + ISO_MAX_INPUTS - 1) / ISO_MAX_INPUTS;
    int parts = 0;
    if (count == 1)
        return reduce_window(kind, x, axis, begin_of(i, n, out), end_of(i, n, out));
    for (int64_t at = 0; at < count; at += each)
        part[parts++] = join_windows(kind, x, axis, out, i + at, each < count - at ? each : count - at);
    return iso_concat(part, parts, axis);
}

static iso_tensor *pool(const char *function, const iso_adaptive_pooling_options *given, size_t size,
                        const adaptive_kind *kind)
{
    static const char *const forms[] = {NULL, "[batch, steps, channels]", "[batch, height, width, channels]",
                                        "[batch, depth, height, width, channels]"};
    ISO_LAYER_OPTIONS(iso_adaptive_pooling_options, options, given, size);
    iso_layer layer;
    int64_t out[MOST_DIMS];
    iso_layer_sizes(kind->dims, options.output_sizes, options.output_size, 0, out);
    if (!iso_layer_begin(&layer, &options.x, kind->type, kind->base, options.name) ||
        !iso_layer_check_rank(&layer, options.x, kind->dims + 2, forms[kind->dims]))
        return iso_layer_broken_in(function, options.x);
    iso_tensor *y = options.x;
    for (int d = 0; d < kind->dims; d++) {
        const int64_t n = iso_tensor_shape(options.x)->dim[d + 1];
        if (out[d] <= 0 || out[d] > INT32_MAX || n <= 0)
            return iso_layer_fail(&layer, "output_size is %lld for %lld elements, it must be positive",
                                  (long long)out[d], (long long)n);
        y = are_even(n, out[d]) ? pool_evenly(kind, y, d + 1, out[d])
                                : join_windows(kind, y, d + 1, out[d], 0, out[d]);
        if (!iso_tensor_good(y))
            return y;
    }
    iso_layer_note_integers(&layer, "output_size", out, kind->dims);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    return iso_layer_end(&layer, y);
}

#define ADAPTIVE(NAME, KERAS, DIMS, REDUCE, ALONG)                                                           \
    static const adaptive_kind kind_##NAME = {KERAS, "adaptive_" #NAME, DIMS, REDUCE, ALONG};                \
    iso_tensor *iso_adaptive_##NAME##_with(const iso_adaptive_pooling_options *options, size_t size)         \
    {                                                                                                        \
        return pool(__func__, options, size, &kind_##NAME);                                                  \
    }                                                                                                        \
    static iso_tensor *build_##NAME(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        iso_adaptive_pooling_options options = {.x = x[0], .name = config->name};                            \
        (void)count;                                                                                         \
        iso_config_sizes(config, "output_size", ISO_REQUIRED, DIMS, options.output_sizes);                   \
        return iso_adaptive_##NAME##_with(&options, sizeof options);                                         \
    }                                                                                                        \
    const iso_layer_type iso_layer_adaptive_##NAME = {.keras = KERAS, .build = build_##NAME};
ADAPTIVE(average_pooling1d, "AdaptiveAveragePooling1D", 1, iso_reduce_mean, iso_average_pool2d_along)
ADAPTIVE(average_pooling2d, "AdaptiveAveragePooling2D", 2, iso_reduce_mean, iso_average_pool2d_along)
ADAPTIVE(average_pooling3d, "AdaptiveAveragePooling3D", 3, iso_reduce_mean, iso_average_pool2d_along)
ADAPTIVE(max_pooling1d, "AdaptiveMaxPooling1D", 1, iso_reduce_max, iso_max_pool2d_along)
ADAPTIVE(max_pooling2d, "AdaptiveMaxPooling2D", 2, iso_reduce_max, iso_max_pool2d_along)
ADAPTIVE(max_pooling3d, "AdaptiveMaxPooling3D", 3, iso_reduce_max, iso_max_pool2d_along)
