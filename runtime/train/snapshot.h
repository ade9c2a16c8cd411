/* Snapshots: a copy in memory of a graph's variables; each rank copies its own shards. For runtime/train
 * only. */
#ifndef ISO_TRAIN_SNAPSHOT_H
#define ISO_TRAIN_SNAPSHOT_H

#include "runtime/base/shards.h"
#include "runtime/graph/optimizer.h"

typedef struct iso_snapshot iso_snapshot;

/* Allocates accounted memory for this rank's shards of all variables except the optimizer's, and copies their
 * values. Local; between steps. */
iso_status iso_snapshot_create(iso_graph *graph, iso_snapshot **snapshot);
void iso_snapshot_destroy(iso_snapshot *snapshot);
/* Copies the current values again. Local; between steps. */
iso_status iso_snapshot_take(iso_snapshot *snapshot);
/* Restores the variables' values. Collective. */
iso_status iso_snapshot_put(iso_snapshot *snapshot);
/* Adds the snapshot's shards, each under "<path>/<the variable's path>": to be written to a file, or filled
 * from one. Lent until the snapshot is destroyed or another path is requested. Local. */
iso_status iso_snapshot_shards(iso_snapshot *snapshot, const char *path, iso_state_shards *shards);

#endif
