/* Ports: where messages between hosts leave the memory of devices that gather, and enter it.
 *
 * What a domain sends to other hosts is packed into an area of its device's memory. What the host receives lands in
 * such an area too if all its devices reach each other, else in memory of the host. Between the device and MPI, a
 * message goes through pinned memory in chunks, each of which is copied while MPI has another one; or MPI gets the
 * device's addresses. Streams are ordered by events: the host waits for no more than a chunk that it sends. */
#ifndef ISO_PORTS_IMPL_H
#define ISO_PORTS_IMPL_H

#include "collectives/coll.h"
#include "collectives/messages_impl.h"
#include "runtime/base/device.h"

/* Of a domain in which this rank has slots. */
typedef struct iso_port {
    int domain;
    iso_stream *out, *in; /* copies from the device's memory, and to it */
    const iso_device_event
        *landed; /* all copies of the exchanges that were received before; NULL: the host has
                                       waited for them */
} iso_port;

/* Of a fabric with several hosts whose slots are on devices that gather. */
typedef struct iso_ports {
    bool direct;  /* MPI gets the device's addresses */
    size_t chunk; /* bytes */
    int count;
    iso_port *port;            /* [count] */
    iso_device_event **packed; /* [local slots] what the slot has packed */
} iso_ports;

/* Chunks of a message that are in pinned memory at the same time: one is copied from or to the device, MPI has
 * another, and one waits for either. */
enum { ISO_CHUNKS_AT_ONCE = 3 };

/* fabric->ports stays NULL where there is nothing to do. After the order was opened. Local. */
iso_status iso_ports_open(iso_fabric *fabric);
void iso_ports_close(iso_fabric *fabric);
/* NULL: this rank has no slot in the domain. */
const iso_port *iso_port_of(const iso_ports *ports, int domain);
/* The domain in whose area a message to this slot lands; -1: in memory of the host. */
int iso_ports_landing(const iso_fabric *fabric, int slot);
/* Bytes of pinned memory that a message needs on a rank that sends or receives it. */
size_t iso_ports_staged(const iso_ports *ports, size_t bytes);

/* ---- an exchange ---- */
/* After the last fragment: where messages lie in the areas of the host's domains, after what devices of the host send
 * each other. Returns the bytes of an area. The same on all ranks of the host. */
size_t iso_ports_measure(const iso_fabric *fabric, iso_messages *messages, size_t linked);
/* After the areas have been placed; again when they have moved. */
void iso_ports_bind(iso_exchange *exchange);
/* After the packs of a message have been queued: what is sent waits for them, not the host. */
iso_status iso_ports_packed(const iso_fabric *fabric, const iso_message *message);
/* After the last message was received: slots' streams can wait for the copies; or the host has waited. */
iso_status iso_ports_landed(const iso_fabric *fabric);

#endif
