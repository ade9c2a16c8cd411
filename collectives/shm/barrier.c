/* If every thread has a core, each participant counts the barriers that it has reached in its own flag, and
 * waits until every other flag has reached its count. No two threads write to the same cache line, so two
 * threads on two cores need one cache line transfer each way. Counters only grow, so no flag is ever reset; a
 * neighbour may already be one barrier ahead.
 *
 * If threads share cores, most of them sleep and are woken together: they count arrivals in one flag, and the
 * last to arrive raises another flag, on which all wait. */
#include "collectives/shm/barrier_impl.h"

static void wait_for_each(const iso_barrier *barrier, int self)
{
    iso_count *mine = &barrier->flags[self];
    uint32_t epoch = atomic_load_explicit(&mine->value, memory_order_relaxed) + 1;
    iso_count_raise(mine, epoch);
    for (int i = 1; i < barrier->count; i++) {
        int other = self + i < barrier->count ? self + i : self + i - barrier->count;
        iso_count_await(&barrier->flags[other], epoch, false, barrier->over);
    }
}

static void wait_for_last(const iso_barrier *barrier)
{
    iso_count *come = &barrier->flags[barrier->count], *round = come + 1;
    uint32_t epoch = atomic_load_explicit(&round->value, memory_order_relaxed) + 1;
    if (iso_count_add(come) == epoch * (uint32_t)barrier->count)
        iso_count_raise(round, epoch);
    else
        iso_count_await(round, epoch, true, barrier->over);
}

void iso_barrier_wait(const iso_barrier *barrier, int self)
{
    if (barrier->crowded)
        wait_for_last(barrier);
    else
        wait_for_each(barrier, self);
}
