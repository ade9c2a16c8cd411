/* MPI calls whose errors become statuses. Every call uses ISO_MPI, or ISO_MPI_IGNORE if it frees something
 * and an error cannot be handled; tests/check_includes checks it.
 *
 * Errors are returned to the caller only if the error handler is MPI_ERRORS_RETURN. So communicators are
 * created by the functions below, which set it. The handler of a caller's communicator is never changed. */
#ifndef ISO_MPI_CALL_H
#define ISO_MPI_CALL_H

#include <mpi.h>
#include <stdbool.h>

#include "collectives/comm.h"

/* The status of a call (its text: "MPI_Bcast(...)") that returned this code, which is not MPI_SUCCESS.
 * Records "MPI_Bcast: " and MPI's text of the code. ISO_NO_MEMORY if MPI had no memory, else ISO_FAILED. */
iso_status iso_mpi_error(int code, const char *call);

static inline iso_status iso_mpi_status(int code, const char *call)
{
    return code == MPI_SUCCESS ? ISO_OK : iso_mpi_error(code, call);
}

/* The status of one MPI call. */
#define ISO_MPI(...) iso_mpi_status((__VA_ARGS__), #__VA_ARGS__)
/* A loop that tests requests gives up after this many errors in a row. */
enum { ISO_MPI_TRIES = 100 };
/* An MPI call that frees something: its error is ignored. */
#define ISO_MPI_IGNORE(...) ((void)(__VA_ARGS__))

/* The same as MPI_Comm_dup, MPI_Comm_split, and MPI_Comm_split_type with MPI_COMM_TYPE_SHARED. Errors on the new
 * communicator are returned. On an error *made is MPI_COMM_NULL. Collective. */
iso_status iso_mpi_dup(MPI_Comm communicator, MPI_Comm *made);
iso_status iso_mpi_split(MPI_Comm communicator, int color, int key, MPI_Comm *made);
iso_status iso_mpi_split_shared(MPI_Comm communicator, int key, MPI_Comm *made);
/* The same as MPI_Comm_idup. When the request has ended, *made may be used and must be passed to the next function.
 */
iso_status iso_mpi_begin_dup(MPI_Comm communicator, MPI_Comm *made, MPI_Request *request);
/* Makes errors on a communicator of Isogrid be returned. On an error the communicator is freed. Local. */
iso_status iso_mpi_return_errors_of(MPI_Comm *made);
/* The same as MPI_Comm_free; does nothing with MPI_COMM_NULL. */
void iso_mpi_free(MPI_Comm *communicator);
/* The same as iso_comm_split, for an MPI_Comm. */
iso_status iso_mpi_split_as(MPI_Comm communicator, int color, int key, iso_comm **made);
/* The same as iso_comm_split, but iso_mpi_of returns the MPI_Comm also in a program that continues after a loss. If
 * a rank is lost in this very call, the call does not return. Collective. */
iso_status iso_comm_split_for_mpi(const iso_comm *comm, int color, int key, iso_comm **made);
/* The MPI_Comm of a communicator, and its address (NULL for NULL), lent. It is MPI_COMM_NULL for NULL, and for a
 * communicator that iso_comm_split has made in a program that continues after a loss. */
MPI_Comm iso_mpi_of(const iso_comm *comm);
void *iso_mpi_address(iso_comm *comm);
/* Whether MPI has been finalized. Objects that are destroyed after iso_finish() must not free MPI objects. */
bool iso_mpi_ended(void);
/* Sets MPI_ERRORS_RETURN also for errors that do not belong to a communicator of ours. For programs in which
 * we initialized MPI. */
iso_status iso_mpi_return_errors(void);

#endif
