/* Functions: the part of a graph that some outputs and updates need, ready to run in steps on every slot of
 * the mesh.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_EXEC_FUNCTION_FUNCTION_H
#define ISO_EXEC_FUNCTION_FUNCTION_H

#include "runtime/base/batch.h"
#include "runtime/base/fingerprint.h"
#include "runtime/base/free.h"
#include "runtime/base/options.h"
#include "runtime/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_function iso_function;
typedef struct iso_mesh iso_mesh;
typedef struct iso_value iso_value; /* runtime/exec/value/value.h */

typedef struct iso_function_options {
    char begin_;
    iso_tensor
        *inputs[ISO_MAX_FUNCTION_INPUTS]; /* in the order of the batch's components; the list ends at NULL */
    iso_tensor *outputs[ISO_MAX_FUNCTION_OUTPUTS]; /* in the order of the results; scalars for
                                                      iso_function_run */
    iso_update *updates[ISO_MAX_FUNCTION_UPDATES];
    bool training;     /* dropout is active, batch norm uses the batch's statistics, and (with .updates) the
                      layers' own updates run */
    bool parts;        /* outputs stay sharded, for iso_function_step; else every slot gets whole outputs */
    const char *name;  /* for messages and the printed plan; NULL: "training" or "inference" */
    int gpus_per_host; /* for iso_function_plan, where slots compute on GPUs: those of a host, which its slots
                          take in turn; 0: each slot has its own */
    iso_device_exchange gpu_exchange; /* and how those of a host exchange */
} iso_function_options;

/* Makes a function of a graph. The first function fixes the graph's distribution (iso_graph_distribute, or
 * all slots data parallel). A function holds its graph: a graph that the program destroys lives until its
 * last function is destroyed. Returns the graph's own error if building it failed. ISO_INVALID: inputs, outputs
 * or updates that are not in the graph; a layout that does not fit; ranks that make different functions. What
 * the function of iso_graph_set_restore returns. Collective. */
ISO_API iso_status iso_function_create_with(iso_graph *graph, iso_function **function,
                                            const iso_function_options *options, size_t size);
#define iso_function_create(graph, function, ...)                                                            \
    iso_function_create_with(graph, function, ISO_OPTIONS(iso_function_options, __VA_ARGS__))
/* Does nothing with NULL. Collective (see iso_mesh_destroy). */
ISO_API void iso_function_destroy(iso_function *function);

/* Runs one step on one global batch (NULL if the function has no inputs). results: one double for each
 * output, of the global batch. All ranks get the same status. ISO_INVALID: an error of the data (a label outside
 * the classes), or a batch that any rank refuses (NULL, wrong shapes); ranks that run different functions; a status
 * of the batch's `read`. After an error no update has been made. Batches must have
 * the same number of rows on all ranks; a rank that is given NULL assumes the number of the last step.
 * Collective. */
ISO_API iso_status iso_function_run(iso_function *function, const iso_batch *batch, double *results);
/* The same as iso_function_run, for a function whose outputs may be tensors: outputs[i] receives the whole global
 * tensor, dense, as doubles, on every rank. Collective. */
ISO_API iso_status iso_function_evaluate(iso_function *function, const iso_batch *batch,
                                         double *const *outputs);
/* The same as iso_function_run, for a function with .parts: results stay on their slots, for iso_function_part.
 * Collective. */
ISO_API iso_status iso_function_step(iso_function *function, const iso_batch *batch);
/* The part of an output that a slot of this rank holds after the last iso_function_step. Slots may hold the same
 * elements: every element of an output is in exactly one part that has `data`, of one rank. */
typedef struct iso_output_part {
    int output;  /* -1: there is no part with this index */
    iso_box box; /* of the global tensor, whose first dimension is the rows of the batch */
    iso_dtype dtype;
    /* Dense; lent until the next step of any function of the graph. NULL: the box is empty, or another slot's part
     * gives these elements. */
    const void *data;
} iso_output_part;
/* The number of parts, and each of them. There are none before the first iso_function_step, and after an
 * iso_function_call of this function or an error of its step. Local. */
ISO_API int iso_function_part_count(const iso_function *function);
ISO_API iso_output_part iso_function_part(const iso_function *function, int index);
/* ---- values in and out ---- */
typedef struct iso_function_call_options {
    char begin_;
    /* The values of the inputs, in the function's order; NULL: the input comes from `batch`. A value has the
     * input's type and shape (the first dimension is the rows, unless the input is unbatched) and is on a mesh
     * equal to the function's. A value in another layout than the input's is resharded. */
    iso_value *inputs[ISO_MAX_FUNCTION_INPUTS];
    /* Where to store the new value of each output, in the function's order; NULL: it is not stored. */
    iso_value **outputs[ISO_MAX_FUNCTION_OUTPUTS];
    const iso_batch *batch; /* for inputs without a value; NULL if there are none */
} iso_function_call_options;
/* One step whose inputs and results are values, as a jitted function of JAX on arrays:
 *     iso_function_call(f, .inputs = {x, w}, .outputs = {&y})
 * Each output becomes a new value on the function's mesh. If the function has .parts, the value has the
 * layout that the output has on the slots (partial sums are reduced); otherwise it is replicated. Inputs are
 * read before outputs are written and are not changed. So the same iso_value * may be in both lists; the
 * caller still destroys the old value. Updates are made as by iso_function_run.
 * An output is a copy owned by the caller. It does not change when the function runs again or is destroyed,
 * or when variables change. It keeps its mesh.
 * ISO_INVALID on all ranks: a value of another type, shape or mesh; inputs with different numbers of rows;
 * values that differ between ranks; a bad batch. Then no update is made and no output is written.
 * Collective. */
