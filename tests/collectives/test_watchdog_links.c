/* The watchdog's connections to other hosts. The limit of open files is raised while there are some. Where it stays
 * too low, the program keeps some, nothing is accepted before the next heartbeat, and one warning says why. Where a
 * host cannot be reached, the others do not answer each other without end. Ranks: 1 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "tests/support/run_tests.h"

enum { RANKS = 3, LOW = 100 };
static const double tick = 1e-3 * ISO_WATCHDOG_TICK;

static struct rlimit before;
static const int host_of_rank[RANKS] = {0, 1, 2};
static iso_watchdog *w, *second; /* of rank 0 and rank 1 */
static struct pollfd *polled;
static char warning[500];
static int warnings;

static void take_warning(void *user, const char *text)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

static void set_limit(rlim_t soft)
{
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, before.rlim_max}), 0);
}

static rlim_t limit_now(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

/* A rank of three hosts. */
static iso_watchdog *make(int rank)
{
    iso_watchdog *made = iso_new(sizeof *made);
    made->rank = rank;
    made->n_ranks = made->n_hosts = RANKS;
    made->host_of_rank = host_of_rank;
    made->page = iso_new(sizeof *made->page + RANKS * sizeof *made->page->record);
    made->mine = &made->page->record[rank];
    made->identity = iso_new(RANKS * sizeof *made->identity);
    made->peer = iso_new(RANKS * sizeof *made->peer);
    for (int i = 0; i < RANKS; i++)
        snprintf(made->identity[i].host, sizeof made->identity[i].host, "h%d", i);
    ck_assert_int_eq(iso_watchdog_links_open(made, &made->identity[rank]), ISO_OK);
    return made;
}

static void begin(void)
{
    getrlimit(RLIMIT_NOFILE, &before);
    set_limit(LOW);
    w = make(0);
    polled = iso_new(((size_t)iso_watchdog_most_links(w) + 1) * sizeof *polled);
    warnings = 0;
    iso_set_warning_handler(take_warning, NULL);
}

static void destroy(iso_watchdog *made)
{
    iso_watchdog_links_close(made);
    iso_free(made->peer);
    iso_free(made->identity);
    iso_free(made->page);
    iso_free(made);
}

static void end(void)
{
    destroy(w);
    ck_assert_uint_eq(limit_now(), LOW);
    iso_set_warning_handler(NULL, NULL);
    iso_free(polled);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* Another host connects. */
static int call(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(w->identity[0].port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int number = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(number, 0);
    ck_assert_int_eq(connect(number, (struct sockaddr *)&to, sizeof to), 0);
    return number;
}

/* Whether something is there to be served at once. */
static bool wakes(int timeout)
{
    return poll(polled, (nfds_t)iso_watchdog_links_poll(w, polled), timeout) > 0;
}

START_TEST(limit_is_raised)
{
    begin();
    ck_assert_uint_eq(limit_now(), LOW + (rlim_t)iso_watchdog_most_links(w));
    ck_assert_uint_eq(w->identity[0].most_files, limit_now());
    end();
}
END_TEST

/* Whether the other end has closed this connection. */
static bool is_refused(int number)
{
    char byte;
    return recv(number, &byte, 1, 0) == 0;
}

static void heartbeats(double seconds)
{
    for (double at = 0; at < seconds; at += tick)
        if (iso_watchdog_links_check(w, tick), wakes(1000))
            iso_watchdog_links_serve(w, polled);
}

START_TEST(too_few)
{
    begin();
    rlim_t raised = limit_now();
    int first = call(), last = call(), other[8];
    set_limit((rlim_t)first + 32); /* the program keeps 32, but for the first connection */
    ck_assert(wakes(10000));
    iso_watchdog_links_serve(w, polled);
    ck_assert_int_eq(w->n_links, 1);
    ck_assert(is_refused(last));
    for (int i = 0; i < 8; i++)
        other[i] = call();
    iso_watchdog_links_poll(w, polled);
    ck_assert_int_eq(polled[0].fd, -1); /* until the next heartbeat */
    ck_assert_int_eq(warnings, 0);
    heartbeats(3);
    ck_assert_int_eq(w->n_links, 1);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "of rank 0 on h0 cannot open all connections to other hosts: "));
    ck_assert_ptr_nonnull(strstr(warning, strerror(EMFILE)));
    char limit[40];
    snprintf(limit, sizeof limit, "may have %llu;", (unsigned long long)w->identity[0].most_files);
    ck_assert_ptr_nonnull(strstr(warning, limit));
    set_limit(raised);
    heartbeats(tick);
    ck_assert_int_gt(w->n_links, 1);
    ck_assert_int_eq(warnings, 1);
    for (int i = 0; i < 8; i++)
        close(other[i]);
    close(last);
    close(first);
    end();
}
END_TEST

/* What another rank says of itself, of which rank 0 warns. */
START_TEST(too_few_elsewhere)
{
    begin();
    w->identity[2].most_files = 77;
    atomic_store(&w->page->record[2].lack, ENFILE);
    iso_watchdog_links_check(w, tick);
    iso_watchdog_links_check(w, tick);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "of rank 2 on h2 cannot open"));
    ck_assert_ptr_nonnull(strstr(warning, "may have 77;"));
    end();
}
END_TEST

static void serve(iso_watchdog *made)
{
    if (poll(polled, (nfds_t)iso_watchdog_links_poll(made, polled), 10) > 0)
        iso_watchdog_links_serve(made, polled);
}

/* What a rank sends is received by the other one. */
static void beat(iso_watchdog *from, iso_watchdog *to)
{
    _Atomic uint64_t *there = &to->page->record[from->rank].steps;
    uint64_t steps = atomic_fetch_add(&from->mine->steps, 1) + 1;
    while (atomic_load(there) != steps) {
        iso_watchdog_links_check(from, 0);
        serve(from);
        serve(to);
    }
}

/* Hosts 0 and 1 are connected, host 2 never is. */
START_TEST(one_host_missing)
{
    begin();
    second = make(1);
    second->identity[0] = w->identity[0];
    beat(second, w);
    beat(w, second);
    ck_assert(w->peer[1].known && second->peer[0].known);
    w->urgent = second->urgent = false;
    beat(second, w);
    beat(w, second);
    ck_assert(!w->urgent && !second->urgent);
    ck_assert(!atomic_load(&w->joined) && !atomic_load(&second->joined));
    destroy(second);
    end();
}
END_TEST

int main(void)
{
    return RUN_TESTS("watchdog_links", 0, limit_is_raised, too_few, too_few_elsewhere, one_host_missing);
}
