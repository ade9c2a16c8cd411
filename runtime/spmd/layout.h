/* Layouts: what each mesh axis does to a tensor. */
#ifndef ISO_SPMD_LAYOUT_H
#define ISO_SPMD_LAYOUT_H

#include "runtime/base/types.h"
#include "runtime/base/window.h"
#include "runtime/spmd/spmd.h"

/* The axes that shard one dimension: the first splits it, each next one splits the parts again.
 *
 * With a window, they split its positions instead, and a part is what its positions read
 * (iso_sliding_window_covers), so that parts may overlap. Each slot has either the tensor's elements
 * there: a halo; or, with `addends`, what its positions add to them: the tensor is the sum of the parts. */
typedef struct iso_sharding {
    int8_t count;
    int8_t axis[ISO_MAX_AXES];
    bool addends;
    iso_sliding_window window; /* size 0: none, as in all layouts from users */
} iso_sharding;

/* Plain data. An axis shards at most one dimension, or is in `partial`, or replicates. */
struct iso_layout {
    int rank;
    iso_sharding dim[ISO_MAX_RANK];
    uint32_t partial; /* bit a: along axis a the slots hold partial sums (or, with partial_max, candidates) */
    bool partial_max;
    iso_mesh *mesh; /* of a layout that users hold; NULL within programs, which have one mesh */
};

static inline bool iso_sharding_has_window(const iso_sharding *sharding)
{
    return sharding->window.size > 0;
}
bool iso_sharding_equal(const iso_sharding *a, const iso_sharding *b);
/* True if `to` splits the dimension as `from` does, and perhaps further: the part lies inside the old one, but for
 * the halo of a window. */
bool iso_sharding_refines(const iso_sharding *from, const iso_sharding *to);
/* The longest such range of any slot. */
int64_t iso_sharding_longest(const iso_mesh *mesh, const iso_sharding *sharding, int64_t n);
/* True if each part of a dimension of n elements that is split without the window contains all that the
 * same part of the window's positions reads. */
bool iso_sharding_holds_window(const iso_mesh *mesh, const iso_sharding *sharding,
                               const iso_sliding_window *window, int64_t n);

/* Everything replicated. */
iso_layout iso_layout_whole(int rank);
/* The axes that shard some dimension, as bits. */
uint32_t iso_layout_sharded_axes(const iso_layout *layout);
/* Parses "data+model, -" for a mesh; ISO_INVALID names the text, the position and what is wrong there. */
iso_status iso_layout_parse(const iso_mesh *mesh, const char *text, iso_layout *layout);
/* The same as iso_layout_parse, but the dimensions may be followed by "; partial(data, model)" or "; partial
 * max(data)". */
iso_status iso_layout_parse_addends(const iso_mesh *mesh, const char *text, iso_layout *layout);
/* Writes "data+model, -; partial(data)" into text; returns text. With windows: "data, h; halo(h)", or
 * "halo sum(h)" if the overlapping parts are partial sums. */
char *iso_layout_text(const iso_mesh *mesh, const iso_layout *layout, char *text, size_t size);
/* The box that a slot holds of a tensor of this shape (rows fixed). */
iso_box iso_layout_box(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape, int slot);
/* Elements of the largest box of any slot. */
int64_t iso_layout_largest(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape);

/* A slot's coordinate along an axis, and the slot that differs from it in that coordinate. */
int iso_mesh_coordinate(const iso_mesh *mesh, int slot, int axis);
int iso_mesh_with_coordinate(const iso_mesh *mesh, int slot, int axis, int coordinate);
/* An axis by name, -1 if there is none. */
int iso_mesh_find_axis(const iso_mesh *mesh, const char *name);

#endif
