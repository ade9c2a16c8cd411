/* Shards: how state leaves the executor. Checkpoints, the fingerprint and the replica check take shards and
 * know nothing of plans. */
#ifndef ISO_BASE_SHARDS_H
#define ISO_BASE_SHARDS_H

#include "runtime/base/types.h"

/* A part of one variable in this process's memory: elements [begin, begin + count) of the row-major order of
 * `box`. Memory that the ranks of a host share is listed by one of them, a part by each. */
typedef struct iso_state_shard {
    const char *path; /* lent */
    iso_dtype dtype;
    iso_shape shape; /* global */
    iso_box box;
    int64_t begin, count;
    void *data;  /* of the first of these elements */
    bool writer; /* of all copies of these elements, this one is written out */
} iso_state_shard;

typedef struct iso_state_shards {
    int count;
    iso_state_shard *shards;
} iso_state_shards;

#endif
