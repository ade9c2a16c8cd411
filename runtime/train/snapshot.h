/* Snapshots: a copy in memory of a graph's variables, each rank its own shards. For runtime/train only. */
#ifndef ISO_TRAIN_SNAPSHOT_H
#define ISO_TRAIN_SNAPSHOT_H

#include "runtime/base/shards.h"
#include "runtime/graph/optimizer.h"

typedef struct iso_snapshot iso_snapshot;

/* Room for this rank's parts of all variables but the optimizer's, in accounted memory, and their values now.
 * Local; between steps. */
iso_status iso_snapshot_create(iso_graph *graph, iso_snapshot **snapshot);
void iso_snapshot_destroy(iso_snapshot *snapshot);
/* Takes the values anew. Local; between steps. */
iso_status iso_snapshot_take(iso_snapshot *snapshot);
/* Gives the variables the values back. Collective. */
iso_status iso_snapshot_put(iso_snapshot *snapshot);
/* Adds the snapshot's shards, each under "<path>/<the variable's path>": to be written to a file, or filled
 * from one. Lent as long as the snapshot lives and is asked under no other path. Local. */
iso_status iso_snapshot_shards(iso_snapshot *snapshot, const char *path, iso_state_shards *shards);

#endif
