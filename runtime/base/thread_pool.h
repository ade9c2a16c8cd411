/* The threads of a rank: thread 0 is the caller's, the others wait for jobs. */
#ifndef ISO_BASE_THREAD_POOL_H
#define ISO_BASE_THREAD_POOL_H

#include "runtime/base/types.h"

typedef struct iso_thread_pool iso_thread_pool;
typedef void (*iso_job)(void *arg, int thread);

/* Bytes between the memories in which threads compute: a core prefetches beyond the end of what it reads, and would
 * evict lines from another core's cache that are written all the time. */
enum { ISO_THREAD_GAP = 2048 };

/* threads: at least 1, the caller's included. crowded: there are more threads than cores. */
iso_status iso_thread_pool_create(int threads, bool crowded, iso_thread_pool **pool);
void iso_thread_pool_destroy(iso_thread_pool *pool);
/* Runs job(arg, t) on every thread t and returns when all are done. */
void iso_thread_pool_run(iso_thread_pool *pool, iso_job job, void *arg);
/* The number of its threads. NULL: 1. */
int iso_thread_pool_size(const iso_thread_pool *pool);

/* A block of work, on a thread of the pool. */
typedef void (*iso_block_job)(void *arg, int64_t block, int thread);
/* Runs job(arg, b, t) for every block b of [0, n_blocks), each once, on any of the threads, and returns when all are
 * done. A thread begins with a range of its own, so that it finds in its caches what it wrote in such a loop before;
 * then it takes blocks of others. pool NULL: the caller runs all blocks, in order. */
void iso_parallel_for(iso_thread_pool *pool, int64_t n_blocks, iso_block_job job, void *arg);

#endif
