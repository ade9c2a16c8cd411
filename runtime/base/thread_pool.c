#include "runtime/base/thread_pool.h"

#include <pthread.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/signal_stack.h"
#include "runtime/base/thread_modes.h"
#include "runtime/base/wait.h"

typedef struct worker {
    iso_thread_pool *pool;
    int thread;
    pthread_t id;
    /* Of a loop: the next block of this thread's range, and the end of the range. */
    _Alignas(ISO_ALIGN) _Atomic int64_t next;
    int64_t end;
} worker;

struct iso_thread_pool {
    int n_threads, started;
    bool crowded, stop;
    worker *workers;
    iso_job job;
    void *arg;
    _Alignas(ISO_ALIGN) iso_count rounds; /* jobs begun */
    iso_count done;                       /* number of times that a worker has ended a job */
};

/* The value of `done` at the end of a round. */
static uint32_t ends_of(const iso_thread_pool *pool, uint32_t round)
{
    return round * (uint32_t)(pool->n_threads - 1);
}

static void *work(void *arg)
{
    worker *self = arg;
    iso_thread_pool *pool = self->pool;
    iso_default_modes_of_thread();
    iso_signal_stack_use();
    for (uint32_t round = 1;; round++) {
        iso_count_await(&pool->rounds, round, pool->crowded, NULL);
        if (pool->stop)
            return NULL;
        pool->job(pool->arg, self->thread);
        if (iso_count_add(&pool->done) == ends_of(pool, round))
            iso_count_wake(&pool->done);
    }
}

static uint32_t begin_round(iso_thread_pool *pool)
{
    uint32_t round = atomic_load(&pool->rounds.value) + 1;
    iso_count_raise(&pool->rounds, round);
    return round;
}

iso_status iso_thread_pool_create(int threads, bool crowded, iso_thread_pool **out)
{
    iso_thread_pool *pool = iso_new(sizeof *pool);
    worker *workers = iso_new((size_t)threads * sizeof *workers);
    if (!pool || !workers) {
        iso_free(pool);
        iso_free(workers);
        return iso_no_memory("%d threads", threads);
    }
    pool->n_threads = threads;
    pool->crowded = crowded;
    pool->workers = workers;
    pool->started = 1;
    for (int t = 1; t < threads; t++, pool->started++) {
        workers[t] = (worker){.pool = pool, .thread = t};
        int error = pthread_create(&workers[t].id, NULL, work, &workers[t]);
        if (error) {
            iso_thread_pool_destroy(pool);
            return iso_error(ISO_FAILED, "thread %d of %d cannot be started: %s", t, threads,
                             strerror(error));
        }
    }
    *out = pool;
    return ISO_OK;
}

void iso_thread_pool_destroy(iso_thread_pool *pool)
{
    if (!pool)
        return;
    pool->stop = true;
    begin_round(pool);
    for (int t = 1; t < pool->started; t++)
        pthread_join(pool->workers[t].id, NULL);
    iso_signal_stack_end();
    iso_free(pool->workers);
    iso_free(pool);
}

void iso_thread_pool_run(iso_thread_pool *pool, iso_job job, void *arg)
{
    uint32_t round = 0;
    iso_signal_stack_use();
    if (pool->n_threads > 1) {
        pool->job = job;
        pool->arg = arg;
        round = begin_round(pool);
    }
    job(arg, 0);
    if (pool->n_threads > 1)
        iso_count_await(&pool->done, ends_of(pool, round), pool->crowded, NULL);
}

/* ---- loops ---- */

int iso_thread_pool_size(const iso_thread_pool *pool)
{
    return pool ? pool->n_threads : 1;
}

typedef struct loop {
    iso_thread_pool *pool;
    iso_block_job job;
    void *arg;
} loop;

static void run_blocks(void *arg, int thread)
{
    const loop *l = arg;
    const int n_threads = l->pool->n_threads;
    for (int i = 0; i < n_threads; i++) {
        worker *of = &l->pool->workers[(thread + i) % n_threads];
        for (int64_t block; (block = atomic_fetch_add(&of->next, 1)) < of->end;)
            l->job(l->arg, block, thread);
    }
}

void iso_parallel_for(iso_thread_pool *pool, int64_t n_blocks, iso_block_job job, void *arg)
{
    const int n_threads = iso_thread_pool_size(pool);
    if (n_threads == 1 || n_blocks < 2) {
        for (int64_t block = 0; block < n_blocks; block++)
            job(arg, block, 0);
        return;
    }
    for (int t = 0; t < n_threads; t++) {
        atomic_store_explicit(&pool->workers[t].next, n_blocks * t / n_threads, memory_order_relaxed);
        pool->workers[t].end = n_blocks * (t + 1) / n_threads;
    }
    iso_thread_pool_run(pool, run_blocks, &(loop){pool, job, arg});
}
