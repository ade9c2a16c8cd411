/* The start of a job, before there is a watchdog.
 *
 * Until MPI runs and the ranks have told each other where they are, MPI waits for ever for a rank that is stopped.
 * So each rank announces itself, before it begins MPI, in a file that the ranks of a host share: in the folder that
 * the launcher made for this job on this host, and removes. There it says at which stage it is. A thread looks at
 * the other ranks of the host. If one has died or is stopped, the lowest one reports that, and the ranks of the host
 * end with exit code 74; then the launcher ends the ranks of the other hosts. On one of several hosts all ranks may
 * be stopped while the job waits for them: there the first has a process beside it, its guard, which reports that if
 * no rank of the host is left. A rank that takes long is named in a warning. What happens on other hosts is not known
 * before the watchdog starts: their own ranks tell it.
 *
 * Open MPI's daemon sends SIGTERM to the ranks that survive a rank's death, after some seconds. On a machine that is
 * overloaded, or a virtual one that was paused, these may not have looked at the other ranks in that time. So SIGTERM
 * ends a rank that starts only after as long as they need to find a loss. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/host.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session_impl.h"

enum {
    MOST_RANKS = 1024 /* of a host; with more, none are watched at the start */,
    TICK = 500 /* ms */,
    MOST_LISTED = 8
};
/* Seconds. The launcher may end all ranks of a job within a second or so, one after the other. */
static const double dead_after = 2, stopped_after = 5;
/* From SIGTERM to the end. SIGKILL follows after odls_base_sigkill_timeout, which launch/mpirun sets to 4. */
static const double ends_after = 3;

static const char *const stage_names[] = {
    [ISO_START_MPI] = "MPI_Init",
    [ISO_START_ROLES] = "the exchange of roles",
    [ISO_START_HOSTS] = "the search for hosts",
    [ISO_START_WATCH] = "the start of the watchdog",
    [ISO_START_OVER] = "what follows the start",
};

/* The announcement of a rank. */
typedef struct start_entry {
    _Atomic int32_t stage; /* iso_start_stage; 0: it has not announced itself */
    int32_t rank, pid;
    uint64_t pid_space;
} start_entry;

typedef struct start_board {
    atomic_int claimed;  /* some rank prints the report, or has printed it */
    atomic_int reported; /* it is printed: all ranks of the host end */
    atomic_int ended;    /* some rank has told that SIGTERM ends the start: all ranks of the host end by it */
    start_entry entry[MOST_RANKS];
} start_board;

struct iso_start {
    start_board *board;
    int self, count, n_ranks; /* count: entries that may be used */
    bool counted;             /* it is the number of ranks of this host */
    double timeout;
    bool aborts;
    char host[ISO_HOST_NAME];
    double gone[MOST_RANKS], stopped[MOST_RANKS]; /* seconds */
    double clock, age, warned, terminated;        /* terminated: since SIGTERM */
    bool catches;                                 /* SIGTERM: on_terminate handles it */
    struct sigaction before;                      /* what it did before */
    pthread_t thread;
    int wake; /* eventfd */
    atomic_bool over;
    pid_t guard;   /* the process beside the first rank of a host; 0: none */
    int guard_end; /* a pipe: the guard ends when this is closed */
    bool guards;   /* this process is the guard */
};

/* ---- what is seen of the other ranks ---- */

static iso_start_stage stage_of(const iso_start *s, int i)
{
    return (iso_start_stage)atomic_load_explicit(&s->board->entry[i].stage, memory_order_acquire);
}

/* It has announced itself and is not over the start. */
static bool is_starting(const iso_start *s, int i)
{
    return stage_of(s, i) > 0 && stage_of(s, i) < ISO_START_OVER;
}

static bool start_is_lost(const iso_start *s, int i)
{
    return is_starting(s, i) && (s->gone[i] >= dead_after || s->stopped[i] >= stopped_after);
}

static void start_look_at(iso_start *s, int i, double passed)
{
    const start_entry *entry = &s->board->entry[i], *own = &s->board->entry[s->self];
    bool seen = (i != s->self || s->guards) && is_starting(s, i) && entry->pid_space == own->pid_space &&
                own->pid_space;
    char state = seen ? iso_process_state(entry->pid) : '?';
    s->gone[i] = state == 0 || state == 'Z' || state == 'X' ? s->gone[i] + passed : 0;
    s->stopped[i] = state == 'T' ? s->stopped[i] + passed : 0;
}

static int start_count_lost(const iso_start *s, int *announced)
{
    int lost = 0;
    *announced = 0;
    for (int i = 0; i < s->count; i++) {
        lost += start_is_lost(s, i);
        *announced += stage_of(s, i) != ISO_START_NONE;
    }
    return lost;
}

