/* The watchdog: its shared page, and its thread. See watchdog.c. */
#ifndef ISO_COLL_WATCHDOG_IMPL_H
#define ISO_COLL_WATCHDOG_IMPL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "collectives/control/channel.h"
#include "collectives/control/watchdog.h"
#include "collectives/shm/window_impl.h"
#include "runtime/base/host.h"
#include "runtime/base/text.h"

enum {
    ISO_WATCHDOG_WORDS = ISO_WATCHDOG_TEXT / 8,
    ISO_WATCHDOG_RING = 32,  /* collectives whose signatures are remembered */
    ISO_WATCHDOG_LINE = 512, /* bytes of the first line of the report */
    ISO_WATCHDOG_TICK = 500, /* ms between heartbeats */
};

/* Progress in the sequence of collectives: from the lowest bit, whether the rank is inside, which of the two
 * texts belongs to it, the position within the collective (22 bits), the sequence number. */
static inline uint64_t iso_watchdog_progress(uint64_t sequence, uint64_t position, unsigned text, bool inside)
{
    const uint64_t most = ((uint64_t)1 << 22) - 1;
    return sequence << 24 | (position < most ? position : most) << 2 | (text & 1) << 1 | inside;
}
static inline uint64_t iso_watchdog_sequence(uint64_t progress)
{
    return progress >> 24;
}
static inline unsigned iso_watchdog_position(uint64_t progress)
{
    return (unsigned)(progress >> 2) & ((1u << 22) - 1);
}
static inline unsigned iso_watchdog_parity(uint64_t progress)
{
    return (unsigned)(progress >> 1) & 1;
}
static inline bool iso_watchdog_inside(uint64_t progress)
{
    return progress & 1;
}
/* Sequence number and position. */
static inline uint64_t iso_watchdog_key(uint64_t progress)
{
    return progress >> 2;
}

/* What a rank publishes. Written by that rank alone; on other hosts by the leader that receives it. */
typedef struct iso_watchdog_record {
    _Alignas(128) _Atomic uint64_t progress;
    _Atomic uint64_t text[2][ISO_WATCHDOG_WORDS];
    _Atomic uint64_t
        signature[2]; /* hash of all signatures up to here, with the exchanges of this collective */
    struct {
        _Atomic uint64_t sequence, hash; /* the same without exchanges, by sequence number */
    } ring[ISO_WATCHDOG_RING];
    _Atomic uint64_t steps, step_time, wait_time; /* sums, ns; if times are wanted */
    _Alignas(128) _Atomic uint64_t beats;         /* written by the rank's thread */
    _Atomic uint32_t phase;
    _Atomic uint32_t health; /* of a rank of another host: as its host's leader sees it */
    _Atomic uint32_t silent; /* of a rank of another host: seconds since its last heartbeat */
    _Atomic uint32_t lack;   /* the error for which it cannot connect to all hosts; 0: none */
} iso_watchdog_record;

/* The page of a host. */
typedef struct iso_watchdog_page {
    atomic_int reported; /* the report has been printed: all ranks of the host end, or their calls fail */
    atomic_int kept;     /* some rank writes, or has written, its first line */
    char loss[ISO_WATCHDOG_LINE]; /* that line; set before `reported` */
    iso_watchdog_record record[];
} iso_watchdog_page;

/* What is known about a rank before anything happens. */
typedef struct iso_watchdog_identity {
    int32_t pid;
    bool errors_return; /* calls return errors after a loss, and the program goes on */
    uint64_t pid_space; /* pids of the same space can be compared */
    int32_t group, group_rank;
    char group_name[16];
    char host[ISO_HOST_NAME];
    uint16_t port; /* where it listens, if there are several hosts */
    int32_t n_addresses;
    uint32_t address[6]; /* IPv4 */
    uint64_t most_files; /* descriptors that it may have */
} iso_watchdog_identity;

typedef enum iso_watchdog_health {
    ISO_WATCHDOG_ALIVE,
    ISO_WATCHDOG_SUSPECT, /* silent for a while; it counts as alive */
    ISO_WATCHDOG_DEAD,    /* this and all that follow are lost */
    ISO_WATCHDOG_STOPPED,
    ISO_WATCHDOG_SILENT,
    ISO_WATCHDOG_CUT,
} iso_watchdog_health;

