/* The results of a step, until the host reads them. For runtime/exec only. */
#ifndef ISO_EXEC_FUNCTION_RESULTS_IMPL_H
#define ISO_EXEC_FUNCTION_RESULTS_IMPL_H

#include "runtime/exec/function/async_steps.h"
#include "runtime/exec/function/bind_impl.h"

/* Pinned memory of the host. */
typedef struct iso_step_memory {
    iso_step_info info; /* what the step gives its kernels */
    double total;       /* of the step: faults and requests to stop */
    double
        output[]; /* [n_results]: each output's elements, of its own type, in the room of as many doubles */
} iso_step_memory;

typedef struct iso_step_results {
    iso_executable *executable;
    bool reported;      /* the outputs are in `memory` */
    bool counted;       /* among the runtime's steps */
    bool lost;          /* a message of this rank failed after the faults were counted */
    bool fault_known;   /* all ranks know of a fault of this one, even if it cannot read their number */
    bool device_failed; /* all ranks know that a device of one of them has failed in an earlier step */
    iso_status refused, failed; /* why this rank refuses its batch; the first fault that its host raised */
    char message[512];          /* of either */
    const iso_batch *batch;     /* that can name rows of the data set; NULL: there is none */
    int64_t position;           /* of the batch */
    iso_step_memory *memory;
    iso_step_rates
        *rates; /* [kinds of buckets] if the host computes them, in pinned memory; NULL: slots do */
    iso_fault
        *faults; /* [n_locals], of the kernels, in pinned memory; NULL: the host reads those of the slots */
    double *host_faults; /* [n_locals] what the host tells the kernels that count faults, in pinned memory */
    iso_device_event **ended; /* [n_locals] */
} iso_step_results;

/* The steps of a function that have begun and are not concluded. */
typedef struct iso_async_steps {
    iso_step_results step[ISO_ASYNC_STEPS];
    int first, count; /* those that are not concluded: a ring */
} iso_async_steps;

/* kinds: of buckets. */
iso_status iso_results_create(const iso_runtime *runtime, const iso_program *program, int kinds,
                              iso_async_steps *steps);
/* Waits for all steps that have begun. */
void iso_results_destroy(const iso_runtime *runtime, iso_async_steps *steps);
/* Returns the results of the step that begins next, empty. */
iso_step_results *iso_results_next(iso_async_steps *steps);
/* Queues the copies of the results that the host will read, after all local slots have queued the step. */
void iso_results_queue(const iso_runtime *runtime, const iso_program *program, iso_step_results *results);
/* Records the end of the step, after these copies. */
void iso_results_record(const iso_runtime *runtime, const iso_step_results *results);
/* Waits until all local slots have ended the step. Local. */
iso_status iso_results_wait(const iso_runtime *runtime, const iso_step_results *results);
/* values: [n_results], the elements of all outputs, one after the other. */
void iso_results_outputs(const iso_program *program, const iso_step_results *results, double *values);
/* Records the first fault of the kernels of local slots and returns ISO_INVALID; ISO_OK: there is none. */
iso_status iso_results_kernel_fault(const iso_runtime *runtime, const iso_step_results *results);
/* Lets kernels raise faults again, after those of a step are known. */
iso_status iso_results_clear_faults(const iso_runtime *runtime);

#endif