/* The lowest rank that is alive looks at all; the others see that it is. Returns whether that is this rank. */
static bool look_around(iso_start *s, double passed)
{
    for (int i = 0; i < s->count; i++) {
        start_look_at(s, i, passed);
        if (i < s->self && is_starting(s, i) && s->gone[i] == 0 && s->stopped[i] == 0)
            return false;
    }
    return true;
}

/* ---- what is said of them ---- */

static void add_entry(iso_text *text, const iso_start *s, int i)
{
    const start_entry *entry = &s->board->entry[i];
    const char *health = s->stopped[i] > 0 ? "is stopped (by SIGSTOP or SIGTSTP)"
                         : s->gone[i] > 0  ? "has ended unexpectedly"
                                           : "is alive";
    iso_text_add(text, "rank %d on %s (process %d) %s, in %s", (int)entry->rank, s->host, (int)entry->pid,
                 health, stage_names[stage_of(s, i)]);
}

/* Ranks at stages before this one. before, after: each. */
static void add_entries(iso_text *text, const iso_start *s, bool lost, iso_start_stage below,
                        const char *before, const char *after)
{
    int listed = 0;
    for (int i = 0; i < s->count; i++) {
        if (!is_starting(s, i) || stage_of(s, i) >= below || start_is_lost(s, i) != lost ||
            listed++ >= MOST_LISTED)
            continue;
        iso_text_add(text, "%s", before);
        add_entry(text, s, i);
        iso_text_add(text, "%s", after);
    }
    if (listed > MOST_LISTED)
        iso_text_add(text, "%sand %d more%s", before, listed - MOST_LISTED, after);
}

static bool is_here(const iso_start *s, int rank)
{
    for (int i = 0; i < s->count; i++)
        if (stage_of(s, i) != ISO_START_NONE && s->board->entry[i].rank == rank)
            return true;
    return false;
}

/* ", and wait for ranks of other hosts: 2, 3" */
static void add_elsewhere(iso_text *text, const iso_start *s)
{
    int listed = 0;
    iso_text_add(text, ", and wait for ranks of other hosts");
    for (int rank = 0; rank < s->n_ranks; rank++)
        if (!is_here(s, rank) && listed++ < MOST_LISTED)
            iso_text_add(text, "%s%d", listed == 1 ? ": " : ", ", rank);
    if (listed > MOST_LISTED)
        iso_text_add(text, " and %d more", listed - MOST_LISTED);
}

/* The ranks of this host that the others wait for; or they all wait for those of other hosts. */
static void add_late(iso_text *text, const iso_start *s)
{
    int absent = 0, late = 0;
    iso_start_stage most = ISO_START_NONE;
    for (int i = 0; i < s->count; i++)
        most = stage_of(s, i) > most ? stage_of(s, i) : most;
    for (int i = 0; i < s->count; i++) {
        absent += s->counted && stage_of(s, i) == ISO_START_NONE;
        late += is_starting(s, i) && stage_of(s, i) < most;
    }
    if (absent > 0)
        iso_text_add(text, "; %d of %d ranks on %s %s not called iso_init", absent, s->count, s->host,
                     absent == 1 ? "has" : "have");
    add_entries(text, s, false, most, "; ", "");
    if (absent > 0 || late > 0)
        return;
    iso_text_add(text, "; all ranks on %s are in %s", s->host, stage_names[most]);
    if (s->counted && s->count < s->n_ranks)
        add_elsewhere(text, s);
}

/* Prints the report and writes it to a file; then all ranks of the host end. */
static void start_conclude(iso_start *s, iso_text *report)
{
    char job[ISO_WATCHDOG_JOB], path[1024];
    if (atomic_exchange(&s->board->claimed, 1))
        return;
    iso_watchdog_name_job(getenv("PMIX_NAMESPACE"), job);
    if (iso_watchdog_write_report(job, s->host, iso_text_get(report), report->length, path, sizeof path))
        iso_text_add(report, "isogrid:   this report is also in %s\n", path);
    else
        iso_text_add(report, "isogrid:   this report could not be written to a file: %s\n", strerror(errno));
    iso_file_write(STDERR_FILENO, iso_text_get(report), report->length);
    atomic_store(&s->board->reported, 1);
}

