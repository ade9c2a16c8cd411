/* The part of a context that collectives/ needs: a communicator, and the watchdog (watch.h). It is a member of
 * struct iso_context (runtime/session). */
#ifndef ISO_COLL_CHANNEL_H
#define ISO_COLL_CHANNEL_H

#include "collectives/comm.h"
#include "collectives/control/watch.h"
#include "runtime/base/first_error.h"

typedef struct iso_channel {
    iso_comm *communicator; /* NULL: one rank, no MPI */
    int rank, n_ranks;
    iso_first_error failed; /* of iso_agree_later */
    iso_watch *watch;       /* of all ranks of the job. NULL: one rank, or not made yet */
} iso_channel;

/* The channel of a context; NULL for NULL. Defined in runtime/session, which defines the context. */
const iso_channel *iso_context_channel(const iso_context *ctx);

/* The same as iso_agree (control.h), over a channel. where: the calling function, for the watchdog's report. */
iso_status iso_channel_agree_in(const iso_channel *channel, iso_status status, const char *where);
#define iso_channel_agree(channel, status) iso_channel_agree_in(channel, status, __func__)

/* ---- the watchdog ---- */
typedef struct iso_watch_settings {
    const int *host_of_rank; /* [n_ranks] lent until iso_watch_destroy */
    int n_hosts;
    /* The ranks of a group call collectives together. Groups do not wait for each other; the loss of a rank ends
     * them all. */
    int group, group_rank, group_size; /* of this rank; group_rank: what reports call it */
    const char *group_name;            /* in reports: "evaluator"; "" for ranks that need no name */
    bool ends_process;                 /* ends the process when a rank is lost */
    double timeout;                    /* seconds after which a slow rank is named */
    bool timeout_aborts;               /* and ends the job */
    bool times;                        /* rank 0 of the group prints the times of steps */
    void (*begun)(void *user);         /* called when this rank watches the others; may be NULL */
    void *user;
} iso_watch_settings;

/* Starts to watch the ranks of a channel, those of all groups, and a thread for it. *watch is NULL if there is
 * one rank. Collective. */
iso_status iso_watch_create(const iso_channel *channel, const iso_watch_settings *settings,
                            iso_watch **watch);
enum { ISO_WATCH_LOST = 74 }; /* exit code of a program that lost a rank */

/* The name of a job in the file names of reports, ISO_WATCH_JOB characters at most with the end: ISOGRID_JOB, else
 * SLURM_JOB_ID, else the launcher's name for it (launch/mpirun), else `other`. Local. */
enum { ISO_WATCH_JOB = 40 };
void iso_watch_name_job(const char *other, char job[ISO_WATCH_JOB]);
/* Writes a report into the file isogrid-report.JOB.HOST.txt in ISOGRID_REPORTS, else the current folder, else
 * TMPDIR, else /tmp, and its name into `path`. False, with errno, if it cannot be written. Local. */
bool iso_watch_write_report(const char *job, const char *host, const char *text, size_t length, char *path,
                            size_t size);

/* Calls tell(user, first line of the report) once, when the watchdog has reported; at once if it has already.
 * tell: NULL for none. Does nothing with a NULL watch. Local. */
void iso_watch_set_tell(iso_watch *watch, void (*tell)(void *user, const char *text), void *user);
/* Does nothing with NULL. Local. */
void iso_watch_destroy(iso_watch *watch);

/* The state of a rank. */
typedef enum iso_watch_phase {
    ISO_WATCH_RUNS,
    ISO_WATCH_FAILS,   /* it is in iso_finish with an error: it will say what is wrong */
    ISO_WATCH_ENDED,   /* it knows that all ranks have reached iso_finish */
    ISO_WATCH_CUT_OFF, /* its devices cannot exchange with others any more */
} iso_watch_phase;
void iso_watch_set_phase(iso_watch *watch, iso_watch_phase phase);
/* Whether a rank will not come to iso_finish any more: it is lost, or has failed alone. False for NULL. */
bool iso_watch_misses(const iso_watch *watch);

#endif
