/* Shards: the form in which state leaves the executor. Checkpoints, the fingerprint and the replica check
 * use shards and do not depend on plans. */
#ifndef ISO_BASE_SHARDS_H
#define ISO_BASE_SHARDS_H

#include "runtime/base/types.h"

/* A part of one variable in this process's memory: elements [begin, begin + count) of the row-major order
 * of `box`. Memory that the ranks of a host share is divided among them: each part is listed by one rank. */
typedef struct iso_state_shard {
    const char *path; /* lent */
    iso_dtype dtype;
    iso_shape shape; /* global */
    iso_box box;
    int64_t begin, count;
    void *data;  /* of the first of these elements */
    bool writer; /* this copy of these elements, of all copies, is written to files */
} iso_state_shard;

typedef struct iso_state_shards {
    int count;
    iso_state_shard *shards;
} iso_state_shards;

#endif
