/* A job whose ranks are lost, or part, for tests/faults/test_lost.
 *
 *   lost signal NAME     rank n > 0 sends itself the signal (STOP, KILL or SEGV) inside its n-th collective, for
 *                        which nobody waits. Rank 0 waits at the end
 *   lost signal-rank N NAME   only rank N does
 *   lost skips           rank 1 leaves out a broadcast, the others do not
 *   lost finishes        rank 1 goes to iso_finish, the others to an agreement
 *   lost exits           rank 1 ends without iso_finish
 *   lost sleeps SECONDS  rank 1 sleeps, the others wait in an agreement
 *   lost fails           rank 1 goes to iso_finish with an error
 *   lost waits FILE      all ranks go to iso_finish when the file exists
 *
 * Ranks are counted within their role. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "collectives/control/watchdog.h"
#include "runtime/session/session.h"

static iso_context *ctx;

static void send_signal(const char *name)
{
    int number = !strcmp(name, "STOP") ? SIGSTOP : !strcmp(name, "KILL") ? SIGKILL : SIGSEGV;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(number, SIG_DFL);
    raise(number);
}

/* Enters collective number i without waiting for other ranks. */
static void enter(int i)
{
    iso_watchdog_enter_named(iso_context_watchdog(ctx), "a collective of", i, "parts");
}

/* Other hosts know what these told last. In parts: a pause of the machine ends one of them. */
static void some_heartbeats(void)
{
    for (int i = 0; i < 6; i++)
        usleep(500000);
}

static iso_status lose_in_turn(const char *name, int only)
{
    for (int i = 1; i < iso_ranks(ctx); i++) {
        enter(i);
        if (iso_rank(ctx) == i && (only < 0 || only == i)) {
            some_heartbeats();
            send_signal(name);
        }
        iso_watchdog_leave(iso_context_watchdog(ctx));
    }
    if (only == 0 && iso_rank(ctx) == 0) {
        some_heartbeats();
        send_signal(name);
    }
    return iso_agree(ctx, ISO_OK);
}

static iso_status act(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool second = iso_rank(ctx) == 1;
    char data[8] = {0};
    if (!strcmp(what, "signal") && argc > 2)
        return lose_in_turn(argv[2], -1);
    if (!strcmp(what, "signal-rank") && argc > 3)
        return lose_in_turn(argv[3], atoi(argv[2]));
    if (!strcmp(what, "waits")) {
        while (access(argv[2], F_OK))
            usleep(50000);
        return ISO_OK;
    }
    if (!strcmp(what, "skips") && !second) {
        iso_status status = iso_broadcast(ctx, data, sizeof data);
        if (status != ISO_OK)
            return status;
    }
    if (!strcmp(what, "finishes") && second)
        return ISO_OK;
    if (!strcmp(what, "exits") && second)
        _exit(0);
    if (!strcmp(what, "fails") && second)
        return iso_error(ISO_IO, "no disk");
    if (!strcmp(what, "sleeps") && second)
        for (int i = 0; i < 2 * atoi(argv[2]); i++)
            usleep(500000);
    return iso_agree(ctx, ISO_OK);
}

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    return iso_finish(ctx, status == ISO_OK ? act(argc, argv) : status);
}
