/* Meshes, layouts, layout maps and distributions: where tensors are stored.
 * Functions are local unless their comment says otherwise; every rank makes the same calls. */
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

/* Creates a mesh from text, "data=2,model=4": named axes, row-major. The size of one axis may be "*": it
 * is then computed so that every rank hosts one slot (in a single process: one for each device,
 * iso_local_devices), or so that the mesh has as many slots as the variable ISOGRID_SLOTS states. spec NULL: the
 * default mesh, which is that of the option --mesh, or "data=*". Ranks host contiguous blocks of slots.
 * The option --devices (iso_devices_parse) lists the rank of each slot instead; it applies to every mesh
 * that this function creates, and "*" is then computed from the number of slots in the list. The placement
 * of slots changes no result. ISO_INVALID (names the text and the number of ranks): the text does not
 * parse, has fewer slots than ranks, or overflows; the list has another number of slots, a rank that does
 * not exist, or no slot for some rank. Freed with iso_mesh_destroy(). Collective. */
ISO_API iso_status iso_mesh_create(iso_context *ctx, const char *spec, iso_mesh **mesh);
/* The same as iso_mesh_create, but the caller gives the rank of every slot: rank_of_slot [count], in mesh order,
 * any permutation or subset of the ranks. NULL: contiguous blocks. The list is copied; the mesh is freed with
 * iso_mesh_destroy(). ISO_INVALID as there. Collective. */
ISO_API iso_status iso_mesh_create_on(iso_context *ctx, const char *spec, const int *rank_of_slot, int count,
                                      iso_mesh **mesh);
/* An abstract mesh of any number of slots, on which nothing can run: for plans (iso_function_plan) and for
 * looking at layouts. All its slots are on rank 0. Freed with iso_mesh_destroy(). ISO_INVALID: the text does not
 * parse or overflows. Collective. */
ISO_API iso_status iso_mesh_abstract(iso_context *ctx, const char *spec, iso_mesh **mesh);
/* The same as iso_mesh_abstract, with the rank of each slot from a list in the form of --devices
 * (iso_devices_parse; NULL: as iso_mesh_abstract). The ranks need not exist. Each rank up to the highest must have
 * a slot. Freed with iso_mesh_destroy(). ISO_INVALID: the text or the list. Collective. */
ISO_API iso_status iso_mesh_abstract_on(iso_context *ctx, const char *spec, const char *devices,
                                        iso_mesh **mesh);
/* Parses the list of the option --devices, for iso_mesh_create_on: the rank of each slot in mesh order (the
 * last axis runs fastest). Entries are ranks "0,2,1,3", ranges of ranks "0-3,3-0", or a rank and its number
 * of slots "0x4,1x4". *rank_of_slot: [*count], freed by the caller with iso_free. ISO_INVALID names the
 * position in the text. Local. */
ISO_API iso_status iso_devices_parse(const char *text, int **rank_of_slot, int *count);
/* Objects may be destroyed in any order: what another object holds is freed with the last holder. This is
 * true of layouts, maps, distributions, values, graphs and functions, too. A distribution's `arg` belongs
 * to the caller. NULL is ignored. The last holder of a mesh or graph frees communicators, so destroying
 * any of these objects is collective: every rank destroys its objects in the same order. Collective. */
ISO_API void iso_mesh_destroy(iso_mesh *mesh);
/* Axes and slots count from 0. If there is none of this number: NULL, size 0, rank -1. */
ISO_API int iso_mesh_axes(const iso_mesh *mesh);
ISO_API const char *iso_mesh_axis_name(const iso_mesh *mesh, int axis);
ISO_API int iso_mesh_axis_size(const iso_mesh *mesh, int axis);
ISO_API int iso_mesh_slots(const iso_mesh *mesh);
ISO_API int iso_mesh_rank_of_slot(const iso_mesh *mesh, int slot);
/* "data=2,model=4"; lent. */
ISO_API const char *iso_mesh_text(const iso_mesh *mesh);
/* Whether two meshes of one context have the same axes (names, sizes, order) and the same rank for every
 * slot. NULL equals only NULL. Local. */
