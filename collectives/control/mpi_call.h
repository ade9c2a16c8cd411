/* Calls of MPI whose errors become statuses. Every call goes through ISO_MPI, or through ISO_MPI_IGNORE where
 * memory is freed and nothing can be done about an error; tests/check_includes checks it.
 *
 * Errors reach the caller only where the error handler is MPI_ERRORS_RETURN. So communicators are made by the
 * functions below, which set it. The handler of a caller's communicator is never changed. */
#ifndef ISO_COLL_MPI_CALL_H
#define ISO_COLL_MPI_CALL_H

#include <mpi.h>
#include <stdbool.h>

#include "runtime/base/status.h"

/* The status of a call (its text, "MPI_Bcast(...)") that returned this code, which is not MPI_SUCCESS:
 * records "MPI_Bcast: " and MPI's text of the code. ISO_NO_MEMORY where MPI had no memory, else ISO_FAILED.
 */
iso_status iso_mpi_error(int code, const char *call);

static inline iso_status iso_mpi_status(int code, const char *call)
{
    return code == MPI_SUCCESS ? ISO_OK : iso_mpi_error(code, call);
}

/* The status of one call of MPI. */
#define ISO_MPI(...) iso_mpi_status((__VA_ARGS__), #__VA_ARGS__)
/* After so many errors in a row, a loop that tests requests gives up. */
enum { ISO_MPI_TRIES = 100 };
/* A call of MPI that frees something: its error is ignored. */
#define ISO_MPI_IGNORE(...) ((void)(__VA_ARGS__))

/* As MPI_Comm_dup, MPI_Comm_split, and MPI_Comm_split_type of MPI_COMM_TYPE_SHARED; errors on the new
 * communicator are returned. On an error *made is MPI_COMM_NULL. Collective. */
iso_status iso_mpi_dup(MPI_Comm communicator, MPI_Comm *made);
iso_status iso_mpi_split(MPI_Comm communicator, int color, int key, MPI_Comm *made);
iso_status iso_mpi_split_shared(MPI_Comm communicator, int key, MPI_Comm *made);
/* As MPI_Comm_free; MPI_COMM_NULL is nothing. */
void iso_mpi_free(MPI_Comm *communicator);
/* Whether MPI has ended, and with it all that it held: what is destroyed after iso_finish() frees nothing of
 * it.
 */
bool iso_mpi_ended(void);
/* Errors of MPI are returned wherever there is no communicator of ours: for a program whose MPI is ours. */
iso_status iso_mpi_return_errors(void);

#endif
