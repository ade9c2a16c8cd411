/* Collectives: the slots of a job, the memory they share, and exchanges of boxes between them.
 *
 * A fabric is the set of all slots of one mesh. The ranks of a host share a window: in it every slot has an
 * area of equal size in which a buffer lies at the same offset for every slot, and the host has one area for
 * what all its slots share (replicated weights). Slots of one host read each other's memory directly; between
 * hosts, thread 0 of each rank sends MPI messages.
 *
 * An exchange is one step of communication, fixed while planning: each slot takes (pulls) regions from the
 * buffers of others, summing them in the fixed binary tree over slot numbers where a region has several
 * sources. All-reduce, all-gather, reduce-scatter, all-to-all, slices and halos are all made of it. */
#ifndef ISO_COLL_H
#define ISO_COLL_H

#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_fabric iso_fabric;
typedef struct iso_exchange iso_exchange;

typedef enum iso_reduce { ISO_SUM, ISO_MAX } iso_reduce;

/* The order in which sources are combined is one binary tree over their positions. Of `count` sources (at
 * least 2), so many are in the left subtree: the largest power of two below count. */
int iso_tree_left(int count);

/* Where each slot lives. */
typedef struct iso_topology {
    int n_slots, n_ranks, rank; /* this process's rank */
    const int *rank_of_slot;    /* [n_slots] */
    const int *host_of_rank;    /* [n_ranks], hosts numbered from 0 in order of their lowest rank */
    int n_threads;              /* of this rank that run slots, at least 1 */
} iso_topology;

/* The sum routines of the backend in use. */
typedef void (*iso_combine)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out);

/* `communicator` points to an MPI_Comm of the ranks of the topology (NULL: a job of one rank without MPI).
 * Collective. The topology is copied. threads may differ between ranks. */
iso_status iso_fabric_create(const iso_topology *topology, void *communicator, iso_combine sum,
                             iso_combine maximum, iso_fabric **fabric);
/* After its exchanges. Local: a rank that fails alone may clean up. NULL is nothing. */
void iso_fabric_destroy(iso_fabric *fabric);
const iso_topology *iso_fabric_topology(const iso_fabric *fabric);
/* Makes (or grows, keeping contents of the host area) the window: slot_bytes for each slot's area, host_bytes
 * for the host's shared area. Collective; no step may run. Pointers obtained earlier are void. host_bytes may
 * differ between hosts. */
iso_status iso_fabric_reserve(iso_fabric *fabric, size_t slot_bytes, size_t host_bytes);
/* A slot's area, NULL where the slot is on another host; the host's area. */
void *iso_fabric_slot_area(const iso_fabric *fabric, int slot);
void *iso_fabric_host_area(const iso_fabric *fabric);

/* Waits until every thread (of all ranks) on this host that runs slots has come here. thread: 0..threads-1.
 * Release and acquire. */
void iso_fabric_barrier(iso_fabric *fabric, int thread);
/* The same among the threads of this rank only. */
void iso_fabric_rank_barrier(iso_fabric *fabric, int thread);

/* ---- exchanges ---- */
typedef enum iso_space {
    ISO_SPACE_SLOT, /* offset in the source slot's area */
    ISO_SPACE_HOST, /* offset in the area of the source slot's host */
} iso_space;

/* A buffer of one slot from which a region may be pulled: it holds `box` densely, row-major. */
typedef struct iso_source {
    int slot;
    iso_space space;
    size_t offset;
    iso_box box;
} iso_source;

/* Ranks that build the same exchange must make the same calls in the same order, on every rank, for every
 * slot (so that senders know what they send); only those of local slots are kept besides the messages. */
iso_status iso_exchange_create(iso_fabric *fabric, const char *what, iso_exchange **exchange);
/* Local: a rank that fails alone may clean up. NULL is nothing. */
void iso_exchange_destroy(iso_exchange *exchange);
/* Slot `slot` takes `region` (global coordinates): the combination of `count` sources, given in increasing
 * order of slot number, whose boxes all contain it. It goes to the slot's buffer number `target`, which holds
 * target_box densely. Returns in *pull (where not NULL) its number among this slot's pulls, for
 * iso_exchange_pull_source. */
iso_status iso_exchange_add(iso_exchange *exchange, int slot, int target, const iso_box *target_box,
                            iso_dtype dtype, iso_reduce reduce, const iso_box *region,
                            const iso_source *sources, int count, int *pull);
/* Says that the sources are written only where all slots have met before and after: in none of the steps in
 * which the exchange runs. Then nobody waits for them to be written, nor for their having been read. Before
 * the commit. */
