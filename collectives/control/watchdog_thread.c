/* The watchdog's thread: heartbeats, and the judgement of other ranks.
 *
 * Silence is counted in this thread's own waking time, at most one second for each look, so a host that was
 * suspended as a whole finds nobody silent when it wakes. A stopped process and one that has ended are known
 * from the kernel; other silence must last longer, because a machine with too many processes may delay a
 * thread for seconds.
 *
 * When a rank is lost, the lowest rank that is left prints the report, and every rank ends. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/base/process.h"
#include "runtime/base/thread_modes.h"

/* Seconds. */
static const double suspect_after = 1.5, stopped_after = 5, silent_after = 8;
/* Seconds from the first loss to the verdict, in which other ranks that were lost for the same reason are found. */
static const double settle = 0.3, settle_with_suspects = 3;
/* A rank that fails alone says so itself, and ends the job. */
static const double settle_mismatch = 1.5, failing_rank_ends = 20;
/* Devices that cannot exchange: most often a rank is lost, which says more. */
static const double settle_break = 4;
/* Seconds from the verdict until this rank reports itself, if the lowest rank has not reported. */
static const double report_follows = 3;

bool iso_watchdog_is_local(const iso_watchdog *w, int rank)
{
    return w->host_of_rank[rank] == w->host_of_rank[w->rank];
}

bool iso_watchdog_in_group(const iso_watchdog *w, int rank)
{
    return w->identity[rank].group == w->identity[w->rank].group;
}

bool iso_watchdog_is_lost(const iso_watchdog *w, int rank)
{
    return w->peer[rank].health >= ISO_WATCHDOG_DEAD;
}

static iso_watchdog_phase phase_of(const iso_watchdog *w, int rank)
{
    return (iso_watchdog_phase)atomic_load(&w->page->record[rank].phase);
}

/* ---- ranks of this host ---- */

static char process_state(const iso_watchdog *w, int rank)
{
    bool same = w->identity[rank].pid_space == w->identity[w->rank].pid_space && w->identity[rank].pid_space;
    return same ? iso_process_state(w->identity[rank].pid) : '?';
}

bool iso_watchdog_is_paused(const iso_watchdog *w, int rank)
{
    return iso_watchdog_is_local(w, rank) && process_state(w, rank) == 'T';
}

static void judge_silent(const iso_watchdog *w, int rank)
{
    iso_watchdog_peer *peer = &w->peer[rank];
    char state = process_state(w, rank);
    if (state == 0 || state == 'Z' || state == 'X')
        peer->health = ISO_WATCHDOG_DEAD;
    else if (state == 'T' && peer->silent >= stopped_after)
        peer->health = ISO_WATCHDOG_STOPPED;
    else if (state != 'T' && state != 't' && peer->silent >= silent_after) /* t: held by a debugger */
        peer->health = ISO_WATCHDOG_SILENT;
}

static void look_at(const iso_watchdog *w, int rank, double passed)
{
    iso_watchdog_peer *peer = &w->peer[rank];
    const iso_watchdog_record *record = &w->page->record[rank];
    uint64_t beats = atomic_load_explicit(&record->beats, memory_order_relaxed);
    uint64_t progress = atomic_load_explicit(&record->progress, memory_order_acquire);
    peer->still = progress == peer->progress ? peer->still + passed : 0;
    peer->progress = progress;
    if (!iso_watchdog_is_local(w, rank))
        return;
    peer->silent = beats == peer->beats ? peer->silent + passed : 0;
    peer->beats = beats;
    if (rank == w->rank || phase_of(w, rank) == ISO_WATCHDOG_ENDED)
        return;
    if (peer->gone)
        peer->health = ISO_WATCHDOG_DEAD;
    else if (peer->silent == 0)
        peer->health = ISO_WATCHDOG_ALIVE;
    else if (peer->silent >= suspect_after) {
        peer->health = peer->health < ISO_WATCHDOG_DEAD ? ISO_WATCHDOG_SUSPECT : peer->health;
        judge_silent(w, rank);
    }
}

/* ---- verdict ---- */

static bool any_phase(const iso_watchdog *w, iso_watchdog_phase phase)
{
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (phase_of(w, rank) == phase)
            return true;
    return false;
}

/* A rank that ends after an error of its own is not lost: it has said why. */
static int count_lost(const iso_watchdog *w, bool *suspects)
{
    int lost = 0;
    *suspects = false;
    for (int rank = 0; rank < w->n_ranks; rank++) {
        lost += iso_watchdog_is_lost(w, rank) && phase_of(w, rank) != ISO_WATCHDOG_FAILS;
        *suspects |= w->peer[rank].health == ISO_WATCHDOG_SUSPECT;
    }
    return lost;
}

