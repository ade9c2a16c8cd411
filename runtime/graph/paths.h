/* The paths by which layouts find tensors. For the library only. */
#ifndef ISO_GRAPH_PATHS_H
#define ISO_GRAPH_PATHS_H

#include "runtime/graph/graph.h"

/* The number of variables, inputs and outputs that layouts find by this path. */
int iso_graph_count_path(const iso_graph *graph, const char *path);

#endif