void iso_exchange_set_settled(iso_exchange *exchange);
/* Bytes of messages after the last add: of what comes to this host, of what this rank sends. */
void iso_exchange_message_bytes(iso_exchange *exchange, size_t *landing, size_t *outgoing);
/* Puts the messages into buffers that exchanges of a fabric share, at these offsets: two that share bytes
 * are never under way together. Before iso_fabric_reserve_messages and the commit. */
void iso_exchange_share_buffers(iso_exchange *exchange, size_t landing_offset, size_t outgoing_offset);
/* Makes, or grows, these buffers. Collective; no exchange may be under way. */
iso_status iso_fabric_reserve_messages(iso_fabric *fabric, size_t landing, size_t outgoing);
/* After the last add: makes messages, and buffers for those that share none. Collective. */
iso_status iso_exchange_commit(iso_exchange *exchange);
/* The address of a slot's target buffer, for slots of this rank: after the last add and before the first run,
 * or changed between runs. A target that is not bound (NULL) is not written: its pulls are left to
 * iso_exchange_combine. */
void iso_exchange_bind(iso_exchange *exchange, int slot, int target, void *data);

/* Runs in every thread that hosts slots, in the same order everywhere:
 *   begin: waits until all sources are written (barrier of the host), moves what crosses hosts (thread 0),
 *          barrier of the rank;
 *   pull:  one slot's pulls, by the thread that hosts it;
 *   end:   after it, sources may be written again (barrier of the host). */
void iso_exchange_begin(iso_exchange *exchange, int thread);
/* The two halves of begin, between which threads may compute and other exchanges run:
 *   start: waits until all sources are written, and sends (thread 0);
 *   wait:  until what comes from other hosts is there. */
void iso_exchange_start(iso_exchange *exchange, int thread);
void iso_exchange_wait(iso_exchange *exchange, int thread);
/* Messages that failed since the fabric was made: what exchanges gave since the first of them is not to be
 * used. */
int iso_fabric_failures(const iso_fabric *fabric);
/* ISO_OK, or the status of the first of them, whose message is recorded in the thread that calls. Local. */
iso_status iso_fabric_failure(const iso_fabric *fabric);
/* Moves on what is under way; now and then, by thread 0. */
void iso_fabric_progress(iso_fabric *fabric);
void iso_exchange_pull(iso_exchange *exchange, int slot);
void iso_exchange_end(iso_exchange *exchange, int thread);
/* For those who combine themselves (the optimizer): number of sources of a slot's pull, and the address of
 * the region's first element in each, valid between begin and end. The region must be one contiguous run in
 * every source (rank-1 boxes are). Sources on other hosts that form a complete subtree may arrive summed:
 * then `count` is smaller than what was added and the tree over the addresses is given by
 * iso_exchange_combine. */
int iso_exchange_pull_sources(const iso_exchange *exchange, int slot, int pull, const void **address,
                              int capacity);
/* out[0..n) = elements [begin, begin + n) of the region of this pull, combined in tree order. n at most 4096.
 * Thread-safe for distinct slots. */
void iso_exchange_combine(const iso_exchange *exchange, int slot, int pull, int64_t begin, int64_t n,
                          void *out);

/* The same without a copy: the address of these elements where the pull has but one source (or came summed),
 * else NULL. */
const void *iso_exchange_view(const iso_exchange *exchange, int slot, int pull, int64_t begin, int64_t n);
/* Whether the region is one contiguous run in every source and in the target's box, as these three need. */
bool iso_exchange_is_run(const iso_exchange *exchange, int slot, int pull);

/* Bytes that left this rank's slots for other slots so far (each pulled element of another slot counts once),
 * and the part of it that crossed hosts. */
typedef struct iso_traffic {
    uint64_t pulled, crossed;
} iso_traffic;
iso_traffic iso_fabric_traffic(const iso_fabric *fabric, int slot);
/* For plans: operands that travel from the host `from` (-1: any) to the host `here` when one of the slots
 * there pulls a region with so many sources, whose hosts are given in order: partial sums, each as large as
 * the region. */
int iso_exchange_travelling(const int *host_of_source, int count, int from, int here);
/* What one of so many bytes takes in the buffers for messages: whole cache lines. */
size_t iso_exchange_operand_bytes(size_t bytes);
/* What one run of the exchange pulls for a slot, from the plan. */
iso_traffic iso_exchange_planned(const iso_exchange *exchange, int slot);
/* Bytes of this rank's buffers for messages that are the exchange's own. */
size_t iso_exchange_bytes(const iso_exchange *exchange);

#ifdef __cplusplus
}
#endif
#endif
