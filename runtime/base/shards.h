/* Shards: the form in which state leaves the executor. Checkpoints, the fingerprint and the replica check
 * use shards and do not depend on plans. */
#ifndef ISO_BASE_SHARDS_H
#define ISO_BASE_SHARDS_H

#include "runtime/base/types.h"

/* A part of one variable in this process's memory: elements [begin, begin + count) of the row-major order
 * of `box`. Memory that the ranks of a domain share is divided among them: each part is listed by one rank.
 * If several domains hold the box (copies > 1), `begin` is a multiple of ISO_SHARD_UNIT bytes, so that parts of
 * different copies can be compared unit by unit. */
enum { ISO_SHARD_UNIT = 4096 };
typedef struct iso_stream iso_stream; /* runtime/base/device.h */
typedef struct iso_state_shard {
    const char *path; /* lent */
    iso_dtype dtype;
    iso_shape shape; /* global */
    iso_box box;
    int64_t begin, count;
    void *data; /* of the first of these elements */
    iso_stream
        *stream; /* NULL: the host may access `data`; else it is in the memory of this stream's device */
    bool writer; /* this copy of these elements, of all copies, is written to files */
    int copies;  /* the number of memory domains that hold the box; each has one copy */
    int copy;    /* which of them this one is, from 0 in the order of the domains */
    int domain;  /* the number of its domain */
} iso_state_shard;

static inline size_t iso_shard_bytes(const iso_state_shard *shard)
{
    return (size_t)shard->count * iso_dtype_size(shard->dtype);
}

typedef struct iso_state_shards {
    int count;
    iso_state_shard *shards;
} iso_state_shards;

#endif
