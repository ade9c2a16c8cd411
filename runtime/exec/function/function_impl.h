#ifndef ISO_EXEC_FUNCTION_FUNCTION_IMPL_H
#define ISO_EXEC_FUNCTION_FUNCTION_IMPL_H

#include "collectives/control/watchdog.h"
#include "runtime/exec/function/bind_impl.h"
#include "runtime/exec/function/results_impl.h"

struct iso_function {
    iso_graph *graph;
    iso_runtime *runtime;
    bool listed;                   /* in the runtime's list of functions */
    iso_function *next, *previous; /* in that list */
    iso_program *program;
    iso_bucket_list buckets;
    iso_update_state *updates;
    iso_function *constraints; /* brings the updated variables to their constraints; NULL: they have none */
    bool training, parts;
    bool defers_weights;     /* a step leaves it to the next one to send new weights to other hosts */
    iso_executable *stepped; /* only with .parts: the plan of the last step */
    iso_mapping
        *part; /* only with .parts: [n_outputs * n_locals] its outputs, mapped while `stepped` is set */
    iso_async_steps steps;
    double *found; /* [n_results + 1] the results of the step that is concluded; in [n_results] its total */
    char name[64];
    unsigned number, plans_made;   /* among all functions of the runtime; of its own */
    iso_watchdog_name step_name;   /* for the watchdog */
    iso_executable *plans;         /* by batch size; the most recently used one is first */
    struct iso_recorder *recorder; /* NULL: no step is recorded */
};

/* Makes the partitioned program of the outputs and updates in the options. The arguments stay the caller's, also
 * after an error. keeps_all: as if no activation was recomputed for the backward pass; keys that match nothing are
 * then not reported. */
iso_status iso_function_program(iso_graph *graph, const iso_distribution *distribution,
                                const iso_function_options *options, bool keeps_all, iso_program **program);
/* The buckets of its updates: split by size if the mesh crosses hosts. */
iso_status iso_function_buckets(const iso_program *program, bool one_domain, iso_bucket_list *buckets);

/* run.c: the shape that a batch states for an input: that of a row, or the whole shape of an unbatched
 * input. */
iso_shape iso_input_row(const iso_tensor *input);
/* run.c: ISO_INVALID unless all ranks run the same function on as many rows. Collective. */
iso_status iso_function_agree_on_run(const iso_function *function, int64_t rows);
/* function.c: returns the plan for `rows` rows, which is made if there is none, and puts it in front of the others.
 * New weights that a step of another plan has left are sent. Collective. */
iso_status iso_function_executable(iso_function *function, int64_t rows, iso_executable **executable);
/* run.c: runs one step on a batch; all ranks get the same status. On success *executable is the plan that ran.
 * refused: the status of an earlier check on this rank; unless it is ISO_OK, the step fails with it on all ranks.
 * Collective. */
iso_status iso_function_take_step(iso_function *function, const iso_batch *batch, iso_status refused,
                                  iso_executable **executable);

/* outputs.c: lends no parts any more. Local. */
void iso_function_unmap_parts(iso_function *function);

/* input_rows.c: calls the batch's `prepare`, if it has one, with the rows that the local slots will read; with no
 * rows if `refused`. An error is local to this rank. Collective for a batch with `prepare`. */
iso_status iso_reads_prepare(const iso_runtime *runtime, iso_executable *executable, const iso_batch *batch,
                             bool refused);

/* input_rows.c: in the first step of a plan, counts the batches that the data set keeps among what is needed of the
 * host, and checks that it has as much. All ranks must be known to run this plan. Collective. */
iso_status iso_reads_count_kept(const iso_function *function, iso_executable *executable,
                                const iso_batch *batch);

/* read_rows.c: reads a slot's part of a batch into memory of the host. thread: the slot's. Local. */
iso_status iso_read_rows(const iso_runtime *runtime, int thread, const iso_batch *batch,
                         const iso_slot_instruction *bound, void *out);

/* rates.c: computes results->rates for a step that begins now, where a device runs its kernels. *computed: false if
 * the host does not know what they depend on, or on an error, which is of earlier work of the first slot. Local. */
iso_status iso_rates_compute(iso_function *function, const iso_step_results *results, bool *computed);
/* *updates: whether a step that begins now changes weights unless it meets a fault. Every rank finds the same, since
 * iterations have the same value on all; true if a step computes an iteration, or on an error, which is of earlier
 * work of the first slot. Local. */
iso_status iso_rates_find_update(iso_function *function, const iso_plan *plan, bool *updates);
/* Notes that a step of this program has begun. Local. */
void iso_rates_note_step(iso_runtime *runtime, const iso_program *program);

/* step.c: runs results->executable on one batch, on all threads of this rank, and queues its results. If
 * results->refused, the step runs on zeros and all slots of this rank raise a fault with results->message. */
void iso_step_run(iso_function *function, const iso_batch *batch, iso_step_results *results);
/* Sends the new weights that the last step left to the next one, if it did. Collective. */
void iso_step_send_deferred_weights(iso_runtime *runtime);

/* function_facts.c: if a plan found no memory, adds to the message what it needs on a GPU, or on a host. plan:
 * NULL before there is one: what a batch of one row needs. Returns `status`. */
iso_status iso_function_explain_memory(const iso_function *function, const iso_plan *plan, iso_status status);

#endif
