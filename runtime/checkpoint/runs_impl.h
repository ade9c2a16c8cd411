/* Runs: the parts of a shard that are contiguous in the row-major order of the whole tensor. */
#ifndef ISO_CHECKPOINT_RUNS_IMPL_H
#define ISO_CHECKPOINT_RUNS_IMPL_H

#include "runtime/base/shards.h"

typedef struct iso_runs {
    const iso_state_shard *shard;
    int64_t most; /* elements of a run that the shard's ends do not shorten */
    int64_t next; /* index in the box's order */
} iso_runs;

iso_runs iso_runs_of(const iso_state_shard *shard);
/* The next run, in ascending order: its first element, in the shard (0 is the shard's first) and in the
 * tensor, and its count. False: there are no more. */
bool iso_runs_next(iso_runs *runs, int64_t *own, int64_t *global, int64_t *count);

#endif
