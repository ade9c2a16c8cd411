/* The partitioner's parts: partition.c walks the graph, strategy.c decides for one op, insert_reshard.c keeps the
 * values of each tensor. For runtime/spmd only. */
#ifndef ISO_SPMD_PARTITION_IMPL_H
#define ISO_SPMD_PARTITION_IMPL_H

#include "runtime/spmd/program.h"

/* A layout that the distribution gives to a path; path NULL: a layout that was propagated from such. */
typedef struct iso_annotation {
    const char *path;
    iso_layout layout;
} iso_annotation;

/* What is known of a tensor's layout before it is made (constraints.c): numbers of annotations. */
typedef struct iso_constraint {
    int first,
        count;    /* hard: the distribution gives these, first and those after it, to the tensor's paths */
    int hint;     /* offered to an op whose inputs are replicated; -1: none */
    int expected; /* a strategy violates it where it makes or takes the tensor in another; -1: none */
} iso_constraint;

typedef struct iso_partitioner {
    iso_program *program;
    const iso_mesh *mesh;
    iso_graph *graph;
    /* What is kept of tensors has room for [tensor_room]: the graph's and, after them, those of pieces. */
    int tensor_room, piece_room;
    iso_tensor **resolved;      /* what stands for it in this mode */
    bool *needed;               /* [graph->ops] */
    int *first_value;           /* the value in the layout chosen for it, or -1 */
    int *last_value;            /* the end of the list that begins with it (iso_program_value's next) */
    int *reader;                /* 1 + the last shared piece that reads it first; 0: none */
    int *next_reader;           /* [piece_room] 1 + the one before it */
    iso_constraint *constraint; /* [graph->tensors] */
    int n_annotations;
    iso_annotation *annotations; /* [n_annotations] */
    bool backward;               /* the op at hand is one of the backward pass */
    iso_layout input_layout[ISO_MAX_FUNCTION_INPUTS];
    uint32_t batch_axes;  /* bits: those that split the batch of an input */
    int64_t nominal_rows; /* for comparing costs: the program must not depend on the batch size */
} iso_partitioner;

/* Inputs, variables, constants: what no op computes. */
static inline bool iso_partition_is_source(const iso_op *op)
{
    return op->type == &iso_op_input || op->type == &iso_op_variable || op->type == &iso_op_constant;
}

/* ---- insert_reshard.c ---- */
/* A tensor's shape with a nominal number of rows. */
iso_shape iso_partition_shape(const iso_partitioner *p, const iso_tensor *tensor);
/* The layout chosen for a tensor that has a value. */
const iso_layout *iso_partition_layout(const iso_partitioner *p, const iso_tensor *tensor);
/* A new value of a tensor, made by a step (-1: a source), which from now on is the tensor's own. */
iso_status iso_partition_begin(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout, int step,
                               int *value);
/* The value of this tensor in this layout: one that exists, or a reshard of the one from which it is
 * cheapest. */
iso_status iso_partition_insert_reshard(iso_partitioner *p, iso_tensor *tensor, const iso_layout *layout,
                                        int *value);
/* Bytes that a slot takes from others to have this tensor in this layout, about. */
double iso_partition_cost(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout);

/* ---- constraints.c ---- */
/* Queries the distribution for the layouts of outputs, once for each path, and propagates them. */
iso_status iso_partition_find_constraints(iso_partitioner *p);
/* A layout in which a tensor that is not made yet will be wanted: its hint, or, for a gradient, the layout of
 * its tensor. NULL: none is known. */
const iso_layout *iso_partition_hint(const iso_partitioner *p, const iso_tensor *tensor);
/* The number of mesh axes along which this layout of an op's input or output is not the expected one. */
int iso_partition_violations(const iso_partitioner *p, const iso_tensor *tensor, const iso_layout *layout);
/* Reshards a tensor that has just been made to the layouts that the distribution gives to the paths of
 * `named`: the tensor itself, or an output in whose place the mode puts it. A variable's gradient is
 * reduce-scattered to the layout of the update. These layouts become the tensor's own. */
iso_status iso_partition_constrain(iso_partitioner *p, const iso_tensor *named, iso_tensor *tensor);

/* ---- strategy.c ---- */
/* A strategy: along each axis the factor that it shards, ISO_REPLICATE or ISO_PASS; and what follows. */
enum { ISO_REPLICATE = -1, ISO_PASS = -2 };
typedef struct iso_strategy {
    int8_t axis[ISO_MAX_AXES];
    iso_layout input[ISO_MAX_INPUTS], output[ISO_MAX_OUTPUTS];
    double share; /* of the op's work that one slot does */
    int sharded;  /* axes that share it out, those of one slot among them */
    int violations;
    double bytes;
} iso_strategy;
/* The best strategy for an op whose (resolved) inputs have values. */
void iso_partition_choose_strategy(const iso_partitioner *p, const iso_op *op, iso_strategy *best);

/* ---- decompose.c ---- */
/* Whether a dimension that the op's rule holds whole is sharded, and there are pieces that let it stay so. */
bool iso_partition_wants_decomposition(const iso_partitioner *p, const iso_op *op);
/* Makes the pieces that take the op's place: program->pieces->op[begin..end), some of them NULL. Their last
 * ones give the op's own output tensors. */
iso_status iso_partition_decompose(iso_partitioner *p, const iso_op *op, int *begin, int *end);

#endif
