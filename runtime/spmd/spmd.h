/* Meshes, layouts, layout maps and distributions: where tensors live. */
#ifndef ISO_SPMD_SPMD_H
#define ISO_SPMD_SPMD_H

#include <stdio.h>

#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_mesh iso_mesh;
typedef struct iso_layout iso_layout;
typedef struct iso_layout_map iso_layout_map;
typedef struct iso_distribution iso_distribution;

/* "data=2,model=4": named axes, row-major; one axis may be "*": the slots that are left so that every rank
 * (or, in a single process, every thread) hosts one. spec NULL: the default mesh, which is that of the option
 * --mesh, or "data=*". Slots go to ranks in contiguous blocks. ISO_INVALID (naming the text and the number of
 * ranks) where it does not parse, has fewer slots than ranks, or overflows. Collective. */
iso_status iso_mesh_create(iso_context *ctx, const char *spec, iso_mesh **mesh);
/* As iso_mesh_create, with the rank of every slot from the caller, in mesh order: any permutation or subset
 * of the ranks. */
iso_status iso_mesh_create_on(iso_context *ctx, const char *spec, const int *rank_of_slot, int count,
                              iso_mesh **mesh);
/* A mesh of any number of slots, of which nothing can run: for plans (iso_function_plan) and for looking at
 * layouts. All its slots are said to be on rank 0. Collective. */
iso_status iso_mesh_imagine(iso_context *ctx, const char *spec, iso_mesh **mesh);
void iso_mesh_destroy(iso_mesh *mesh);
int iso_mesh_axes(const iso_mesh *mesh);
const char *iso_mesh_axis_name(const iso_mesh *mesh, int axis);
int iso_mesh_axis_size(const iso_mesh *mesh, int axis);
int iso_mesh_slots(const iso_mesh *mesh);
int iso_mesh_rank_of_slot(const iso_mesh *mesh, int slot);
/* "data=2,model=4"; lent. */
const char *iso_mesh_text(const iso_mesh *mesh);

/* A layout on a mesh, which must outlive it, from text: one entry per dimension, mesh axes joined by '+', '-'
 * where the dimension is whole, for example "batch, -" or "data+model, -, -"; "" for a scalar. Behind the
 * dimensions may stand axes along which the slots hold addends of the tensor, "batch, -; partial(model)", or
 * candidates for its greatest elements, "batch, -; partial max(model)". ISO_INVALID names the text, the
 * position and what is wrong there. Owned by the caller. */
iso_status iso_layout_create(iso_mesh *mesh, const char *text, iso_layout **layout);
/* Of so many dimensions: all of them whole; the first cut along an axis. */
iso_status iso_layout_replicated(iso_mesh *mesh, int rank, iso_layout **layout);
iso_status iso_layout_batch_sharded(iso_mesh *mesh, const char *axis, int rank, iso_layout **layout);
void iso_layout_destroy(iso_layout *layout);
/* One line: layout 'batch, -' on mesh batch=4,model=2. Any rank may print. */
void iso_layout_print(const iso_layout *layout, FILE *out);
/* "batch, -" into text (of `size` bytes, always terminated); returns text. */
char *iso_layout_describe(const iso_layout *layout, char *text, size_t size);

/* Layouts by path, with the meaning of Keras 3's LayoutMap: an exact key first, then every key as a regular
 * expression (Python's) against the whole path. Paths are those of variables ("d1/kernel"), of layers' and
 * blocks' outputs
 * ("d2/output"), of inputs ("image/output") and, with "optimizer:" in front, of optimizers' slots
 * ("optimizer:d1/kernel/momentum", for which only keys that begin so are tried). The mesh must outlive the
 * map. */
iso_status iso_layout_map_create(iso_mesh *mesh, iso_layout_map **map);
void iso_layout_map_destroy(iso_layout_map *map);
/* layout: one entry per dimension, mesh axes joined by '+', '-' for replicated: "-, model", "data+model, -".
 */
iso_status iso_layout_map_set(iso_layout_map *map, const char *key, const char *layout);
/* Takes a key out (the key itself, no expression). ISO_INVALID where the map has none such. */
iso_status iso_layout_map_remove(iso_layout_map *map, const char *key);
/* The keys in the order in which they were set, and their layouts as they were given. Lent. */
int iso_layout_map_count(const iso_layout_map *map);
const char *iso_layout_map_key(const iso_layout_map *map, int index);
const char *iso_layout_map_layout(const iso_layout_map *map, int index);
/* Adds the keys of a JSON file: {"d1/kernel": [null, "model"], "d2/kernel": [["data", "model"], null]}, as
 * Keras's tuples, or as text: {"d1/kernel": "-, model"}. Rank 0 reads it. ISO_INVALID names file, line,
 * column, key and value. Collective. */
