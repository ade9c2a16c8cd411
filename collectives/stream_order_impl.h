/* Order between the streams of slots that reach each other's memory, by events: the host does not wait for what slots
 * have queued. Each slot has four: it has written what others pull, it has read what it pulls, the last copy of
 * what its rank has received from other hosts is in the memory of its device, and so is what the device's
 * communicator (links_impl.h) has brought there. */
#ifndef ISO_STREAM_ORDER_IMPL_H
#define ISO_STREAM_ORDER_IMPL_H

#include "collectives/coll.h"
#include "collectives/shm/uses_impl.h"
#include "runtime/base/device.h"

/* The events of a fabric. Slots of other hosts have none. */
typedef struct iso_stream_order {
    iso_device_event **ready;    /* [n_slots] */
    iso_device_event **read;     /* [n_slots] */
    iso_device_event **received; /* [n_slots] the first slot of each of a rank's domains has them */
    iso_device_event **arrived;  /* [n_slots] the first slot of each domain has them */
    iso_uses uses;               /* of each slot's events, by the ranks that import them */
} iso_stream_order;

/* fabric->order stays NULL where the host waits: a slot alone, a device without events that ranks share, or a program
 * that goes on after a loss, which must not wait for events of ranks that are lost. Collective over the host. */
iso_status iso_order_open(iso_fabric *fabric);
void iso_order_close(iso_fabric *fabric);
/* Before a slot pulls: its stream waits until others have written, and until messages have been received. */
void iso_order_await_ready(const iso_exchange *exchange, int slot);

/* Lets a stream of the device of `slot` wait until all slots that it reaches have written and read, as far as their
 * events have been recorded. This function and those below do nothing without an order. */
void iso_order_await_slots(const iso_fabric *fabric, iso_stream *stream, int slot);
/* The host waits until the slots of this rank have read. */
iso_status iso_order_wait_read(const iso_fabric *fabric);
/* Records the event that all data received for a domain of this rank is queued on `stream`. Returns the event. */
const iso_device_event *iso_order_record_received(const iso_fabric *fabric, int domain, iso_stream *stream);
/* Records, or awaits, that what the communicator of a domain has brought is in its memory. slot: the domain's first.
 * The rank that owns the domain (links_impl.h) records it. */
void iso_order_record_arrived(const iso_fabric *fabric, int slot, iso_stream *stream);
void iso_order_await_arrived(const iso_fabric *fabric, int slot, iso_stream *stream);

#endif
