/* The threads of a rank: thread 0 is the caller's, the others wait for jobs. */
#ifndef ISO_BASE_THREAD_POOL_H
#define ISO_BASE_THREAD_POOL_H

#include "runtime/base/types.h"

typedef struct iso_thread_pool iso_thread_pool;
typedef void (*iso_job)(void *arg, int thread);

/* threads: at least 1, the caller's included. crowded: there are more threads than cores. */
iso_status iso_thread_pool_create(int threads, bool crowded, iso_thread_pool **pool);
void iso_thread_pool_destroy(iso_thread_pool *pool);
/* Runs job(arg, t) on every thread t and returns when all are done. */
void iso_thread_pool_run(iso_thread_pool *pool, iso_job job, void *arg);

#endif
