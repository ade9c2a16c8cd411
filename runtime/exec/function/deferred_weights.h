/* New weights that a step leaves to the next one to send to other hosts. */
#ifndef ISO_EXEC_FUNCTION_DEFERRED_WEIGHTS_H
#define ISO_EXEC_FUNCTION_DEFERRED_WEIGHTS_H

#include "runtime/exec/function/function.h"

/* Whether a step of the function may leave it to the next step to send new weights to other hosts: they then
 * travel while that step computes. Until then weights are not up to date on every host; the functions that read or
 * write them on all ranks (iso_variable_read, iso_graph_fingerprint, a step of another function) send them first,
 * iso_graph_send_deferred_weights does it for those that read them on one rank (iso_variable_read_part,
 * iso_graph_shards). Local; every rank must ask for the same. */
void iso_function_defer_weights(iso_function *function, bool leave);
/* Sends the new weights that a step has left. Does nothing if there are none. Collective. */
void iso_graph_send_deferred_weights(iso_graph *graph);

#endif
