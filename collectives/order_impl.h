/* Order between the streams of slots that reach each other's memory, by events: the host does not wait for what slots
 * have queued. Each slot has two: it has written what others pull, and it has read what it pulls. */
#ifndef ISO_ORDER_IMPL_H
#define ISO_ORDER_IMPL_H

#include "collectives/coll.h"
#include "runtime/base/device.h"

/* Of a fabric. Slots of other hosts have none. */
typedef struct iso_stream_order {
    iso_device_event **ready; /* [n_slots] */
    iso_device_event **read;  /* [n_slots] */
} iso_stream_order;

/* fabric->order stays NULL where the host waits: slots alone, a device without events that ranks share, or a program
 * that goes on after a loss, which must not wait for events of ranks that are lost. Collective over the host. */
iso_status iso_order_open(iso_fabric *fabric);
void iso_order_close(iso_fabric *fabric);
/* Before a slot pulls: its stream waits until others have written. */
void iso_order_await_ready(const iso_exchange *exchange, int slot);

#endif
