/* Histograms of a graph's weights: of the global tensors, on any mesh. */
#ifndef ISO_TRAIN_TENSORBOARD_HISTOGRAM_H
#define ISO_TRAIN_TENSORBOARD_HISTOGRAM_H

#include "runtime/graph/graph.h"

enum { ISO_HISTOGRAM_BUCKETS = 30 };

/* Buckets of equal width between the least and the greatest value; the last one includes both its ends. If
 * all values are equal, so are the edges, and the last bucket has them all. Values that are not finite are
 * not counted. */
typedef struct iso_histogram {
    const char *path;       /* of the variable; lent */
    double least, greatest; /* 0 if nothing is counted */
    double count[ISO_HISTOGRAM_BUCKETS];
} iso_histogram;

/* The histograms of all variables except the optimizer's, in the order of creation; the caller owns the list
 * (iso_free). Each rank counts the elements that it writes into checkpoints, and the counts are summed.
 * Collective. */
iso_status iso_graph_histograms(iso_graph *graph, iso_histogram **list, int *count);

#endif