/* How this process sees a rank. Used by the watchdog's thread alone. */
typedef struct iso_watchdog_peer {
    uint64_t beats, progress;
    double silent; /* seconds without a heartbeat */
    double still;  /* seconds at the same progress */
    int process;   /* pidfd; -1 */
    bool gone;     /* the process has ended */
    bool known;    /* on another host: this process has received its state */
    bool ended;    /* on another host: the connection to its leader has ended since */
    unsigned calls;
    int links;                            /* connections to it */
    uint64_t steps, step_time, wait_time; /* when times were printed last */
    iso_watchdog_health health;
} iso_watchdog_peer;

/* A rank that stands still, and where: sequence number and position. */
typedef struct iso_watchdog_stalled {
    uint64_t key;
    int rank, group;
} iso_watchdog_stalled;

typedef enum iso_watchdog_reason {
    ISO_WATCHDOG_A_LOSS,
    ISO_WATCHDOG_A_BREAK, /* devices of a rank cannot exchange */
    ISO_WATCHDOG_A_MISMATCH,
    ISO_WATCHDOG_A_TIMEOUT
} iso_watchdog_reason;

/* The fault that was found, and its time. */
typedef struct iso_watchdog_verdict {
    bool found;
    iso_watchdog_reason reason;
    double since;     /* seconds since it was found */
    int first, other; /* the ranks of a mismatch */
} iso_watchdog_verdict;

typedef struct iso_watchdog_link iso_watchdog_link;

typedef struct iso_watchdog_host {
    int first, ranks; /* its lowest rank, and how many it has */
} iso_watchdog_host;

/* Bytes of messages; the memory is kept when it is emptied. */
typedef struct iso_watchdog_buffer {
    char *data;
    size_t count, room;
} iso_watchdog_buffer;

struct iso_watchdog {
    /* of the thread that calls collectives */
    iso_watchdog_record *mine;
    uint64_t sequence, position, chain, part;
    unsigned texts;
    bool errors_return; /* of some rank */

    pthread_mutex_t callback_lock; /* held while these three are used */
    void (*callback)(void *user, const char *text);
    void *callback_user;
    bool notified;
    atomic_bool misses;

    int rank, n_ranks, n_hosts;
    int group_size;
    const int *host_of_rank; /* the context's */
    bool ends_process;
    double timeout;
    bool timeout_aborts, times;
    iso_window window;
    iso_watchdog_page *page;
    iso_watchdog_identity *identity; /* [n_ranks] */
    char job[ISO_WATCHDOG_JOB];

    /* of the watchdog's thread */
    pthread_t thread;
    bool runs;
    int wake; /* eventfd: the thread looks at once */
    atomic_bool over;
    double clock;
    iso_watchdog_peer *peer;        /* [n_ranks] */
    iso_watchdog_stalled *standing; /* [n_ranks] room for those that stand still */
    struct pollfd *polled;          /* room for what it waits for */
    iso_watchdog_verdict verdict;
    uint64_t token;          /* known to the ranks of the job alone */
    int listener;            /* -1: there is one host */
    iso_watchdog_host *host; /* [n_hosts], if there are several hosts */
    iso_watchdog_link **links;
    int n_links;
    uint64_t files_added; /* to the process's limit */
    int lack;             /* the error of the last connection that could not be opened; 0: none since the last
                             heartbeat */
    double lacked;        /* seconds */
    iso_watchdog_buffer states; /* of this host's ranks, as they were last sent */
    bool urgent;                /* something has happened that cannot wait for the next heartbeat */
    atomic_bool joined;         /* the states of all other hosts have been received */
    bool warned;                /* of hosts that cannot be reached, or of a lack of descriptors */
    double named;               /* the longest wait when slow ranks were last named; 0: not in this wait */
};

