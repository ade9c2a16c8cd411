/* Values: made, packed, copied to the mesh, resharded, fetched. */
#include "runtime/exec/value/value.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/value/value_impl.h"
#include "runtime/spmd/collective.h"

/* ---- made and freed ---- */

iso_box iso_value_local_box(const iso_value *value, int local)
{
    return iso_layout_box(value->site->mesh, &value->layout, &value->shape, value->site->slot[local]);
}

iso_status iso_value_allocate(iso_value_site *site, const iso_layout *layout, iso_dtype dtype,
                              const iso_shape *shape, iso_value **out)
{
    iso_status status = ISO_OK;
    iso_value *value = iso_new(sizeof *value);
    if (!value)
        return iso_no_memory("a value");
    *value = (iso_value){
        .site = site, .layout = *layout, .dtype = dtype, .shape = *shape, .n_locals = site->n_locals};
    value->layout.mesh = iso_mesh_hold(site->mesh);
    value->part = iso_new(((size_t)site->n_locals + 1) * sizeof *value->part);
    if (!value->part)
        ISO_TRY(iso_no_memory("a value on %d slots", site->n_locals));
    for (int l = 0; l < site->n_locals; l++) {
        iso_box box = iso_value_local_box(value, l);
        ISO_TRY(iso_alloc((size_t)iso_box_count(&box) * iso_dtype_size(dtype), "a slot's part of a value",
                          &value->part[l]));
    }
    *out = value;
    return ISO_OK;
done:
    iso_value_destroy(value);
    return status;
}

void iso_value_destroy(iso_value *value)
{
    if (!value)
        return;
    for (int l = 0; value->part && l < value->n_locals; l++)
        iso_free(value->part[l]);
    iso_free(value->part);
    iso_mesh_destroy(value->layout.mesh);
    iso_free(value);
}

static iso_status value_check_shape(const iso_layout *layout, iso_dtype dtype, const iso_shape *shape)
{
    char text[160];
    int64_t count;
    size_t bytes;
    if (iso_dtype_size(dtype) == 0)
        return iso_error(ISO_INVALID, "a value of element type %d, which does not exist", (int)dtype);
    if (shape->rank < 0 || shape->rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "a value of %d dimensions; there may be 0 to %d", shape->rank,
                         ISO_MAX_RANK);
    if (shape->rank != layout->rank)
        return iso_error(ISO_INVALID, "a value of shape %s in a layout of %d dimensions",
                         iso_shape_text(shape, text, sizeof text), layout->rank);
    iso_status status = iso_shape_count(shape, &count);
    if (status != ISO_OK)
        return status;
    return iso_size_mul((size_t)count, iso_dtype_size(dtype), "a value", &bytes);
}

void iso_value_describe(const iso_value *value, iso_text *text)
{
    char layout[ISO_LAYOUT_TEXT], shape[160];
    const iso_mesh *mesh = value->site->mesh;
    iso_text_add(text, "%s %s in layout '%s' on mesh %s", iso_dtype_name(value->dtype),
                 iso_shape_text(&value->shape, shape, sizeof shape),
                 iso_layout_text(mesh, &value->layout, layout, sizeof layout), mesh->text);
}

/* Ranks that ask for different things would wait for each other's messages. Collective. */
static iso_status agree_on_layout(const char *what, const iso_layout *layout, iso_dtype dtype,
                                  const iso_shape *shape)
{
    char text[1024], layout_text[512], shape_text[160];
    snprintf(text, sizeof text, "%s %s in layout '%s' on mesh %s", iso_dtype_name(dtype),
             iso_shape_text(shape, shape_text, sizeof shape_text),
             iso_layout_text(layout->mesh, layout, layout_text, sizeof layout_text), layout->mesh->text);
    return iso_agree_same_text(layout->mesh->ctx, what, text);
}

iso_status iso_value_create(const iso_layout *layout, iso_dtype dtype, iso_shape shape, iso_value **out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(layout);
    iso_value_site *site;
    iso_value *value = NULL;
    iso_status status = ISO_OK;
    iso_context *ctx = layout->mesh->ctx;
    ISO_NEED_AGREED_AS(ctx, "value", out);
    ISO_TRY(iso_agree(ctx, value_check_shape(layout, dtype, &shape)));
    ISO_TRY(agree_on_layout("the value", layout, dtype, &shape));
    ISO_TRY(iso_value_site_get(layout->mesh, &site));
    ISO_TRY(iso_agree(ctx, iso_value_allocate(site, layout, dtype, &shape, &value)));
    *out = value;
    return ISO_OK;
done:
    iso_value_destroy(value);
    return status;
}

/* ---- filling ---- */

