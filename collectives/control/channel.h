/* The part of a context that collectives/ needs: a communicator, and the watchdog (watchdog.h). It is a member of
 * struct iso_context (runtime/session). */
#ifndef ISO_COLL_CHANNEL_H
#define ISO_COLL_CHANNEL_H

#include "collectives/comm.h"
#include "collectives/control/watchdog.h"
#include "runtime/base/first_error.h"

typedef struct iso_channel {
    iso_comm *communicator; /* NULL: one rank, no MPI */
    int rank, n_ranks;
    iso_first_error failed; /* of iso_agree_later */
    iso_watchdog *watchdog; /* of all ranks of the job. NULL: one rank, or not made yet */
} iso_channel;

/* The channel of a context; NULL for NULL. Defined in runtime/session, which defines the context. */
const iso_channel *iso_context_channel(const iso_context *ctx);

/* The same as iso_agree (control.h), over a channel. where: the calling function, for the watchdog's report. */
iso_status iso_channel_agree_in(const iso_channel *channel, iso_status status, const char *where);
#define iso_channel_agree(channel, status) iso_channel_agree_in(channel, status, __func__)

/* ---- the watchdog ---- */
typedef struct iso_watchdog_settings {
    const int *host_of_rank; /* [n_ranks] lent until iso_watchdog_destroy */
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
} iso_watchdog_settings;

/* Starts to watch the ranks of a channel, those of all groups, and a thread for it. *watchdog is NULL if there is
 * one rank. Collective. */
iso_status iso_watchdog_create(const iso_channel *channel, const iso_watchdog_settings *settings,
                               iso_watchdog **watchdog);
enum { ISO_WATCHDOG_LOST = 74 }; /* exit code of a program that lost a rank */

/* The name of a job in the file names of reports, ISO_WATCHDOG_JOB characters at most with the end: ISOGRID_JOB, else
 * SLURM_JOB_ID, else the launcher's name for it (launch/mpirun), else `other`. Local. */
enum { ISO_WATCHDOG_JOB = 40 };
void iso_watchdog_name_job(const char *other, char job[ISO_WATCHDOG_JOB]);
/* Writes a report into the file isogrid-report.JOB.HOST.txt in ISOGRID_REPORTS, else the current folder, else
 * TMPDIR, else /tmp, and its name into `path`. False, with errno, if it cannot be written. Local. */
bool iso_watchdog_write_report(const char *job, const char *host, const char *text, size_t length, char *path,
                               size_t size);

/* Calls callback(user, first line of the report) once, when the watchdog has reported; at once if it has already.
 * callback: NULL for none. Does nothing with a NULL watchdog. Local. */
void iso_watchdog_set_callback(iso_watchdog *watchdog, void (*callback)(void *user, const char *text),
                               void *user);
/* Does nothing with NULL. Local. */
void iso_watchdog_destroy(iso_watchdog *watchdog);

/* The state of a rank. */
typedef enum iso_watchdog_phase {
    ISO_WATCHDOG_RUNS,
    ISO_WATCHDOG_FAILS,   /* it is in iso_finish with an error: it will say what is wrong */
    ISO_WATCHDOG_ENDED,   /* it knows that all ranks have reached iso_finish */
    ISO_WATCHDOG_CUT_OFF, /* its devices cannot exchange with others any more */
} iso_watchdog_phase;
void iso_watchdog_set_phase(iso_watchdog *watchdog, iso_watchdog_phase phase);
/* Whether a rank will not come to iso_finish any more: it is lost, or has failed alone. False for NULL. */
bool iso_watchdog_rank_is_missing(const iso_watchdog *watchdog);

#endif
