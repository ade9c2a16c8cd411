/* What one rank of a host owns and others have open, such as memory of a device: the others close it first, and the
 * owner waits for that without a collective call, which might never end after an error. */
#ifndef ISO_SHM_USES_IMPL_H
#define ISO_SHM_USES_IMPL_H

#include "collectives/shm/window_impl.h"

/* For each of some things, how many ranks have it open. {0}: nobody has. */
typedef struct iso_uses {
    iso_window counts;
    bool late; /* ranks have kept something open for too long: nothing is waited for any more */
} iso_uses;

/* Makes `count` numbers that the ranks share; with one rank there is nothing to count. Collective; all ranks fail, or
 * none. */
iso_status iso_uses_create(const iso_comm *ranks, int count, iso_uses *uses);
/* Local. */
void iso_uses_destroy(iso_uses *uses);
/* This rank has opened thing number `number`, before its owner hears of it; and has closed it. Local. */
void iso_uses_open(const iso_uses *uses, int number);
void iso_uses_close(const iso_uses *uses, int number);
/* The owner waits until all have closed it, 10 seconds at most for all numbers. Returns whether they have: else the
 * thing is left to the end of the process. Local. */
bool iso_uses_await_closed(iso_uses *uses, int number);

#endif
