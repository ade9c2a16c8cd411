/* Moves dimensions to the end, and back, for layers over dimensions other than the last. */
#include "models/layers/layer_impl.h"

uint32_t iso_layer_axes(const iso_layer *layer, iso_tensor *x, const int *axis, int count)
{
    char text[160];
    const iso_shape *shape = iso_tensor_shape(x);
    uint32_t axes = 0;
    for (int i = 0; i < count; i++) {
        int from_front = axis[i] < 0 ? axis[i] + shape->rank : axis[i];
        if (from_front < 1 || from_front >= shape->rank || axes >> from_front & 1) {
            iso_layer_fail(
                layer, "axis %d is out of range, is the batch or is given twice; its input has the shape %s",
                axis[i], iso_shape_text(shape, text, sizeof text));
            return 0;
        }
        axes |= 1u << from_front;
    }
    return axes;
}

iso_tensor *iso_layer_axes_last(iso_tensor *x, uint32_t axes, int back[ISO_MAX_RANK])
{
    int rank = iso_tensor_shape(x)->rank, to = 0, permutation[ISO_MAX_RANK];
    bool moved = false;
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < rank; d++)
            if ((int)(axes >> d & 1) == last)
                permutation[to++] = d;
    for (int d = 0; d < rank; d++) {
        back[permutation[d]] = d;
        moved |= permutation[d] != d;
    }
    return moved ? iso_transpose(x, permutation) : x;
}

iso_tensor *iso_layer_axes_back(iso_tensor *x, const int back[ISO_MAX_RANK])
{
    bool moved = false;
    for (int d = 0; d < iso_tensor_shape(x)->rank; d++)
        moved |= back[d] != d;
    return moved ? iso_transpose(x, back) : x;
}

iso_shape iso_layer_last_dims(const iso_shape *shape, int axes, iso_shape *joined, int64_t *features)
{
    iso_shape last = {.rank = axes};
    *joined = (iso_shape){.rank = shape->rank - axes + 1};
    *features = 1;
    for (int i = 0; i < shape->rank - axes; i++)
        joined->dim[i] = shape->dim[i];
    for (int i = 0; i < axes; i++) {
        last.dim[i] = shape->dim[shape->rank - axes + i];
        *features *= last.dim[i];
    }
    joined->dim[joined->rank - 1] = *features;
    return last;
}

/* How a dimension counts from the end if it was given so; else 0. */
static int from_end(int dimension, int rank, const int *given, int count)
{
    for (int i = 0; i < count; i++)
        if (given[i] == dimension - rank)
            return given[i];
    return count == 0 ? dimension - rank : 0;
}

void iso_layer_note_axes(iso_layer *layer, const char *key, uint32_t axes, const int *given, int count)
{
    const int rank = iso_tensor_shape(layer->inputs[0])->rank;
    const bool one = __builtin_popcount(axes) == 1;
    iso_layer list = one ? *layer : iso_layer_note_list(layer, key);
    for (int d = 0; d < ISO_MAX_RANK; d++)
        if (axes >> d & 1)
            iso_layer_note_dimension(&list, one ? key : NULL, d, from_end(d, rank, given, count));
}
