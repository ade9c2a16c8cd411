/* ZeroPadding1D, 2D, 3D and Cropping1D, 2D, 3D: add zeros around sequences, images and volumes, remove their outer
 * parts. */
#include "models/layers/layer_impl.h"
#include "models/layers/list.h"

enum { MOST_DIMS = 3 };

/* The kinds of these layers. */
typedef struct padding_kind {
    const char *type, *base, *key; /* key: Keras's argument */
    int dims;                      /* between the batch and the channels */
    int64_t default_value;
} padding_kind;

static const padding_kind pad1d = {"ZeroPadding1D", "zero_padding1d", "padding", 1, 1};
static const padding_kind pad2d = {"ZeroPadding2D", "zero_padding2d", "padding", 2, 1};
static const padding_kind pad3d = {"ZeroPadding3D", "zero_padding3d", "padding", 3, 1};
static const padding_kind crop1d = {"Cropping1D", "cropping1d", "cropping", 1, 1};
static const padding_kind crop2d = {"Cropping2D", "cropping2d", "cropping", 2, 0};
static const padding_kind crop3d = {"Cropping3D", "cropping3d", "cropping", 3, 1};

/* By the number of dimensions between the batch and the channels. */
static const char *const forms[] = {NULL, "[batch, steps, channels]", "[batch, height, width, channels]",
                                    "[batch, depth, height, width, channels]"};
static const char *const supported_sides[] = {NULL, "a number, or two", "a number, two, or two pairs",
                                              "a number, three, or three pairs"};

/* The sides in a config: one number for all, one for each dimension, or two for each; anything else is refused. */
static void sides_of_config(const iso_layer_config *config, const padding_kind *kind,
                            int64_t side[MOST_DIMS][2])
{
    int64_t value[2 * MOST_DIMS];
    const int dims = kind->dims;
    int count = iso_config_counts(config, kind->key, value, 2 * dims);
    bool fits = count == 0 || count == 1 || count == dims || count == 2 * dims;
    if (!fits)
        iso_config_refuse(config, kind->key, supported_sides[dims]);
    if (!fits || count == 0)
        value[0] = kind->default_value;
    for (int i = 0; i < 2 * dims; i++)
        side[i / 2][i % 2] = value[!fits ? 0 : count == 2 * dims ? i : count == dims ? i / 2 : 0];
}

/* The sides from the members of options. */
static void sides_of(const padding_kind *kind, const int64_t (*given)[2], int64_t all,
                     int64_t side[MOST_DIMS][2])
{
    bool any = false;
    for (int i = 0; i < 2 * kind->dims; i++)
        any |= given[i / 2][i % 2] != 0;
    for (int i = 0; i < 2 * kind->dims; i++) {
        int64_t value = any ? given[i / 2][i % 2] : all ? all : kind->default_value;
        side[i / 2][i % 2] = value == ISO_ZERO ? 0 : value;
    }
}

static bool padding_begin(iso_layer *layer, iso_tensor **x, const padding_kind *kind, const char *name,
                          int64_t side[MOST_DIMS][2])
{
    if (!iso_layer_begin_any(layer, x, kind->type, kind->base, name) ||
        !iso_layer_check_rank(layer, *x, kind->dims + 2, forms[kind->dims]))
        return false;
    for (int i = 0; i < 2 * kind->dims; i++)
        if (side[i / 2][i % 2] < 0 || side[i / 2][i % 2] > INT32_MAX) {
            iso_layer_fail(layer, "%s of a side is %lld, it must be a number of rows or columns", kind->key,
                           (long long)side[i / 2][i % 2]);
            return false;
        }
    return true;
}

static void padding_note(iso_layer *layer, const padding_kind *kind, int64_t side[MOST_DIMS][2])
{
    iso_layer sides = *layer;
    if (kind->dims == 1)
        iso_layer_note_integers(layer, kind->key, side[0], 2);
    else
        sides = iso_layer_note_list(layer, kind->key);
    for (int d = 0; kind->dims > 1 && d < kind->dims; d++)
        iso_layer_note_integers(&sides, NULL, side[d], 2);
    if (kind != &crop1d) /* Keras's Cropping1D has no such argument */
        iso_layer_note_text(layer, "data_format", "channels_last");
}

