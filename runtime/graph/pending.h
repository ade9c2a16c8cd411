/* Errors of a graph that the next collective call reports. Before the graph has a function, an error made while
 * building stays. Later it is reported once, and what was added to the graph since the last commit is taken out
 * again: a trained model can still be used and saved. For runtime/exec and runtime/train. */
#ifndef ISO_GRAPH_PENDING_H
#define ISO_GRAPH_PENDING_H

#include "runtime/graph/graph.h"

/* The error made while building. If there is none, the pending error, if any, which is then cleared. The ranks must
 * agree on the result afterwards. */
iso_status iso_graph_take_error(iso_graph *graph);
/* Makes the present state of a graph that has a function the one to go back to. Called when a function was made,
 * and when compiling ends. ISO_NO_MEMORY: there is none to go back to. The ranks must agree on the result. NULL
 * is ignored. */
iso_status iso_graph_commit(iso_graph *graph);

#endif
