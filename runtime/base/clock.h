/* The clock that durations are measured with. */
#ifndef ISO_BASE_CLOCK_H
#define ISO_BASE_CLOCK_H

#include <time.h>

/* Seconds since some time in the past. Monotonic: changes of the system time do not affect it. */
static inline double iso_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
