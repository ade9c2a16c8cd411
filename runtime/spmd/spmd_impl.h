/* Internals of meshes, maps and distributions, for runtime/spmd, runtime/plan and runtime/exec. */
#ifndef ISO_SPMD_SPMD_IMPL_H
#define ISO_SPMD_SPMD_IMPL_H

#include "runtime/graph/optimizer.h"
#include "runtime/spmd/layout.h"

struct iso_value_site;

struct iso_mesh {
    int holders; /* the program, layouts, maps, distributions and values: the last one frees the mesh */
    iso_context *ctx;
    int n_axes;
    char name[ISO_MAX_AXES][ISO_MAX_AXIS_NAME];
    int size[ISO_MAX_AXES];
    int n_slots;
    int *rank_of_slot; /* [n_slots] */
    bool listed;       /* the caller listed the rank of each slot */
    bool abstract;     /* nothing runs on it, and the ranks need not exist */
    char text[256];
    struct iso_value_site *site; /* an extension slot of runtime/exec, as in graphs: what values share */
    void (*destroy_site)(struct iso_value_site *site);
};

struct iso_distribution {
    int holders;                  /* the program and graphs: the last one frees the distribution */
    iso_mesh *mesh;               /* held; NULL: made when a graph is distributed */
    iso_distribution_options how; /* the user's callbacks; none with a map */
    int batch_axis;               /* over which inputs are split by default; -1: every axis */
    iso_layout_map *map;          /* held; NULL: none. Its keys that match nothing are reported */
    int zero;                     /* its level; 0: not asked for */
    int64_t
        search_rows; /* iso_compile searches for the layouts of a map, for this many rows; 0: it does not */
};

/* Adds a holder, which releases the object with its destroy function. NULL is allowed. Returns the object. */
iso_mesh *iso_mesh_hold(iso_mesh *mesh);
iso_layout_map *iso_layout_map_hold(iso_layout_map *map);
iso_distribution *iso_distribution_hold(iso_distribution *distribution);
/* The mesh of a distribution, made now if there is none. Collective. */
iso_status iso_distribution_resolve(iso_distribution *distribution, iso_context *ctx);
/* The layouts that a distribution with a mesh gives, checked against mesh and shape; ISO_INVALID names the
 * path. The path of an input "image" is "image/output". A variable's own layout takes precedence. *given:
 * whether the distribution gives this output a layout. */
iso_status iso_distribution_input(const iso_distribution *distribution, const iso_tensor *input,
                                  iso_layout *layout);
iso_status iso_distribution_variable(const iso_distribution *distribution, const iso_variable *variable,
                                     iso_layout *layout);
/* The source of a variable's layout: "key" (*key becomes that key of the map), "own", "distribution", or
 * "default": none, so it is replicated. */
const char *iso_distribution_reason(const iso_distribution *distribution, const iso_variable *variable,
                                    const char **key);
iso_status iso_distribution_output(const iso_distribution *distribution, const char *path,
                                   const iso_shape *shape, iso_layout *layout, bool *given);
/* A slot ("momentum") of a variable, or its "gradient" as the update takes it. */
iso_status iso_distribution_slot(const iso_distribution *distribution, const iso_variable *variable,
                                 const char *slot, iso_layout *layout, bool *given);

/* The host of each slot of an abstract mesh, host_of_slot [n_slots]: each host has slots_per_host slots
 * (0: one host has all), in the order of their ranks. ISO_INVALID if a listed rank would be on two hosts. */
iso_status iso_mesh_abstract_hosts(const iso_mesh *mesh, int64_t slots_per_host, int *host_of_slot);
/* *idle: the lowest of `ranks` ranks that hosts no slot; -1: each hosts one. */
iso_status iso_mesh_find_idle(const iso_mesh *mesh, int ranks, int *idle);
/* The first character from `at` on that is no white space. */
const char *iso_skip_space(const char *at);
/* ISO_INVALID: the mesh has no axis of this name; offers the nearest. */
iso_status iso_mesh_unknown_axis(const iso_mesh *mesh, const char *name);
/* zero.c: the layouts of ZeRO, if the distribution gives none. *layout: replicated; becomes sharded over
 * the batch axes if the level shards variables. */
void iso_zero_variable(const iso_distribution *distribution, const iso_variable *variable,
                       iso_layout *layout);
/* *layout: the variable's; becomes that of the state of this name, which its optimizer keeps in the graph. */
iso_status iso_zero_state(const iso_distribution *distribution, const iso_variable *variable,
                          const char *name, iso_layout *layout);
/* *layout: the variable's; becomes that of its update by this optimizer. */
iso_status iso_zero_update(const iso_distribution *distribution, const iso_variable *variable,
                           const iso_optimizer *optimizer, iso_layout *layout);
/* The layout to which an output of this path is pinned; false: it is not. */
bool iso_zero_output(const iso_distribution *distribution, const char *path, const iso_shape *shape,
                     iso_layout *layout);
/* The axes that split the batch of inputs by default, as the sharding of one dimension. */
iso_sharding iso_distribution_batch(const iso_distribution *distribution);

iso_mesh *iso_layout_map_mesh(const iso_layout_map *map);
/* The same as iso_layout_map_read, from a text of `size` bytes; `name` is its name in messages. Local. */
iso_status iso_layout_map_parse(iso_layout_map *map, const char *name, const char *text, size_t size);
/* The layout that a map gives to a path, checked against the shape; everything replicated if no key
 * matches. For the path of an optimizer's slot ("optimizer:d1/kernel/momentum") only keys with this prefix
 * are tried, and these for no other path. `matched` (may be NULL) receives the key that matched, or NULL.
 * ISO_INVALID if two keys match or the layout does not fit the shape. */
iso_status iso_layout_map_find(iso_layout_map *map, const char *path, const iso_shape *shape,
                               iso_layout *layout, const char **matched);
/* Warns (or, if strict, fails) for each key that no lookup has found so far and that matches none of these
 * paths. The message names the paths that contain the key, those that the key contains, and the nearest.
 * Once per key; keys of optimizers only if some of the paths are of optimizers. Reorders the paths. */
iso_status iso_layout_map_report_unmatched_keys(iso_layout_map *map, const char **paths, int count,
                                                bool chief);

#endif
