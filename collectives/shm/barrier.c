/* A barrier by counters: each participant counts in its own flag the barriers it has come to, and waits until
 * every other flag has reached its count. Nobody writes to a line that another writes, so two threads on two
 * cores need one cache line transfer each way. Counters only grow, so no flag is ever reset; that a neighbour
 * is already one barrier ahead does no harm. */
#include "collectives/shm/barrier_impl.h"

#include <sched.h>
#include <time.h>

enum {
    POLLS = 64,           /* looks before anything else is tried */
    POLLS_PER_CLOCK = 32, /* looks between two readings of the clock */
    SPIN_NS = 1000000,    /* then the core is offered to others: they may be who is waited for */
    YIELD_NS = 20000000,  /* then sleep: somebody computes for long, or has died */
    SLEEP_NS = 50000,
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void iso_patience_pass(iso_patience *patience, bool crowded)
{
    uint32_t turn = patience->turns++;
    if (turn < POLLS && !crowded)
        return;
    if (patience->began == 0)
        patience->began = clock_ns();
    if (!crowded && turn % POLLS_PER_CLOCK) {
        pause_core();
        return;
    }
    uint64_t waited = clock_ns() - patience->began;
    if (waited > YIELD_NS)
        nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
    else if (crowded || waited > SPIN_NS)
        sched_yield();
}

static void wait_for(const iso_flag *flag, uint32_t epoch, bool crowded)
{
    iso_patience patience = {0};
    while ((int32_t)(atomic_load_explicit(&flag->epoch, memory_order_acquire) - epoch) < 0)
        iso_patience_pass(&patience, crowded);
}

void iso_barrier_wait(const iso_barrier *barrier, int self)
{
    iso_flag *mine = &barrier->flags[self];
    uint32_t epoch = atomic_load_explicit(&mine->epoch, memory_order_relaxed) + 1;
    atomic_store_explicit(&mine->epoch, epoch, memory_order_release);
    for (int i = 1; i < barrier->count; i++) {
        int other = self + i < barrier->count ? self + i : self + i - barrier->count;
        wait_for(&barrier->flags[other], epoch, barrier->crowded);
    }
}
