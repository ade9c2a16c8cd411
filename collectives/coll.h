/* Collectives: the slots of a job, the memory they share, and exchanges of boxes between them.
 *
 * A fabric is the set of all slots of one mesh. Slots that can load each other's memory form a memory domain: on the
 * CPU the slots of a host. Each domain has a window: in it every slot has an area of equal size, a buffer has the
 * same offset in every slot's area, and there is one area that all slots of the domain share (replicated weights).
 * Slots of one domain read each other's memory directly. Between the domains of a host, data is packed into memory
 * that the host's ranks share; between hosts, thread 0 of each rank sends messages.
 *
 * An exchange is one step of communication, fixed while planning: each slot pulls regions from the buffers of
 * other slots. If a region has several sources, they are combined in a fixed binary tree over slot numbers.
 * All-reduce, all-gather, reduce-scatter, all-to-all, slices and halos are exchanges. */
#ifndef ISO_COLL_H
#define ISO_COLL_H

#include "collectives/tree.h"
#include "runtime/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_fabric iso_fabric;
typedef struct iso_exchange iso_exchange;
typedef struct iso_comm iso_comm;
typedef struct iso_watchdog iso_watchdog; /* collectives/control/watchdog.h */
typedef struct iso_device iso_device;     /* runtime/base/device.h */
typedef struct iso_stream iso_stream;
typedef struct iso_device_event iso_device_event;

typedef enum iso_reduce { ISO_SUM, ISO_MAX } iso_reduce;

/* The way in which the ranks of a host share memory: there is only one rank, which shares nothing; files without a
 * name; files in /dev/shm, because the ranks may not open each other's files; or none. */
typedef enum iso_shared_memory {
    ISO_SHARED_PRIVATE,
    ISO_SHARED_MEMFD,
    ISO_SHARED_FILES,
    ISO_SHARED_NONE,
} iso_shared_memory;

/* Finds the way by sharing one page. host: the ranks of a host (collectives/comm.h). The same result on all of them.
 * Collective over `host`. */
iso_status iso_shared_memory_find(const iso_comm *host, iso_shared_memory *kind);

/* The rank, the host and the memory domain of each slot. */
typedef struct iso_topology {
    int n_slots, n_ranks, rank; /* this process's rank */
    const int *rank_of_slot;    /* [n_slots] */
    const int *host_of_rank;    /* [n_ranks], hosts numbered from 0 in order of their lowest rank */
    int n_threads;              /* threads of this rank that run slots, at least 1 */
    int intra_op_threads; /* threads that each of them divides its work with, itself included; 0: it is alone */
    iso_watchdog *watchdog;   /* records exchanges and agreements; NULL: none */
    const iso_device *device; /* of the slots: targets and areas are in its memory; NULL: the CPU */
    /* [n_slots] numbers below n_slots; a domain is on one host. NULL: the slots of a host are one domain. A rank may
     * have slots in several. */
    const int *domain_of_slot;
    /* [n_slots] the same number for slots whose domains reach each other's windows: they pull from there, without
     * messages. NULL: domains reach none but their own. */
    const int *reach_of_slot;
    /* [n_slots] of this rank's slots, on which pulls are queued, if the device gathers; NULL: it does not. */
    iso_stream *const *stream_of_slot;
    /* If the device gathers: messages between hosts go through pinned memory in chunks of so many bytes. 0: MPI gets
     * the device's addresses (collectives/mpi/aware.h). The same on all ranks. */
    size_t chunk_bytes;
} iso_topology;

/* The sum routines of the backend in use. */
typedef void (*iso_combine)(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out,
                            iso_stream *stream);

/* `communicator` points to an MPI_Comm of the ranks of the topology (NULL: a job of one rank without MPI).
 * The topology is copied. n_threads may differ between ranks. Collective. */
iso_status iso_fabric_create(const iso_topology *topology, void *communicator, iso_combine sum,
                             iso_combine maximum, iso_fabric **fabric);
/* Lets the collective component of this name (--collectives) execute the pulls that it supports, in exchanges that
 * are made later. With "mpi", MPI adds sums between hosts in an order of its own, if slots of all hosts have a part
 * of them, so their bits depend on the number of hosts; within a host sums follow the tree. ISO_INVALID: there is no
 * such component. Collective. */
