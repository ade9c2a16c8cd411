/* Errors of a graph that the next collective call reports, once. For runtime/exec and runtime/train. */
#ifndef ISO_GRAPH_PENDING_H
#define ISO_GRAPH_PENDING_H

#include "runtime/graph/graph.h"

/* The error made while building, which stays. If there is none, the pending error, if any, which is then
 * cleared. The ranks must agree on the result afterwards. */
iso_status iso_graph_take_error(iso_graph *graph);

#endif
