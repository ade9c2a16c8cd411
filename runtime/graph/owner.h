/* Ownership of graphs. For runtime/exec and runtime/train. */
#ifndef ISO_GRAPH_OWNER_H
#define ISO_GRAPH_OWNER_H

#include "runtime/graph/graph.h"

/* Makes a model the owner of the graph: iso_graph_destroy() then does nothing. */
void iso_graph_own(iso_graph *graph);
bool iso_graph_owned(const iso_graph *graph);
/* Adds a holder of a graph, which releases it with iso_graph_release(). */
void iso_graph_hold(iso_graph *graph);
/* Releases a graph, owned or not; the last holder frees it. NULL is ignored. */
void iso_graph_release(iso_graph *graph);

#endif
