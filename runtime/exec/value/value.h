/* Values: tensors outside of graphs, with explicit layouts on a mesh. The terms are DTensor's.
 *
 * A value belongs to the mesh of its layout and keeps the mesh alive. Arrays are dense, row-major, of the
 * value's element type. An error of a local call (iso_value_pack) is returned at once, and again on all ranks
 * by the next collective call on the value. Collective calls give the same status on every rank.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_EXEC_VALUE_VALUE_H
#define ISO_EXEC_VALUE_VALUE_H

#include "runtime/spmd/spmd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_value iso_value;

/* A value of this global shape (all dimensions fixed; they need not be divisible by the axes); its elements
 * are zero. The layout is copied. ISO_INVALID: layout and shape have different numbers of dimensions, or
 * ranks ask for different values. Owned by the caller. Collective. */
ISO_API iso_status iso_value_create(const iso_layout *layout, iso_dtype dtype, iso_shape shape,
                                    iso_value **value);
/* Does nothing with NULL. Collective (see iso_mesh_destroy). */
ISO_API void iso_value_destroy(iso_value *value);

/* Sets a slot's part: local holds the elements of iso_value_box(value, slot), and is copied. On ranks that do not
 * host the slot it does nothing, so all ranks may call it for all slots. Slots that hold the same part must get the
 * same elements. This is not checked: if they differ, ranks may fetch different elements. ISO_INVALID: there is no
 * such slot. Local. */
ISO_API iso_status iso_value_pack(iso_value *value, int slot, const void *local);
/* Sets every slot's part from a global array. Every rank must pass the same array. Its contents are not
 * compared, because the call may be part of each step: each slot takes its part from its own rank's array.
 * Along axes over which the value is a partial sum, the first slot holds the part and the others hold zeros;
 * along those of a partial maximum, all hold it. ISO_INVALID: an earlier error of the value. Collective. */
ISO_API iso_status iso_value_copy_to_mesh(iso_value *value, const void *array);
/* Copies the global array to every rank: parts are gathered, partial sums are added in the fixed order of the
 * mesh. array must have room for all elements. ISO_INVALID: an earlier error of the value. Collective. */
ISO_API iso_status iso_value_fetch(iso_value *value, void *array);
/* A new value of the same elements in another layout on the same mesh, made by the exchanges that move the
 * fewest bytes. It can also convert partial to partial. Owned by the caller. ISO_INVALID: the layout
 * is on another mesh, or has another number of dimensions. Collective. */
ISO_API iso_status iso_value_reshard(iso_value *value, const iso_layout *layout, iso_value **out);

/* The layout of a variable for its users (the plan decides how its update is sharded). NULL before the first
 * function of its graph is made. Lent, as long as the graph lives. */
ISO_API const iso_layout *iso_variable_layout(iso_variable *variable);

/* Lent. */
ISO_API const iso_layout *iso_value_layout(const iso_value *value);
ISO_API iso_dtype iso_value_dtype(const iso_value *value);
ISO_API iso_shape iso_value_shape(const iso_value *value);
/* The part of the tensor that a slot holds, possibly empty. ISO_INVALID: there is no such slot. Local. */
ISO_API iso_status iso_value_box(const iso_value *value, int slot, iso_box *box);
/* A slot's part, dense; lent until the value changes. NULL if another rank hosts the slot. */
ISO_API const void *iso_value_part(const iso_value *value, int slot);
/* Copies a slot's part, or a box of it, into `out`, dense, [box.extent...]. box: in global indices, within
 * iso_value_box(value, slot); NULL: the whole part. dtype: the value's own, or ISO_F32 or ISO_F64, to which
 * elements are converted: to the nearest float (a float64 outside float32's range to an infinity), booleans
 * to 0 and 1. An empty box copies nothing. ISO_INVALID: this rank does not host the slot, the box is not
 * within its part, or another dtype. Local. */
ISO_API iso_status iso_value_read(const iso_value *value, int slot, const iso_box *box, iso_dtype dtype,
                                  void *out);
/* The part of one slot that this rank hosts (JAX's Shard). */
typedef struct iso_shard {
    int slot;    /* -1: there is no shard with this index */
    int replica; /* number among the slots that hold the same elements: 0, 1, 2, ... */
    iso_box box; /* of the global tensor, possibly empty */
    iso_dtype dtype;
    const void *data; /* dense; lent until the value changes; NULL if the box is empty */
} iso_shard;
/* The number of shards of this rank, one for each slot that it hosts, and each of them in mesh order (JAX's
 * addressable_shards). Local. */
ISO_API int iso_value_shard_count(const iso_value *value);
ISO_API iso_shard iso_value_shard(const iso_value *value, int index);

/* A copy of a variable's current value, in the variable's layout on the graph's mesh. Owned by the caller; it
 * does not change with the variable. ISO_INVALID before the first function of its graph is made. Collective.
 */
ISO_API iso_status iso_variable_read_value(iso_variable *variable, iso_value **value);
/* Assigns a value to the variable. A value in another layout is resharded; the value is not changed.
 * ISO_INVALID: the value has another type or shape, or a mesh that is not equal to the graph's; the first
 * function of the graph has not been made. Collective. */
ISO_API iso_status iso_variable_assign_value(iso_variable *variable, iso_value *value);
/* The part of a variable that a slot holds, in global indices, possibly empty. ISO_INVALID: the first
 * function of its graph has not been made, or no such slot. Local. */
ISO_API iso_status iso_variable_box(const iso_variable *variable, int slot, iso_box *box);
/* The same as iso_value_read, for the variable's value after the last step. While iso_fit runs, outside its
 * callbacks, the parts that slots of other hosts update may still be those of the step before. Also ISO_INVALID
 * before the first function of its graph is made. Local. */
ISO_API iso_status iso_variable_read_part(const iso_variable *variable, int slot, const iso_box *box,
                                          iso_dtype dtype, void *out);

#ifdef __cplusplus
}
#endif
#endif
