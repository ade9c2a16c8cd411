/* The parts of the partitioner: partition.c walks the graph, strategy.c chooses for one op,
 * insert_reshard.c keeps the values of each tensor. For runtime/spmd only. */
#ifndef ISO_SPMD_PARTITION_IMPL_H
#define ISO_SPMD_PARTITION_IMPL_H

#include "runtime/spmd/program.h"

/* A layout that the distribution gives to a path; path NULL: one that was propagated from such a layout. */
typedef struct iso_annotation {
    const char *path;
    iso_layout layout;
} iso_annotation;

/* What is known about a tensor's layout before it is made (constraints.c): indices of annotations. */
typedef struct iso_constraint {
    int first, count; /* hard: those that the distribution gives to the tensor's paths, from `first` on */
    int hint;         /* offered to an op whose inputs are replicated; -1: none */
    int expected;     /* a strategy that makes or reads the tensor in another layout violates it; -1: none */
} iso_constraint;

typedef struct iso_partitioner {
    iso_program *program;
    const iso_mesh *mesh;
    iso_graph *graph;
    /* Tables of tensors have room for [tensor_room]: the graph's tensors, then those of decomposed ops. */
    int tensor_room, part_room;
    iso_tensor **resolved;      /* the tensor that replaces it in this mode */
    bool *needed;               /* [graph->ops] */
    int *step_of;               /* [graph->ops] the step that computes it; -1: none does */
    int *first_value;           /* the value in the layout chosen for it, or -1 */
    int *last_value;            /* the end of the list that begins with it (iso_program_value's next) */
    int *reader;                /* 1 + the last shared decomposed op that reads it first; 0: none */
    int *next_reader;           /* [part_room] 1 + the one before it */
    iso_constraint *constraint; /* [graph->tensors] */
    int n_annotations;
    iso_annotation *annotations; /* [n_annotations] */
    bool backward;               /* the current op belongs to the backward pass */
    bool again;                  /* the current op is computed again */
    iso_layout input_layout[ISO_MAX_FUNCTION_INPUTS];
    uint32_t batch_axes;  /* bits: those that split the batch of an input */
    int64_t nominal_rows; /* for comparing costs: the program must not depend on the batch size */
} iso_partitioner;

/* Inputs, variables, constants: no op computes them. */
static inline bool iso_partition_is_source(const iso_op *op)
{
    return op->type == &iso_op_input || op->type == &iso_op_variable || op->type == &iso_op_constant;
}

/* ---- insert_reshard.c ---- */
/* A tensor's shape with a nominal number of rows. */
iso_shape iso_partition_shape(const iso_partitioner *p, const iso_tensor *tensor);
/* The layout chosen for a tensor that has a value. */
const iso_layout *iso_partition_layout(const iso_partitioner *p, const iso_tensor *tensor);
/* Of a tensor that is computed again: the one that was made the first time; NULL: it is computed once. */
const iso_tensor *iso_partition_made_before(const iso_tensor *tensor);
/* Adds a new value of a tensor, made by a step (-1: a source), and makes it the tensor's own. */
iso_status iso_partition_begin(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout, int step,
                               int *value);
/* The value of this tensor in this layout: an existing one, or a reshard of the value from which it is
 * cheapest. */
iso_status iso_partition_insert_reshard(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout,
                                        int *value);
/* The approximate number of bytes that a slot receives to have this tensor in this layout. A tensor that is computed
 * again costs what it would if it had been kept: the strategies of its readers, and so their bits, stay the same. */
double iso_partition_cost(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout);

/* ---- constraints.c ---- */
/* Queries the distribution for the layouts of outputs, once for each path, and propagates them. */
iso_status iso_partition_find_constraints(iso_partitioner *p);
/* The layout that will be wanted of a tensor that is not made yet: its hint, or, for a gradient, the
 * layout of its tensor. NULL: none is known. */
const iso_layout *iso_partition_hint(const iso_partitioner *p, const iso_tensor *tensor);
/* The number of mesh axes along which this layout of an op's input or output is not the expected one. */
int iso_partition_violations(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout);
/* Reshards a tensor that has just been made to the layouts that the distribution gives to the paths of
 * `named`: the tensor itself, or an output that it replaces in this mode. A variable's gradient is
 * reduce-scattered to the layout of the update. These layouts become the tensor's own. */
iso_status iso_partition_constrain(iso_partitioner *p, const iso_tensor *named, iso_tensor *tensor);

/* ---- strategy.c ---- */
/* A strategy: for each axis, the factor that it shards, ISO_REPLICATE or ISO_PASS; and what follows from
 * these. */
enum { ISO_REPLICATE = -1, ISO_PASS = -2 };
typedef struct iso_strategy {
    int8_t axis[ISO_MAX_AXES];
    iso_layout input[ISO_MAX_INPUTS], output[ISO_MAX_OUTPUTS];
    double share; /* the part of the op's work that one slot does */
    int sharded;  /* axes that divide the work, axes of size 1 among them */
    int violations;
    double bytes;
} iso_strategy;
/* The best strategy for an op whose (resolved) inputs have values. */
void iso_partition_choose_strategy(const iso_partitioner *p, const iso_op *op, iso_strategy *best);

/* ---- decompose.c ---- */
/* Whether a dimension that the op's rule holds whole is sharded, and a decomposition lets it stay sharded. */
bool iso_partition_wants_decomposition(const iso_partitioner *p, const iso_op *op);
/* Makes the ops that replace the op: program->decomposed->ops[begin .. end - 1], some of them NULL. The
 * last ones produce the op's own output tensors. */
iso_status iso_partition_decompose(iso_partitioner *p, const iso_op *op, int *begin, int *end);

#endif
