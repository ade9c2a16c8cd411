/* On an otherwise idle machine it is best to spin: a spinning waiter responds within a fraction of a
 * microsecond, a woken one takes tens of microseconds. When other processes run, it is best to sleep: the
 * awaited thread may have lost its core for milliseconds, and a waiter that spins meanwhile uses up its
 * own time slice and is not running when the other continues. The kernel counts for how long a thread was ready
 * to run and had no core. While that is a large part of the time, other processes are running, and waiters sleep
 * soon. The number of preemptions would not tell: threads of the kernel preempt often, for microseconds.
 * A woken thread may be put on the core of the one that woke it, and then both lose time to each other, although
 * other cores are idle. Threads that spin are moved apart. So waiters try again to spin from time to time. */
#include "runtime/base/wait.h"
#include "runtime/base/clock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    POLLS = 64,           /* polls before anything else is tried */
    POLLS_PER_CLOCK = 32, /* polls between two readings of the clock */
    ALONE_NS = 50000,     /* after this time it yields between polls: the awaited thread may need this core */
    SPIN_NS = 1000000,    /* after this time it sleeps, on an otherwise idle machine */
    SPIN_BUSY_NS = 5000,  /* the same when other processes run */
    CHECK_NS = 5000000,   /* time between two reads of the time without a core */
    TRUST_NS = 200000000, /* other processes are believed in for so long; then the thread tries to spin */
    YIELDS_NS = 50000,    /* crowded: yields for this long, then sleeps */
    PATIENCE_NS = 20000000, /* iso_backoff: yields for this long, then sleeps SLEEP_NS at a time */
    SLEEP_NS = 50000,
    LOOK_NS = 200000000, /* a sleeper looks at *over */
};
/* A thread that had no core for this part of the time shares it with other processes. */
static const double LOST = 0.1;

static inline void pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void iso_backoff_wait(iso_backoff *backoff, bool crowded)
{
    uint32_t turn = backoff->turns++;
    if (turn < POLLS && !crowded)
        return;
    if (backoff->began == 0)
        backoff->began = iso_clock_ns();
    if (!crowded && turn % POLLS_PER_CLOCK) {
        pause_core();
        return;
    }
    int64_t waited = iso_clock_ns() - backoff->began;
    if (waited > PATIENCE_NS)
        nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
    else if (crowded || waited > SPIN_NS)
        sched_yield();
}

/* ---- counts ---- */

static bool reached(const iso_count *count, uint32_t value)
{
    return (int32_t)(atomic_load_explicit(&count->value, memory_order_acquire) - value) >= 0;
}

/* The kernel compares the word with `seen` first, so a wake between the load and the sleep is not lost. Nobody
 * wakes a sleeper because of *over: it looks from time to time. */
static void sleep_until(iso_count *count, uint32_t value, const atomic_int *over)
{
    const struct timespec look = {0, LOOK_NS};
    atomic_fetch_add(&count->sleepers, 1);
    while (!over || !atomic_load_explicit(over, memory_order_acquire)) {
        uint32_t seen = atomic_load(&count->value);
        if ((int32_t)(seen - value) >= 0)
            break;
        syscall(SYS_futex, &count->value, FUTEX_WAIT, seen, over ? &look : NULL, NULL, 0);
    }
    atomic_fetch_sub(&count->sleepers, 1);
}

void iso_count_wake(iso_count *count)
{
    if (atomic_load(&count->sleepers))
        syscall(SYS_futex, &count->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void iso_count_raise(iso_count *count, uint32_t value)
{
    atomic_store(&count->value, value);
    iso_count_wake(count);
}

uint32_t iso_count_add(iso_count *count)
{
    return atomic_fetch_add(&count->value, 1) + 1;
}

/* A thread's knowledge of other threads that want its core. */
static _Thread_local struct {
    int64_t next, checked; /* ns: of the next check, of the last one (0: none counts) */
    int64_t without;       /* ns at the last check */
    bool busy;
} mine;

/* The nanoseconds for which this thread was ready to run and had no core; 0: the kernel does not say. */
static int64_t time_without_core(void)
{
    char text[96] = "";
    long long ran, without = 0;
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 && sscanf(text, "%lld %lld", &ran, &without) == 2 ? without : 0;
}

/* The first check, and the first one of a new try, only take the time: threads need some to be moved apart. A thread
 * that sleeps soon loses little time, so while it does, its loss does not tell that other processes have gone. */
static void check(int64_t now)
{
    int64_t without = time_without_core();
    bool tries = mine.busy;
    mine.busy =
        !tries && mine.checked && (double)(without - mine.without) > LOST * (double)(now - mine.checked);
    mine.checked = tries ? 0 : now;
    mine.without = without;
    mine.next = now + (mine.busy ? TRUST_NS : CHECK_NS);
}

static bool is_busy(int64_t now)
{
    if (now >= mine.next)
        check(now);
    return mine.busy;
}

static bool spin(const iso_count *count, uint32_t value)
{
    for (int turn = 0; turn < POLLS; turn++)
        if (reached(count, value))
            return true;
    int64_t began = iso_clock_ns(), most = is_busy(began) ? SPIN_BUSY_NS : SPIN_NS, waited = 0;
    do {
        for (int turn = 0; turn < POLLS_PER_CLOCK; turn++) {
            if (reached(count, value))
                return true;
            pause_core();
        }
        if (waited > ALONE_NS)
            sched_yield();
        waited = iso_clock_ns() - began;
    } while (waited < most);
    return false;
}

static bool yield(const iso_count *count, uint32_t value)
{
    if (reached(count, value))
        return true;
    int64_t began = iso_clock_ns();
    do {
        sched_yield();
        if (reached(count, value))
            return true;
    } while (iso_clock_ns() - began < YIELDS_NS);
    return false;
}

void iso_count_await(iso_count *count, uint32_t value, bool crowded, const atomic_int *over)
{
    if (!(crowded ? yield(count, value) : spin(count, value)))
        sleep_until(count, value, over);
}