static void start_report(iso_start *s, int lost, int announced)
{
    iso_text report = {0};
    iso_text_add(&report, "isogrid: error: %d of %d ranks on %s %s lost while the job starts", lost,
                 announced, s->host, lost == 1 ? "is" : "are");
    iso_text_add(&report, "; the job ends with exit code %d\n", ISO_WATCHDOG_LOST);
    add_entries(&report, s, true, ISO_START_OVER, "isogrid:   ", "\n");
    add_entries(&report, s, false, ISO_START_OVER, "isogrid:   ", "\n");
    start_conclude(s, &report);
    iso_text_free(&report);
}

static void name_late(iso_start *s)
{
    iso_text text = {0}, report = {0};
    if (s->age - s->warned < s->timeout)
        return;
    s->warned = s->age;
    iso_text_add(&text, "the start has taken %.0f seconds", s->age);
    add_late(&text, s);
    if (s->aborts) {
        iso_text_add(&report, "isogrid: error: %s (--timeout-abort)", iso_text_get(&text));
        iso_text_add(&report, "; the job ends with exit code %d\n", ISO_WATCHDOG_LOST);
        start_conclude(s, &report);
    } else
        iso_warn("%s", iso_text_get(&text));
    iso_text_free(&report);
    iso_text_free(&text);
}

/* ---- SIGTERM ---- */

static volatile sig_atomic_t got_terminate; /* of the process: one start at a time catches it */

static void on_terminate(int signal_number)
{
    (void)signal_number;
    got_terminate = 1;
}

