/* Tensors that are cut into short runs (a matrix by its columns) change hands before they are written: each
 * of the ranks that have parts of one gets a stretch of its rows from the others, so that all write whole
 * stretches of the file and none writes a few bytes at a time between those of the others. */
#ifndef ISO_CHECKPOINT_EXCHANGE_IMPL_H
#define ISO_CHECKPOINT_EXCHANGE_IMPL_H

#include <mpi.h>

#include "runtime/checkpoint/parts_impl.h"

/* A part of a part that goes from one rank to another in one round. A round of a tensor is a window of each
 * rank's stretch, so what is under way is never more than that. */
typedef struct iso_save_item {
    int tensor, round, rank; /* the other rank, or this one */
    int order;               /* among those of these three */
    int source;              /* of what goes out: the number of the piece */
    iso_piece piece;         /* its data: of what goes out, the state's */
} iso_save_item;

typedef struct iso_save_items {
    int count;
    iso_save_item *item;
} iso_save_items;

typedef struct iso_save_exchange {
    MPI_Comm communicator; /* MPI_COMM_NULL: this rank is alone */
    int rank, ranks;
    iso_save_items out, in;
    int *part;   /* [tensors] which of the parts is this rank's stretch; -1: none */
    char *fresh; /* what comes in during a round */
    size_t fresh_bytes;
    MPI_Request *request; /* [out.count + in.count] */
} iso_save_exchange;

/* Takes the parts of such tensors out of `parts` and puts this rank's stretches in, with source
 * ISO_SAVE_EXCHANGED. The exchange is freed by iso_save_exchange_free. Collective. */
iso_status iso_save_exchange_make(iso_context *ctx, MPI_Comm communicator, const iso_saved_contents *contents,
                                  iso_save_parts *parts, iso_save_exchange *exchange);
void iso_save_exchange_free(iso_save_exchange *exchange);
/* Fills the stretches, where parts->part[...].piece.data points, from the pieces. Collective. */
void iso_save_exchange_run(iso_save_exchange *exchange, const iso_save_parts *parts,
                           const iso_pieces *pieces);

#endif
