/* The inside of streams, events and graphs, for the files of the stand-in. One lock is for all of them. */
#ifndef ISO_TESTS_STANDIN_STREAMS_IMPL_H
#define ISO_TESTS_STANDIN_STREAMS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/standin/standin.h"

/* Work with its argument, which a queue or a graph shares with its executable copies. */
typedef struct standin_item {
    standin_work work;
    int users;
    _Alignas(16) char argument[];
} standin_item;

typedef struct standin_node {
    standin_item *item;
    int *after; /* the nodes that it waits for */
    int n_after;
} standin_node;

struct CUgraph_st {
    standin_node *nodes;
    int n_nodes;
    cudaStream_t origin;
    uint64_t capture;   /* its number among the captures, from 1 on */
    pthread_t thread;   /* that began it */
    cudaError_t broken; /* by what was called while it was captured */
};

typedef struct standin_queued {
    standin_item *item;
    struct standin_queued *next;
} standin_queued;

struct CUstream_st {
    pthread_t thread;
    pthread_cond_t queued, done; /* an item was queued, or the stream has ended; an item was finished */
    int gpu;
    uint64_t random;
    standin_queued *first, *last;
    uint64_t pushed, finished; /* items, since the stream began */
    bool ended, computes;      /* computes: kernels were queued on it */
    cudaGraph_t graph;         /* NULL: not captured */
    int *tail;                 /* the nodes that what is captured next waits for */
    int n_tail;
    cudaStream_t next; /* of all streams, or of those that were destroyed */
};

/* What processes share of an event: how often it was recorded, and how often that moment has come. */
typedef struct standin_moment {
    _Atomic uint64_t recorded, passed;
} standin_moment;

struct CUevent_st {
    int gpu;
    standin_moment *shared; /* NULL: of this process alone */
    int file;               /* of `shared`; locked by processes that have another one's event open */
    bool imported, timed;   /* imported: another process's */
    int64_t time;           /* nanoseconds, of the last record that was done; 0: none was */
    cudaStream_t stream;    /* recorded there, after so many items; NULL: never */
    uint64_t position;
    uint64_t capture; /* or in this capture, after these nodes; 0: in none */
    int *nodes;
    int n_nodes;
};

extern pthread_mutex_t standin_lock;

/* With the lock held: */
cudaStream_t standin_streams(void);
void standin_push(cudaStream_t stream, standin_item *item);
uint64_t standin_draw(cudaStream_t stream, uint64_t below);
/* Adds it to the graph that the stream is captured into. An error: the capture is broken, the item is dropped. */
cudaError_t standin_add_node(cudaStream_t stream, standin_item *item);
/* Whether a stream is captured: calls that may not be made then break the graphs, and give this error. */
cudaError_t standin_refuse_capture(void);

standin_item *standin_make_item(const standin_work *work, const void *argument, size_t size);
void standin_drop_item(standin_item *item);
/* Sets a list of nodes to a copy of another. */
void standin_set_nodes(int **nodes, int *n_nodes, const int *from, int n_from);

#endif