ISO_API bool iso_mesh_equal(const iso_mesh *a, const iso_mesh *b);

/* Creates a layout on a mesh, which it holds, from text: one entry per dimension, mesh axes joined by '+',
 * '-' if the dimension is whole, for example "batch, -" or "data+model, -, -"; "" for a scalar. The
 * dimensions may be followed by axes along which the slots hold partial sums of the tensor, "batch, -;
 * partial(model)", or candidates for its greatest elements, "batch, -; partial max(model)". ISO_INVALID
 * names the text, the position and what is wrong there. Owned by the caller. Local. */
ISO_API iso_status iso_layout_create(iso_mesh *mesh, const char *text, iso_layout **layout);
/* Layouts of `rank` dimensions: with all of them whole; with the first sharded along an axis. ISO_INVALID: a
 * number of dimensions that cannot be; an axis that the mesh does not have. Local. */
ISO_API iso_status iso_layout_replicated(iso_mesh *mesh, int rank, iso_layout **layout);
ISO_API iso_status iso_layout_batch_sharded(iso_mesh *mesh, const char *axis, int rank, iso_layout **layout);
/* Collective (iso_mesh_destroy). */
ISO_API void iso_layout_destroy(iso_layout *layout);
/* Prints one line: layout 'batch, -' on mesh batch=4,model=2; for NULL, "no layout". Any rank may print. */
ISO_API void iso_layout_print(const iso_layout *layout, FILE *out);
/* Writes "batch, -" into text (of `size` bytes, always terminated); returns text. */
ISO_API char *iso_layout_describe(const iso_layout *layout, char *text, size_t size);

/* ---- queries of a layout. Dimensions and axes count from 0. For a layout NULL, or a dimension or axis out
 * of range, the answer is 0, -1, false or NULL. Local. ---- */
/* The number of its dimensions, and its mesh (lent). */
ISO_API int iso_layout_rank(const iso_layout *layout);
ISO_API iso_mesh *iso_layout_mesh(const iso_layout *layout);
/* The number of mesh axes that shard a dimension (0: it is whole), and each of them, as a number for
 * iso_mesh_axis_name. The first splits the dimension, each next one splits the parts again. */
ISO_API int iso_layout_axes(const iso_layout *layout, int dimension);
ISO_API int iso_layout_axis(const iso_layout *layout, int dimension, int index);
/* The number of parts of a dimension: the product of the sizes of its axes, 1 if it is whole. */
ISO_API int iso_layout_parts(const iso_layout *layout, int dimension);
/* The effect of one mesh axis on the tensor, and the dimension that the axis shards (-1: none). */
typedef enum iso_placement {
    ISO_REPLICATED = 0,
    ISO_SHARDED,
    ISO_PARTIAL_SUM, /* the slots along the axis hold partial sums of the tensor */
    ISO_PARTIAL_MAX, /* candidates for its greatest elements */
} iso_placement;
ISO_API iso_placement iso_layout_placement(const iso_layout *layout, int axis);
ISO_API int iso_layout_dimension_of(const iso_layout *layout, int axis);
/* Whether every slot holds the whole tensor; whether some dimension has more than one part; whether slots
 * hold partial sums or candidates. An axis of one slot neither shards nor makes partial. */
ISO_API bool iso_layout_is_replicated(const iso_layout *layout);
ISO_API bool iso_layout_is_sharded(const iso_layout *layout);
ISO_API bool iso_layout_is_partial(const iso_layout *layout);
/* Whether two layouts on equal meshes shard each dimension by the same axes in the same order, and are
 * partial along the same axes. */
ISO_API bool iso_layout_equal(const iso_layout *a, const iso_layout *b);
/* The part of a tensor of this global shape that a slot holds: offset and extent in each dimension, possibly
 * empty. ISO_INVALID: no such slot, or a shape of another number of dimensions. Local. */
ISO_API iso_status iso_layout_local_box(const iso_layout *layout, iso_shape shape, int slot, iso_box *box);

