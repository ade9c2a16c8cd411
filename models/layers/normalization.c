/* Normalization: by a mean and a variance that are given, or that Keras's adapt() found. */
#include <math.h>
#include <stdio.h>

#include "models/layers/layer_impl.h"
#include "models/layers/list.h"
#include "runtime/base/memory.h"

static const double LEAST_DEVIATION = 1e-7; /* keras.backend.epsilon() */

/* The dimensions of x with a mean of their own for each index, as bits; false, and an error, if some are wrong. */
static bool find_axes(const iso_layer *layer, const iso_normalization_options *options, uint32_t *axes)
{
    static const int last = -1;
    bool given = options->axis_count != 0;
    *axes = 0;
    if (options->no_axis && !given)
        return true;
    if (options->no_axis || options->axis_count < 0 || options->axis_count > ISO_MAX_RANK)
        iso_layer_fail(layer, "axis_count is %d, it must be at most %d%s", options->axis_count, ISO_MAX_RANK,
                       options->no_axis ? ", and 0 with no_axis" : "");
    else
        *axes =
            iso_layer_axes(layer, options->x, given ? options->axis : &last, given ? options->axis_count : 1);
    return *axes != 0;
}

/* The shape of the dimensions `axes` of x, and that shape with dimensions of one element for the others, except for
 * those before the first, so that it broadcasts to x. */
static iso_shape kept_dims(iso_tensor *x, uint32_t axes, iso_shape *wide)
{
    const iso_shape *shape = iso_tensor_shape(x);
    iso_shape kept = {.rank = 0};
    *wide = (iso_shape){.rank = 0};
    for (int d = 0; d < shape->rank; d++) {
        bool keep = axes >> d & 1;
        if (keep)
            kept.dim[kept.rank++] = shape->dim[d];
        if (kept.rank > 0)
            wide->dim[wide->rank++] = keep ? shape->dim[d] : 1;
    }
    return kept;
}

/* ---- given numbers ---- */

static bool check_values(const iso_layer *layer, const char *what, const double *values, int64_t count,
                         double least)
{
    for (int64_t i = 0; i < count; i++)
        if (!(values[i] >= least) || isinf(values[i])) {
            iso_layer_fail(layer, "element %lld of its %s is %g, it must be finite%s", (long long)i, what,
                           values[i], least == 0 ? " and not negative" : "");
            return false;
        }
    return true;
}

/* kept: the shape to which they must broadcast. */
static bool check_given(const iso_layer *layer, const iso_normalization_options *options,
                        const iso_shape *kept)
{
    char have[160], want[160];
    const iso_shape *shape = &options->mean_shape;
    int64_t count = 0;
    if (!options->mean || !options->variance) {
        iso_layer_fail(layer, "it has a %s and no %s", options->mean ? "mean" : "variance",
                       options->mean ? "variance" : "mean");
        return false;
    }
    bool fits = shape->rank >= 0 && shape->rank <= kept->rank;
    for (int i = 1; fits && i <= shape->rank; i++) {
        int64_t size = shape->dim[shape->rank - i];
        fits = size == 1 || size == kept->dim[kept->rank - i];
    }
    if (!fits) {
        iso_layer_fail(layer, "its mean has the shape %s, which does not broadcast to that of its axis, %s",
                       iso_shape_text(shape, have, sizeof have), iso_shape_text(kept, want, sizeof want));
        return false;
    }
    return iso_shape_count(shape, &count) == ISO_OK &&
           check_values(layer, "mean", options->mean, count, -HUGE_VAL) &&
           check_values(layer, "variance", options->variance, count, 0);
}

/* The numbers as a constant that broadcasts to x: their dimensions are the last ones of `axes`. */
static iso_tensor *given(const iso_layer *layer, const double *values, const iso_shape *shape, uint32_t axes)
{
    iso_shape wide = {.rank = iso_tensor_shape(layer->single)->rank};
    int from = shape->rank;
    for (int d = wide.rank - 1; d >= 0; d--)
        wide.dim[d] = axes >> d & 1 && from > 0 ? shape->dim[--from] : 1;
    if (shape->rank == 0)
        wide.rank = 0;
    return iso_layer_cast(layer, iso_constant(layer->graph, iso_graph_precision(layer->graph), wide, values));
}

/* Records them as nested lists. */
static void note_values(iso_layer *to, const char *key, const double **next, const iso_shape *shape, int dim)
{
    if (dim == shape->rank) {
        iso_layer_note_real(to, key, *(*next)++);
        return;
    }
    iso_layer list = iso_layer_note_list(to, key);
    for (int64_t i = 0; i < shape->dim[dim]; i++)
        note_values(&list, NULL, next, shape, dim + 1);
}

