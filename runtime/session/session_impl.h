/* The context, and the steps that create it. */
#ifndef ISO_SESSION_IMPL_H
#define ISO_SESSION_IMPL_H

#include <mpi.h>
#include <stdatomic.h>

#include "collectives/control/channel.h"
#include "runtime/session/lifetime.h"

typedef struct iso_option_value {
    const char *name; /* from the table in options.c */
    char *value;
} iso_option_value;

/* Requests to stop. */
typedef struct iso_stop {
    bool on_signals;     /* this context handles signals */
    bool agreed;         /* all ranks know of a request */
    bool wanted;         /* by the library on this rank: iso_stop_want */
    const char *refused; /* a signal that asked an evaluator of the workers' job; NULL: none */
    int signal;          /* of the request, once all ranks know it; 0 before, or if time was up */
    bool limited;        /* this context stops before the time limit of its Slurm job */
    /* Of rank 0, as iso_clock(): */
    double deadline;  /* no step may end later; 0: none */
    double last_step; /* when the last step began; 0: none has */
} iso_stop;

/* The start of a job, before there is a watchdog: start.c. */
typedef struct iso_start iso_start;
typedef enum iso_start_stage {
    ISO_START_NONE, /* it has not announced itself */
    ISO_START_MPI,
    ISO_START_ROLES,
    ISO_START_HOSTS,
    ISO_START_WATCH,
    ISO_START_OVER,
} iso_start_stage;

/* The launcher's numbers for this process; -1: none. */
typedef struct iso_launcher_location {
    int rank, n_ranks, local_rank, n_local; /* local: of this host */
} iso_launcher_location;

struct iso_context {
    iso_channel channel; /* for collectives/control */
    MPI_Comm shutdown;   /* of the same ranks, only for iso_finish: a rank that failed cannot match another
                            rank's collective on it */
    bool began_mpi;
    iso_channel job;           /* of all ranks, if there are workers and evaluators; else no communicator */
    int other_leader;          /* in job: rank 0 of the other role */
    int *job_hosts;            /* [job.n_ranks] the host of each rank of the job; NULL: there is one role */
    bool workers_ended;        /* on rank 0 of the evaluator: the chief has said so */
    int workers_status;        /* and with which status */
    int n_hosts, n_host_ranks; /* n_host_ranks: of this rank's host */
    int *host_of_rank;         /* [n_ranks] */
    int n_threads;
    int verbose;
    uint64_t seed;
    double timeout; /* seconds after which a slow rank is named */
    iso_role_kind role;
    const struct iso_backend *backend;
    bool tuning_resumed;         /* a training continues with the choices of --tune that its checkpoint has */
    struct iso_choices *choices; /* tuned.c; NULL: there are no choices of --tune */
    iso_option_value *options;
    int n_options;
    iso_stop stop;
    iso_start *start;   /* NULL: it is over, or not watched */
    size_t kept;        /* bytes of batches: iso_context_kept */
    atomic_int holders; /* objects that were made with it, and the program until iso_finish */
    bool ended;         /* by iso_finish */
};

/* Takes our options out of argv and checks them. Local. */
iso_status iso_options_take(iso_context *ctx, int *argc, char ***argv);
/* Writes the options that must be the same on all ranks into text: "mesh=data=2 seed=7". */
void iso_options_describe(const iso_context *ctx, char *text, size_t size);
void iso_options_free(iso_context *ctx);

/* ISO_INVALID if an environment variable has an invalid value or asks for something that does not exist.
 * Local. */
iso_status iso_launcher_check(void);
/* Whether a launcher started this process as one of several MPI ranks. ISO_INVALID if it did but provided no
 * way to start MPI. */
iso_status iso_launcher_find(bool *found);
/* Sets defaults for Open MPI, except those that the user has set. Call before MPI_Init. */
void iso_launcher_prepare(void);
/* Whether the launcher gives the ranks SIGUSR1 for any signal that asks the job to stop. */
bool iso_launcher_forwards_signals(void);
/* The number of ranks that the launcher reports; 0 if it reports none. */
int iso_launcher_ranks(void);
iso_launcher_location iso_launcher_find_location(void);

/* Announces this rank to the others of its host, and watches them. timeout: seconds after which those that are late
 * are named; aborts: and the job ends. NULL if there is no way to do it. Local, as all three. */
iso_start *iso_start_begin(const iso_launcher_location *location, double timeout, bool aborts);
/* This rank is at a stage. Does nothing with NULL. */
void iso_start_enter(iso_start *start, iso_start_stage stage);
/* *start becomes NULL. Does nothing if it is. */
void iso_start_end(iso_start **start);

/* time_limit.c: the seconds until the Slurm job of this process reaches its time limit, and those that it was
 * given in all (0: unknown). ISO_INVALID if there is no job, or it has no limit. Local. */
iso_status iso_time_limit_query(double *left, double *whole);
/* Ends the use of signals by a context that has on_signals; the last one restores the handlers. Local. */
void iso_stop_end(void);

/* Sets n_threads, unless an option has, to this rank's share of its cores among all ranks of `all`.
 * Collective. */
iso_status iso_hosts_share_cores(iso_context *ctx, MPI_Comm all);
/* Warn on the chief, if iso_init began MPI, where the ranks' processors are not of one model, or the devices of the
 * backend. Collective. */
iso_status iso_processors_compare(iso_context *ctx);
iso_status iso_devices_compare(iso_context *ctx);

/* Fills hosts, host_ranks, host_of_rank and threads. Collective. */
iso_status iso_hosts_find(iso_context *ctx);
/* Numbers the hosts of all ranks of the job, into *n_hosts and job_hosts. Collective over the job. */
iso_status iso_hosts_find_job(iso_context *ctx, int *n_hosts);

#endif
