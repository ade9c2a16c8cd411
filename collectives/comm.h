/* Ranks that make collective calls together. What they call is MPI, but MPI's types stand in collectives/mpi alone.
 *
 * All calls are collective over the communicator, except rank, size and free. NULL is one rank without MPI: its
 * calls do nothing and return ISO_OK.
 *
 * A call waits for all ranks. With a watchdog, in a program that goes on after a loss (iso_watchdog_errors_return),
 * it returns ISO_FAILED with the first line of the report when a rank is lost, also if it already waits, and also if
 * it makes a communicator. */
#ifndef ISO_COLL_COMM_H
#define ISO_COLL_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "collectives/control/watchdog.h"
#include "runtime/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_comm iso_comm;

typedef enum iso_comm_type { ISO_COMM_INT, ISO_COMM_I64, ISO_COMM_U64, ISO_COMM_BYTE } iso_comm_type;
typedef enum iso_comm_op { ISO_COMM_SUM, ISO_COMM_MAX, ISO_COMM_MIN, ISO_COMM_OR } iso_comm_op;

/* New communicators, owned by the caller: of the ranks of an MPI_Comm, to which `mpi` points; of the ranks that pass
 * the same color, in the order of `key`; of the ranks that share memory. On an error *made is NULL. The first has
 * this watchdog, which may be NULL, the others that of `comm`. */
iso_status iso_comm_dup(const void *mpi, const iso_watchdog *watchdog, iso_comm **made);
iso_status iso_comm_split(const iso_comm *comm, int color, int key, iso_comm **made);
iso_status iso_comm_split_shared(const iso_comm *comm, int key, iso_comm **made);
/* *comm becomes NULL. Does nothing if it is. */
void iso_comm_free(iso_comm **comm);
/* Gives it a watchdog. Does nothing with NULL. Local. */
void iso_comm_set_watchdog(iso_comm *comm, const iso_watchdog *watchdog);
int iso_comm_rank(const iso_comm *comm);
int iso_comm_size(const iso_comm *comm);

iso_status iso_comm_barrier(const iso_comm *comm);
/* `bytes` is at most 2^31 - 1, here and below. */
iso_status iso_comm_broadcast(const iso_comm *comm, int root, void *data, size_t bytes);
/* all: [size][bytes] */
iso_status iso_comm_gather_all(const iso_comm *comm, const void *mine, size_t bytes, void *all);
/* In place. */
iso_status iso_comm_reduce(const iso_comm *comm, iso_comm_op op, iso_comm_type type, void *values, int count);
/* *all: whether `mine` is true on all ranks; false also after an error. */
iso_status iso_comm_all(const iso_comm *comm, bool mine, bool *all);
/* *before: the sum of `value` of the lower ranks. */
iso_status iso_comm_sum_before(const iso_comm *comm, int value, int *before);

#ifdef __cplusplus
}
#endif
#endif
