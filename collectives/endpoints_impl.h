/* Endpoints: where messages between hosts leave the memory of devices that gather, and enter it.
 *
 * What a domain sends to other hosts is packed into an area of its device's memory. The receive buffers of the host
 * are in such areas too if all its devices reach each other, else in memory of the host. Between the device and MPI,
 * a message goes through pinned memory in chunks, each of which is copied while MPI has another one; or MPI gets the
 * device's addresses. Streams are ordered by events: the host waits for no more than a chunk that it sends. */
#ifndef ISO_ENDPOINTS_IMPL_H
#define ISO_ENDPOINTS_IMPL_H

#include "collectives/coll.h"
#include "collectives/messages_impl.h"
#include "runtime/base/device.h"

/* The endpoint of a domain in which this rank has slots. */
typedef struct iso_endpoint {
    int domain;
    iso_stream *out, *in;             /* copies from the device's memory, and to it */
    const iso_device_event *received; /* the last copy of earlier exchanges; NULL: the host has waited */
    bool unpacked;                    /* its last packs were refused: what would be sent is other data */
} iso_endpoint;

/* The endpoints of a fabric with several hosts whose slots are on devices that gather. */
typedef struct iso_endpoints {
    bool direct;  /* MPI gets the device's addresses */
    size_t chunk; /* bytes that MPI gets at a time */
    int count;
    iso_endpoint *endpoint;    /* [count] */
    iso_device_event **packed; /* [local slots] what the slot has packed */
} iso_endpoints;

/* Chunks of a message that are in pinned memory at the same time: one is copied from or to the device, MPI has
 * another, and one waits for either. */
enum { ISO_CHUNKS_AT_ONCE = 3 };

/* Creates the endpoints. fabric->endpoints stays NULL if there is nothing to do. To be called after iso_order_open.
 * Local. */
iso_status iso_endpoints_open(iso_fabric *fabric);
void iso_endpoints_close(iso_fabric *fabric);
/* NULL: this rank has no slot in the domain. */
const iso_endpoint *iso_endpoint_of(const iso_endpoints *endpoints, int domain);
/* The domain in whose area a message to this slot is received; -1: in memory of the host. */
int iso_endpoints_incoming(const iso_fabric *fabric, int slot);

/* ---- an exchange ---- */
/* Places messages in the areas of the host's domains, after those between devices of the host. To be called after
 * the last fragment was added. Returns the bytes of an area. The same on all ranks of the host. */
size_t iso_endpoints_measure(const iso_fabric *fabric, iso_messages *messages, size_t link_bytes);
/* Computes addresses, after the areas have been placed; to be called again when they have moved. */
void iso_endpoints_bind(iso_exchange *exchange);
/* Lets the copies of a message wait for its packs, which have been queued; the host does not wait. */
iso_status iso_endpoints_packed(const iso_fabric *fabric, const iso_message *message);
/* Lets slots' streams wait for the copies of what was received, or waits itself. To be called after the last
 * message was received. */
iso_status iso_endpoints_received(const iso_fabric *fabric);

#endif
