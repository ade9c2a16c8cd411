/* Shared by the layers that change images at random. */
#include "models/layers/augmentation_impl.h"

#include <math.h>

iso_random_range iso_random_range_of(const double given[2], double low, double high)
{
    if (given[0] == 0 && given[1] == 0)
        return (iso_random_range){low, high};
    return (iso_random_range){iso_option_number(given[0], 0), iso_option_number(given[1], 0)};
}

bool iso_random_range_fits(const iso_layer *layer, const char *what, iso_random_range range, double least,
                           double largest)
{
    if (range.low >= least && range.high <= largest && range.low <= range.high)
        return true;
    iso_layer_fail(layer,
                   "%s is from %g to %g; its limits must be from %g to %g, the first not above the second",
                   what, range.low, range.high, least, largest);
    return false;
}

bool iso_random_values_fit(const iso_layer *layer, iso_random_range values)
{
    if (isfinite(values.low) && isfinite(values.high) && values.low <= values.high)
        return true;
    iso_layer_fail(layer,
                   "value_range is from %g to %g; the first must not be above the second, and both finite",
                   values.low, values.high);
    return false;
}

iso_tensor *iso_random_draw(const iso_layer *layer, iso_tensor *x, bool each, const char *what,
                            iso_random_range range, iso_uniform_function function)
{
    const iso_dtype type = iso_graph_precision(layer->graph) == ISO_F64 ? ISO_F64 : ISO_F32;
    const iso_shape shape = ISO_SHAPE(each ? iso_tensor_shape(x)->dim[0] : 1, 1);
    iso_tensor *zeros = iso_broadcast_to(iso_number(layer->graph, type, 0), shape);
    iso_text path = {0};
    iso_layer_random_path(layer, &path);
    iso_text_add(&path, "/%s", what);
    iso_tensor *drawn = iso_uniform_op(zeros, range.low, range.high, function, iso_layer_text(layer, &path));
    iso_text_free(&path);
    return drawn;
}

iso_tensor *iso_random_for_pixels(iso_tensor *drawn)
{
    if (!iso_tensor_good(drawn))
        return drawn;
    return iso_reshape_to(drawn, ISO_SHAPE(iso_tensor_shape(drawn)->dim[0], 1, 1, 1));
}

iso_tensor *iso_random_clip(iso_tensor *x, iso_random_range limits)
{
    iso_graph *graph = iso_tensor_graph(x);
    const iso_dtype type = iso_tensor_dtype(x);
    return iso_minimum(iso_maximum(x, iso_number(graph, type, limits.low)),
                       iso_number(graph, type, limits.high));
}

bool iso_random_begin(iso_layer *layer, iso_tensor **x, const char *type, const char *base, const char *name)
{
    return iso_layer_begin(layer, x, type, base, name) &&
           iso_layer_check_rank(layer, *x, 4, "[batch, height, width, channels]");
}

void iso_random_note(iso_layer *layer, const char *key, iso_random_range range)
{
    iso_layer list = iso_layer_note_list(layer, key);
    iso_layer_note_real(&list, NULL, range.low);
    iso_layer_note_real(&list, NULL, range.high);
}

iso_tensor *iso_random_end(iso_layer *layer, iso_tensor *training, iso_tensor *inference)
{
    iso_layer_note_text(layer, "data_format", "channels_last");
    iso_layer_note_none(layer, "seed");
    return iso_layer_end(layer, iso_by_mode(iso_layer_cast(layer, training), inference));
}

void iso_config_range(const iso_layer_config *config, const char *key, bool from_zero, double range[2])
{
    double given[2];
    const int count = config->numbers(config, key, given, 2);
    range[0] = range[1] = 0;
    if (count == 0)
        return;
    if (count > 2 || isnan(given[0]) || isnan(given[count - 1])) {
        iso_config_refuse(config, key, "a number or two");
        return;
    }
    if (count == 1) {
        given[1] = fabs(given[0]);
        given[0] = from_zero ? 0 : -given[1];
    }
    range[0] = fmin(given[0], given[1]);
    range[1] = fmax(given[0], given[1]);
    for (int i = 0; i < 2; i++)
        if (range[i] == 0)
            range[i] = ISO_ZERO;
}
