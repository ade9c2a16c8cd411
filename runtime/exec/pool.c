#include "runtime/exec/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/memory.h"

enum { SPINS = 20000, YIELDS = 50 };

typedef struct worker {
    iso_pool *pool;
    int thread;
    pthread_t id;
} worker;

struct iso_pool {
    int threads, started;
    bool spin;
    worker *workers;
    iso_job job;
    void *arg;
    _Alignas(ISO_ALIGN) _Atomic uint32_t round; /* counts jobs; sleepers wait on it */
    _Atomic int sleepers;
    _Atomic bool stop;
    _Alignas(ISO_ALIGN) _Atomic int done;
};

static void pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void sleep_on(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Waits until the round is another than `seen`: spins, yields, sleeps. */
static uint32_t await_round(iso_pool *pool, uint32_t seen)
{
    uint32_t now = seen;
    for (int i = 0; pool->spin && i < SPINS; i++) {
        if ((now = atomic_load_explicit(&pool->round, memory_order_acquire)) != seen)
            return now;
        pause_core();
    }
    for (int i = 0; i < YIELDS; i++) {
        if ((now = atomic_load_explicit(&pool->round, memory_order_acquire)) != seen)
            return now;
        sched_yield();
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while ((now = atomic_load(&pool->round)) == seen)
        sleep_on(&pool->round, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    return now;
}

static void *work(void *arg)
{
    worker *self = arg;
    iso_pool *pool = self->pool;
    for (uint32_t round = 0;;) {
        round = await_round(pool, round);
        if (atomic_load(&pool->stop))
            return NULL;
        pool->job(pool->arg, self->thread);
        atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
    }
}

static void begin_round(iso_pool *pool)
{
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers))
        wake_all(&pool->round);
}

iso_status iso_pool_create(int threads, bool spin, iso_pool **out)
{
    iso_pool *pool = iso_new(sizeof *pool);
    worker *workers = iso_new((size_t)threads * sizeof *workers);
    if (!pool || !workers) {
        iso_free(pool);
        iso_free(workers);
        return iso_error(ISO_NO_MEMORY, "no memory for %d threads", threads);
    }
    pool->threads = threads;
    pool->spin = spin;
    pool->workers = workers;
    pool->started = 1;
    for (int t = 1; t < threads; t++, pool->started++) {
        workers[t] = (worker){.pool = pool, .thread = t};
        int error = pthread_create(&workers[t].id, NULL, work, &workers[t]);
        if (error) {
            iso_pool_destroy(pool);
            return iso_error(ISO_FAILED, "thread %d of %d cannot be started: %s", t, threads,
                             strerror(error));
        }
    }
    *out = pool;
    return ISO_OK;
}

void iso_pool_destroy(iso_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    begin_round(pool);
    for (int t = 1; t < pool->started; t++)
        pthread_join(pool->workers[t].id, NULL);
    iso_free(pool->workers);
    iso_free(pool);
}

void iso_pool_run(iso_pool *pool, iso_job job, void *arg)
{
    if (pool->threads > 1) {
        pool->job = job;
        pool->arg = arg;
        begin_round(pool);
    }
    job(arg, 0);
    for (int i = 0; atomic_load_explicit(&pool->done, memory_order_acquire) < pool->threads - 1; i++) {
        if (pool->spin && i < SPINS)
            pause_core();
        else
            sched_yield();
    }
}
