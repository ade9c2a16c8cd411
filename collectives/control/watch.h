/* The watchdog's view of collectives: each rank publishes which collective it entered last, so that the
 * others can name it after this rank has died or stopped. All functions accept NULL (one rank: there is no
 * watchdog), and are called by the thread that calls collectives. */
#ifndef ISO_COLL_WATCH_H
#define ISO_COLL_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct iso_watch iso_watch;

enum { ISO_WATCH_TEXT = 112 };

/* The text for a collective in reports, and its signature: a hash of what must be the same on all ranks. */
typedef struct iso_watch_name {
    uint64_t signature;
    union {
        char characters[ISO_WATCH_TEXT]; /* terminated, zeros after it */
        uint64_t words[ISO_WATCH_TEXT / 8];
    } text;
} iso_watch_name;

/* Makes a name: "op count what", as in "a broadcast of 8 bytes". The signature depends on op and count, not on
 * `what`. A negative count is left out, and so is `what` if it is NULL. */
void iso_watch_name_set(iso_watch_name *name, const char *op, int64_t count, const char *what);

/* The watch of a context; NULL for NULL. Defined in runtime/session. */
iso_watch *iso_context_watch(const iso_context *ctx);

/* This rank enters a collective that every rank of the context calls in the same order. It gets the next
 * sequence number. ISO_FAILED if a rank is lost, for contexts that go on after that: the collective must not
 * begin. */
iso_status iso_watch_enter(iso_watch *watch, const iso_watch_name *name);
/* The same with a name made of these. */
iso_status iso_watch_enter_named(iso_watch *watch, const char *op, int64_t count, const char *what);
/* This rank enters an exchange of the collective that it entered last: the ranks with slots call them in the
 * same order. It gets the next position within that collective. Costs a few stores. */
void iso_watch_enter_exchange(iso_watch *watch, const iso_watch_name *name);
/* This rank waits for something of this name, which is not in the order of collectives (a checkpoint
 * that is written while training goes on). */
void iso_watch_wait(iso_watch *watch, const iso_watch_name *name);
/* This rank has left what it entered last. */
void iso_watch_leave(iso_watch *watch);

/* ---- after a loss, in contexts that go on ---- */

/* Whether the program goes on after a loss, with errors: it began MPI itself. The same on all ranks. */
bool iso_watch_goes_on(const iso_watch *watch);
/* The watchdog's word: nonzero when it has reported, so that waits must end; the same word for all ranks of a
 * host. NULL for NULL, and if the watchdog ends the process. Any thread. */
const atomic_int *iso_watch_word(const iso_watch *watch);
/* ISO_FAILED, with the first line of the report, if it has reported. Any thread. */
iso_status iso_watch_check(const iso_watch *watch);

/* This rank's devices cannot exchange with those of others any more: the watchdog reports that within some seconds,
 * unless it finds that a rank is lost, and ends the job as after a loss. Does not wait. */
void iso_watch_break(iso_watch *watch);

/* Times of steps, which rank 0 prints every 100 steps with --verbose 2. The time now in nanoseconds, 0 if times
 * are not wanted. */
int64_t iso_watch_time(const iso_watch *watch);
/* A step, or a wait for other ranks in it, that began at this time has ended. */
void iso_watch_step_done(iso_watch *watch, int64_t begun);
void iso_watch_wait_done(iso_watch *watch, int64_t begun);

#endif
