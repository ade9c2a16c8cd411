/* The rules of a distribution as JSON, for checkpoints and for files of layouts.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_SPMD_DISTRIBUTION_JSON_H
#define ISO_SPMD_DISTRIBUTION_JSON_H

#include "runtime/base/json.h"
#include "runtime/spmd/spmd.h"

/* A layout's text as layout files have it: "data+model, -" is [["data", "model"], null], and a layout of partial sums
 * stays a text. The caller's; NULL: no memory. */
json_t *iso_layout_json(const char *layout);

/* The number of slots of the host that has the most of them. */
int iso_mesh_most_slots_of_host(const iso_mesh *mesh);

/* The rules that a graph's distribution has, an object of
 *   kind: "data parallel", "model parallel" (a layout map) or "callbacks" (of the program; they cannot be stored)
 *   zero: iso_distribution_set_zero's level
 *   batch_axis: of model parallel
 *   layouts: of model parallel: keys and layouts, as --layout-file has them
 * A graph without a distribution is data parallel. The caller frees it; NULL: no memory. */
json_t *iso_distribution_json(const iso_graph *graph);

/* Adds an object of keys and layouts as a layout file, a key on each line. indent: spaces before each line. The text
 * fails if out of memory. */
void iso_layout_file_add(iso_text *text, const json_t *layouts, int indent);

/* A distribution from such an object, on a mesh that may be another one than it was written on. name: what messages
 * call it. ISO_INVALID: not such an object; callbacks; layouts with axes that the mesh does not have.
 * *distribution is the caller's. */
iso_status iso_distribution_from_json(iso_mesh *mesh, const char *name, const json_t *rules,
                                      iso_distribution **distribution);

#endif
