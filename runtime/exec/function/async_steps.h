/* Steps whose results are read while the next step runs, on devices whose memory the host cannot read. */
#ifndef ISO_EXEC_FUNCTION_ASYNC_STEPS_H
#define ISO_EXEC_FUNCTION_ASYNC_STEPS_H

#include "runtime/exec/function/function.h"

/* How many steps may have begun before the first of them is concluded. */
enum { ISO_ASYNC_STEPS = 2 };

/* Whether it is faster to begin a step before the last one is concluded. The same on all ranks. Local. */
bool iso_function_is_async(const iso_function *function);
/* The first half of iso_function_run: begins a step and does not wait for its results. At most ISO_ASYNC_STEPS
 * steps may have begun and not be concluded. Functions that read variables afterwards wait for the step themselves.
 * Outputs may be tensors without a batch dimension. On an error no step has begun. Collective. */
iso_status iso_function_begin_step(iso_function *function, const iso_batch *batch);
/* The second half of iso_function_run, for the first step that has begun: waits for it. The results (may be
 * NULL), the elements of all outputs one after the other, and the status are those of iso_function_run. If a
 * step met an error of the data, the steps that began after it have changed nothing either, and are concluded
 * with it. Collective. */
iso_status iso_function_end_step(iso_function *function, double *results);
/* After an error, waits for the steps that have begun and are not concluded. Their results are dropped. Local. */
void iso_function_drop_steps(iso_function *function);

#endif
