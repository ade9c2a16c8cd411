/* Checks of NULL arguments in functions that build graphs. The error is stored in the graph, if another
 * argument leads to it. For the library only. */
#ifndef ISO_GRAPH_NULL_TENSOR_H
#define ISO_GRAPH_NULL_TENSOR_H

#include "runtime/base/arguments.h"
#include "runtime/graph/graph.h"

/* Returns from a function that returns a tensor if one of these tensors is NULL: with the bad tensor of the others'
 * graph, or with NULL if all are NULL. */
#define ISO_NEED_TENSORS(...) ISO_NEED_TENSORS_AS(#__VA_ARGS__, __VA_ARGS__)
#define ISO_NEED_TENSORS_AS(names, ...)                                                                      \
    do {                                                                                                     \
        if (ISO_ANY_NULL_AS(names, __VA_ARGS__))                                                             \
            return iso_null_tensor((iso_tensor *const[]){__VA_ARGS__},                                       \
                                   sizeof((iso_tensor *const[]){__VA_ARGS__}) / sizeof(iso_tensor *));       \
    } while (0)

/* ISO_ANY_NULL, and the error stays in the graph. */
#define ISO_NULL_IN(graph, ...) ISO_NULL_IN_AS(graph, #__VA_ARGS__, __VA_ARGS__)
#define ISO_NULL_IN_AS(graph, names, ...) (ISO_ANY_NULL_AS(names, __VA_ARGS__) && iso_null_in(graph))

/* Makes the recorded message the graph's error. Returns true. */
bool iso_null_in(iso_graph *graph);
/* The same in the graph of a tensor of the list that is not NULL; returns its bad tensor, or NULL. */
iso_tensor *iso_null_tensor(iso_tensor *const *tensors, size_t count);

#endif
