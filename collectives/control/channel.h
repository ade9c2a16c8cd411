/* What agreement needs to know of a context. It is the first member of struct iso_context (runtime/session),
 * so that collectives/ need not know the rest. A later transport beside MPI (a page per host, TCP between
 * hosts) comes in here. */
#ifndef ISO_COLL_CHANNEL_H
#define ISO_COLL_CHANNEL_H

#include <mpi.h>

#include "runtime/base/status.h"

typedef struct iso_channel {
    MPI_Comm communicator; /* MPI_COMM_NULL: one rank, no MPI */
    int rank, ranks;
} iso_channel;

/* As iso_agree (control.h), over a channel. */
iso_status iso_channel_agree(const iso_channel *channel, iso_status status);

#endif
