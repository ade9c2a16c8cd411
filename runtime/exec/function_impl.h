#ifndef ISO_EXEC_FUNCTION_IMPL_H
#define ISO_EXEC_FUNCTION_IMPL_H

#include "runtime/exec/bound_impl.h"

enum { ISO_MAX_BUCKETS = 64 }; /* of one function */

struct iso_function {
    iso_graph *graph;
    iso_runtime *runtime;
    iso_program *program;
    iso_bucket_list buckets;
    iso_update_state *updates;
    bool training, parts;
    iso_ready_plan *stepped; /* with parts: the plan of the last step */
    char name[64];
    iso_ready_plan *plans;         /* by batch size; the one used last in front */
    struct iso_recorder *recorder; /* NULL: no step is recorded */
};

/* What options ask of a graph, partitioned; the parts stay the caller's after an error too. */
iso_status iso_function_program(iso_graph *graph, const iso_distribution *distribution,
                                const iso_function_options *options, iso_program **program,
                                iso_bucket_list *buckets);

/* step.c: runs a plan on one batch, on all threads of this rank; refusal: on zeros instead, with this fault
 * on all its slots, or NULL. Returns the number of slots that met a fault (as the slots of this rank learnt
 * it; 0 where it has none). */
double iso_step_run(iso_function *function, iso_ready_plan *ready, const iso_batch *batch,
                    const char *refusal);

#endif