/* Creates a layout map: layouts by path, with the meaning of Keras 3's LayoutMap: an exact key first, then
 * every key as a regular expression (Python's) that must match the whole path. Paths are those
 *   of variables                          "d1/kernel"
 *   of the outputs of layers and blocks   "d2/output"
 *   of inputs                             "image/output"
 *   of an optimizer's slots               "optimizer:d1/kernel/momentum"; only keys that begin so are tried
 * The map holds the mesh, and is freed with iso_layout_map_destroy(). ISO_NO_MEMORY. Local. */
ISO_API iso_status iso_layout_map_create(iso_mesh *mesh, iso_layout_map **map);
/* Collective (iso_mesh_destroy). */
ISO_API void iso_layout_map_destroy(iso_layout_map *map);
/* Adds a key. layout: one entry per dimension, mesh axes joined by '+', '-' for replicated: "-, model",
 * "data+model, -". ISO_INVALID: the map has the key; the key is no regular expression, or "?" alone; the layout
 * does not parse or names an axis that the mesh does not have. Functions that exist keep their layouts: a key that is
 * set later counts for functions that are made after it, and one that would change the layout of a variable is an
 * error of the first. A '?' before the key ("?logits/kernel") is no part of it; it may then match nothing. Local. */
ISO_API iso_status iso_layout_map_set(iso_layout_map *map, const char *key, const char *layout);
/* Removes a key (the key itself, not an expression). ISO_INVALID if the map does not have it. Local. */
ISO_API iso_status iso_layout_map_remove(iso_layout_map *map, const char *key);
/* The keys in the order in which they were set, and their layouts as given; NULL outside [0, count). Lent. */
ISO_API int iso_layout_map_count(const iso_layout_map *map);
ISO_API const char *iso_layout_map_key(const iso_layout_map *map, int index);
ISO_API const char *iso_layout_map_layout(const iso_layout_map *map, int index);
/* The layout that the map has for a path: that of the key equal to the path, else that of the one key that
 * matches the whole path as a regular expression. *layout is NULL if no key matches (a variable of this path
 * is replicated); lent until the map's keys change or it is destroyed. ISO_INVALID: several keys match (names
 * two). Local. */
ISO_API iso_status iso_layout_map_get(iso_layout_map *map, const char *path, const iso_layout **layout);
/* Adds the keys of a JSON file: {"d1/kernel": [null, "model"], "d2/kernel": [["data", "model"], null]}, as
 * Keras's tuples, or as text: {"d1/kernel": "-, model"}. Rank 0 reads it. ISO_INVALID names file, line,
 * column, key and value. Collective. */
ISO_API iso_status iso_layout_map_read(iso_layout_map *map, const char *path);
/* Makes a key that matches nothing an error instead of a warning, but for keys that were set with '?'. */
ISO_API void iso_layout_map_set_strict(iso_layout_map *map, bool strict);

/* ---- distributions: the layouts of the tensors of a graph on a mesh. Graphs hold theirs. ---- */

enum { ISO_LAYOUT_TEXT = 512 }; /* bytes that a callback may write */
/* Gives the layout of one tensor: writes a layout ("data, -") into `layout` (`size` bytes, an empty text
 * at first), or leaves it empty for the default. shape: global, ISO_BATCH for the rows. An error, or a
 * layout that does not fit mesh and shape, becomes the error of the call that makes the function, prefixed
 * with the path. Every rank calls it with the same paths in the same order, for each function that is
 * made, and it must give the same answers: ranks compare them. */
typedef iso_status (*iso_layout_callback)(void *arg, const char *path, const iso_shape *shape, char *layout,
                                          size_t size);
typedef struct iso_distribution_options {
    char begin_;
    iso_layout_callback data;     /* inputs, "image/output"; default: the batch over every axis of the mesh */
    iso_layout_callback variable; /* "d1/kernel"; default: replicated */
    iso_layout_callback output;   /* layers' outputs, "d1/output"; default: chosen by the partitioner */
    iso_layout_callback optimizer; /* slots, "optimizer:d1/kernel/momentum"; default: the variable's */
    void *arg;                     /* the callbacks' first argument; NULL: the distribution */
} iso_distribution_options;
/* mesh NULL: the default mesh. The distribution holds the mesh, and is freed with iso_distribution_destroy().
 * ISO_NO_MEMORY. Local. */
