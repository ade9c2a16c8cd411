/* The watchdog's view of collectives: each rank publishes which collective it entered last, so that the
 * others can name it after this rank has died or stopped. All functions accept NULL (one rank: there is no
 * watchdog), and are called by the thread that calls collectives. */
#ifndef ISO_COLL_WATCHDOG_H
#define ISO_COLL_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct iso_watchdog iso_watchdog;

enum { ISO_WATCHDOG_TEXT = 112 };

/* The text for a collective in reports, and its signature: a hash of what must be the same on all ranks. */
typedef struct iso_watchdog_name {
    uint64_t signature;
    union {
        char characters[ISO_WATCHDOG_TEXT]; /* terminated, zeros after it */
        uint64_t words[ISO_WATCHDOG_TEXT / 8];
    } text;
} iso_watchdog_name;

/* Makes a name: "op count what", as in "a broadcast of 8 bytes". The signature depends on op and count, not on
 * `what`. A negative count is left out, and so is `what` if it is NULL. */
void iso_watchdog_name_set(iso_watchdog_name *name, const char *op, int64_t count, const char *what);

/* The watchdog of a context; NULL for NULL. Defined in runtime/session. */
iso_watchdog *iso_context_watchdog(const iso_context *ctx);

/* This rank enters a collective that every rank of the context calls in the same order. It gets the next
 * sequence number. ISO_FAILED if a rank is lost, for contexts that go on after that: the collective must not
 * begin. */
iso_status iso_watchdog_enter(iso_watchdog *watchdog, const iso_watchdog_name *name);
/* The same with a name made of these. */
iso_status iso_watchdog_enter_named(iso_watchdog *watchdog, const char *op, int64_t count, const char *what);
/* This rank enters an exchange of the collective that it entered last: the ranks with slots call them in the
 * same order. It gets the next position within that collective. Costs a few stores. */
void iso_watchdog_enter_exchange(iso_watchdog *watchdog, const iso_watchdog_name *name);
/* This rank waits for something of this name, which is not in the order of collectives (a checkpoint
 * that is written while training goes on). */
void iso_watchdog_wait(iso_watchdog *watchdog, const iso_watchdog_name *name);
/* This rank has left what it entered last. */
void iso_watchdog_leave(iso_watchdog *watchdog);

/* ---- after a loss, in contexts that go on ---- */

/* Whether calls return errors after a loss, as with MPI_ERRORS_RETURN, and the program goes on: it began MPI
 * itself. The same on all ranks. */
bool iso_watchdog_errors_return(const iso_watchdog *watchdog);
/* The watchdog's word: nonzero when it has reported, so that waits must end; the same word for all ranks of a
 * host. NULL for NULL, and if the watchdog ends the process. Any thread. */
const atomic_int *iso_watchdog_flag(const iso_watchdog *watchdog);
/* ISO_FAILED, with the first line of the report, if it has reported. Any thread. */
iso_status iso_watchdog_check(const iso_watchdog *watchdog);

/* This rank's devices cannot exchange with those of others any more: the watchdog reports that within some seconds,
 * unless it finds that a rank is lost, and ends the job as after a loss. Does not wait. */
void iso_watchdog_devices_failed(iso_watchdog *watchdog);

/* Times of steps, which rank 0 prints every 100 steps with --verbose 2. The time now in nanoseconds, 0 if times
 * are not wanted. */
int64_t iso_watchdog_time(const iso_watchdog *watchdog);
/* A step, or a wait for other ranks in it, that began at this time has ended. */
void iso_watchdog_step_done(iso_watchdog *watchdog, int64_t begun);
void iso_watchdog_wait_done(iso_watchdog *watchdog, int64_t begun);

#endif