iso_status iso_fabric_use(iso_fabric *fabric, const char *collectives);
/* Returns ISO_INVALID with the reason if "nccl" cannot be used on this device, ISO_FAILED in a build without NCCL.
 * Local. */
iso_status iso_nccl_check_device(const iso_device *device);
/* Passes messages in rings from the memory of the ranks' devices: each device that slots use takes part in one
 * at least; a rank that has fewer than another one takes them in turn, and memory of the host if it has none.
 * ISO_FAILED: MPI fails, or other bytes come; the message says what to do. All ranks get the same status.
 * Collective. */
iso_status iso_fabric_try_device_messages(const iso_fabric *fabric);
/* Frees a fabric whose exchanges have been destroyed. Does nothing with NULL. Local, so that a rank that fails
 * alone can clean up. */
void iso_fabric_destroy(iso_fabric *fabric);
const iso_topology *iso_fabric_topology(const iso_fabric *fabric);
/* Allocates or grows the windows: slot_bytes for each slot's area, shared_bytes[domain] for the area
 * that the slots of a domain share (NULL: none). The contents of the shared areas are kept. Pointers obtained earlier
 * become invalid. No step may run. Collective. */
iso_status iso_fabric_reserve(iso_fabric *fabric, size_t slot_bytes, const size_t *shared_bytes);
/* The bytes of a window: of `slots` areas, and of what the slots share. ISO_INVALID: they overflow. Local. */
iso_status iso_fabric_window_bytes(int slots, size_t slot_bytes, size_t shared_bytes, size_t *bytes);
/* The bytes that a device that gathers allocates for a window, or for another area of so many bytes that processes
 * share: with the bytes behind it that may be read, whole multiples of 2 MiB. CUDA takes smaller allocations out of
 * one block, and they have one handle, that of the block. 0 for 0. Local. */
size_t iso_fabric_allocated_bytes(size_t bytes);
/* The device's addresses of a slot's area, and of the area that its domain shares. NULL: this rank has no part in the
 * domain. */
void *iso_fabric_slot_area(const iso_fabric *fabric, int slot);
void *iso_fabric_shared_area(const iso_fabric *fabric, int slot);
int iso_fabric_domain_of_slot(const iso_fabric *fabric, int slot);
/* The highest number of a domain plus 1. */
int iso_fabric_domains(const iso_fabric *fabric);

/* Returns how the devices of this rank's host exchange: "NCCL 2.28.9 (libnccl.so.2)", "each other's memory" or
 * "memory of the host"; NULL if the slots share the memory of one device, or of the host. Valid as long as the
 * fabric. */
const char *iso_fabric_describe_exchange(const iso_fabric *fabric);

/* How the devices of this rank's host exchange, if they gather. */
iso_device_exchange iso_fabric_device_exchange(const iso_fabric *fabric);

/* Whether the ranks of this machine have more threads that run slots than cores that they may use, or one of them
 * has: then a thread that waits leaves its core to others. */
bool iso_fabric_is_crowded(const iso_fabric *fabric);

/* A barrier of all threads on this host (of all its ranks) that run slots. thread: 0..n_threads - 1. Release
 * and acquire. */
void iso_fabric_barrier(iso_fabric *fabric, int thread);

/* ---- exchanges ---- */
typedef enum iso_space {
    ISO_SPACE_SLOT,   /* offset in the source slot's area */
    ISO_SPACE_SHARED, /* offset in the area that the source slot's domain shares */
} iso_space;

/* A buffer of one slot from which a region may be pulled: it holds `box` densely, row-major. */
typedef struct iso_source {
    int slot;
    iso_space space;
    size_t offset;
    iso_box box;
} iso_source;

/* Every rank must make the same calls in the same order, for every slot, so that senders know what to send. A
 * rank keeps the pulls of its own slots, and the messages. So that the work of a rank does not grow with the square
 * of the slots, some calls may be left out if iso_fabric_reserve_messages is called before the commit: those for
 * slots of other ranks if all slots are in one domain (iso_exchange_needs), and those that repeat, for another slot
 * of the same domain, what an earlier call for that domain asks for: messages carry it once. */