/* watchdog_thread.c: starts and ends the thread. The thread blocks all signals and never calls MPI. */
iso_status iso_watchdog_thread_start(iso_watchdog *watchdog);
void iso_watchdog_thread_end(iso_watchdog *watchdog);
bool iso_watchdog_is_local(const iso_watchdog *watchdog, int rank);
/* Whether a rank is in this rank's group. */
bool iso_watchdog_in_group(const iso_watchdog *watchdog, int rank);
/* Whether this rank is the one that is connected to the other hosts. */
bool iso_watchdog_is_leader(const iso_watchdog *watchdog);
/* Whether a rank has died, is stopped or cannot be reached. */
bool iso_watchdog_is_lost(const iso_watchdog *watchdog, int rank);
/* Whether a rank of this host is stopped now. It is lost only after some seconds. */
bool iso_watchdog_is_paused(const iso_watchdog *watchdog, int rank);

/* watchdog_links.c: other hosts. Opens the socket on which this rank listens, and writes where into *mine. */
iso_status iso_watchdog_links_open(iso_watchdog *watchdog, iso_watchdog_identity *mine);
/* Waits some seconds at most for the states of the other hosts. Without that, they might never know of a rank that
 * is lost in the first second. */
void iso_watchdog_links_await(const iso_watchdog *watchdog);
void iso_watchdog_links_close(iso_watchdog *watchdog);
/* The most connections at one time. */
int iso_watchdog_most_links(const iso_watchdog *watchdog);
/* Fills the events to wait for, one more than connections at most; returns their number. */
int iso_watchdog_links_poll(const iso_watchdog *watchdog, struct pollfd *polled);
/* Receives and sends after these events. */
void iso_watchdog_links_serve(iso_watchdog *watchdog, const struct pollfd *polled);
/* Judges other hosts and sends this host's state. To be called for each heartbeat. */
void iso_watchdog_links_check(iso_watchdog *watchdog, double passed);
/* Sends the report to all hosts that can be reached. */
void iso_watchdog_links_report(iso_watchdog *watchdog, const char *text, size_t length);

/* watchdog_files.c: descriptors. Raises the soft limit by the most connections, as far as the hard one permits, and
 * writes the limit into *mine. The second one takes them back. */
void iso_watchdog_files_add(iso_watchdog *watchdog, iso_watchdog_identity *mine);
void iso_watchdog_files_remove(iso_watchdog *watchdog);
/* To be called with what `socket` or `accept` returned: returns it if it leaves enough descriptors to the program.
 * Else closes it, and returns -1. A lack of descriptors is noted. */
int iso_watchdog_files_take(iso_watchdog *watchdog, int number);
/* Writes a lack that lasts into this rank's record. To be called for each heartbeat, before connections are tried. */
void iso_watchdog_files_look(iso_watchdog *watchdog, double passed);
/* On rank 0: warns once, if a rank that it knows of lacks descriptors. */
void iso_watchdog_files_warn(iso_watchdog *watchdog);

/* watchdog_judge.c: finds two ranks that have called different collectives. */
bool iso_watchdog_find_mismatch(const iso_watchdog *watchdog, int *first, int *other);
/* The longest time, in seconds, that a rank of this rank's group has been inside a collective. */
double iso_watchdog_longest_wait(const iso_watchdog *watchdog);
/* Adds which ranks of the group are the last, and one that waits for them; some rank must be inside a
 * collective. */
void iso_watchdog_add_slow(const iso_watchdog *watchdog, iso_text *text);
void iso_watchdog_warn_of_slow(const iso_watchdog *watchdog);
/* Prints the times of steps of the group's ranks, if all have done enough since the last time. */
void iso_watchdog_print_times(const iso_watchdog *watchdog);

/* watchdog_report.c: prints the report, writes it to a file, and sends it to the other hosts. */
void iso_watchdog_report(iso_watchdog *watchdog);
/* Writes a report of another host to a file. */
void iso_watchdog_store_report(const iso_watchdog *watchdog, const char *text, size_t length);
/* Keeps the first line of the report for the ranks of this host. */
void iso_watchdog_keep_loss(iso_watchdog *watchdog, const char *report);
/* "rank 1 on h1 (process 77) is alive, in collective 17, a step"; with several groups "evaluator, rank 0 on h1
 * (rank 3 of the job, process 77) is alive, ..." */
void iso_watchdog_add_rank(iso_text *text, const iso_watchdog *watchdog, int rank);
/* A copy of the text of a rank's progress. */
void iso_watchdog_read_text(const iso_watchdog_record *record, uint64_t progress,
                            char text[ISO_WATCHDOG_TEXT]);

#endif
