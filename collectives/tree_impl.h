/* The order in which sources are combined: one fixed binary tree over their positions, split at the largest
 * power of two. */
#ifndef ISO_TREE_IMPL_H
#define ISO_TREE_IMPL_H

#include <stdbool.h>

/* A complete node of the tree whose value is one operand: sources [begin, begin + count). */
typedef struct iso_tree_node {
    int begin, count;
    int n_folds; /* combinations to make after this operand, in postfix order */
} iso_tree_node;

/* Divides the tree over `count` sources, whose hosts are given, into as few operands as possible for host
 * `here`: single sources of its own, and the largest complete nodes whose sources are on one other host,
 * which combines them. nodes: [count]. Returns the number of operands. */
int iso_tree_cut(const int *host_of_source, int count, int here, iso_tree_node *nodes);

#endif
