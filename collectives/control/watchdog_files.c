/* Descriptors for the watchdog's connections. The leader of a host has one to each other host, and a process may
 * often have 1024. The soft limit is raised by as many as there may be, so the program keeps those that it had. Where
 * the hard limit is too low for that, some are left to the program and to MPI. A rank that lacks descriptors goes on
 * without the connections and writes this into its record; rank 0 warns. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/log.h"

enum { SPARE = 32 };                                     /* descriptors that are left */
static const double warn_after = 2;                      /* seconds: a lack may end by itself */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts of several threads change the limit */

void iso_watchdog_files_add(iso_watchdog *w, iso_watchdog_identity *mine)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)iso_watchdog_most_links(w);
    pthread_mutex_lock(&lock);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur, room = limit.rlim_max - before;
        limit.rlim_cur += wanted < room ? wanted : room;
        w->files_added = setrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur - before;
    }
    pthread_mutex_unlock(&lock);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        mine->most_files = limit.rlim_cur;
}

void iso_watchdog_files_remove(iso_watchdog *w)
{
    struct rlimit limit;
    pthread_mutex_lock(&lock);
    if (w->files_added > 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > w->files_added) {
        limit.rlim_cur -= w->files_added;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    w->files_added = 0;
    pthread_mutex_unlock(&lock);
}

static bool is_lack(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* The kernel gives the lowest number that is free, so fewer than SPARE are left when it is near the limit. The first
 * connection, which is to rank 0's host, may have one of them. */
static bool leaves_spare(const iso_watchdog *w, int number)
{
    struct rlimit limit;
    return w->n_links == 0 || getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)number + SPARE < limit.rlim_cur;
}

int iso_watchdog_files_take(iso_watchdog *w, int number)
{
    int error = number < 0 ? errno : leaves_spare(w, number) ? 0 : EMFILE;
    if (is_lack(error))
        w->lack = error;
    if (number < 0 || !error)
        return number;
    close(number);
    return -1;
}

void iso_watchdog_files_look(iso_watchdog *w, double passed)
{
    w->lacked = w->lack ? w->lacked + passed : 0;
    if (w->lacked >= warn_after)
        atomic_store(&w->mine->lack, (uint32_t)w->lack);
    w->lack = 0;
}

void iso_watchdog_files_warn(iso_watchdog *w)
{
    for (int rank = 0; w->rank == 0 && rank < w->n_ranks && !w->warned; rank++) {
        int error = (int)atomic_load(&w->page->record[rank].lack);
        if (!error)
            continue;
        w->warned = true;
        iso_warn(
            "the watchdog of rank %d on %s cannot open all connections to other hosts: %s (this process may "
            "have %llu; see ulimit -Hn): a lost rank of another host may not be noticed",
            rank, w->identity[rank].host, strerror(error), (unsigned long long)w->identity[rank].most_files);
    }
}
