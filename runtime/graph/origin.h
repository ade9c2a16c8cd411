/* Where a network comes from: for writers of files that know the network by its name and its options. For models. */
#ifndef ISO_GRAPH_ORIGIN_H
#define ISO_GRAPH_ORIGIN_H

#include "runtime/graph/graph.h"

/* Notes that y is the output of the network `name` ("gpt") with the input x and these options, `size` bytes, which
 * are copied. Of several networks of a graph the last one counts. */
void iso_graph_set_origin(iso_tensor *x, iso_tensor *y, const char *name, const void *options, size_t size);
/* The options of the network that has this name, input and output; NULL: there is none. */
const void *iso_graph_origin(const iso_tensor *x, const iso_tensor *y, const char *name);

#endif