static int lowest_left(const iso_watchdog *w)
{
    int rank = 0;
    while (rank < w->n_ranks && iso_watchdog_is_lost(w, rank))
        rank++;
    return rank;
}

static bool leads_group(const iso_watchdog *w)
{
    int rank = 0;
    while (rank < w->rank && (!iso_watchdog_in_group(w, rank) || iso_watchdog_is_lost(w, rank)))
        rank++;
    return rank == w->rank;
}

static void find(iso_watchdog *w, iso_watchdog_reason reason, double passed)
{
    if (w->verdict.found && w->verdict.reason <= reason)
        return;
    w->verdict.found = true;
    w->verdict.reason = reason;
    w->verdict.since = -passed; /* this look does not count */
}

/* Ranks that others wait for are named by the lowest rank of their group. */
static void look_for_slow(iso_watchdog *w, double passed)
{
    double wait = iso_watchdog_longest_wait(w);
    if (wait < w->timeout)
        w->named = 0;
    if (wait < w->timeout || wait - w->named < w->timeout || !leads_group(w))
        return;
    w->named = wait;
    if (w->timeout_aborts)
        find(w, ISO_WATCHDOG_A_TIMEOUT, passed);
    else
        iso_watchdog_warn_of_slow(w);
}

/* The number of seconds for which the verdict must stay the same. */
static double verdict_needs(const iso_watchdog *w, bool suspects)
{
    if (w->verdict.reason == ISO_WATCHDOG_A_LOSS)
        return suspects ? settle_with_suspects : settle;
    if (w->verdict.reason == ISO_WATCHDOG_A_BREAK)
        return settle_break;
    return any_phase(w, ISO_WATCHDOG_FAILS)              ? failing_rank_ends
           : w->verdict.reason == ISO_WATCHDOG_A_TIMEOUT ? 0
                                                         : settle_mismatch;
}

/* Whether the verdict is final. A loss may be withdrawn before: a stopped process that goes on. */
static bool is_final(iso_watchdog *w, double passed, double *overdue)
{
    bool suspects;
    int lost = count_lost(w, &suspects);
    if (any_phase(w, ISO_WATCHDOG_ENDED))
        return false;
    if (lost == 0 && w->verdict.reason == ISO_WATCHDOG_A_LOSS)
        w->verdict.found = false;
    if (lost > 0)
        find(w, ISO_WATCHDOG_A_LOSS, passed);
    else if (any_phase(w, ISO_WATCHDOG_CUT_OFF))
        find(w, ISO_WATCHDOG_A_BREAK, passed);
    else if (iso_watchdog_find_mismatch(w, &w->verdict.first, &w->verdict.other))
        find(w, ISO_WATCHDOG_A_MISMATCH, passed);
    else
        look_for_slow(w, passed);
    if (!w->verdict.found)
        return false;
    w->verdict.since += passed;
    *overdue = w->verdict.since - verdict_needs(w, suspects);
    return *overdue >= 0;
}

static void flush_output(void)
{
    if (ftrylockfile(stdout) == 0) { /* the thread that holds it may wait for ever */
        fflush_unlocked(stdout);
        funlockfile(stdout);
    }
}

static void call_back(iso_watchdog *w)
{
    pthread_mutex_lock(&w->callback_lock);
    w->notified = true;
    if (w->callback)
        w->callback(w->callback_user, w->page->loss);
    pthread_mutex_unlock(&w->callback_lock);
}

void iso_watchdog_set_callback(iso_watchdog *w, void (*callback)(void *user, const char *text), void *user)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->callback_lock);
    w->callback = callback;
    w->callback_user = user;
    if (w->notified && callback)
        callback(user, w->page->loss);
    pthread_mutex_unlock(&w->callback_lock);
}

/* The report has been printed. In a program with MPI of its own, waits end because of `reported`. */
static void end(iso_watchdog *w)
{
    call_back(w);
    if (!w->ends_process)
        return;
    flush_output();
    _exit(ISO_WATCHDOG_LOST);
}

/* The lowest rank that is left reports; the others wait for that. No progress is known to its reporter alone. */
static void conclude(iso_watchdog *w, double overdue)
{
    bool mine = w->verdict.reason == ISO_WATCHDOG_A_TIMEOUT || lowest_left(w) == w->rank ||
                (overdue >= report_follows && iso_watchdog_is_leader(w));
    if (!mine && !atomic_load(&w->page->reported))
        return;
    if (!atomic_load(&w->page->reported))
        iso_watchdog_report(w);
    end(w);
}

