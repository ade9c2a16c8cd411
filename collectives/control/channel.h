/* What agreement needs to know of a context. It is a member of struct iso_context (runtime/session);
 * collectives/ need not know the rest. A later transport beside MPI (a page per host, TCP between hosts)
 * comes in here. */
#ifndef ISO_COLL_CHANNEL_H
#define ISO_COLL_CHANNEL_H

#include <mpi.h>

#include "runtime/base/first_error.h"

typedef struct iso_channel {
    MPI_Comm communicator; /* MPI_COMM_NULL: one rank, no MPI */
    int rank, n_ranks;
    iso_first_error failed; /* of iso_agree_later */
} iso_channel;

/* The channel of a context; NULL of NULL. In runtime/session, which knows what a context is. */
const iso_channel *iso_context_channel(const iso_context *ctx);

/* As iso_agree (control.h), over a channel. */
iso_status iso_channel_agree(const iso_channel *channel, iso_status status);

#endif