iso_status iso_layout_map_read(iso_layout_map *map, const char *path);
/* A key that matches nothing is an error instead of a warning. */
void iso_layout_map_set_strict(iso_layout_map *map, bool strict);

/* ---- distributions: how the tensors of a graph lie on a mesh. They outlive the functions of their graphs.
 * ---- */

enum { ISO_LAYOUT_TEXT = 512 }; /* bytes that a callback may write */
/* Says how one tensor lies: writes a layout ("data, -") into `layout` (`size` bytes, an empty text at first),
 * or leaves it empty for what is usual. shape: global, ISO_BATCH for the rows. An error, or a layout that
 * does not fit mesh and shape, becomes that of the call that makes the function, with the path in front.
 * Every rank calls it with the same paths in the same order, for each function that is made, and it must
 * answer alike: ranks compare the answers. */
typedef iso_status (*iso_layout_callback)(void *arg, const char *path, const iso_shape *shape, char *layout,
                                          size_t size);
typedef struct iso_distribution_options {
    char begin_;
    iso_layout_callback data;     /* inputs, "image/output"; usual: the batch over every axis of the mesh */
    iso_layout_callback variable; /* "d1/kernel"; usual: replicated */
    iso_layout_callback output;   /* layers' outputs, "d1/output"; usual: where they fall */
    iso_layout_callback
        optimizer; /* optimizers' slots, "optimizer:d1/kernel/momentum"; usual: as the variable */
    void *arg;     /* the callbacks' first argument; NULL: the distribution */
} iso_distribution_options;
/* mesh NULL: the default mesh. */
iso_status iso_distribution_create_with(iso_mesh *mesh, iso_distribution **distribution,
                                        const iso_distribution_options *options, size_t size);
#define iso_distribution_create(mesh, distribution, ...)                                                     \
    iso_distribution_create_with(mesh, distribution, &(iso_distribution_options){.begin_ = 0, __VA_ARGS__},  \
                                 sizeof(iso_distribution_options))
/* The batch (the first dimension of all inputs) split over every axis of the mesh, weights replicated but
 * those that have a layout of their own. mesh NULL: the default mesh. */
iso_status iso_data_parallel_create(iso_mesh *mesh, iso_distribution **distribution);
/* Inputs, variables and layers' outputs as the keys of a map say; the batch of other inputs split over one
 * axis. The map must outlive the distribution. */
typedef struct iso_model_parallel_options {
    const char *batch_axis; /* NULL: the first axis of the mesh */
} iso_model_parallel_options;
iso_status iso_model_parallel_create_with(iso_layout_map *map, iso_distribution **distribution,
                                          const iso_model_parallel_options *options, size_t size);
#define iso_model_parallel_create(map, distribution, ...)                                                    \
    iso_model_parallel_create_with(map, distribution, &(iso_model_parallel_options){__VA_ARGS__},            \
                                   sizeof(iso_model_parallel_options))
/* ZeRO by layout, over the axes of the batch. 1: what every run does (the update of replicated weights is
 * shared out, its state split). 2: the optimizer's slots of trainable variables are sharded, and gradients
 * reduce-scattered to them as they are made. 3: the variables are sharded too, gathered just before each use
 * and dropped after it, and every output of a layer is pinned to the batch. Each variable is cut along the
 * first dimension that the axes divide, else along the largest; single elements stay whole. The layouts of a
 * map go before these. Before the first function. ISO_INVALID for another level. */
iso_status iso_distribution_set_zero(iso_distribution *distribution, int level);
void iso_distribution_destroy(iso_distribution *distribution);
/* NULL where it is the default mesh and no graph has been distributed yet. */
iso_mesh *iso_distribution_mesh(const iso_distribution *distribution);
/* How the functions of this graph are distributed; before the first function. The distribution must outlive
 * the graph's functions. */
void iso_graph_distribute(iso_graph *graph, iso_distribution *distribution);

#ifdef __cplusplus
}
#endif
#endif
