/* The order in which sources are combined: one fixed binary tree over their positions, split at the largest
 * power of two. */
#ifndef ISO_TREE_H
#define ISO_TREE_H

/* Sources in the left half of a node of `count` >= 2 sources: the largest power of two below count. */
int iso_tree_left(int count);

/* A complete node of the tree whose value is one operand: sources [begin, begin + count). */
typedef struct iso_tree_node {
    int begin, count;
    int n_folds; /* combinations to make after this operand, in postfix order */
} iso_tree_node;

/* The location of a source: a host, and a memory domain there, or the group of domains that reach each other. */
typedef struct iso_memory_location {
    int host, domain;
} iso_memory_location;

/* Divides the tree over `count` sources, whose locations are given, into as few operands as possible for a reader at
 * `here`: single sources of its own domain, and the largest complete nodes whose sources are in one other domain of
 * its host, or on one other host, where they are combined. nodes: [count]. Returns the number of operands. */
int iso_tree_cut(const iso_memory_location *location, int count, iso_memory_location here,
                 iso_tree_node *nodes);

#endif
