/* Waiting for a counter that other threads or processes increase. A waiter spins for a while, then sleeps in
 * the kernel until it is woken. */
#ifndef ISO_BASE_WAIT_H
#define ISO_BASE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A counter that only grows, modulo 2^32. Initialised with {0}; may be in memory that processes share. It
 * fills two cache lines, because processors prefetch them in pairs. */
typedef struct iso_count {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
    char rest[120];
} iso_count;

/* Stores `value` (release) and wakes the sleepers. */
void iso_count_raise(iso_count *count, uint32_t value);
/* Adds one and returns the new value (acquire and release). Does not wake sleepers: the caller calls
 * iso_count_wake when a waiter needs this value. */
uint32_t iso_count_add(iso_count *count);
void iso_count_wake(iso_count *count);
/* Returns when the counter has reached `value` (acquire), or some tenths of a second after *over has become
 * nonzero: then nobody may be left to raise it. over may be NULL. crowded: there are more threads than cores, so
 * the waiter yields at once instead of spinning. */
void iso_count_await(iso_count *count, uint32_t value, bool crowded, const atomic_int *over);

/* The state of a polling loop, for events that wake no sleeper (an MPI request). Initialised with {0}. */
typedef struct iso_backoff {
    uint32_t turns;
    int64_t began; /* ns */
} iso_backoff;
/* Call between two polls: pauses the core, then yields, then sleeps, depending on how long the loop has
 * waited. */
void iso_backoff_wait(iso_backoff *backoff, bool crowded);

#endif
