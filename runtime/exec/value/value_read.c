/* Parts of values and variables, read on the rank that hosts their slot: whole or a box of them, in their own
 * type or as floating-point numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/convert.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/value/value_impl.h"
#include "runtime/session/session.h"

/* The part of a tensor that a slot holds. */
typedef struct part {
    iso_box box;
    iso_dtype dtype;
    const void *data;
} part;

/* ---- boxes ---- */

/* "[0:3, 2:4]": first index and end index of each dimension. */
static void add_box(iso_text *text, const iso_box *box)
{
    iso_text_add(text, "[");
    for (int d = 0; d < box->rank; d++) {
        int64_t end;
        if (__builtin_add_overflow(box->offset[d], box->extent[d], &end))
            end = INT64_MAX;
        iso_text_add(text, "%s%" PRId64 ":%" PRId64, d ? ", " : "", box->offset[d], end);
    }
    iso_text_add(text, "]");
}

static bool value_read_contains(const iso_box *box, const iso_box *wanted)
{
    for (int d = 0; d < box->rank; d++)
        if (wanted->extent[d] < 0 || wanted->offset[d] < box->offset[d] ||
            wanted->extent[d] > box->extent[d] ||
            wanted->offset[d] - box->offset[d] > box->extent[d] - wanted->extent[d])
            return false;
    return true;
}

static iso_status not_within(const part *from, int slot, const iso_box *wanted)
{
    iso_text text = {0};
    iso_text_add(&text, "the box ");
    add_box(&text, wanted);
    iso_text_add(&text, " is not within slot %d's part ", slot);
    add_box(&text, &from->box);
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

static iso_status value_read_check_box(const part *from, int slot, const iso_box *wanted)
{
    if (wanted->rank != from->box.rank)
        return iso_error(ISO_INVALID, "a box of %d dimensions of a tensor of %d", wanted->rank,
                         from->box.rank);
    return value_read_contains(&from->box, wanted) ? ISO_OK : not_within(from, slot, wanted);
}

/* ---- elements ---- */

/* Row by row of the box, along its last dimension. */
static void value_read_read_rows(const part *from, const iso_box *wanted, iso_dtype dtype, char *out)
{
    int64_t count = iso_box_count(wanted), row = wanted->rank ? wanted->extent[wanted->rank - 1] : 1;
    for (int64_t i = 0; i < count; i += row) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = wanted->rank - 1; d >= 0; d--) {
            at += (wanted->offset[d] - from->box.offset[d] + rest % wanted->extent[d]) * stride;
            rest /= wanted->extent[d];
            stride *= from->box.extent[d];
        }
        const char *begin = (const char *)from->data + (size_t)at * iso_dtype_size(from->dtype);
        char *to = out + (size_t)i * iso_dtype_size(dtype);
        if (dtype == from->dtype)
            memcpy(to, begin, (size_t)row * iso_dtype_size(dtype));
        else
            iso_convert(from->dtype, begin, dtype, to, row);
    }
}

/* box NULL: the whole part. */
static iso_status value_read_part(const part *from, int slot, const iso_box *box, iso_dtype dtype, void *out)
{
    iso_status status = ISO_OK;
    if (dtype != from->dtype && !iso_dtype_is_float(dtype))
        ISO_TRY(
            iso_error(ISO_INVALID,
                      "elements of type %s cannot be read as %s; they can be read as %s%sfloat32 or float64",
                      iso_dtype_name(from->dtype), iso_dtype_name(dtype),
                      iso_dtype_is_float(from->dtype) ? "" : iso_dtype_name(from->dtype),
                      iso_dtype_is_float(from->dtype) ? "" : ", "));
    if (!box)
        box = &from->box;
    ISO_TRY(value_read_check_box(from, slot, box));
    value_read_read_rows(from, box, dtype, out);
done:
    return status;
}

