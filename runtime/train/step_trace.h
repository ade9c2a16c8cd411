/* Selects the step of a training that is traced, and makes the text of its trace. For runtime/train only. */
#ifndef ISO_TRAIN_STEP_TRACE_H
#define ISO_TRAIN_STEP_TRACE_H

#include "runtime/base/text.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/train/callbacks.h"

typedef struct iso_step_trace {
    int64_t step; /* counts this run's steps, from 1; 0: the middle of its second epoch, or of its only one */
    iso_trace_detail detail;
    int64_t begun, ended; /* steps; where steps go ahead, one more has begun than ended */
    bool done;
} iso_step_trace;

/* When training begins. ISO_INVALID. */
iso_status iso_step_trace_begin(iso_step_trace *trace, const iso_fit_state *state);
/* Before each step. Collective before the traced step. */
iso_status iso_step_trace_before(iso_step_trace *trace, const iso_fit_state *state);
/* After each step. After the traced one, adds the trace to the chief's text and sets *ready, on every rank
 * alike; collective then. */
iso_status iso_step_trace_after(iso_step_trace *trace, const iso_fit_state *state, iso_text *json,
                                bool *ready);

#endif
