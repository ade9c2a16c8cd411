/* Roles of ranks: what a rank claims to be, and the groups that all claims together make. */
#ifndef ISO_SESSION_ROLES_IMPL_H
#define ISO_SESSION_ROLES_IMPL_H

#include <mpi.h>

#include "runtime/session/session_impl.h"

/* The jobs of a cluster in TF_CONFIG, and the task that it gives to this process. */
typedef struct iso_tf_task {
    bool given; /* TF_CONFIG is set and names a task */
    iso_role_kind role;
    int order;        /* its rank among the tasks of its role: the chief is 0, then the workers by index */
    int n_training;   /* tasks of the cluster that train; 0: TF_CONFIG names no cluster */
    uint64_t cluster; /* a hash of the chief's and the workers' addresses */
    const char *type; /* "worker"; a constant of this process */
    int index;
} iso_tf_task;

/* Reads TF_CONFIG's text. ISO_INVALID names what is wrong with it. Local. */
iso_status iso_tf_task_read(const char *text, iso_tf_task *task);
/* Adds the mpirun line that starts the cluster of this text, which iso_tf_task_read has accepted. */
void iso_tf_add_command(const char *text, iso_text *line);

/* The role that a rank claims before the ranks communicate. */
typedef struct iso_role_claim {
    iso_role_kind role;
    iso_tf_task task;
} iso_role_claim;
/* Reads --role and, if `environment` is set, TF_CONFIG. ISO_INVALID if they are wrong or contradict each other.
 * Local. */
iso_status iso_role_claim_read(const iso_context *ctx, bool environment, iso_role_claim *claim);

/* Divides the ranks of a communicator: sets the context's role, its channel and, if there are workers and
 * evaluators, `job`. *status is the status of this rank so far. If any rank has failed, or the claims do not
 * fit together, all ranks stay in one group and *status is the error, to be agreed over the channel. Returns
 * errors of MPI. Collective. */
iso_status iso_roles_join(iso_context *ctx, MPI_Comm communicator, const iso_role_claim *claim,
                          iso_status *status);
/* Checks the claim of a process without MPI. */
iso_status iso_roles_check_alone(const iso_role_claim *claim);

/* In iso_finish the chief notifies the evaluator how the workers have ended. Does nothing on other ranks. Local. */
void iso_workers_notify_end(iso_context *ctx, iso_status status);
/* Waits until all ranks of a job with two roles are in iso_finish. ISO_FAILED if one will not come. Collective over
 * the job. */
iso_status iso_roles_barrier(iso_context *ctx);

#endif
