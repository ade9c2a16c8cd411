/* The structs of fabrics and exchanges. */
#ifndef ISO_COLL_IMPL_H
#define ISO_COLL_IMPL_H

#include <stdatomic.h>

#include "collectives/coll.h"
#include "collectives/control/channel.h"
#include "collectives/device_areas.h"
#include "collectives/endpoints_impl.h"
#include "collectives/gather_kernels_impl.h"
#include "collectives/links_impl.h"
#include "collectives/messages_impl.h"
#include "collectives/request_impl.h"
#include "collectives/shm/barrier_impl.h"
#include "collectives/shm/window_impl.h"
#include "collectives/stream_order_impl.h"
#include "collectives/tree.h"
#include "runtime/base/first_error.h"
#include "runtime/base/memory.h"

enum { ISO_MOST_COMPONENTS = 4 };

/* Counted by the thread that runs the slot, so it has its own cache lines. */
typedef struct iso_counter {
    _Alignas(ISO_ALIGN) iso_traffic traffic;
} iso_counter;

/* A memory domain in which this rank takes part, or which its own reach: a rank without slots takes part in the first
 * one of its host. */
typedef struct iso_domain {
    int number;
    const iso_comm *ranks; /* NULL without MPI */
    iso_comm *own;         /* the same; NULL: they are those of the host, or there is no MPI */
    int n_slots;
    iso_window memory;
    char *areas;                /* the device's address of `memory`, or its own memory if it gathers */
    iso_device_areas on_device; /* that memory */
    bool reserved;
    size_t slot_bytes, shared_bytes;
} iso_domain;

struct iso_fabric {
    iso_topology topology;
    int *rank_of_slot, *host_of_rank; /* copies of the topology's */
    const iso_gather_kernels *gather_kernels;
    iso_combine combine[2]; /* by iso_reduce */
    iso_channel channel;    /* all ranks */
    iso_comm *host;         /* the ranks of this host; NULL without MPI */
    int host_number;
    int *domain_of_slot; /* [n_slots] */
    int *reach_of_slot;  /* [n_slots] */
    int n_domains;       /* of all hosts */
    int n_host_domains;  /* of this one */
    iso_domain *domains; /* [n_own_domains], in the order of their numbers */
    int n_own_domains;
    int *
        area; /* [n_slots] number of the slot's area in its domain; -1: this rank has no part in the domain */
    int *local; /* [n_slots] number among this rank's slots; -1: on another rank */
    int n_local_slots;
    int *by_host;     /* [n_slots] slot numbers, host by host */
    int *host_begin;  /* [n_hosts + 1] where a host's slots begin in by_host */
    iso_window flags; /* flags of the host's threads */
    iso_barrier host_barrier;
    int first_flag; /* number of this rank's first thread in the host's barrier */
    atomic_bool
        device_failed; /* this rank counts among the ranks with a failed device, whose number follows the barrier's flags */
    bool reserved; /* the domains have their windows */
    iso_stream *
        *pack_streams;     /* [local slots] for what this rank packs, on a device that gathers; else NULL */
    iso_counter *counters; /* [local slots] */
    iso_window incoming;   /* of the host: receive buffers of the exchanges that share buffers */
    char *outgoing;        /* of this rank: send buffers of these exchanges */
    size_t outgoing_bytes;
    iso_stream_order *order;      /* NULL: the host waits for what slots queue */
    iso_endpoints *endpoints;     /* NULL: messages between hosts begin and end in memory of the host */
    iso_links *links;             /* NULL: what domains of this host exchange lies in memory of the host */
    iso_links *all_links;         /* of the domains of all hosts; NULL: no component has opened them */
    iso_device_areas *link_areas; /* [n_own_domains] for messages of the exchanges that share buffers */
    void *modules[ISO_MOST_COMPONENTS]; /* of the components in use (components_impl.h) */
    iso_exchange *exchanges;
    int **groups; /* [n_groups] the groupings of slots that exchanges have, each once */
    int n_groups;
    bool abandoned; /* a rank was lost: MPI may still use the memory of messages, which is not freed */
    iso_exchange *under_way; /* exchanges with messages in progress; used by thread 0 only */
    atomic_int failures;     /* failed messages so far; counted by thread 0 */
    iso_first_error failed;  /* of messages */
    int exchanges_made;      /* number of exchanges made so far: numbers tags */
    uint64_t sources;        /* of all pulls added so far */
    uint64_t bound;          /* pulls that bind looked at so far */
};