iso_status iso_exchange_create(iso_fabric *fabric, const char *what, iso_exchange **exchange);
/* Does nothing with NULL. Local, so that a rank that fails alone can clean up. */
void iso_exchange_destroy(iso_exchange *exchange);
/* Whether slots of this host wait for each other in a run. After the commit. On a device that gathers, what slots
 * have queued must then be done before they start and before they end it. */
bool iso_exchange_is_active(const iso_exchange *exchange);
/* Whether a run does nothing but queue work, on the streams of slots of this rank: these can be captured
 * (iso_device.begin_capture), and launches of what was captured take the place of runs. After the commit. */
bool iso_exchange_can_be_captured(const iso_exchange *exchange);
/* Whether the exchange orders the streams of slots itself, by events: then the host need not wait for what slots have
 * queued. The thread that hosts a slot calls iso_exchange_ready before the start, iso_exchange_read after the pulls
 * and before the end, and iso_exchange_resume after the end. The same on all ranks of a host. After the commit. */
bool iso_exchange_is_ordered(const iso_exchange *exchange);
void iso_exchange_ready(const iso_exchange *exchange, int slot);
void iso_exchange_read(const iso_exchange *exchange, int slot);
void iso_exchange_resume(const iso_exchange *exchange, int slot);
/* The slot's stream waits until what comes from other hosts is in the device's memory; to be called after the wait.
 * A slot that pulls need not call it: it is for callers that combine the sources themselves. */
void iso_exchange_await_arrivals(const iso_exchange *exchange, int slot);
/* Whether this rank hosts the slot, or there are several domains. */
bool iso_exchange_needs(const iso_exchange *exchange, int slot);
/* Slot `slot` pulls `region` (global coordinates): the combination of `count` sources, given in increasing
 * order of slot number, whose boxes all contain it. The result goes to the slot's buffer number `target`,
 * which holds target_box densely. *pull (unless NULL) becomes its number among this slot's pulls, for
 * iso_exchange_pull_sources. */
iso_status iso_exchange_add(iso_exchange *exchange, int slot, int target, const iso_box *target_box,
                            iso_dtype dtype, iso_reduce reduce, const iso_box *region,
                            const iso_source *sources, int count, int *pull);
/* Slot `slot` combines elements [begin, begin + n) of the sources, as with iso_exchange_add, and writes the result
 * over these elements of every source in its own domain. The sources are `total` elements each, in slots' areas at
 * one offset, and the slot is one of them. To be called for all slots of the group, with ranges that do not overlap.
 * Target number `target` is the slot's own source: it must be bound to that address. */
iso_status iso_exchange_add_in_place(iso_exchange *exchange, int slot, int target, iso_dtype dtype,
                                     iso_reduce reduce, int64_t total, int64_t begin, int64_t n,
                                     const iso_source *sources, int count);
/* The operation that the pulls of the slots of a group form together, if the plan has recognised it. */
typedef enum iso_exchange_kind {
    ISO_EXCHANGE_PULLS, /* anything */
    ISO_EXCHANGE_ALL_REDUCE,
    ISO_EXCHANGE_REDUCE_SCATTER,
    ISO_EXCHANGE_ALL_GATHER,
    ISO_EXCHANGE_ALL_TO_ALL,
    ISO_EXCHANGE_SHIFT, /* every slot gets what lies next to its part */
} iso_exchange_kind;
/* Whether a component may use the kind of the pulls. If not, iso_exchange_set_kind need not be called. */
bool iso_exchange_wants_kind(const iso_exchange *exchange);
/* Sets the kind of the pulls that are added after this call, so that a component can execute them together. group:
 * [n_slots] the lowest slot of each slot's group; it is copied. NULL: kind ISO_EXCHANGE_PULLS, which is also the
 * kind of a new exchange. All ranks make the same calls, between the same pulls. */
iso_status iso_exchange_set_kind(iso_exchange *exchange, iso_exchange_kind kind, const int *group);
/* States that no slot writes the sources in a step in which the exchange runs. They are written between
 * steps, with barriers before and after. The exchange then has no barriers for its sources. To be called
 * before the commit. */
