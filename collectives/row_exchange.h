/* An exchange of rows that are distributed over the ranks: rank 0 has the first rows, rank 1 the next, and so on;
 * a rank may have none. A rank fetches rows of other ranks by number. */
#ifndef ISO_COLL_ROW_EXCHANGE_H
#define ISO_COLL_ROW_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_row_exchange iso_row_exchange;

/* Writes a row of this rank's share (0: its first) to `out`, `row_bytes` bytes. */
typedef void (*iso_pack_row)(const void *share, int64_t row, void *out);

/* `communicator` points to an MPI_Comm (NULL: one rank). rows: of this rank's share, which is lent.
 * ISO_INVALID if the total number of rows overflows. Collective; all ranks get the same status. */
iso_status iso_row_exchange_create(iso_context *ctx, void *communicator, int64_t rows, size_t row_bytes,
                                   iso_pack_row pack, const void *share, iso_row_exchange **exchange);
/* Does nothing with NULL. Local. */
void iso_row_exchange_destroy(iso_row_exchange *exchange);
/* [n_ranks + 1]: rank r has the rows [first[r], first[r + 1]). Lent. */
const int64_t *iso_row_exchange_first(const iso_row_exchange *exchange);
int iso_row_exchange_rank_of(const iso_row_exchange *exchange, int64_t row);

/* Gets `count` rows (increasing, none of this rank) into out [count][row_bytes], and serves the requests of
 * other ranks. Each rank passes its own list, which may be empty. Returns when every rank has been served. An
 * error is local to this rank, which has still served the others. Collective; to be called by the thread that
 * may call MPI. */
iso_status iso_row_exchange_fetch(iso_row_exchange *exchange, const int64_t *rows, int64_t count, void *out);

#ifdef __cplusplus
}
#endif
#endif