/* Keeps the last error message for the next collective call. */
static iso_status leave_status(iso_value *value, iso_status status)
{
    if (status != ISO_OK && value->status == ISO_OK) {
        value->status = status;
        snprintf(value->message, sizeof value->message, "%s", iso_error_message());
    }
    return status;
}

/* The status that a local call left, reported once; ISO_OK if there is none. Local. */
static iso_status take_status(iso_value *value)
{
    iso_status status = value->status;
    value->status = ISO_OK;
    return status == ISO_OK ? ISO_OK : iso_error(status, "%s", value->message);
}

static iso_status check_slot(const iso_value *value, int slot)
{
    int slots = value->site->mesh->n_slots;
    if (slot < 0 || slot >= slots)
        return iso_error(ISO_INVALID, "slot %d of a value on mesh %s, whose slots are 0 to %d", slot,
                         value->site->mesh->text, slots - 1);
    return ISO_OK;
}

/* The slot's number among those of this rank; -1 if another rank hosts it. */
static int local_of(const iso_value *value, int slot)
{
    for (int l = 0; l < value->site->n_locals; l++)
        if (value->site->slot[l] == slot)
            return l;
    return -1;
}

iso_status iso_value_pack(iso_value *value, int slot, const void *local)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(value);
    iso_status status = check_slot(value, slot);
    if (status != ISO_OK)
        return leave_status(value, status);
    int l = local_of(value, slot);
    if (l < 0)
        return ISO_OK;
    iso_box box = iso_value_local_box(value, l);
    size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(value->dtype);
    if (bytes > 0 && ISO_ANY_NULL(local))
        return leave_status(value, ISO_INVALID);
    if (bytes > 0)
        memcpy(value->part[l], local, bytes);
    return ISO_OK;
}

/* Along the axes over which the value is partial, the first slot holds the elements and the others zeros. */
static bool holds_zeros(const iso_value *value, int slot)
{
    const iso_layout *layout = &value->layout;
    for (int a = 0; a < value->site->mesh->n_axes && !layout->partial_max; a++)
        if (layout->partial & 1u << a && iso_mesh_coordinate(value->site->mesh, slot, a) != 0)
            return true;
    return false;
}

static void value_take_part(iso_value *value, int local, const void *array)
{
    iso_box box = iso_value_local_box(value, local);
    size_t element = iso_dtype_size(value->dtype);
    iso_box_copy copy = {.region = box,
                         .from_box = iso_box_whole(&value->shape),
                         .to_box = box,
                         .from = array,
                         .to = value->part[local],
                         .element = element};
    if (iso_box_count(&box) == 0)
        return;
    if (holds_zeros(value, value->site->slot[local]))
        memset(value->part[local], 0, (size_t)iso_box_count(&box) * element);
    else
        iso_box_copy_run(&copy);
}

static iso_status check_array(const iso_value *value, const void *array, const char *function)
{
    iso_box box = iso_box_whole(&value->shape);
    if (!array && iso_box_count(&box) > 0)
        return iso_null_argument(function, "array", 0);
    return ISO_OK;
}

iso_status iso_value_copy_to_mesh(iso_value *value, const void *array)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(value);
    iso_status status = take_status(value);
    if (status == ISO_OK)
        status = check_array(value, array, __func__);
    status = iso_agree(value->site->ctx, status);
    for (int l = 0; l < value->site->n_locals && status == ISO_OK; l++)
        value_take_part(value, l, array);
    return status;
}

/* ---- resharding ---- */

static iso_status copy_value(const iso_value *value, iso_value **out)
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_value_allocate(value->site, &value->layout, value->dtype, &value->shape, out));
    for (int l = 0; l < value->site->n_locals; l++) {
        iso_box box = iso_value_local_box(value, l);
        memcpy((*out)->part[l], value->part[l], (size_t)iso_box_count(&box) * iso_dtype_size(value->dtype));
    }
done:
    return status;
}

/* Reshards through these layouts, one after the other. Collective. */
static iso_status follow(const iso_value *value, const iso_layout *stop, int stops, iso_value **out)
{
    const iso_value *at = value;
    iso_value *next = NULL, *last = NULL;
    iso_status status = ISO_OK;
    if (stops == 0)
        return iso_agree(value->site->ctx, copy_value(value, out));
    for (int i = 0; i < stops; i++) {
        ISO_TRY(iso_agree(value->site->ctx,
                          iso_value_allocate(value->site, &stop[i], value->dtype, &value->shape, &next)));
        ISO_TRY(iso_value_move(at, next));
        iso_value_destroy(last);
        at = last = next;
        next = NULL;
    }
    *out = last;
    return ISO_OK;
done:
    iso_value_destroy(next);
    iso_value_destroy(last);
    return status;
}

