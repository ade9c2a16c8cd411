/* Who destroys a graph. For runtime/exec and runtime/train. */
#ifndef ISO_GRAPH_OWNER_H
#define ISO_GRAPH_OWNER_H

#include "runtime/graph/graph.h"

/* The graph now belongs to a model: iso_graph_destroy() leaves it alone. */
void iso_graph_own(iso_graph *graph);
bool iso_graph_owned(const iso_graph *graph);
/* One more holder of a graph, who lets go with iso_graph_release(). */
void iso_graph_hold(iso_graph *graph);
/* Lets go of a graph, owned or not; the last holder frees it. NULL is nothing. */
void iso_graph_release(iso_graph *graph);

#endif
