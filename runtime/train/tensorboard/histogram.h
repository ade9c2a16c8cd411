/* Histograms of a graph's weights, of the global tensors on any mesh. */
#ifndef ISO_TRAIN_TENSORBOARD_HISTOGRAM_H
#define ISO_TRAIN_TENSORBOARD_HISTOGRAM_H

#include "runtime/graph/graph.h"

enum { ISO_HISTOGRAM_BUCKETS = 30 };

/* Buckets of equal width between the least and the greatest value, the last one with both its ends. Where all
 * values are one, the edges are too and the last bucket has them all. What is not finite is not counted. */
typedef struct iso_histogram {
    const char *path;       /* of the variable; lent */
    double least, greatest; /* 0 where nothing is counted */
    double count[ISO_HISTOGRAM_BUCKETS];
} iso_histogram;

/* Of all variables but the optimizer's, in order of creation; the list is the caller's (iso_free). Each rank
 * counts the elements that it writes into checkpoints; counts are added. Collective. */
iso_status iso_graph_histograms(iso_graph *graph, iso_histogram **list, int *count);

#endif