ISO_API iso_status iso_function_call_with(iso_function *function, const iso_function_call_options *options,
                                          size_t size);
#define iso_function_call(function, ...)                                                                     \
    iso_function_call_with(function, ISO_OPTIONS(iso_function_call_options, __VA_ARGS__))
/* Makes the plan for a batch of `rows` rows in advance; otherwise the first run makes it. ISO_INVALID: rows is
 * negative. Collective. */
ISO_API iso_status iso_function_prepare(iso_function *function, int64_t rows);

/* Figures of a plan for `rows` rows, in all or per slot (the largest). */
typedef struct iso_plan_facts {
    int slots;
    int batch_parts;         /* parts into which the mesh divides the rows of a batch; 1: each slot has all */
    int domains;             /* memory domains that have slots, of all hosts: on GPUs one for each GPU */
    int64_t parameters;      /* elements of all trainable variables, global */
    int64_t variables_bytes; /* of the copies of variables on this host */
    int64_t state_bytes;     /* optimizer state of the largest slot */
    int64_t arena_bytes;     /* private arena per slot */
    int64_t shared_bytes;    /* per slot in the host's shared window */
    int64_t host_bytes;      /* in the host's shared window for all its slots, variables included */
    double flops;            /* of one step, summed over slots, without the optimizer */
    double exchanged_bytes;  /* of one step, pulled from other slots, summed over slots */
    /* The same of a step in which every optimizer only accumulates gradients: without what updates of weights take,
     * and without new weights. exchanged_bytes if there is no such step. */
    double accumulation_bytes;
    int instructions, exchanges; /* of one slot's plan */
    /* How the GPUs of this host exchange: "NCCL 2.28.9 (libnccl.so.2)", "each other's memory", "memory of the
     * host"; NULL: they do not. Valid as long as the graph. */
    const char *gpu_exchange;
} iso_plan_facts;
/* The facts of the plan for `rows` rows, which is made if there is none yet. Errors as iso_function_prepare.
 * Collective. */
ISO_API iso_status iso_function_facts(iso_function *function, int64_t rows, iso_plan_facts *facts);
/* Operations and pulled bytes that the local slots counted in all steps so far. */
ISO_API void iso_function_counted(const iso_function *function, double *flops, double *exchanged_bytes);
/* The plan for `rows` rows as text (isogrid_extend.h has it as data). Allocated: free with iso_free.
 * Errors as iso_function_prepare. Collective. */
ISO_API iso_status iso_function_print(iso_function *function, int64_t rows, char **text);

/* The mesh on which the graph's functions run; NULL before the first is made. Lent. */
ISO_API const iso_mesh *iso_graph_mesh(const iso_graph *graph);

/* ---- variables of a graph whose first function has been made ---- */
/* The global value on every rank, dense, converted to double / from double; `count` must be the variable's
 * number of elements. ISO_INVALID if ranks name different variables, or assign different values.
 * Both collective. */
ISO_API iso_status iso_variable_read(iso_variable *variable, double *values, int64_t count);
ISO_API iso_status iso_variable_assign(iso_variable *variable, const double *values, int64_t count);
/* Sets the variables that the function updates by an optimizer with use_ema to their averages, as Keras's
 * optimizer.finalize_variable_values() does. Gathers one variable at a time, all of it on every rank, as float64:
 * ISO_NO_MEMORY. Collective; between steps. */
ISO_API iso_status iso_function_take_averages(iso_function *function);
/* The same, but exchanges both, so that a second call restores them. ISO_NO_MEMORY. Collective; between steps. */
ISO_API iso_status iso_function_swap_averages(iso_function *function);
/* Training steps so far; 0 before the graph's first function is made. Dropout's random numbers depend on
 * them. Local. */
ISO_API uint64_t iso_graph_steps(const iso_graph *graph);
/* Sets them when training is resumed from a checkpoint: to the same number on every rank, after the graph's
 * first function has been made. Not collective. */
ISO_API void iso_graph_set_steps(iso_graph *graph, uint64_t steps);
/* Sets the function that gives the variables their values when the graph's first function is made, instead of
 * their initializers. It is called collectively. If it fails, that function is not made, and the next one
 * calls it again. NULL: initializers again. Local. */
ISO_API void iso_graph_set_restore(iso_graph *graph, iso_status (*restore)(void *user), void *user);
/* The fingerprint of all trainable and non-trainable variables (not of optimizer slots).
 * ISO_INVALID before the graph's first function is made. Collective. */
ISO_API iso_status iso_graph_fingerprint(iso_graph *graph, iso_fingerprint *fingerprint);
/* Compares the bits of all copies of each variable that several hosts hold, whole or a part of it. compared:
 * receives the bytes of these copies, 0 if no element has two; may be NULL. Optimizer slots are not compared:
 * each element of them has one holder. Each rank reads the elements that it lists (iso_graph_shards), and two
 * small all-reduces follow. ISO_FAILED: copies differ; names the first such variable, the hosts with their
 * ranks, the first element with its values, and the other variables. It says which hosts differ from most, if
 * most are equal. Collective; between steps. */
ISO_API iso_status iso_graph_check_replicas(iso_graph *graph, int64_t *compared);

#ifdef __cplusplus
}
#endif
#endif
