/* Steps whose results are read while the next step runs, on devices whose memory the host cannot read. */
#ifndef ISO_EXEC_AHEAD_H
#define ISO_EXEC_AHEAD_H

#include "runtime/exec/function.h"

/* How many steps may have begun before the first of them is concluded. */
enum { ISO_STEPS_AHEAD = 2 };

/* Whether it is faster to begin a step before the last one is concluded. The same on all ranks. Local. */
bool iso_function_goes_ahead(const iso_function *function);
/* Runs a step as iso_function_run, whose first half this is: it does not wait for the results. At most
 * ISO_STEPS_AHEAD steps may have begun and not be concluded. What reads variables afterwards waits for the step
 * itself. On an error no step has begun. Collective. */
iso_status iso_function_begin_step(iso_function *function, const iso_batch *batch);
/* The second half, for the first step that has begun: waits for it; the results (may be NULL) and the status are
 * those of iso_function_run. A step that began after one with an error of the data has changed nothing either, and
 * is concluded with it. Collective. */
iso_status iso_function_end_step(iso_function *function, double *results);
/* Waits for the steps that have begun and are not concluded, after an error: nobody will read their results.
 * Local. */
void iso_function_drop_steps(iso_function *function);

#endif
