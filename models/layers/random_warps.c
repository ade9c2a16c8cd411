/* RandomFlip, RandomTranslation, RandomRotation, RandomZoom and RandomShear: each image is moved by a map of its
 * own. */
#include <math.h>

#include "models/layers/augmentation_impl.h"
#include "models/layers/list.h"

static const iso_random_range all = {0, 1};

static const char *const fill_modes[] = {"reflect", "wrap", "constant", "nearest", NULL};
static const char *const interpolations[] = {"bilinear", "nearest", NULL};

/* An image's map (iso_warp_op) as a sum of six numbers times each drawn number, and six numbers. drawn: [batch, 1]
 * each, or NULL. */
static iso_tensor *map_of(const iso_layer *layer, iso_tensor *const drawn[2], const double by[2][6],
                          const double fixed[6])
{
    iso_tensor *map = NULL;
    for (int i = 0; i < 2 && drawn[i]; i++) {
        const iso_dtype type = iso_tensor_dtype(drawn[i]);
        iso_tensor *part = iso_multiply(drawn[i], iso_constant(layer->graph, type, ISO_SHAPE(6), by[i]));
        map = map ? iso_add(map, part) : part;
    }
    return iso_add(map, iso_constant(layer->graph, iso_tensor_dtype(map), ISO_SHAPE(6), fixed));
}

/* The middle of the rows and of the columns. */
static void middle_of(iso_tensor *x, double *row, double *column)
{
    *row = (double)(iso_tensor_shape(x)->dim[1] - 1) / 2;
    *column = (double)(iso_tensor_shape(x)->dim[2] - 1) / 2;
}

/* ---- RandomFlip ---- */

static const char *const flip_modes[] = {"horizontal_and_vertical", "horizontal", "vertical", NULL};

/* 1 for half of the images, else 0: Keras flips where a number is up to 1/2. */
static iso_tensor *draw_half(const iso_layer *layer, iso_tensor *x, const char *what)
{
    iso_tensor *u = iso_random_draw(layer, x, true, what, all, ISO_UNIFORM_VALUE);
    return iso_cast(iso_less_equal(u, iso_number(layer->graph, iso_tensor_dtype(u), 0.5)),
                    iso_tensor_dtype(u));
}

iso_tensor *iso_random_flip_with(const iso_random_flip_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_random_flip_options, options, given, size);
    iso_layer layer;
    double row, column;
    if (!iso_random_begin(&layer, &options.x, "RandomFlip", "random_flip", options.name))
        return iso_layer_broken(options.x);
    if ((unsigned)options.mode > ISO_FLIP_VERTICAL)
        return iso_layer_fail(&layer, "there is no mode %d", (int)options.mode);
    iso_layer_note_text(&layer, "mode", flip_modes[options.mode]);
    middle_of(options.x, &row, &column);
    const double h = options.mode != ISO_FLIP_VERTICAL, v = options.mode != ISO_FLIP_HORIZONTAL;
    const double by[2][6] = {{-2 * h, 0, 2 * h * column, 0, -2 * v, 2 * v * row}};
    iso_tensor *map = map_of(&layer, (iso_tensor *const[2]){draw_half(&layer, options.x, "flips")}, by,
                             (const double[6]){1, 0, 0, 0, 1, 0});
    const iso_warp_form form = {.fill_mode = ISO_FILL_NEAREST, .nearest = true};
    return iso_random_end(&layer, iso_warp_op(options.x, map, &form), options.x);
}

static iso_tensor *random_flip_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    (void)count;
    return iso_random_flip(x[0], (iso_flip_mode)iso_config_choice(config, "mode", flip_modes),
                           .name = config->name);
}

const iso_layer_type iso_layer_random_flip = {.keras = "RandomFlip", .build = random_flip_build};

/* ---- what the others have in common: fill_mode, fill_value, interpolation ---- */

static bool form_fits(const iso_layer *layer, const iso_warp_form *form)
{
    if ((unsigned)form->fill_mode > ISO_FILL_NEAREST)
        iso_layer_fail(layer, "there is no fill_mode %d", (int)form->fill_mode);
    else if (!isfinite(form->fill_value))
        iso_layer_fail(layer, "fill_value is %g, it must be finite", form->fill_value);
    else
        return true;
    return false;
}