void iso_exchange_set_constant(iso_exchange *exchange);
/* States that slots pull into memory that other slots of their domain read after the exchange. Where sources are
 * constant, these then wait for the pulls too. The same call on every rank, before the commit. */
void iso_exchange_set_fetches(iso_exchange *exchange);
/* The bytes of messages in each kind of memory, or offsets in their buffers. */
typedef struct iso_message_bytes {
    size_t incoming; /* received by this host, in its memory */
    size_t
        outgoing; /* likewise sent by this rank; on a device that gathers, chunks of what it sends and receives */
    size_t device; /* in the memory of each device, for messages from and to it */
} iso_message_bytes;
/* Returns the bytes of this exchange's messages. To be called after the last add. */
iso_message_bytes iso_exchange_message_bytes(iso_exchange *exchange);
/* Places the messages in buffers that the exchanges of a fabric share, at these offsets. Exchanges with
 * common bytes must never be in progress at the same time. To be called before iso_fabric_reserve_messages
 * and the commit. */
void iso_exchange_share_buffers(iso_exchange *exchange, iso_message_bytes offsets);
/* Allocates or grows these buffers, and the ranks of a host agree on which of the exchanges that are not
 * committed its slots take part in. No exchange may be in progress. Collective. */
iso_status iso_fabric_reserve_messages(iso_fabric *fabric, iso_message_bytes bytes);
/* Creates the messages, and their buffers unless these are shared. To be called after the last add. Collective. */
iso_status iso_exchange_commit(iso_exchange *exchange);
/* Sets the address of a target buffer of a local slot, after the last add and before the first run; it may be
 * changed between runs. A target without an address (NULL) is not written: its pulls are read by
 * iso_exchange_combine. */
void iso_exchange_bind(iso_exchange *exchange, int slot, int target, void *data);
/* The address of a target buffer; NULL: it has none. */
typedef void *iso_target_address(void *arg, int target);
/* The same for all targets of a slot, in one pass over its pulls. */
void iso_exchange_bind_all(iso_exchange *exchange, int slot, iso_target_address *address, void *arg);

/* Runs in every thread that hosts slots, in the same order everywhere:
 *   begin: waits until all sources are written (barrier of the host), sends and receives messages (thread 0),
 *          barrier of the rank;
 *   pull:  one slot's pulls, by the thread that hosts it;
 *   end:   after it, sources may be written again (barrier of the host). */
void iso_exchange_begin(iso_exchange *exchange, int thread);
/* The two halves of begin, between which threads may compute and other exchanges run:
 *   start: waits until all sources are written, and sends (thread 0);
 *   wait: waits until the data of other hosts has arrived. */
void iso_exchange_start(iso_exchange *exchange, int thread);
void iso_exchange_wait(iso_exchange *exchange, int thread);
/* The number of messages that have failed since the fabric was made. The results of exchanges after the first
 * failure must not be used. */
int iso_fabric_failures(const iso_fabric *fabric);
/* ISO_OK, or the status of the first failure; its message is recorded in the calling thread. Local. */
iso_status iso_fabric_failure(const iso_fabric *fabric);
/* Tells the slots of all ranks of this host whether a device of this rank has failed, which the exchange itself
 * cannot report. It takes effect at the next start of an exchange in which slots wait for each other. Thread-safe. */
void iso_fabric_set_device_failed(iso_fabric *fabric, bool failed);
/* Whether a rank of this host reports a failed device now. */
bool iso_fabric_device_failed(const iso_fabric *fabric);
/* Whether a rank of this host had reported such a fault when the exchange was started last. All ranks of the host get
 * the same answer between its start and its end. What it sent to other hosts through memory of the host is then
 * replaced: read as float64, each number is 32.5. So a sum of counts of faults is not 0 there either. */
bool iso_exchange_device_failed(const iso_exchange *exchange);
/* Gets the times at which this rank's messages of the last run were sent, and at which the rank found that all had
 * been sent and received, in nanoseconds of iso_clock_ns(). Returns false if there were no messages, or none were
 * waited for. For thread 0. */
