/* Links: messages between the devices of a host that do not reach each other's memory, by the device's own
 * communicator (NCCL): from the memory of one device to that of another. They take the place of messages in memory of
 * the host where each domain of the host is a device of its own.
 *
 * The rank that has a domain's first slot is its owner: it packs what the domain sends, and receives for all slots of
 * the domain. Both lie in an area of the device's memory that the ranks of the domain share. */
#ifndef ISO_LINKS_IMPL_H
#define ISO_LINKS_IMPL_H

#include "collectives/messages_impl.h"
#include "collectives/request_impl.h"
#include "runtime/base/device_comms.h"

/* A domain that this rank owns. */
typedef struct iso_link_member {
    iso_device_comm *comm;
    iso_stream
        *stream; /* one for all communicators of the device, so that their work has one order everywhere */
    bool lent;   /* the stream is another's */
    int domain;
} iso_link_member;

/* A communicator of the domains of a host, or of all. */
typedef struct iso_links {
    const iso_device_comms *comms;
    const iso_comm *ranks; /* of the host, or all */
    bool all;
    int count;       /* members */
    int *member;     /* [domains] number in the communicator; -1: the domain is on another host */
    int *first_slot; /* [domains] */
    iso_link_member *own;
    int n_own;
    iso_device_comm ***splits; /* [n_splits][n_own] the communicators of iso_links_split */
    int n_splits;
    bool failed; /* members are gone: nothing can be sent any more */
} iso_links;

/* The work of this rank's devices in a run of an exchange, on their streams. A zeroed one has no events. */
typedef struct iso_link_run {
    iso_device_event **arrived; /* [n_own] */
    bool under_way;
} iso_link_run;

typedef struct iso_link_message_position {
    size_t sent, received; /* where it lies in the areas of the two domains */
} iso_link_message_position;

/* The messages of an exchange between the domains of this host: `from` and `to` are domains. */
typedef struct iso_link_messages {
    iso_mailbox box;
    iso_link_message_position *position; /* [box.n_messages] */
    size_t bytes;                        /* of each domain's area: the most that one of them needs */
    iso_device_operation *list;          /* of the domains that this rank owns */
    int n_list;
    iso_link_run run;
} iso_link_messages;

/* Joins the communicator of this host if its domains are devices of their own, do not reach each other, and the
 * library can be used; otherwise fabric->links stays NULL. A warning says why a communicator cannot be joined.
 * Collective over the host. */
iso_status iso_links_open(iso_fabric *fabric);
/* Both end all communicators that a fabric uses together, and are local. `abort` ends what is queued, with any
 * result, so that streams can be waited for. `close` is for work that is done, and frees all links:
 * communicators that cannot be closed, or not in time, and those of a fabric that has failed, are aborted. This
 * thread's error stays. */
void iso_links_abort(const iso_fabric *fabric);
void iso_links_close(iso_fabric *fabric);
/* ISO_FAILED: the communicator has failed before. */
iso_status iso_links_check(const iso_links *links);
/* The member of a domain; NULL: another rank owns it. */
iso_link_member *iso_links_own(const iso_links *links, int domain);
/* The communicator of all domains, which the fabric owns. ISO_INVALID or ISO_FAILED says why there is none. The same
 * status on all ranks. To be called once. Collective. */
iso_status iso_links_open_all(iso_fabric *fabric, iso_links **links);
/* A communicator of some of the domains. number: [domains], -1: not in it. *comm: [own] of the devices of this rank,
 * NULL: not in it, or aborted; the links own them. If a rank fails, all abort the links' communicators. Collective
 * over the ranks of the links. */
iso_status iso_links_split(iso_fabric *fabric, iso_links *links, const int *number,
                           iso_device_comm *const **comm);
/* Waits until the last call to a member has begun its work. ISO_FAILED: its communicator has failed, or a rank is
 * lost. */
iso_status iso_links_await(const iso_fabric *fabric, iso_device_comm *comm);
/* Tests all communicators of this rank, while the host waits for what may wait for them. An error of one of them has
 * been reported (iso_links_fail); or a rank is lost. */
iso_status iso_links_test(iso_fabric *fabric);
/* Reports that a communicator has failed in a run with this status: a warning is printed, the watchdog will report
 * it, and waits end. Waits for that report, which ends most programs. Returns the status. */
iso_status iso_links_fail(iso_fabric *fabric, iso_status status);

/* ---- a run ---- */
iso_status iso_link_run_create(const iso_links *links, iso_link_run *run);
/* Does nothing without events. */
void iso_link_run_free(const iso_links *links, iso_link_run *run);
/* Begins a run: queues packs. ISO_FAILED: iso_links_check. */
iso_status iso_link_run_pack(const iso_fabric *fabric, const iso_links *links, const iso_pack_list *packs,
                             iso_link_run *run);
/* Records the events of the run, after all of its work has been queued. Returns an error of a device that is known by
 * then. */
iso_status iso_link_run_record(const iso_fabric *fabric, const iso_links *links, iso_link_run *run);
/* Makes a stream of the slot wait for what the run brings to the slot's domain. For a fabric that orders streams
 * (stream_order_impl.h), when all ranks of the domain have begun the run. */
void iso_link_run_await(const iso_fabric *fabric, const iso_links *links, const iso_link_run *run, int slot,
                        iso_stream *stream);
/* Tests a run. *done: all has arrived, or the communicator has failed, now or before. check(arg, i) returns the
 * errors that the communicators of this rank's device i have met. */
iso_status iso_link_run_test(iso_fabric *fabric, const iso_links *links, iso_link_run *run,
                             iso_status (*check)(const void *arg, int own), const void *arg, int *done);

/* ---- an exchange ---- */
/* Computes the sizes, after the last fragment was added. The same on all ranks of the host. */
void iso_link_messages_close(const iso_fabric *fabric, iso_link_messages *messages);
/* After the areas have been placed; again when they have moved. */
iso_status iso_link_messages_bind(iso_exchange *exchange);
/* The address of a message where it is read, or where it is packed. */
char *iso_link_messages_received(const iso_exchange *exchange, int message);
char *iso_link_messages_sent(const iso_exchange *exchange, int message);
/* Begins a run: packs, and queues the sends and receives of this rank's domains. Then streams of the slots await what
 * comes; or, if the fabric does not order them, iso_link_messages_test is called until *done: all has arrived. */
iso_status iso_link_messages_start(iso_exchange *exchange);
void iso_link_messages_await(const iso_exchange *exchange, int slot, iso_stream *stream);
iso_status iso_link_messages_test(iso_exchange *exchange, int *done);
void iso_link_messages_free(const iso_fabric *fabric, iso_link_messages *messages);

#endif