static iso_tensor *end_warp(iso_layer *layer, iso_tensor *x, iso_tensor *map, const iso_warp_form *form)
{
    iso_layer_note_text(layer, "fill_mode", fill_modes[form->fill_mode]);
    iso_layer_note_text(layer, "interpolation", interpolations[form->nearest]);
    iso_layer_note_real(layer, "fill_value", form->fill_value);
    return iso_random_end(layer, iso_warp_op(x, map, form), x);
}

#define WARP_FORM(options)                                                                                   \
    {                                                                                                        \
        .fill_mode = (options).fill_mode, .fill_value = (options).fill_value, .nearest = (options).nearest   \
    }
#define CONFIG_WARP(options, config)                                                                         \
    ((options)->fill_mode = (iso_fill_mode)iso_config_choice(config, "fill_mode", fill_modes),               \
     (options)->nearest = iso_config_choice(config, "interpolation", interpolations) == 1,                   \
     (options)->fill_value = iso_config_number(config, "fill_value", 0))

/* ---- RandomRotation ---- */

iso_tensor *iso_random_rotation_with(const iso_random_rotation_options *given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_random_rotation_options, options, given, size);
    iso_layer layer;
    double row, column;
    const iso_random_range turns = iso_random_range_of(options.factor, 0, 0);
    const iso_warp_form form = WARP_FORM(options);
    if (!iso_random_begin(&layer, &options.x, "RandomRotation", "random_rotation", options.name) ||
        !iso_random_range_fits(&layer, "factor", turns, -1, 1) || !form_fits(&layer, &form))
        return iso_layer_broken(options.x);
    iso_random_note(&layer, "factor", turns);
    middle_of(options.x, &row, &column);
    iso_tensor *cosine = iso_random_draw(&layer, options.x, true, "angle", turns, ISO_UNIFORM_COSINE);
    iso_tensor *sine = iso_random_draw(&layer, options.x, true, "angle", turns, ISO_UNIFORM_SINE);
    const double by[2][6] = {{1, 0, -column, 0, 1, -row}, {0, -1, row, 1, 0, -column}};
    iso_tensor *map =
        map_of(&layer, (iso_tensor *const[2]){cosine, sine}, by, (const double[6]){0, 0, column, 0, 0, row});
    return end_warp(&layer, options.x, map, &form);
}

static iso_tensor *random_rotation_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_random_rotation_options options = {.x = x[0], .name = config->name};
    (void)count;
    iso_config_range(config, "factor", false, options.factor);
    CONFIG_WARP(&options, config);
    return iso_random_rotation_with(&options, sizeof options);
}

const iso_layer_type iso_layer_random_rotation = {.keras = "RandomRotation", .build = random_rotation_build};

/* ---- RandomTranslation, RandomZoom, RandomShear ---- */

/* What tells them apart. */
typedef struct move_kind {
    const char *type, *base, *height, *width; /* the class, the automatic name, the names of the ranges */
    double least;                             /* of the limits; the largest is 1 */
    bool folded; /* a range -f to f is Keras's number f; others are not negative */
} move_kind;

/* A layer while it is being built. */
typedef struct move {
    iso_layer layer;
    iso_random_move_options options;
    iso_random_range height, width;
    iso_warp_form form;
} move;

static bool is_folded(const move_kind *kind, iso_random_range range)
{
    return kind->folded && range.low == -range.high;
}

static bool move_range_fits(const iso_layer *layer, const move_kind *kind, const char *what,
                            iso_random_range range)
{
    return iso_random_range_fits(layer, what, range, is_folded(kind, range) ? -1 : kind->least, 1);
}

static void note_move(iso_layer *layer, const move_kind *kind, const char *key, iso_random_range range)
{
    if (is_folded(kind, range))
        iso_layer_note_real(layer, key, range.high);
    else
        iso_random_note(layer, key, range);
}

static bool begin_move(move *m, const move_kind *kind, const iso_random_move_options *given, size_t size)
{
    iso_options_copy(&m->options, sizeof m->options, given, size);
    m->height = iso_random_range_of(m->options.height_factor, 0, 0);
    m->width = iso_random_range_of(m->options.width_factor, 0, 0);
    m->form = (iso_warp_form)WARP_FORM(m->options);
    if (!iso_random_begin(&m->layer, &m->options.x, kind->type, kind->base, m->options.name) ||
        !move_range_fits(&m->layer, kind, kind->height, m->height) ||
        !move_range_fits(&m->layer, kind, kind->width, m->width) || !form_fits(&m->layer, &m->form))
        return false;
    note_move(&m->layer, kind, kind->height, m->height);
    return true;
}