bool iso_exchange_message_times(const iso_exchange *exchange, int64_t *sent, int64_t *arrived);
/* Makes progress on the exchanges in progress. To be called by thread 0 from time to time. */
void iso_fabric_progress(iso_fabric *fabric);
/* After a loss: MPI may still use the memory of messages, so destroying the fabric and its exchanges frees
 * nothing. Called by thread 0. */
void iso_fabric_abandon(iso_fabric *fabric);
/* The host waits for an event of a slot's stream, as the device's wait_event. If the stream waits for communicators
 * of devices, their errors and lost ranks end the wait: what they have queued is aborted. Called by thread 0. */
iso_status iso_fabric_wait_event(iso_fabric *fabric, const iso_device_event *event);
/* The host waits in the same way for all that communicators of devices bring to this rank, before it waits for a
 * stream. Called by thread 0. */
iso_status iso_fabric_settle(iso_fabric *fabric);
void iso_exchange_pull(iso_exchange *exchange, int slot);
void iso_exchange_end(iso_exchange *exchange, int thread);
/* For callers that combine the sources themselves (the optimizer): the number of sources of a slot's pull,
 * and the address of the region's first element in each, valid between begin and end. The region must be one
 * contiguous run in every source (rank-1 boxes are). Sources in other domains that form a complete subtree may
 * arrive combined: the result is then smaller than the number that was added, and iso_exchange_combine knows
 * the tree over the addresses. */
int iso_exchange_pull_sources(const iso_exchange *exchange, int slot, int pull, const void **address,
                              int capacity);
/* out[0..n) = elements [begin, begin + n) of the region of this pull, combined in tree order; n is at most
 * 4096. Thread-safe. It counts no traffic: iso_exchange_count_combined. */
void iso_exchange_combine(const iso_exchange *exchange, int slot, int pull, int64_t begin, int64_t n,
                          void *out);

/* The same on a device that gathers: it is queued on the slot's stream, for any n. out: in the device's memory. */
void iso_exchange_queue_combine(const iso_exchange *exchange, int slot, int pull, int64_t begin, int64_t n,
                                void *out);
/* The same without a copy: the address of the elements from `begin` on if the pull has only one source (or they
 * arrived combined), else NULL. */
const void *iso_exchange_view(const iso_exchange *exchange, int slot, int pull, int64_t begin);
/* Counts n elements of this pull, that these functions combined or viewed, in the slot's traffic. Thread-safe for
 * distinct slots. */
void iso_exchange_count_combined(const iso_exchange *exchange, int slot, int pull, int64_t n);
/* Whether the region is one contiguous run in every source and in the target's box, as the functions
 * above require. */
bool iso_exchange_is_run(const iso_exchange *exchange, int slot, int pull);

/* pulled: bytes that a slot of this rank has pulled from other slots so far; an operand that arrived combined
 * counts once. crossed: the part of them that came from other hosts, counted for the first slot that pulled it. */
typedef struct iso_traffic {
    uint64_t pulled, crossed;
} iso_traffic;
iso_traffic iso_fabric_traffic(const iso_fabric *fabric, int slot);
/* Sets what a local slot has counted: of exchanges that were captured, each launch counts. Local. */
void iso_fabric_set_traffic(iso_fabric *fabric, int slot, iso_traffic traffic);
/* The number of sources of all pulls that this rank has added so far, as a measure of the time to make exchanges. */
uint64_t iso_fabric_sources(const iso_fabric *fabric);
/* The number of pulls that this rank has looked at so far to set addresses of targets. */
uint64_t iso_fabric_bound(const iso_fabric *fabric);
/* For plans: the size in message buffers of an operand of `bytes` bytes: whole cache lines. */
size_t iso_exchange_operand_bytes(size_t bytes);
/* And the pinned memory that a rank needs for a message of `bytes` bytes that it sends or receives in chunks. */
size_t iso_exchange_staged_bytes(size_t bytes, size_t chunk_bytes);
/* The bytes that one run of the exchange pulls for a slot, as planned. */
iso_traffic iso_exchange_planned(const iso_exchange *exchange, int slot);

#ifdef __cplusplus
}
#endif
#endif