/* Not if the program handles it. */
static void catch_terminate(iso_start *s)
{
    struct sigaction action = {.sa_handler = on_terminate, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    got_terminate = 0;
    s->catches = !sigaction(SIGTERM, NULL, &s->before) && s->before.sa_handler == SIG_DFL &&
                 !sigaction(SIGTERM, &action, NULL);
}

/* Ends the process by SIGTERM if it has come to it, or to another rank of the host, which has ended of it. One rank
 * tells what ranks were waiting for. */
static void end_if_terminated(iso_start *s)
{
    iso_text text = {0};
    bool others = atomic_load(&s->board->ended);
    if (!others && (!s->catches || !got_terminate))
        return;
    if (!others && !atomic_exchange(&s->board->ended, 1)) {
        iso_text_add(&text, "isogrid: error: received SIGTERM during the start; the ranks on %s end\n",
                     s->host);
        add_entries(&text, s, false, ISO_START_OVER, "isogrid:   ", "\n");
        iso_file_write(STDERR_FILENO, iso_text_get(&text), text.length);
        iso_text_free(&text);
    }
    if (!s->catches)
        _exit(128 + SIGTERM);
    sigaction(SIGTERM, &s->before, NULL);
    kill(getpid(), SIGTERM);
}

static void release_terminate(iso_start *s)
{
    end_if_terminated(s);
    if (s->catches)
        sigaction(SIGTERM, &s->before, NULL);
}

/* ---- the thread ---- */

static void start_look(iso_start *s)
{
    double now = iso_clock(), passed = now - s->clock < 1 ? now - s->clock : 1;
    s->clock = now;
    s->age += passed;
    s->terminated += got_terminate ? passed : 0;
    if (!atomic_load(&s->board->reported) && !atomic_load(&s->board->ended) && look_around(s, passed)) {
        int announced, lost = start_count_lost(s, &announced);
        if (lost > 0)
            start_report(s, lost, announced);
        else
            name_late(s);
    }
}

/* Also at the end: the launcher lets a stopped rank go on when it ends the job, so the start may go on too. */
static void end_if_reported(const iso_start *s)
{
    if (atomic_load(&s->board->reported))
        _exit(ISO_WATCHDOG_LOST);
}

static void *start_run(void *arg)
{
    iso_start *s = arg;
    struct pollfd wake = {.fd = s->wake, .events = POLLIN};
    iso_default_modes_of_thread();
    s->clock = iso_clock();
    while (!atomic_load(&s->over)) {
        start_look(s);
        end_if_reported(s);
        if (s->terminated >= ends_after || atomic_load(&s->board->ended))
            end_if_terminated(s);
        poll(&wake, 1, TICK);
    }
    end_if_reported(s);
    return NULL;
}

/* ---- the guard of a host ---- */

/* Whether all ranks that are known here are lost. */
static bool none_is_left(const iso_start *s)
{
    int starting = 0, announced, lost = start_count_lost(s, &announced);
    for (int i = 0; i < s->count; i++)
        starting += is_starting(s, i);
    return lost > 0 && lost == starting && starting == announced;
}

/* The ranks go on after that, see the report and end with its exit code. */
static void guard_report(iso_start *s)
{
    int announced, lost = start_count_lost(s, &announced);
    start_report(s, lost, announced);
    for (int i = 0; i < s->count; i++)
        if (start_is_lost(s, i) && s->stopped[i] > 0)
            kill(s->board->entry[i].pid, SIGCONT);
}

/* Looks at the ranks until all of them are lost, or the first has closed its end of the pipe, also by ending. */
static void guard_run(iso_start *s, int end)
{
    struct pollfd ended = {.fd = end, .events = POLLIN};
    s->guards = true;
    s->clock = iso_clock();
    while (poll(&ended, 1, TICK) <= 0 && !none_is_left(s)) {
        double now = iso_clock(), passed = now - s->clock < 1 ? now - s->clock : 1;
        s->clock = now;
        for (int i = 0; i < s->count; i++)
            start_look_at(s, i, passed);
    }
    if (none_is_left(s) && !atomic_load(&s->board->ended))
        guard_report(s);
}

/* Ranks that are all stopped on the only host of a job keep nobody waiting, unless there is one. srun does not say
 * how many ranks a host has. Without memory for another process there is no guard. */
static bool needs_guard(const iso_start *s)
{
    return s->self == 0 && (!s->counted || s->count == 1 || s->count < s->n_ranks);
}

static void guard_begin(iso_start *s)
{
    int ends[2];
    if (!needs_guard(s) || pipe2(ends, O_CLOEXEC))
        return;
    s->guard = fork();
    if (s->guard == 0) {
        close(ends[1]);
        guard_run(s, ends[0]);
        _exit(0);
    }
    close(ends[0]);
    s->guard_end = ends[1];
    if (s->guard < 0) {
        s->guard = 0;
        close(ends[1]);
    }
}

/* The guard may be stopped itself. If it has said that the job ends, it does. */
static void guard_finish(const iso_start *s)
{
    if (!s->guard)
        return;
    close(s->guard_end);
    kill(s->guard, SIGKILL);
    while (waitpid(s->guard, NULL, 0) < 0 && errno == EINTR)
        ;
    if (atomic_load(&s->board->claimed))
        _exit(ISO_WATCHDOG_LOST);
}

/* ---- begin and end ---- */

/* The file of this host's ranks, of zeros at first; NULL if there is no location for it. */
static start_board *open_board(void)
{
    const char *folder = getenv("PMIX_SERVER_TMPDIR"), *job = getenv("PMIX_NAMESPACE");
    char path[4096];
    if (!folder || !*folder || !job || !*job)
        return NULL;
    snprintf(path, sizeof path, "%s/isogrid-start-%s", folder, job);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return NULL;
    void *memory = ftruncate(file, sizeof(start_board))
                       ? MAP_FAILED
                       : mmap(NULL, sizeof(start_board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

static void announce(iso_start *s, int rank)
{
    start_entry *mine = &s->board->entry[s->self];
    mine->rank = rank;
    mine->pid = (int32_t)getpid();
    mine->pid_space = iso_process_space();
    iso_start_enter(s, ISO_START_MPI);
}

iso_start *iso_start_begin(const iso_launcher_location *location, double timeout, bool aborts)
{
    iso_start *s = iso_new(sizeof *s);
    int count = location->n_local > 0 ? location->n_local : MOST_RANKS;
    if (!s || location->n_ranks == 1 || location->local_rank < 0 || location->local_rank >= count ||
        count > MOST_RANKS)
        goto give_up;
    s->board = open_board();
    if (!s->board)
        goto give_up;
    s->self = location->local_rank;
    s->count = count;
    s->counted = location->n_local > 0;
    s->n_ranks = location->n_ranks;
    s->timeout = timeout;
    s->aborts = aborts;
    iso_host_name(s->host);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    announce(s, location->rank);
    catch_terminate(s);
    guard_begin(s);
    if (s->wake >= 0 && !iso_thread_start(&s->thread, start_run, s))
        return s;
    guard_finish(s);
    iso_start_enter(s, ISO_START_OVER);
    release_terminate(s);
    munmap(s->board, sizeof *s->board);
    if (s->wake >= 0)
        close(s->wake);
give_up:
    iso_free(s);
    return NULL;
}

void iso_start_enter(iso_start *s, iso_start_stage stage)
{
    if (s)
        atomic_store_explicit(&s->board->entry[s->self].stage, (int32_t)stage, memory_order_release);
}

void iso_start_end(iso_start **start)
{
    iso_start *s = *start;
    *start = NULL;
    if (!s)
        return;
    iso_start_enter(s, ISO_START_OVER);
    atomic_store(&s->over, true);
    eventfd_write(s->wake, 1);
    pthread_join(s->thread, NULL);
    guard_finish(s);
    release_terminate(s);
    munmap(s->board, sizeof *s->board);
    close(s->wake);
    iso_free(s);
}
