/* Errors of a graph that the next collective call reports, once. For runtime/exec and runtime/train. */
#ifndef ISO_GRAPH_PENDING_H
#define ISO_GRAPH_PENDING_H

#include "runtime/graph/graph.h"

/* The error made while building, which stays; without one the error that is pending, if any, which is then
 * forgotten. To be followed by an agreement of the ranks. */
iso_status iso_graph_take_error(iso_graph *graph);

#endif
