/* The part of a context that agreement needs. It is a member of struct iso_context (runtime/session);
 * collectives/ does not need the rest. Another transport (a page per host, TCP between hosts) would be added
 * here. */
#ifndef ISO_COLL_CHANNEL_H
#define ISO_COLL_CHANNEL_H

#include <mpi.h>

#include "runtime/base/first_error.h"

typedef struct iso_channel {
    MPI_Comm communicator; /* MPI_COMM_NULL: one rank, no MPI */
    int rank, n_ranks;
    iso_first_error failed; /* of iso_agree_later */
} iso_channel;

/* The channel of a context; NULL for NULL. Defined in runtime/session, which defines the context. */
const iso_channel *iso_context_channel(const iso_context *ctx);

/* As iso_agree (control.h), over a channel. */
iso_status iso_channel_agree(const iso_channel *channel, iso_status status);

#endif
