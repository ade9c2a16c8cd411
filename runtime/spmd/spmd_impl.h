/* The inside of meshes, maps and distributions, for runtime/spmd, runtime/plan and runtime/exec. */
#ifndef ISO_SPMD_SPMD_IMPL_H
#define ISO_SPMD_SPMD_IMPL_H

#include "runtime/spmd/layout.h"

enum { ISO_MAX_AXIS_NAME = 32 };

struct iso_mesh {
    iso_context *ctx;
    int axes;
    char name[ISO_MAX_AXES][ISO_MAX_AXIS_NAME];
    int size[ISO_MAX_AXES];
    int slots;
    int *rank_of_slot; /* [slots] */
    char text[256];
};

struct iso_distribution {
    iso_mesh *mesh; /* NULL: made when a graph is distributed */
    bool owns_mesh;
    iso_layout_map *map; /* lent, or NULL */
    uint32_t batch_axes; /* bits; of a distribution without a mesh: all */
};

/* The mesh of a distribution, made now if there is none. Collective. */
iso_status iso_distribution_resolve(iso_distribution *distribution, iso_context *ctx);

iso_mesh *iso_layout_map_mesh(const iso_layout_map *map);
/* The layout that a map gives to a path, checked against the shape; everything replicated where no key
 * matches. `matched` (may be NULL) gets the key that matched, or NULL. ISO_INVALID where two keys match or
 * the layout does not fit the shape. */
iso_status iso_layout_map_find(iso_layout_map *map, const char *path, const iso_shape *shape,
                               iso_layout *layout, const char **matched);
/* The same for an optimizer's slot ("momentum") of a variable: the path looked up is
 * "optimizer:d1/kernel/momentum", and only keys that begin with "optimizer:" are tried (these are tried for
 * nothing else). Where no key matches, *matched is NULL, and the slot lies as its variable. */
iso_status iso_layout_map_find_optimizer(iso_layout_map *map, const char *variable, const char *slot,
                                         const iso_shape *shape, iso_layout *layout, const char **matched);
/* Warns (or, strict, fails) for each key that no lookup has matched so far; offers the nearest of the paths.
 * Once per key. */
iso_status iso_layout_map_report_unused(iso_layout_map *map, const char *const *paths, int count, bool chief);

#endif