/* ---- the thread ---- */

static bool any_missing(const iso_watchdog *w)
{
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (iso_watchdog_is_lost(w, rank) && phase_of(w, rank) == ISO_WATCHDOG_FAILS)
            return true;
    return false;
}

static void look(iso_watchdog *w)
{
    double now = iso_clock(), passed = now - w->clock < 1 ? now - w->clock : 1;
    w->clock = now;
    atomic_fetch_add_explicit(&w->mine->beats, 1, memory_order_relaxed);
    for (int rank = 0; rank < w->n_ranks; rank++)
        look_at(w, rank, passed);
    iso_watchdog_links_check(w, passed);
    atomic_store(&w->misses, any_missing(w));
    if (w->times && w->identity[w->rank].group_rank == 0)
        iso_watchdog_print_times(w);
    if (w->notified)
        return;
    if (atomic_load(&w->page->reported)) {
        end(w);
        return;
    }
    double overdue;
    if (is_final(w, passed, &overdue))
        conclude(w, overdue);
}

/* Waits for the next heartbeat, for the end of a process of this host, or for other hosts. */
static void wait_for_event(iso_watchdog *w, int timeout)
{
    struct pollfd *polled = w->polled;
    int count = 0;
    polled[count++] = (struct pollfd){.fd = w->wake, .events = POLLIN};
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (w->peer[rank].process >= 0 && !w->peer[rank].gone)
            polled[count++] = (struct pollfd){.fd = w->peer[rank].process, .events = POLLIN};
    int links = count;
    count += iso_watchdog_links_poll(w, polled + count);
    if (poll(polled, (nfds_t)count, timeout) < 0)
        return;
    count = 1;
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (w->peer[rank].process >= 0 && !w->peer[rank].gone) {
            w->peer[rank].gone = polled[count++].revents != 0;
            w->urgent |= w->peer[rank].gone;
        }
    iso_watchdog_links_serve(w, polled + links);
}

static void *watch_run(void *arg)
{
    iso_watchdog *w = arg;
    iso_default_modes_of_thread();
    w->clock = iso_clock();
    while (!atomic_load(&w->over)) {
        look(w);
        double next =
            iso_clock() + (w->verdict.found ? 1e-3 * ISO_WATCHDOG_TICK / 5 : 1e-3 * ISO_WATCHDOG_TICK);
        w->urgent = false;
        for (double left = next - iso_clock(); left > 0 && !w->urgent && !atomic_load(&w->over);
             left = next - iso_clock())
            wait_for_event(w, 1 + (int)(1e3 * left));
    }
    if (atomic_load(&w->page->reported) && !w->notified && !w->ends_process) /* since the last look */
        call_back(w);
    return NULL;
}

/* ---- start and end ---- */

/* A descriptor that becomes readable when the process ends; -1 if the kernel has none (before Linux 5.3). */
static int open_process(const iso_watchdog *w, int rank)
{
    const iso_watchdog_identity *peer = &w->identity[rank], *own = &w->identity[w->rank];
    if (rank == w->rank || !iso_watchdog_is_local(w, rank) || !own->pid_space ||
        peer->pid_space != own->pid_space)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer->pid, 0);
}

iso_status iso_watchdog_thread_start(iso_watchdog *w)
{
    for (int rank = 0; rank < w->n_ranks; rank++)
        w->peer[rank].process = open_process(w, rank);
    /* itself, the processes of this host, the listener, and the connections */
    size_t most = 2 + (size_t)w->n_ranks + (size_t)iso_watchdog_most_links(w);
    w->polled = iso_new(most * sizeof *w->polled);
    if (!w->polled)
        return iso_no_memory("the watchdog of %d ranks", w->n_ranks);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake < 0)
        return iso_error(ISO_FAILED, "the watchdog: eventfd: %s", strerror(errno));
    int error = iso_thread_start(&w->thread, watch_run, w);
    if (error)
        return iso_error(ISO_FAILED, "the watchdog's thread: %s", strerror(error));
    w->runs = true;
    return ISO_OK;
}

void iso_watchdog_thread_end(iso_watchdog *w)
{
    if (w->runs) {
        atomic_store(&w->over, true);
        eventfd_write(w->wake, 1);
        pthread_join(w->thread, NULL);
        w->runs = false;
    }
    for (int rank = 0; w->peer && rank < w->n_ranks; rank++)
        if (w->peer[rank].process > 0)
            close(w->peer[rank].process);
    if (w->wake > 0)
        close(w->wake);
    iso_free(w->polled);
}
