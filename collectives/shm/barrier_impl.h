/* Barriers of threads in shared memory. */
#ifndef ISO_SHM_BARRIER_IMPL_H
#define ISO_SHM_BARRIER_IMPL_H

#include "runtime/base/wait.h"

typedef struct iso_barrier {
    iso_count *flags; /* [count + 2], zero at first */
    int count;
    bool crowded;           /* more threads than cores */
    const atomic_int *over; /* nonzero: waits end, as others may be lost; may be NULL */
} iso_barrier;

/* Returns when all `count` participants have called it as often as `self` has. Release and acquire. */
void iso_barrier_wait(const iso_barrier *barrier, int self);

#endif
