/* Programs: a function's part of the graph after partitioning, the same for every slot and every batch size.
 *
 * A value is a tensor in one layout. A step is an op on values, or a reshard of one value into another. */
#ifndef ISO_SPMD_PROGRAM_H
#define ISO_SPMD_PROGRAM_H

#include "runtime/base/batch.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/spmd/spmd_impl.h"

typedef struct iso_program_value {
    iso_tensor *tensor;
    iso_layout layout;
    int step;      /* that makes it; -1 for inputs, variables and constants */
    bool backward; /* a reshard made for the backward pass */
    bool again;    /* one that only ops which are computed again have read so far */
    int next;      /* the tensor's next value, in the order they were made; -1: none */
} iso_program_value;

typedef struct iso_program_step {
    iso_op *op;                /* NULL: a reshard of value input[0] into value output[0] */
    int input[ISO_MAX_INPUTS]; /* values */
    int output[ISO_MAX_OUTPUTS];
    double replicas; /* slots that compute the same part; 1: the work is divided over the whole mesh */
} iso_program_step;

/* A change of state: an assignment of `value` in the variable's layout, or an optimizer's update with the
 * gradient `value`. The dimensions of that gradient have the update's layout, and it is partial over every
 * axis along which the update's layout is replicated. */
typedef struct iso_program_change {
    iso_variable *variable;
    iso_op *apply; /* NULL: an assignment */
    int value;
} iso_program_change;

typedef struct iso_program {
    iso_graph *graph;
    const iso_distribution *distribution;
    const iso_mesh *mesh;
    bool training;
    int n_values;
    iso_program_value *values;
    int n_steps;
    iso_program_step *steps;
    int n_inputs, n_outputs;
    iso_tensor *inputs[ISO_MAX_FUNCTION_INPUTS];
    int input_value[ISO_MAX_FUNCTION_INPUTS];   /* -1: nothing reads it */
    int output_value[ISO_MAX_FUNCTION_OUTPUTS]; /* replicated values; with a request's `parts`: sharded as
                                                   they are */
    int64_t n_results; /* elements of all outputs; -1: one of them has a batch dimension */
    int n_changes;
    iso_program_change *changes;
    int n_variables;             /* of the graph when the program was made */
    iso_layout *variable_layout; /* [n_variables] */
    iso_layout *update_layout;   /* [n_variables] of optimizer slots and gradients in the update: the
                                    variable's, or finer */
    iso_text noted;              /* the layouts from the distribution, one line per path */
    /* Ops by which decompose.c replaced ops of the graph; their id is that of the op they stand for. NULL:
     * none */
    iso_graph *decomposed;
    int n_fused;
    iso_op **fused; /* ops by which fuse.c replaced ops of the graph */
} iso_program;

/* What kernels of the backend do themselves (iso_backend): casts between float32 and bfloat16, and windows. */
typedef struct iso_fusion_kernels {
    bool rounds;     /* the cast of a sum that no other slot adds to */
    bool normalizes; /* casts before and after layer normalisations and their gradients */
    bool unfolds;    /* windows along the depth of convolved volumes */
} iso_fusion_kernels;

typedef struct iso_program_request {
    bool training;
    bool keeps_all; /* nothing is computed again for the backward pass: for comparing plans */
    iso_fusion_kernels kernels;
    bool parts; /* outputs stay sharded instead of whole on every slot, without partial sums and overlaps */
    int n_inputs, n_outputs, n_updates;
    iso_tensor *const *inputs;
    iso_tensor *const *outputs;
    iso_update *const *updates;
} iso_program_request;

/* Extracts what the outputs and updates need in this mode, chooses a layout for every tensor and inserts
 * the reshards. The result depends only on graph, mesh and layouts. */
iso_status iso_program_create(iso_graph *graph, const iso_distribution *distribution,
                              const iso_program_request *request, iso_program **program);
void iso_program_destroy(iso_program *program);
/* Appends a value or step, for the partitioner; its number or address is returned in the last argument. */
iso_status iso_program_add_value(iso_program *program, iso_tensor *tensor, const iso_layout *layout, int step,
                                 int *value);
iso_status iso_program_add_step(iso_program *program, iso_op *op, iso_program_step **step);
/* Notes a layout that the distribution gave to a path, so that ranks compare it. For the partitioner. */
void iso_program_note(iso_program *program, const char *path, const iso_layout *layout);
/* The variable in whose memory a value is stored, because it is the variable's value or a reshape of it;
 * NULL: none. */
const iso_variable *iso_program_variable_under(const iso_program *program, int value);
/* Copies outputs and assigned values that are variables which the program itself changes: both have the
 * values from the beginning of the step. */
iso_status iso_program_keep_old_values(iso_program *program);
/* Reports the keys of the distribution's layout map that match no variable, output or input of the
 * program's graph and (if the program has optimizers) none of their slots. */
iso_status iso_program_report_unmatched_keys(const iso_program *program, bool chief);
/* The program as text, which is the same for equal programs: one line for each layout that the distribution gave,
 * source, op with its settings and values, and change. Constants have a hash of their values. */
void iso_program_list(const iso_program *program, iso_text *lines);

/* ---- fusing steps (fuse.c) ----
 * Computes a ReLU that follows a batch normalisation inside the normalisation's kernels, and adds the gradient of
 * an embedding to another one by the rows that it touches. Layer normalisations and their gradients also compute
 * the sums of residual connections. Kernels do the casts and take the windows that `kernels` says. The result
 * depends only on the program. */
iso_status iso_program_fuse(iso_program *program, const iso_fusion_kernels *kernels);
void iso_program_free_fused(iso_program *program);

/* ---- resolving a function's mode (resolve_mode.c) ---- */
/* The tensor that replaces each tensor of the graph in this mode: itself, another, or NULL: absent, a zero
 * that is never computed. */
void iso_resolve(const iso_graph *graph, bool training, iso_tensor **resolved);

/* ---- resharding (reshard.c) ---- */
/* One region of a slot's new box, and the slots whose parts of it are added (in increasing order). */
typedef struct iso_region {
    iso_box box;
    int sources;
    const int *slot;           /* [sources] */
    const iso_box *source_box; /* [sources] what these hold under the old layout */
} iso_region;
typedef iso_status (*iso_region_visit)(void *arg, const iso_region *region);
/* Visits the regions that make up the box of `slot` under `to`. Parts that no region covers are zero (if
 * `to` is partial along more axes than `from`). shape: rows fixed. `from` must not be a halo, unless `to`
 * has the same one. */
iso_status iso_reshard_visit(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, int slot, iso_region_visit visit, void *arg);
/* Slots with the same key take the same regions from the same slots. */
iso_hash_key iso_reshard_key(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, int slot);
/* True if every slot makes its new box from its own old one. */
bool iso_reshard_local(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to);
/* The approximate number of elements that a slot receives from others, for comparing choices. DBL_MAX if
 * `from` is a halo that `to` does not have: such values are copies for their readers, not sources. */
double iso_reshard_cost(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                        const iso_shape *shape);

#endif
