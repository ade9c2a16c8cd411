/* Isogrid in a program that has its own MPI communicator. */
#ifndef ISO_SESSION_MPI_H
#define ISO_SESSION_MPI_H

/* Omits the obsolete C++ bindings. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "runtime/session/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates the context as iso_init does, on the ranks of the caller's communicator. It must be an intracommunicator;
 * it is duplicated, so the caller's messages never match Isogrid's. MPI must be running, with at least
 * MPI_THREAD_FUNNELED if slots run on threads. The communicator keeps its error handler; Isogrid's own
 * communicators have MPI_ERRORS_RETURN, and an MPI error becomes ISO_FAILED with MPI's text. iso_finish leaves MPI
 * running and never aborts the job. If a rank is lost, the watchdog prints its report (docs/failures.md), and calls
 * of Isogrid, also those that wait for the lost rank, return ISO_FAILED (iso_set_failure_handler, session.h). The
 * watchdog's thread calls no MPI function, so it exists at every thread level.
 *
 * ISO_INVALID on a thread that may not call MPI: below MPI_THREAD_SERIALIZED, any but the one that started it. In
 * such a context iso_fit, iso_evaluate and iso_predict print nothing unless .verbose or --verbose asks for it.
 * Collective over `communicator`. */
ISO_API iso_status iso_init_on(MPI_Comm communicator, int *argc, char ***argv, iso_context **ctx);
/* The same for a communicator of Fortran: the integer of the module mpi and of mpif.h, or %MPI_VAL of mpi_f08.
 * ISO_INVALID as iso_init_on. Collective over `communicator`. */
ISO_API iso_status iso_init_on_fortran(MPI_Fint communicator, int *argc, char ***argv, iso_context **ctx);

#ifdef __cplusplus
}
#endif
#endif