ISO_API iso_status iso_distribution_create_with(iso_mesh *mesh, iso_distribution **distribution,
                                                const iso_distribution_options *options, size_t size);
#define iso_distribution_create(mesh, distribution, ...)                                                     \
    iso_distribution_create_with(mesh, distribution, ISO_OPTIONS(iso_distribution_options, __VA_ARGS__))
/* Creates a distribution for data parallelism: the batch (the first dimension of all inputs) is split over every
 * axis of the mesh, and weights are replicated except those with a layout of their own. mesh NULL: the default
 * mesh. ISO_NO_MEMORY. Local. */
ISO_API iso_status iso_data_parallel_create(iso_mesh *mesh, iso_distribution **distribution);
/* Inputs, variables and layers' outputs have the layouts of a map; the batch of other inputs is split over
 * one axis. The distribution holds the map. Local. */
typedef struct iso_model_parallel_options {
    char begin_;
    const char *batch_axis; /* NULL: the first axis of the mesh */
} iso_model_parallel_options;
/* See above. ISO_INVALID: the mesh has no such axis. Local. */
ISO_API iso_status iso_model_parallel_create_with(iso_layout_map *map, iso_distribution **distribution,
                                                  const iso_model_parallel_options *options, size_t size);
#define iso_model_parallel_create(map, distribution, ...)                                                    \
    iso_model_parallel_create_with(map, distribution, ISO_OPTIONS(iso_model_parallel_options, __VA_ARGS__))
typedef struct iso_auto_parallel_options {
    char begin_;
    int64_t rows; /* of the global batch; 32 */
} iso_auto_parallel_options;
/* Creates a distribution with the layouts that iso_function_suggest proposes for the training of a model on this
 * mesh. The first iso_compile with this distribution searches on one rank, in milliseconds to seconds, and all
 * ranks use the result (iso_distribution_map). It depends on the network, the mesh, the rows and the number of
 * hosts. For functions of a graph that is not compiled, the distribution is data parallel over the first axis. mesh
 * NULL: the default mesh. The distribution holds the mesh, and is freed with iso_distribution_destroy().
 * ISO_INVALID: rows below 0; ISO_NO_MEMORY. Local. */
ISO_API iso_status iso_auto_parallel_create_with(iso_mesh *mesh, iso_distribution **distribution,
                                                 const iso_auto_parallel_options *options, size_t size);
#define iso_auto_parallel_create(mesh, distribution, ...)                                                    \
    iso_auto_parallel_create_with(mesh, distribution, ISO_OPTIONS(iso_auto_parallel_options, __VA_ARGS__))
/* The map of a distribution, which it keeps; NULL: it has none. Lent. */
ISO_API const iso_layout_map *iso_distribution_map(const iso_distribution *distribution);
/* ZeRO by layout, over the axes of the batch. level:
 *   1: as in every run: the update of replicated weights is divided, and its state split
 *   2: the optimizer's slots of trainable variables are sharded, and gradients are reduce-scattered to them
 *   3: the variables are sharded too, gathered just before each use and dropped after it, and every output of
 *      a layer is pinned to the batch
 * Each variable is sharded along the first dimension that the axes divide, else along the largest; single
 * elements stay whole. The layouts of a map take precedence. Must be called before the first function is
 * made. ISO_INVALID for another level. Local. */
ISO_API iso_status iso_distribution_set_zero(iso_distribution *distribution, int level);
/* Collective (iso_mesh_destroy). */
ISO_API void iso_distribution_destroy(iso_distribution *distribution);
/* The distribution's mesh, which it keeps; NULL if it is the default mesh and no graph has been distributed yet. */
ISO_API iso_mesh *iso_distribution_mesh(const iso_distribution *distribution);
/* Sets the distribution of the functions of this graph; must be called before the first function is made.
 * The graph holds the distribution. */
ISO_API void iso_graph_distribute(iso_graph *graph, iso_distribution *distribution);

#ifdef __cplusplus
}
#endif
#endif
