/* A step while it runs. For runtime/exec only. */
#ifndef ISO_EXEC_FUNCTION_STEP_IMPL_H
#define ISO_EXEC_FUNCTION_STEP_IMPL_H

#include <pthread.h>

#include "runtime/base/first_error.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/recorder_impl.h"

/* The first error of what is queued while a step is captured; several threads queue. */
typedef struct iso_step_refusal {
    pthread_mutex_t lock;
    iso_first_error first;
} iso_step_refusal;

typedef struct iso_step {
    iso_function *function;
    iso_runtime *runtime;
    iso_executable *executable;
    const iso_batch *batch;
    iso_recorder *recorder;    /* NULL: this step is not recorded */
    bool stop;                 /* this rank was asked to stop */
    bool takes_weights;        /* the step before has left its new weights to this one */
    int buffer;                /* which of its buffers a read uses */
    const atomic_int *lost;    /* the watchdog's word; NULL without one */
    const iso_step_info *info; /* pinned */
    bool knows_rates;          /* the host has computed results->rates */
    bool updates;              /* it changes weights, unless it meets a fault */
    iso_step_results *results;
    bool end_is_ordered;       /* by events */
    bool loads;                /* done in parts to load kernels: later ones like it are one launch */
    iso_step_refusal *refusal; /* not NULL: the step is captured, and not done */
} iso_step;

/* What the step does, in bits: ISO_STEP_COMPUTES, ... */
unsigned iso_step_does(const iso_step *s);

/* Records the begin of an event of a local slot; events nest. */
static inline void iso_step_event_begin(const iso_step *s, int local, iso_event_kind kind, int instruction)
{
    if (s->recorder)
        iso_recorder_open(s->recorder, local, kind, instruction, 1);
}

static inline void iso_step_event_end(const iso_step *s, int local)
{
    if (s->recorder)
        iso_recorder_close(s->recorder, local);
}

/* step.c: */
/* Raises a fault that the host has found; the first one of a step is kept. */
void iso_step_raise(iso_local_slot *slot, iso_status status);
/* Tells the kernels of a local slot that the host has found a fault, and that it was asked to stop. To be called
 * before they count. */
void iso_step_tell_host_faults(const iso_step *s, int local);
/* Before the faults are counted: failed messages are a fault of the step on all ranks, and so is a device that failed
 * in an earlier one: this one can count nothing, or what it counts does not leave it. Called by thread 0. */
void iso_step_tell_failures(const iso_step *s);
/* Reports a failure of the slot's device, which may have prevented the count of faults itself. */
void iso_step_tell_failed_device(const iso_step *s, int local);
/* An iso_job: queues the iso_step on the slots of a thread. */
void iso_step_queue(void *step, int thread);

/* step_inputs.c: */
/* Queues the copies of what a slot's kernels know of the step, if its first reads do not do them. */
void iso_step_begin_inputs(const iso_step *s, int local);
/* Reads of the batch, from instruction `from` on and before `stop`. Returns their number. A step that is captured
 * does not read the rows. */
int iso_step_read(const iso_step *s, int local, int from, int stop);
/* Reads all rows that a captured step of a local slot takes from pinned memory. */
void iso_step_fetch(const iso_step *s, int local);

/* step_graph.c: launches the step. False: it cannot be launched as one, and nothing was done. */
bool iso_step_launch(iso_step *s);

#endif
