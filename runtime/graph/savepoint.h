/* Savepoints: what is added to a graph after a savepoint was created can be taken out again, and put back.
 * iso_compile creates one before it adds losses, gradients and updates. A model can therefore be compiled
 * again, and a compile that fails changes nothing. For runtime/train and runtime/exec. */
#ifndef ISO_GRAPH_SAVEPOINT_H
#define ISO_GRAPH_SAVEPOINT_H

#include "runtime/graph/graph.h"

typedef struct iso_savepoint iso_savepoint;

/* Creates a savepoint of the graph's present state. ISO_NO_MEMORY; the graph's own error. Local, as all
 * functions here. */
iso_status iso_savepoint_create(iso_graph *graph, iso_savepoint **point);
/* Marks the end of what belongs to the savepoint. */
void iso_savepoint_end(iso_savepoint *point);
/* ISO_INVALID if ops, variables or layers were added after iso_savepoint_end: iso_savepoint_take_out would
 * take them out too. */
iso_status iso_savepoint_check(const iso_savepoint *point);
/* The numbers of the first variable and the first op that were added after it. */
int iso_savepoint_variables(const iso_savepoint *point);
int iso_savepoint_ops(const iso_savepoint *point);
/* Takes everything added after it out of the graph, including an error: the graph is then as it was when
 * the savepoint was created. Tensors and variables that are taken out live as long as the savepoint.
 * ISO_NO_MEMORY: nothing has changed. */
iso_status iso_savepoint_take_out(iso_savepoint *point);
/* Puts back what was taken out. Whatever was added to the graph since must have been taken out again.
 * Cannot fail. */
void iso_savepoint_put_back(iso_savepoint *point);
/* Takes out and frees everything added after it, and frees the savepoint. NULL is allowed. Cannot fail. */
void iso_savepoint_discard(iso_savepoint *point);
/* Takes out everything added after it, and frees the savepoint. Tensors and variables that are taken out live as
 * long as the graph, which refuses them (iso_tensor_within). Cannot fail. */
void iso_savepoint_revert(iso_savepoint *point);
/* Frees the savepoint and, if it is taken out, what it holds. NULL is allowed. */
void iso_savepoint_destroy(iso_savepoint *point);

#endif