static iso_tensor *pad(iso_tensor *x, const padding_kind *kind, int64_t side[MOST_DIMS][2], const char *name)
{
    iso_layer layer;
    int64_t before[MOST_DIMS + 1] = {0}, after[MOST_DIMS + 1] = {0}; /* and the channels */
    if (!padding_begin(&layer, &x, kind, name, side))
        return iso_layer_broken(x);
    for (int d = 0; d < kind->dims; d++) {
        before[d] = side[d][0];
        after[d] = side[d][1];
    }
    padding_note(&layer, kind, side);
    return iso_layer_end(&layer, iso_pad(x, before, after));
}

static iso_tensor *crop(iso_tensor *x, const padding_kind *kind, int64_t side[MOST_DIMS][2], const char *name)
{
    iso_layer layer;
    int64_t begin[MOST_DIMS + 1] = {0}, size[MOST_DIMS + 1];
    if (!padding_begin(&layer, &x, kind, name, side))
        return iso_layer_broken(x);
    for (int d = 0; d < kind->dims; d++) {
        int64_t extent = iso_tensor_shape(x)->dim[d + 1];
        begin[d] = side[d][0];
        size[d] = extent - side[d][0] - side[d][1];
        if (size[d] <= 0)
            return iso_layer_fail(&layer, "cropping removes %lld and %lld of %lld elements, so none remains",
                                  (long long)side[d][0], (long long)side[d][1], (long long)extent);
    }
    size[kind->dims] = -1;
    padding_note(&layer, kind, side);
    return iso_layer_end(&layer, iso_slice(x, begin, size));
}

/* The public functions, and those that build the layers from a config. ALL: the member for all sides. */
#define PADDING_LAYER(LAYER, KIND, ALL, BUILD)                                                               \
    iso_tensor *iso_##LAYER##_with(const iso_##LAYER##_options *given, size_t size)                          \
    {                                                                                                        \
        ISO_LAYER_OPTIONS(iso_##LAYER##_options, options, given, size);                                      \
        int64_t side[MOST_DIMS][2];                                                                          \
        if (!options.x)                                                                                      \
            return iso_layer_broken(options.x);                                                              \
        sides_of(&KIND, (const int64_t(*)[2])options.sides, options.ALL, side);                              \
        return BUILD(options.x, &KIND, side, options.name);                                                  \
    }                                                                                                        \
    static iso_tensor *build_##KIND(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        int64_t side[MOST_DIMS][2];                                                                          \
        (void)count;                                                                                         \
        sides_of_config(config, &KIND, side);                                                                \
        return BUILD(x[0], &KIND, side, config->name);                                                       \
    }
PADDING_LAYER(zero_padding1d, pad1d, padding, pad)
PADDING_LAYER(zero_padding2d, pad2d, padding, pad)
PADDING_LAYER(zero_padding3d, pad3d, padding, pad)
PADDING_LAYER(cropping1d, crop1d, cropping, crop)
PADDING_LAYER(cropping2d, crop2d, cropping, crop)
PADDING_LAYER(cropping3d, crop3d, cropping, crop)

const iso_layer_type iso_layer_zero_padding1d = {.keras = "ZeroPadding1D", .build = build_pad1d};
const iso_layer_type iso_layer_zero_padding2d = {.keras = "ZeroPadding2D", .build = build_pad2d};
const iso_layer_type iso_layer_zero_padding3d = {.keras = "ZeroPadding3D", .build = build_pad3d};
const iso_layer_type iso_layer_cropping1d = {.keras = "Cropping1D", .build = build_crop1d};
const iso_layer_type iso_layer_cropping2d = {.keras = "Cropping2D", .build = build_crop2d};
const iso_layer_type iso_layer_cropping3d = {.keras = "Cropping3D", .build = build_crop3d};
