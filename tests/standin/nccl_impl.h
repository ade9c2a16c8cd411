/* The inside of the stand-in for NCCL: a communicator, and what its ranks share. */
#ifndef ISO_TESTS_STANDIN_NCCL_IMPL_H
#define ISO_TESTS_STANDIN_NCCL_IMPL_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/standin/standin.h"

enum { STANDIN_MOST_RANKS = 16, STANDIN_CHUNK = 1 << 16, STANDIN_SEGMENT_NAME = 160 };

/* From one rank to another: one chunk of a transfer at a time. */
typedef struct standin_channel {
    _Atomic uint64_t written, read;
    uint64_t total, bytes; /* of the transfer, of this chunk */
    char call[48];         /* what sends it */
    _Alignas(64) char data[STANDIN_CHUNK];
} standin_channel;

/* A file that the ranks of a communicator map. */
typedef struct standin_segment {
    atomic_int joined; /* ranks that have written where they are */
    struct {
        char gpu[16];            /* its UUID */
        atomic_int process;      /* 0: it has not joined */
        ino_t host;              /* the namespace of its processes */
        atomic_bool closed;      /* it has ended its connections */
        int color, key;          /* of its last split */
        _Atomic uint64_t splits; /* how many it has asked for */
    } rank[STANDIN_MOST_RANKS];
    standin_channel channels[]; /* [from][to] */
} standin_segment;

struct ncclComm {
    int users; /* the caller, and work that is queued; with standin_lock */
    int rank, count, gpu;
    bool blocking;
    char name[STANDIN_SEGMENT_NAME]; /* of the file */
    standin_segment *segment;
    size_t bytes;
    atomic_int state;    /* what ncclCommGetAsyncError gives */
    atomic_bool aborted; /* what runs must end */
    bool finalized;      /* or about to be */
    ncclComm_t parent;   /* while a split of it makes this one: its abort ends that */
    pthread_t job;       /* what was begun last */
    bool has_job;
    uint64_t splits;
    uint64_t random;
};

/* The calls of a group on one stream of one communicator. */
typedef struct standin_operation {
    enum { STANDIN_SEND, STANDIN_RECEIVE, STANDIN_SCATTER, STANDIN_REDUCE } kind;
    const char *from;
    char *to;
    size_t count; /* elements, in NCCL's own sense */
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer; /* or root */
} standin_operation;

/* nccl_run.c: carries out the operations of a group. Ends early if the communicator is aborted. */
void standin_comm_run(ncclComm_t comm, const standin_operation *list, int count);
size_t standin_type_bytes(ncclDataType_t type);

#endif
