/* The clock for durations. */
#ifndef ISO_BASE_CLOCK_H
#define ISO_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some time in the past. Monotonic: changes of the system time do not affect it. */
static inline int64_t iso_clock_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The same clock in seconds. */
static inline double iso_clock(void)
{
    return 1e-9 * (double)iso_clock_ns();
}

/* The seconds for which a core has run the calling thread. */
static inline double iso_clock_of_thread(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
