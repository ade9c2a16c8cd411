/* Queries of layouts. */
#include "runtime/base/arguments.h"
#include "runtime/spmd/spmd_impl.h"

int iso_layout_rank(const iso_layout *layout)
{
    return layout ? layout->rank : 0;
}

iso_mesh *iso_layout_mesh(const iso_layout *layout)
{
    return layout ? layout->mesh : NULL;
}

/* NULL: no such dimension. */
static const iso_sharding *sharding_of(const iso_layout *layout, int dimension)
{
    return layout && dimension >= 0 && dimension < layout->rank ? &layout->dim[dimension] : NULL;
}

static bool has_axis(const iso_layout *layout, int axis)
{
    return layout && layout->mesh && axis >= 0 && axis < layout->mesh->n_axes;
}

int iso_layout_axes(const iso_layout *layout, int dimension)
{
    const iso_sharding *sharding = sharding_of(layout, dimension);
    return sharding ? sharding->count : 0;
}

int iso_layout_axis(const iso_layout *layout, int dimension, int index)
{
    const iso_sharding *sharding = sharding_of(layout, dimension);
    return sharding && index >= 0 && index < sharding->count ? sharding->axis[index] : -1;
}

int iso_layout_parts(const iso_layout *layout, int dimension)
{
    const iso_sharding *sharding = sharding_of(layout, dimension);
    int parts = sharding ? 1 : 0;
    for (int i = 0; sharding && i < sharding->count; i++)
        parts *= layout->mesh->size[sharding->axis[i]];
    return parts;
}

iso_placement iso_layout_placement(const iso_layout *layout, int axis)
{
    if (!has_axis(layout, axis))
        return ISO_REPLICATED;
    if (layout->partial & 1u << axis)
        return layout->partial_max ? ISO_PARTIAL_MAX : ISO_PARTIAL_SUM;
    return iso_layout_dimension_of(layout, axis) >= 0 ? ISO_SHARDED : ISO_REPLICATED;
}

bool iso_layout_is_sharded(const iso_layout *layout)
{
    bool sharded = false;
    for (int d = 0; d < iso_layout_rank(layout); d++)
        sharded |= iso_layout_parts(layout, d) > 1;
    return sharded;
}

bool iso_layout_is_partial(const iso_layout *layout)
{
    bool partial = false;
    for (int a = 0; has_axis(layout, a); a++)
        partial |= layout->partial & 1u << a && layout->mesh->size[a] > 1;
    return partial;
}

bool iso_layout_is_replicated(const iso_layout *layout)
{
    return layout && !iso_layout_is_sharded(layout) && !iso_layout_is_partial(layout);
}

static iso_status check_shape(const iso_layout *layout, const iso_shape *shape)
{
    char text[160];
    int64_t count;
    if (shape->rank < 0 || shape->rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "a shape of %d dimensions; there may be 0 to %d", shape->rank,
                         ISO_MAX_RANK);
    if (shape->rank != layout->rank)
        return iso_error(ISO_INVALID, "a tensor of shape %s in a layout of %d dimensions",
                         iso_shape_text(shape, text, sizeof text), layout->rank);
    return iso_shape_count(shape, &count);
}

iso_status iso_layout_local_box(const iso_layout *layout, iso_shape shape, int slot, iso_box *box)
{
    iso_status status = ISO_OK;
    ISO_NEED(layout, box);
    ISO_TRY(check_shape(layout, &shape));
    if (slot < 0 || slot >= layout->mesh->n_slots)
        ISO_TRY(iso_error(ISO_INVALID, "slot %d on mesh %s, whose slots are 0 to %d", slot,
                          layout->mesh->text, layout->mesh->n_slots - 1));
    *box = iso_layout_box(layout->mesh, layout, &shape, slot);
done:
    return status;
}
