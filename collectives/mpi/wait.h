/* Collectives of MPI for set-up, which end when a rank is lost; comm.h calls them.
 *
 * A blocking call of MPI waits for ever for a rank that is gone. If iso_init began MPI, the watchdog ends the
 * process, and these are the blocking calls. A program with MPI of its own goes on after a loss: there these
 * start the nonblocking form, and poll it and the watchdog's word. Then they return ISO_FAILED with the first
 * line of the report; MPI may still use the memory of the call, so that is a copy, which is not freed.
 *
 * watchdog may be NULL. Counts and types are as in the functions of MPI of these names. All are collective. */
#ifndef ISO_MPI_WAIT_H
#define ISO_MPI_WAIT_H

#include <mpi.h>
#include <stdbool.h>

#include "collectives/control/watchdog.h"
#include "runtime/base/status.h"

/* Polls requests until all are complete. statuses: [count], or MPI_STATUSES_IGNORE. Local. */
iso_status iso_mpi_await(const iso_watchdog *watchdog, int count, MPI_Request *requests,
                         MPI_Status *statuses);

/* in: MPI_IN_PLACE, or apart from out. */
iso_status iso_mpi_all_reduce(const iso_watchdog *watchdog, const void *in, void *out, int count,
                              MPI_Datatype type, MPI_Op op, MPI_Comm communicator);
iso_status iso_mpi_broadcast(const iso_watchdog *watchdog, void *data, int count, MPI_Datatype type, int root,
                             MPI_Comm communicator);
/* Gathers `bytes` of each rank into out [n_ranks * bytes]. */
iso_status iso_mpi_gather_all(const iso_watchdog *watchdog, const void *in, int bytes, void *out,
                              MPI_Comm communicator);
/* The sum of the lower ranks' values; on rank 0 *out is not changed. */
iso_status iso_mpi_sum_before(const iso_watchdog *watchdog, const int *in, int *out, MPI_Comm communicator);
iso_status iso_mpi_barrier(const iso_watchdog *watchdog, MPI_Comm communicator);
/* Sends in[r] to rank r, for each rank. */
iso_status iso_mpi_swap_counts(const iso_watchdog *watchdog, const int *in, int *out, MPI_Comm communicator);
/* Sends the parts of `in` that begin at in_at and have in_count bytes, one to each rank. */
iso_status iso_mpi_all_to_all(const iso_watchdog *watchdog, const void *in, const int *in_count,
                              const int *in_at, void *out, const int *out_count, const int *out_at,
                              MPI_Comm communicator);

/* The same as iso_mpi_dup (call.h), watched. */
iso_status iso_mpi_dup_on(const iso_watchdog *watchdog, MPI_Comm communicator, MPI_Comm *made);

/* A barrier before a call that cannot be polled, in a program that goes on after a loss: only a rank that is lost in
 * the call itself is waited for. */
iso_status iso_mpi_gate(const iso_watchdog *watchdog, MPI_Comm communicator);

#endif
