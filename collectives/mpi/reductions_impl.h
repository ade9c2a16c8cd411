/* Sums between hosts that MPI adds, in its own order (--collectives mpi). One rank of each host, its leader, takes
 * part: it contributes the sums of its host, and receives the results into memory that the host's ranks share. */
#ifndef ISO_MPI_REDUCTIONS_IMPL_H
#define ISO_MPI_REDUCTIONS_IMPL_H

#include <mpi.h>

#include "collectives/coll.h"
#include "collectives/shm/window_impl.h"
#include "runtime/base/hash.h"
#include "runtime/base/table.h"

/* The leaders of the hosts that have slots. All zero: MPI does not add. */
typedef struct iso_leaders {
    bool used;
    iso_comm *communicator; /* of the leaders; NULL on other ranks */
    int count;
    int *number; /* [hosts] of the host's leader in the communicator; -1: the host has no slot */
    bool *seen;  /* [hosts] room, all false */
    int here;    /* this host's */
} iso_leaders;

/* A region that MPI adds. */
typedef struct iso_reduced {
    iso_hash_key key;
    iso_dtype dtype;
    iso_reduce reduce;
    int64_t elements;
    int wanted;            /* number of the only leader whose host wants it; -1: several do */
    size_t offset, result; /* in the leader's contribution, and in the results of this host, if it wants it */
} iso_reduced;

/* One MPI call: all regions of one type and kind of sum that several hosts want, or that single hosts want. */
typedef struct iso_reduction_call {
    iso_dtype dtype;
    iso_reduce reduce;
    bool scatter;
    size_t offset, result;
    int *counts; /* [leaders] elements for each host; without scatter counts[0] is for all */
} iso_reduction_call;

enum { ISO_REDUCTION_CALLS = 12 };

typedef struct iso_reductions {
    iso_reduced *regions;
    int n_regions;
    iso_table index; /* regions by key */
    iso_reduction_call calls[ISO_REDUCTION_CALLS];
    MPI_Request requests[ISO_REDUCTION_CALLS];
    int n_calls;
    size_t contribution_bytes, result_bytes;
    char *contribution; /* of a leader */
    iso_window results; /* of the host */
} iso_reductions;

/* Whether MPI has this type. */
bool iso_reductions_know(iso_dtype dtype);
/* Finds or adds a region that the host of leader `wanted` wants. *fresh: it was added. */
iso_status iso_reductions_region(iso_reductions *r, const iso_reduced *region, int wanted, int *number,
                                 bool *fresh);
/* To be called after the last region: places them, and allocates memory. Collective over host. */
iso_status iso_reductions_allocate(iso_reductions *r, const iso_leaders *leaders, const iso_comm *host);
void iso_reductions_free(iso_reductions *r);

/* By one thread of a leader: start, after it has written its contribution, then test until *done. */
iso_status iso_reductions_start(iso_reductions *r, const iso_leaders *leaders);
iso_status iso_reductions_test(iso_reductions *r, int *done);

#endif