/* ISO_INVALID unless this rank hosts the slot. */
static iso_status check_hosted(const iso_mesh *mesh, int rank, int slot)
{
    if (slot < 0 || slot >= mesh->n_slots)
        return iso_error(ISO_INVALID, "slot %d on mesh %s, whose slots are 0 to %d", slot, mesh->text,
                         mesh->n_slots - 1);
    if (mesh->rank_of_slot[slot] != rank)
        return iso_error(ISO_INVALID, "slot %d is on rank %d; rank %d cannot read its part", slot,
                         mesh->rank_of_slot[slot], rank);
    return ISO_OK;
}

/* ---- of values ---- */

iso_status iso_value_read(const iso_value *value, int slot, const iso_box *box, iso_dtype dtype, void *out)
{
    ISO_DEFAULT_MODES();
    iso_status status = ISO_OK;
    ISO_NEED(value, out);
    ISO_TRY(check_hosted(value->site->mesh, iso_rank(value->site->ctx), slot));
    part from = {.dtype = value->dtype, .data = iso_value_part(value, slot)};
    ISO_TRY(iso_value_box(value, slot, &from.box));
    ISO_TRY(value_read_part(&from, slot, box, dtype, out));
done:
    return status;
}

int iso_value_shard_count(const iso_value *value)
{
    if (ISO_ANY_NULL(value))
        return 0;
    return value->n_locals;
}

/* The slot's number among those that hold the same part of the same partial sum: its coordinates along the
 * replicated axes, row-major. */
static int replica_of(const iso_value *value, int slot)
{
    const iso_mesh *mesh = value->site->mesh;
    int replica = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        if (iso_layout_placement(&value->layout, a) == ISO_REPLICATED)
            replica = replica * mesh->size[a] + iso_mesh_coordinate(mesh, slot, a);
    return replica;
}

iso_shard iso_value_shard(const iso_value *value, int index)
{
    iso_shard shard = {.slot = -1};
    if (ISO_ANY_NULL(value))
        return shard;
    if (index < 0 || index >= iso_value_shard_count(value))
        return shard;
    shard.slot = value->site->slot[index];
    shard.replica = replica_of(value, shard.slot);
    shard.box = iso_value_local_box(value, index);
    shard.dtype = value->dtype;
    shard.data = iso_box_count(&shard.box) > 0 ? value->part[index] : NULL;
    return shard;
}

/* ---- of variables ---- */

iso_status iso_variable_placed(const iso_variable *variable, const char *what, iso_runtime **runtime)
{
    if (!variable)
        return iso_error(ISO_INVALID, "%s: the variable is NULL", what);
    *runtime = variable->graph->runtime;
    if (!*runtime || variable->id >= (*runtime)->n_variables)
        return iso_error(ISO_INVALID, "%s: variable '%s' has no value before a function of its graph is made",
                         what, variable->path);
    return ISO_OK;
}

iso_status iso_variable_box(const iso_variable *variable, int slot, iso_box *box)
{
    iso_runtime *runtime = NULL;
    iso_status status = iso_variable_placed(variable, "iso_variable_box", &runtime);
    if (status != ISO_OK)
        return status;
    iso_layout layout = runtime->variables[variable->id].layout;
    layout.mesh = runtime->distribution->mesh;
    return iso_layout_local_box(&layout, variable->shape, slot, box);
}

iso_status iso_variable_read_part(const iso_variable *variable, int slot, const iso_box *box, iso_dtype dtype,
                                  void *out)
{
    ISO_DEFAULT_MODES();
    iso_runtime *runtime = NULL;
    iso_status status = ISO_OK;
    ISO_NEED(out);
    ISO_TRY(iso_variable_placed(variable, "iso_variable_read_part", &runtime));
    ISO_TRY(check_hosted(runtime->mesh, iso_rank(runtime->ctx), slot));
    iso_mapping mapping;
    ISO_TRY(iso_runtime_map_variable(runtime, variable, slot, false, &mapping));
    part from = {.box = iso_runtime_variable_box(runtime, variable, slot),
                 .dtype = variable->dtype,
                 .data = mapping.data};
    ISO_TRY(iso_unmap(value_read_part(&from, slot, box, dtype, out), &mapping));
done:
    return status;
}
