/* Builders for the decompositions of ops over sharded classes (classes.c), used by `split` of those ops. */
#ifndef ISO_GRAPH_OPS_CLASSES_IMPL_H
#define ISO_GRAPH_OPS_CLASSES_IMPL_H

#include "runtime/graph/ops/network_impl.h"

/* For each row along the axis: the largest element and sum(exp(x - largest)), both [.., 1, ..]. */
typedef struct iso_class_row {
    iso_tensor *max, *sum;
} iso_class_row;
iso_class_row iso_class_statistics(iso_tensor *x, int axis);
/* The sum along the axis, [.., 1, ..]. */
iso_tensor *iso_class_sum(iso_tensor *x, int axis);
/* x[label] of each row: labels [...], x [..., c] -> [..., 1]. */
iso_tensor *iso_class_pick(iso_tensor *labels, iso_tensor *x, bool lenient);
/* A row [.., 1, ..] without its dimension of 1. */
iso_tensor *iso_class_drop(iso_tensor *row, int axis);
/* Softmax along an axis that may be sharded, and the gradient of x from its result y. */
iso_tensor *iso_softmax_by_statistics(iso_tensor *x, int axis);
iso_tensor *iso_softmax_grad_by_sum(iso_tensor *y, iso_tensor *dy, int axis);

#endif