static iso_tensor *draw_move(const move *m, const char *what, double shift, iso_random_range range)
{
    return iso_random_draw(&m->layer, m->options.x, true, what,
                           (iso_random_range){range.low + shift, range.high + shift}, ISO_UNIFORM_VALUE);
}

static iso_tensor *end_move(move *m, iso_tensor *horizontal, iso_tensor *vertical, const double by[2][6],
                            const double fixed[6])
{
    iso_tensor *map = map_of(&m->layer, (iso_tensor *const[2]){horizontal, vertical}, by, fixed);
    return end_warp(&m->layer, m->options.x, map, &m->form);
}

static void config_move(const iso_layer_config *config, const move_kind *kind, iso_tensor *x,
                        iso_random_move_options *options)
{
    *options = (iso_random_move_options){.x = x, .name = config->name};
    iso_config_range(config, kind->height, false, options->height_factor);
    iso_config_range(config, kind->width, false, options->width_factor);
    CONFIG_WARP(options, config);
}

#define MOVE_LAYER(name, keras_name)                                                                         \
    static iso_tensor *name##_build(const iso_layer_config *config, iso_tensor *const *x, int count)         \
    {                                                                                                        \
        iso_random_move_options options;                                                                     \
        (void)count;                                                                                         \
        config_move(config, &name, x[0], &options);                                                          \
        return iso_##name##_with(&options, sizeof options);                                                  \
    }                                                                                                        \
    const iso_layer_type iso_layer_##name = {.keras = keras_name, .build = name##_build};

static const move_kind random_translation = {
    "RandomTranslation", "random_translation", "height_factor", "width_factor", -1, false};

iso_tensor *iso_random_translation_with(const iso_random_move_options *options, size_t size)
{
    move m;
    if (!begin_move(&m, &random_translation, options, size))
        return iso_layer_broken(m.options.x);
    const iso_shape *x = iso_tensor_shape(m.options.x);
    const double by[2][6] = {{0, 0, -(double)x->dim[2]}, {0, 0, 0, 0, 0, -(double)x->dim[1]}};
    iso_random_note(&m.layer, "width_factor", m.width);
    return end_move(&m, draw_move(&m, "width", 0, m.width), draw_move(&m, "height", 0, m.height), by,
                    (const double[6]){1, 0, 0, 0, 1, 0});
}
MOVE_LAYER(random_translation, "RandomTranslation")

static const move_kind random_zoom = {"RandomZoom", "random_zoom", "height_factor", "width_factor",
                                      -1,           false};

iso_tensor *iso_random_zoom_with(const iso_random_move_options *options, size_t size)
{
    move m;
    double row, column;
    if (!begin_move(&m, &random_zoom, options, size))
        return iso_layer_broken(m.options.x);
    if (m.height.low == -1 || m.width.low == -1)
        return iso_layer_fail(&m.layer,
                              "height_factor is from %g and width_factor from %g; both must be above -1",
                              m.height.low, m.width.low);
    const double *width = m.options.width_factor;
    const bool alike = width[0] == 0 && width[1] == 0;
    if (alike)
        iso_layer_note_none(&m.layer, "width_factor");
    else
        iso_random_note(&m.layer, "width_factor", m.width);
    middle_of(m.options.x, &row, &column);
    const double by[2][6] = {{1, 0, -column}, {0, 0, 0, 0, 1, -row}};
    iso_tensor *vertical = draw_move(&m, "height", 1, m.height);
    return end_move(&m, alike ? vertical : draw_move(&m, "width", 1, m.width), vertical, by,
                    (const double[6]){0, 0, column, 0, 0, row});
}
MOVE_LAYER(random_zoom, "RandomZoom")

static const move_kind random_shear = {"RandomShear", "random_shear", "y_factor", "x_factor", 0, true};

iso_tensor *iso_random_shear_with(const iso_random_move_options *options, size_t size)
{
    move m;
    if (!begin_move(&m, &random_shear, options, size))
        return iso_layer_broken(m.options.x);
    note_move(&m.layer, &random_shear, "x_factor", m.width);
    const double by[2][6] = {{0, 1}, {0, 0, 0, 1}};
    iso_tensor *sign = iso_affine(draw_half(&m.layer, m.options.x, "invert"), 2, -1);
    return end_move(&m, iso_multiply(draw_move(&m, "width", 0, m.width), sign),
                    iso_multiply(draw_move(&m, "height", 0, m.height), sign), by,
                    (const double[6]){1, 0, 0, 0, 1, 0});
}
MOVE_LAYER(random_shear, "RandomShear")
