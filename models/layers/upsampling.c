/* RepeatVector repeats rows; UpSampling1D, UpSampling2D and UpSampling3D enlarge sequences, images and volumes by
 * whole factors. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

static const char *const interpolations[] = {"nearest", "bilinear", NULL};

/* Repeats each element as a block, along each dimension between the batch and the channels. */
static iso_tensor *repeat(iso_tensor *x, const int64_t *size)
{
    const iso_shape s = *iso_tensor_shape(x); /* [n, h, w, c] */
    iso_shape one = {1, {s.dim[0]}}, each = one, large = s;
    for (int d = 1; d < s.rank - 1; d++) {
        one.dim[one.rank++] = each.dim[each.rank++] = s.dim[d];
        one.dim[one.rank++] = 1;
        each.dim[each.rank++] = size[d - 1];
    }
    one.dim[one.rank++] = each.dim[each.rank++] = s.dim[s.rank - 1];
    x = iso_broadcast_to(iso_reshape_to(x, one), each);
    if (!iso_tensor_good(x)) /* the products could overflow */
        return x;
    for (int d = 1; d < s.rank - 1; d++)
        large.dim[d] *= size[d - 1];
    return iso_reshape_to(x, large);
}

iso_tensor *iso_repeat_vector_with(const iso_repeat_vector_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_repeat_vector_options, options, given, size);
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &options.x, "RepeatVector", "repeat_vector", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 2, "[batch, features]"))
        return iso_layer_broken(options.x);
    if (options.n <= 0 || options.n > INT32_MAX)
        return iso_layer_fail(&layer, "n is %lld, it must be positive", (long long)options.n);
    const iso_shape *shape = iso_tensor_shape(options.x);
    iso_shape one = ISO_SHAPE(shape->dim[0], 1, shape->dim[1]), all = one;
    all.dim[1] = options.n;
    iso_layer_note_integer(&layer, "n", options.n);
    return iso_layer_end(&layer, iso_broadcast_to(iso_reshape_to(options.x, one), all));
}

iso_tensor *iso_up_sampling1d_with(const iso_up_sampling1d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_up_sampling1d_options, options, given, size);
    iso_layer layer;
    const int64_t times = options.size ? options.size : 2;
    if (!iso_layer_begin_any(&layer, &options.x, "UpSampling1D", "up_sampling1d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 3, "[batch, steps, channels]"))
        return iso_layer_broken(options.x);
    if (times <= 0 || times > INT32_MAX)
        return iso_layer_fail(&layer, "size is %lld, it must be positive", (long long)times);
    iso_layer_note_integer(&layer, "size", times);
    return iso_layer_end(&layer, repeat(options.x, &times));
}

iso_tensor *iso_up_sampling2d_with(const iso_up_sampling2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_up_sampling2d_options, options, given, size);
    iso_layer layer;
    int64_t times[2];
    iso_layer_sizes(2, options.size_hw, options.size, 2, times);
    bool (*begin)(iso_layer *, iso_tensor **, const char *, const char *, const char *) =
        options.bilinear ? iso_layer_begin : iso_layer_begin_any;
    if (!begin(&layer, &options.x, "UpSampling2D", "up_sampling2d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 4, "[batch, height, width, channels]"))
        return iso_layer_broken(options.x);
    if (times[0] <= 0 || times[1] <= 0 || times[0] > INT32_MAX || times[1] > INT32_MAX)
        return iso_layer_fail(&layer, "size is %lld x %lld, both must be positive", (long long)times[0],
                              (long long)times[1]);
    iso_layer_note_integers(&layer, "size", times, 2);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    iso_layer_note_text(&layer, "interpolation", interpolations[options.bilinear]);
    return iso_layer_end(&layer, options.bilinear ? iso_upsample_linear_op(options.x, times)
                                                  : repeat(options.x, times));
}

iso_tensor *iso_up_sampling3d_with(const iso_up_sampling3d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_up_sampling3d_options, options, given, size);
    iso_layer layer;
    int64_t times[3];
    iso_layer_sizes(3, options.size_dhw, options.size, 2, times);
    if (!iso_layer_begin_any(&layer, &options.x, "UpSampling3D", "up_sampling3d", options.name) ||
        !iso_layer_check_rank(&layer, options.x, 5, "[batch, depth, height, width, channels]"))
        return iso_layer_broken(options.x);
    for (int i = 0; i < 3; i++)
        if (times[i] <= 0 || times[i] > INT32_MAX)
            return iso_layer_fail(&layer, "size is %lld x %lld x %lld, all must be positive",
                                  (long long)times[0], (long long)times[1], (long long)times[2]);
    iso_layer_note_integers(&layer, "size", times, 3);
    iso_layer_note_text(&layer, "data_format", "channels_last");
    return iso_layer_end(&layer, repeat(options.x, times));
}

static iso_tensor *repeat_vector_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_repeat_vector(x[0], iso_config_size(config, "n", ISO_REQUIRED), .name = config->name);
}

static iso_tensor *upsampling1d_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_up_sampling1d(x[0], iso_config_size(config, "size", 2), .name = config->name);
}

static iso_tensor *upsampling3d_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_up_sampling3d_options options = {.x = x[0], .name = config->name};
    (void)count;
    iso_config_sizes(config, "size", 2, 3, options.size_dhw);
    return iso_up_sampling3d_with(&options, sizeof options);
}

static iso_tensor *upsampling2d_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_up_sampling2d_options options = {.x = x[0], .name = config->name};
    (void)count;
    iso_config_sizes(config, "size", 2, 2, options.size_hw);
    options.bilinear = iso_config_choice(config, "interpolation", interpolations) == 1;
    return iso_up_sampling2d_with(&options, sizeof options);
}

const iso_layer_type iso_layer_repeat_vector = {.keras = "RepeatVector", .build = repeat_vector_build};
const iso_layer_type iso_layer_up_sampling1d = {.keras = "UpSampling1D", .build = upsampling1d_build};
const iso_layer_type iso_layer_up_sampling2d = {.keras = "UpSampling2D", .build = upsampling2d_build};
const iso_layer_type iso_layer_up_sampling3d = {.keras = "UpSampling3D", .build = upsampling3d_build};
