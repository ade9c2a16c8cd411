/* ZeroPadding2D and Cropping2D: add zeros around images, remove their edges. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

/* The sides in a config: one number for all, one for height and one for width, or two for each; anything else is
 * refused. */
static void sides_of_config(const iso_layer_config *config, const char *key, int64_t default_value,
                            int64_t side[2][2])
{
    int64_t value[4];
    int count = iso_config_counts(config, key, value, 4);
    if (count == 3)
        iso_config_refuse(config, key, "a number, two, or two pairs");
    if (count == 0 || count == 3)
        value[0] = default_value;
    for (int i = 0; i < 4; i++)
        side[i / 2][i % 2] = value[count == 4 ? i : count == 2 ? i / 2 : 0];
}

/* [[top, bottom], [left, right]], from the members of options */
static void sides_of(const int64_t given[2][2], int64_t both, int64_t default_value, int64_t side[2][2])
{
    bool any = false;
    for (int i = 0; i < 4; i++)
        any |= given[i / 2][i % 2] != 0;
    for (int i = 0; i < 4; i++) {
        int64_t value = any ? given[i / 2][i % 2] : both ? both : default_value;
        side[i / 2][i % 2] = value == ISO_ZERO ? 0 : value;
    }
}

static bool padding2d_check(const iso_layer *layer, iso_tensor *x, const char *what, int64_t side[2][2])
{
    if (!iso_layer_check_rank(layer, x, 4, "[batch, height, width, channels]"))
        return false;
    for (int i = 0; i < 4; i++)
        if (side[i / 2][i % 2] < 0 || side[i / 2][i % 2] > INT32_MAX) {
            iso_layer_fail(layer, "%s of a side is %lld, it must be a number of rows or columns", what,
                           (long long)side[i / 2][i % 2]);
            return false;
        }
    return true;
}

static void padding2d_note(iso_layer *layer, const char *key, int64_t side[2][2])
{
    iso_layer sides = iso_layer_note_list(layer, key);
    for (int d = 0; d < 2; d++)
        iso_layer_note_integers(&sides, NULL, side[d], 2);
    iso_layer_note_text(layer, "data_format", "channels_last");
}

static iso_tensor *pad(iso_tensor *x, int64_t side[2][2], const char *name)
{
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &x, "ZeroPadding2D", "zero_padding2d", name) ||
        !padding2d_check(&layer, x, "padding", side))
        return iso_layer_broken(x);
    padding2d_note(&layer, "padding", side);
    return iso_layer_end(&layer, iso_pad(x, (const int64_t[]){side[0][0], side[1][0], 0},
                                         (const int64_t[]){side[0][1], side[1][1], 0}));
}

static iso_tensor *crop(iso_tensor *x, int64_t side[2][2], const char *name)
{
    iso_layer layer;
    if (!iso_layer_begin_any(&layer, &x, "Cropping2D", "cropping2d", name) ||
        !padding2d_check(&layer, x, "cropping", side))
        return iso_layer_broken(x);
    int64_t size[3] = {0, 0, -1};
    for (int i = 0; i < 2; i++) {
        size[i] = iso_tensor_shape(x)->dim[i + 1] - side[i][0] - side[i][1];
        if (size[i] <= 0)
            return iso_layer_fail(&layer, "cropping removes %lld and %lld of %lld elements, so none remains",
                                  (long long)side[i][0], (long long)side[i][1],
                                  (long long)iso_tensor_shape(x)->dim[i + 1]);
    }
    padding2d_note(&layer, "cropping", side);
    return iso_layer_end(&layer, iso_slice(x, (const int64_t[]){side[0][0], side[1][0], 0}, size));
}

iso_tensor *iso_zero_padding2d_with(const iso_zero_padding2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_zero_padding2d_options, options, given, size);
    int64_t side[2][2];
    if (!options.x)
        return iso_layer_broken(options.x);
    sides_of((const int64_t(*)[2])options.sides, options.padding, 1, side);
    return pad(options.x, side, options.name);
}

iso_tensor *iso_cropping2d_with(const iso_cropping2d_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_cropping2d_options, options, given, size);
    int64_t side[2][2];
    if (!options.x)
        return iso_layer_broken(options.x);
    sides_of((const int64_t(*)[2])options.sides, options.cropping, 0, side);
    return crop(options.x, side, options.name);
}

static iso_tensor *build_padding(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t side[2][2];
    (void)count;
    sides_of_config(config, "padding", 1, side);
    return pad(x[0], side, config->name);
}

static iso_tensor *build_cropping(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    int64_t side[2][2];
    (void)count;
    sides_of_config(config, "cropping", 0, side);
    return crop(x[0], side, config->name);
}

const iso_layer_type iso_layer_zero_padding2d = {.keras = "ZeroPadding2D", .build = build_padding};
const iso_layer_type iso_layer_cropping2d = {.keras = "Cropping2D", .build = build_cropping};