/* A slot's pull. */
typedef struct iso_pull {
    iso_gather gather;
    int target;
    size_t target_offset;
    int foreign; /* sources in other slots */
    int crossed; /* operands that arrive in messages and are first pulled here */
} iso_pull;

typedef struct iso_slot_pulls {
    iso_pull *pulls;
    int n_pulls;
    uint64_t given; /* bytes that pulls of other slots write into this slot's area */
} iso_slot_pulls;

struct iso_exchange {
    iso_fabric *fabric;
    char *what;
    iso_watchdog_name name; /* for the watchdog */
    int tag;
    iso_exchange_kind kind; /* of the pulls that are being added */
    const int *group;       /* [n_slots] and their groups: the fabric's; NULL: kind PULLS */
    bool committed;
    bool communicates; /* this rank sends or receives, or a component does, in a run */
    bool active;       /* slots of this host take part, other than by copies within one slot: the host needs
                    barriers */
    iso_slot_pulls *slots; /* [local slots] */
    iso_messages messages;
    bool pulls_only;      /* slots of this host read memory that they reach, and nothing else */
    bool uses_components; /* a component executes pulls of slots of this host, and all wait for its results */
    iso_pack_list packs;  /* of this rank, in the order of messages after the commit */
    iso_pack_list intra_host_packs; /* of this rank: into the messages between domains of the host */
    bool on_device;                 /* this host receives the messages of other hosts in memory of devices */
    bool overwrites; /* MPI writes what arrives where slots read it: the host waits until they have read */
    bool relays;     /* what leaves this host reads messages between its domains */
    iso_link_messages link_messages; /* messages between devices of this host */
    size_t area_bytes; /* of each domain's area on its device, for these and for messages of endpoints */
    iso_pack_list link_packs;             /* of this rank: into them */
    iso_device_areas *link_areas;         /* [own domains of the fabric] unless they are shared; NULL: none */
    void *schedules[ISO_MOST_COMPONENTS]; /* of the components (components_impl.h) */
    bool constant;                        /* no slot writes its sources in a step that runs it */
    bool fetches;                         /* slots pull for others of their domain */
    bool shared;                          /* its messages are in the fabric's buffers, at these offsets */
    iso_message_bytes offsets;
    int64_t sent, arrived; /* times of this rank's messages in the last run; arrived 0: not yet */
    iso_exchange *next;    /* in the fabric's list */
    iso_exchange *next_under_way;
};

int iso_fabric_host_of_slot(const iso_fabric *fabric, int slot);
iso_memory_location iso_fabric_location_of_slot(const iso_fabric *fabric, int slot);
/* domains.c: numbers the slots of each domain, and lists those in which this rank takes part. Local. */
iso_status iso_fabric_find_domains(iso_fabric *fabric);
/* Makes their communicators. Collective over the host. */
iso_status iso_fabric_join_domains(iso_fabric *fabric);
void iso_fabric_free_domains(iso_fabric *fabric);
/* Memory for messages between devices, in each domain of this rank: *areas [n_own_domains], made if it is NULL, of
 * `bytes` bytes each at least. Either all ranks of the host get it, or all return an error. To be freed also after
 * one. Collective over the host. */
iso_status iso_fabric_reserve_link_areas(const iso_fabric *fabric, size_t bytes, iso_device_areas **areas);
void iso_fabric_free_link_areas(const iso_fabric *fabric, iso_device_areas *areas);
/* The area of a domain among `areas`; NULL: this rank has no part in the domain. */
char *iso_fabric_link_area(const iso_fabric *fabric, int domain, const iso_device_areas *areas);
/* The address on the device of the domain's messages of an exchange. */
char *iso_exchange_area(const iso_exchange *exchange, int domain);
/* Whether slots wait at the end of a run until the others have pulled. */
static inline bool iso_exchange_is_awaited(const iso_exchange *exchange)
{
    return !exchange->constant || exchange->fetches;
}
/* Computes the addresses of all operands again after messages have been placed or areas have moved. */
void iso_exchange_resolve(iso_exchange *exchange);
/* Places the messages in the exchange's own buffers or the fabric's, and creates their requests. */
iso_status iso_exchange_place_messages(iso_exchange *exchange);

#endif