static void note_statistic(iso_layer *layer, const char *key, const double *values, const iso_shape *shape)
{
    if (values)
        note_values(layer, key, &values, shape, 0);
    else
        iso_layer_note_none(layer, key);
}

/* ---- variables ---- */

static iso_tensor *adapted(const iso_layer *layer, const char *what, const char *layout,
                           iso_initializer_kind first, iso_shape kept, iso_shape wide)
{
    iso_variable *variable =
        iso_layer_variable(layer, what, kept, (iso_initializer){.kind = ISO_INIT_DEFAULT}, first, false);
    if (layout)
        iso_variable_set_layout(variable, layout);
    iso_tensor *value = iso_variable_value(variable);
    return iso_layer_cast(layer, iso_shape_equal(&kept, &wide) ? value : iso_reshape_to(value, wide));
}

/* Keras's files have it, always 0 today. */
static void make_count(const iso_layer *layer)
{
    iso_text path = {0};
    iso_text_add(&path, "%s/count", layer->name);
    iso_variable_create(layer->graph, iso_layer_text(layer, &path), ISO_I64, ISO_SCALAR,
                        (iso_initializer){.kind = ISO_INIT_ZEROS}, false);
    iso_text_free(&path);
}

/* ---- the layer ---- */

static iso_tensor *normalize(iso_tensor *x, iso_tensor *mean, iso_tensor *variance, bool invert)
{
    iso_tensor *least = iso_number(iso_tensor_graph(x), iso_tensor_dtype(variance), LEAST_DEVIATION);
    iso_tensor *deviation = iso_maximum(iso_sqrt(variance), least);
    return invert ? iso_add(iso_multiply(x, deviation), mean) : iso_divide(iso_subtract(x, mean), deviation);
}

iso_tensor *iso_normalization_with(const iso_normalization_options *options_given, size_t size)
{
    ISO_LAYER_OPTIONS(iso_normalization_options, options, options_given, size);
    iso_layer layer;
    uint32_t axes;
    iso_shape wide;
    iso_tensor *mean, *variance;
    if (!iso_layer_begin(&layer, &options.x, "Normalization", "normalization", options.name) ||
        !find_axes(&layer, &options, &axes))
        return iso_layer_broken(options.x);
    iso_shape kept = kept_dims(options.x, axes, &wide);
    if (options.mean || options.variance) {
        if (!check_given(&layer, &options, &kept))
            return iso_layer_broken(options.x);
        mean = given(&layer, options.mean, &options.mean_shape, axes);
        variance = given(&layer, options.variance, &options.mean_shape, axes);
        iso_layer_set_layout(&layer, "mean", options.mean_layout); /* an error: it has no such variables */
        iso_layer_set_layout(&layer, "variance", options.variance_layout);
    } else {
        mean = adapted(&layer, "mean", options.mean_layout, ISO_INIT_ZEROS, kept, wide);
        variance = adapted(&layer, "variance", options.variance_layout, ISO_INIT_ONES, kept, wide);
        make_count(&layer);
    }
    iso_layer_note_axes(&layer, "axis", axes, options.axis, options.axis_count);
    iso_layer_note_flag(&layer, "invert", options.invert);
    note_statistic(&layer, "mean", options.mean, &options.mean_shape);
    note_statistic(&layer, "variance", options.variance, &options.mean_shape);
    return iso_layer_end(&layer, normalize(options.x, mean, variance, options.invert));
}

static iso_tensor *normalization_build(const iso_layer_config *config, iso_tensor *const *x, int count)
{
    iso_shape shape = {0};
    int64_t axis[ISO_MAX_RANK];
    iso_graph *graph = iso_tensor_graph(x[0]);
    iso_normalization_options options = {
        .x = x[0], .name = config->name, .invert = iso_config_flag(config, "invert", false)};
    (void)count;
    options.axis_count = iso_config_counts(config, "axis", axis, ISO_MAX_RANK);
    options.no_axis = options.axis_count == 0 && iso_config_given(config, "axis");
    for (int i = 0; i < options.axis_count; i++)
        options.axis[i] = (int)axis[i];
    double *mean = iso_config_array(config, graph, "mean", &options.mean_shape),
           *variance = iso_config_array(config, graph, "variance", &shape);
    if (mean && variance && !iso_shape_equal(&options.mean_shape, &shape))
        iso_config_refuse(config, "variance", "numbers in the shape of mean");
    options.mean = mean;
    options.variance = variance;
    iso_tensor *y = iso_normalization_with(&options, sizeof options);
    iso_free(mean);
    iso_free(variance);
    return y;
}

const iso_layer_type iso_layer_normalization = {
    .keras = "Normalization", .build = normalization_build, .masks = ISO_MASKS_PASSED};
