/* What agreement needs to know of a context. It is the first member of struct iso_context (runtime/session),
 * so that collectives/ need not know the rest. A later transport beside MPI (a page per host, TCP between
 * hosts) comes in here. */
#ifndef ISO_COLL_CHANNEL_H
#define ISO_COLL_CHANNEL_H

#include <mpi.h>

typedef struct iso_channel {
    MPI_Comm communicator; /* MPI_COMM_NULL: one rank, no MPI */
    int rank, ranks;
} iso_channel;

#endif