static iso_status check_target(iso_value *value, const iso_layout *layout)
{
    char text[160];
    iso_status status = take_status(value);
    if (status != ISO_OK)
        return status;
    if (layout->mesh != value->site->mesh)
        return iso_error(ISO_INVALID, "a value on mesh %s is to be resharded to a layout of %s mesh %s",
                         value->site->mesh->text,
                         strcmp(layout->mesh->text, value->site->mesh->text) ? "the" : "another",
                         layout->mesh->text);
    if (layout->rank != value->shape.rank)
        return iso_error(ISO_INVALID, "a value of shape %s is to be resharded to a layout of %d dimensions",
                         iso_shape_text(&value->shape, text, sizeof text), layout->rank);
    return ISO_OK;
}

iso_status iso_value_reshard(iso_value *value, const iso_layout *layout, iso_value **out)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(value);
    ISO_NEED_AGREED(value->site->ctx, layout, out);
    iso_layout stop[ISO_MAX_RESHARD_PATH];
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(value->site->ctx, check_target(value, layout)));
    ISO_TRY(agree_on_layout("the value's new layout", layout, value->dtype, &value->shape));
    int stops = iso_reshard_path(value->site->mesh, &value->layout, layout, &value->shape, stop);
    ISO_TRY(follow(value, stop, stops, out));
done:
    return status;
}

iso_status iso_value_check(iso_value *value, const char *what, const iso_mesh *mesh, iso_dtype dtype,
                           const iso_shape *shape)
{
    char want[160], have[160];
    if (!value)
        return iso_error(ISO_INVALID, "%s: the value is NULL", what);
    iso_status status = take_status(value);
    if (status != ISO_OK)
        return status;
    const iso_mesh *on = value->site->mesh;
    if (!iso_mesh_equal(on, mesh))
        return iso_error(ISO_INVALID, "%s is on mesh %s, the value on %s mesh %s", what, mesh->text,
                         strcmp(on->text, mesh->text) ? "the" : "another", on->text);
    if (value->dtype != dtype || !iso_shape_equal(&value->shape, shape))
        return iso_error(ISO_INVALID, "%s is %s %s, the value %s %s", what, iso_dtype_name(dtype),
                         iso_shape_text(shape, want, sizeof want), iso_dtype_name(value->dtype),
                         iso_shape_text(&value->shape, have, sizeof have));
    return ISO_OK;
}

iso_status iso_value_to_layout(iso_value *value, const iso_layout *layout, iso_value **resharded)
{
    iso_layout wanted = *layout;
    *resharded = NULL;
    if (iso_layout_equal(&value->layout, layout))
        return ISO_OK;
    wanted.mesh = value->site->mesh;
    return iso_value_reshard(value, &wanted, resharded);
}

/* ---- fetching ---- */

iso_status iso_value_fetch(iso_value *value, void *array)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(value);
    iso_layout stop[ISO_MAX_RESHARD_PATH], whole = iso_layout_whole(value->shape.rank);
    iso_value *near = NULL;
    iso_box box = iso_box_whole(&value->shape);
    iso_status status = take_status(value);
    if (status == ISO_OK)
        status = check_array(value, array, __func__);
    ISO_TRY(iso_agree(value->site->ctx, status));
    if (iso_box_count(&box) == 0)
        return ISO_OK;
    int stops = iso_reshard_path(value->site->mesh, &value->layout, &whole, &value->shape, stop);
    if (stops > 1)
        ISO_TRY(follow(value, stop, stops - 1, &near));
    ISO_TRY(iso_value_gather(near ? near : value, array));
done:
    iso_value_destroy(near);
    return status;
}

/* ---- attributes ---- */

const iso_layout *iso_value_layout(const iso_value *value)
{
    if (ISO_ANY_NULL(value))
        return NULL;
    return &value->layout;
}

iso_dtype iso_value_dtype(const iso_value *value)
{
    if (ISO_ANY_NULL(value))
        return ISO_DTYPE_NONE;
    return value->dtype;
}

iso_shape iso_value_shape(const iso_value *value)
{
    if (ISO_ANY_NULL(value))
        return (iso_shape){0};
    return value->shape;
}

iso_status iso_value_box(const iso_value *value, int slot, iso_box *box)
{
    ISO_NEED(value, box);
    iso_status status = check_slot(value, slot);
    if (status == ISO_OK)
        *box = iso_layout_box(value->site->mesh, &value->layout, &value->shape, slot);
    return status;
}

const void *iso_value_part(const iso_value *value, int slot)
{
    if (ISO_ANY_NULL(value))
        return NULL;
    int local = local_of(value, slot);
    return local < 0 ? NULL : value->part[local];
}
