/* Waiting in shared memory. */
#ifndef ISO_SHM_BARRIER_IMPL_H
#define ISO_SHM_BARRIER_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A flag with two cache lines of its own, since processors fetch lines in pairs. */
typedef struct iso_flag {
    _Alignas(128) _Atomic uint32_t epoch; /* barriers that its owner has come to, modulo 2^32 */
} iso_flag;

typedef struct iso_barrier {
    iso_flag *flags; /* [count], zero at first */
    int count;
    bool crowded; /* more threads than cores */
} iso_barrier;

/* Returns when all `count` have come here as often as `self` has. Release and acquire. */
void iso_barrier_wait(const iso_barrier *barrier, int self);

/* How long somebody has waited, {0} at first. */
typedef struct iso_patience {
    uint32_t turns;
    uint64_t began; /* ns */
} iso_patience;
/* Passes a little time between two looks at what is waited for. */
void iso_patience_pass(iso_patience *patience, bool crowded);

#endif
