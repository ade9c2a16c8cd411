/* Some ranks of a communicator that call collectives together, without a communicator of their own.
 *
 * MPI makes a communicator of some ranks only with calls that wait (MPI_Comm_split, MPI_Comm_create_group);
 * MPI_Comm_idup, which does not, takes all ranks. A rank that is lost in such a call makes the others wait for
 * ever. So in a program that goes on after a loss (iso_watchdog_errors_return) these ranks are a list, and their
 * calls are messages that are polled (wait.h). They are for set-up: each rank sends to each. */
#ifndef ISO_MPI_PART_H
#define ISO_MPI_PART_H

#include <mpi.h>

#include "collectives/control/watchdog.h"
#include "runtime/base/status.h"

typedef struct iso_mpi_part iso_mpi_part;

/* The arguments of a rank in a split. */
typedef struct iso_mpi_choice {
    int color, key, rank; /* rank: in the communicator of MPI */
} iso_mpi_choice;

/* The ranks whose choice has this rank's color, in the order of their keys, else of `choices` [count]. own: the
 * index of this rank's choice. communicator: lent until the part is freed. NULL without memory. Local. */
iso_mpi_part *iso_mpi_part_create(MPI_Comm communicator, const iso_mpi_choice *choices, int count, int own);
/* Frees *part and sets it to NULL. Does nothing if it is NULL. Local. */
void iso_mpi_part_free(iso_mpi_part **part);
int iso_mpi_part_rank(const iso_mpi_part *part);
int iso_mpi_part_size(const iso_mpi_part *part);
/* The rank in the communicator of MPI of a rank of the part. */
int iso_mpi_part_member(const iso_mpi_part *part, int rank);

/* The same as the calls of comm.h; watchdog as in wait.h. They need no memory. Collective over the part. */
iso_status iso_mpi_part_gather_all(iso_mpi_part *part, const iso_watchdog *watchdog, const void *mine,
                                   size_t bytes, void *all);
iso_status iso_mpi_part_broadcast(iso_mpi_part *part, const iso_watchdog *watchdog, int root, void *data,
                                  size_t bytes);
iso_status iso_mpi_part_reduce(iso_mpi_part *part, const iso_watchdog *watchdog, MPI_Op op, MPI_Datatype type,
                               void *values, int count);
iso_status iso_mpi_part_sum_before(iso_mpi_part *part, const iso_watchdog *watchdog, int value, int *before);

#endif
