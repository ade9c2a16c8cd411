#include "collectives/stream_order_impl.h"

#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"

enum { WORDS = ISO_DEVICE_HANDLE / sizeof(uint64_t), EVENTS = 4 };

static iso_stream *stream_of(const iso_fabric *fabric, int slot)
{
    return fabric->topology.stream_of_slot[slot];
}

static bool is_here(const iso_fabric *fabric, int slot)
{
    return iso_fabric_host_of_slot(fabric, slot) == fabric->host_number;
}

static iso_device_event **event_of(const iso_stream_order *order, int slot, int kind)
{
    iso_device_event **const list[EVENTS] = {order->ready, order->read, order->received, order->arrived};
    return &list[kind][slot];
}

/* Whether all slots of this host are of this rank: other processes then wait for none of its events. */
static bool has_host(const iso_fabric *fabric)
{
    for (int slot = 0; slot < fabric->topology.n_slots; slot++)
        if (is_here(fabric, slot) && fabric->local[slot] < 0)
            return false;
    return true;
}

/* handle: [n_slots][EVENTS] of the slots of this rank. */
static iso_status make_own(const iso_fabric *fabric, const iso_stream_order *order,
                           uint64_t (*handle)[EVENTS][WORDS])
{
    iso_status status = ISO_OK;
    for (int i = 0; i < fabric->topology.n_slots * EVENTS; i++) {
        int slot = i / EVENTS, kind = i % EVENTS;
        if (fabric->local[slot] < 0)
            continue;
        const iso_device *device = stream_of(fabric, slot)->device;
        iso_device_event **event = event_of(order, slot, kind);
        if (has_host(fabric)) {
            ISO_TRY(device->create_event(device, event));
            continue;
        }
        ISO_TRY(device->create_shared_event(device, event));
        ISO_TRY(device->export_event(*event, (unsigned char *)handle[slot][kind]));
    }
done:
    return status;
}

/* A slot of this rank that reaches the slot of another rank; -1: none does. */
static int find_reaching(const iso_fabric *fabric, int slot)
{
    for (int own = 0; own < fabric->topology.n_slots; own++)
        if (fabric->local[own] >= 0 && fabric->reach_of_slot[own] == fabric->reach_of_slot[slot])
            return own;
    return -1;
}

/* Imports the events for which slots of this rank wait. A process may not even see the GPUs of the other slots. */
static iso_status import_others(const iso_fabric *fabric, iso_stream_order *order,
                                uint64_t (*handle)[EVENTS][WORDS])
{
    iso_status status = ISO_OK;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        int own = fabric->local[slot] < 0 && is_here(fabric, slot) ? find_reaching(fabric, slot) : -1;
        for (int kind = 0; own >= 0 && kind < EVENTS; kind++) {
            const iso_device *device = stream_of(fabric, own)->device;
            ISO_TRY(device->import_event(device, (unsigned char *)handle[slot][kind],
                                         event_of(order, slot, kind)));
            iso_uses_open(&order->uses, slot * EVENTS + kind);
        }
    }
done:
    return status;
}

/* Those of this rank's slots, or those that it has imported. */
static void destroy_events(const iso_fabric *fabric, iso_stream_order *order, bool own)
{
    for (int i = 0; i < fabric->topology.n_slots * EVENTS; i++) {
        iso_device_event *event = *event_of(order, i / EVENTS, i % EVENTS);
        if (!event || (fabric->local[i / EVENTS] >= 0) != own ||
            (own && !iso_uses_await_closed(&order->uses, i)))
            continue;
        event->device->destroy_event(event);
        if (!own)
            iso_uses_close(&order->uses, i);
    }
}

static bool has_lists(const iso_stream_order *order)
{
    return order->ready && order->read && order->received && order->arrived;
}

static void free_order(const iso_fabric *fabric, iso_stream_order *order)
{
    if (!order)
        return;
    if (has_lists(order)) {
        destroy_events(fabric, order, false);
        destroy_events(fabric, order, true);
    }
    iso_uses_destroy(&order->uses);
    iso_free(order->ready);
    iso_free(order->read);
    iso_free(order->received);
    iso_free(order->arrived);
    iso_free(order);
}

static bool can_order(const iso_fabric *fabric)
{
    return fabric->topology.device->gather && fabric->topology.device->create_shared_event &&
           fabric->topology.n_slots > 1 &&
           !(iso_comm_size(fabric->host) > 1 && iso_watchdog_errors_return(fabric->channel.watchdog));
}

/* Exchanges the handles. mine: whether this rank has opened what it waits for; *good: whether all have. */
static iso_status share_events(const iso_fabric *fabric, iso_stream_order *order,
                               uint64_t (*handle)[EVENTS][WORDS], iso_status *mine, bool *good)
{
    int events = fabric->topology.n_slots * EVENTS;
    iso_status status = iso_uses_create(fabric->host, events, &order->uses);
    if (status != ISO_OK)
        return status;
    status = iso_comm_reduce(fabric->host, ISO_COMM_OR, ISO_COMM_U64, handle, events * WORDS);
    *mine = status == ISO_OK ? import_others(fabric, order, handle) : status;
    iso_status met = iso_comm_all(fabric->host, *mine == ISO_OK, good);
    return status == ISO_OK ? met : status;
}

iso_status iso_order_open(iso_fabric *fabric)
{
    if (!can_order(fabric))
        return ISO_OK;
    bool good;
    int slots = fabric->topology.n_slots;
    iso_stream_order *order = iso_new(sizeof *order);
    uint64_t(*handle)[EVENTS][WORDS] = iso_new((size_t)slots * sizeof *handle);
    if (order) {
        order->ready = iso_new((size_t)slots * sizeof(iso_device_event *));
        order->read = iso_new((size_t)slots * sizeof(iso_device_event *));
        order->received = iso_new((size_t)slots * sizeof(iso_device_event *));
        order->arrived = iso_new((size_t)slots * sizeof(iso_device_event *));
    }
    iso_status mine = order && has_lists(order) && handle ? make_own(fabric, order, handle)
                                                          : iso_no_memory("the events of slots");
    iso_status status = iso_comm_all(fabric->host, mine == ISO_OK, &good);
    if (status == ISO_OK && good)
        status = share_events(fabric, order, handle, &mine, &good);
    iso_free(handle);
    if (status == ISO_OK && good)
        fabric->order = order;
    else
        free_order(fabric, order);
    if (status == ISO_OK && mine != ISO_OK)
        iso_warn("rank %d: the host waits in each exchange, since events cannot order it: %s",
                 fabric->channel.rank, iso_error_message());
    return status;
}

void iso_order_close(iso_fabric *fabric)
{
    free_order(fabric, fabric->order);
    fabric->order = NULL;
}

/* ---- streams of the fabric ---- */

/* A stream waits for the slots that `slot` reaches, but not for slot `but`. */
static void await_all(const iso_fabric *fabric, iso_stream *stream, iso_device_event *const *event, int slot,
                      int but)
{
    for (int other = 0; other < fabric->topology.n_slots; other++)
        if (other != but && event[other] && fabric->reach_of_slot[other] == fabric->reach_of_slot[slot])
            stream->device->await(stream, event[other]);
}

void iso_order_await_slots(const iso_fabric *fabric, iso_stream *stream, int slot)
{
    if (!fabric->order)
        return;
    await_all(fabric, stream, fabric->order->ready, slot, -1);
    await_all(fabric, stream, fabric->order->read, slot, -1);
}

iso_status iso_order_wait_read(const iso_fabric *fabric)
{
    iso_status status = ISO_OK;
    for (int slot = 0; fabric->order && slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        const iso_device_event *event = fabric->order->read[slot];
        iso_status waited = event->device->wait_event(event);
        status = status == ISO_OK ? waited : status;
    }
    return status;
}

const iso_device_event *iso_order_record_received(const iso_fabric *fabric, int domain, iso_stream *stream)
{
    int slot = 0;
    while (fabric->local[slot] < 0 || fabric->domain_of_slot[slot] != domain)
        slot++;
    stream->device->record(fabric->order->received[slot], stream);
    return fabric->order->received[slot];
}

void iso_order_record_arrived(const iso_fabric *fabric, int slot, iso_stream *stream)
{
    if (fabric->order)
        stream->device->record(fabric->order->arrived[slot], stream);
}

void iso_order_await_arrived(const iso_fabric *fabric, int slot, iso_stream *stream)
{
    if (fabric->order)
        stream->device->await(stream, fabric->order->arrived[slot]);
}

/* ---- an exchange ---- */

bool iso_exchange_is_ordered(const iso_exchange *exchange)
{
    return exchange->fabric->order && exchange->active;
}

/* Marks what other slots of this host read, also through messages, as written. */
void iso_exchange_ready(const iso_exchange *exchange, int slot)
{
    iso_stream *stream = stream_of(exchange->fabric, slot);
    if (!exchange->constant)
        stream->device->record(exchange->fabric->order->ready[slot], stream);
}

static void await_components(const iso_exchange *exchange, int slot, iso_stream *stream)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int c = 0; exchange->fabric->order && c < count; c++)
        if (exchange->schedules[c] && components[c]->await)
            components[c]->await(exchange->schedules[c], slot, stream);
}

void iso_exchange_await_arrivals(const iso_exchange *exchange, int slot)
{
    const iso_fabric *fabric = exchange->fabric;
    iso_stream *stream = stream_of(fabric, slot);
    if (exchange->on_device && fabric->order)
        await_all(fabric, stream, fabric->order->received, slot, -1);
    iso_link_messages_await(exchange, slot, stream);
    await_components(exchange, slot, stream);
}

void iso_order_await_ready(const iso_exchange *exchange, int slot)
{
    const iso_fabric *fabric = exchange->fabric;
    if (!exchange->constant)
        await_all(fabric, stream_of(fabric, slot), fabric->order->ready, slot, slot);
    iso_exchange_await_arrivals(exchange, slot);
}

void iso_exchange_read(const iso_exchange *exchange, int slot)
{
    iso_stream *stream = stream_of(exchange->fabric, slot);
    if (iso_exchange_is_awaited(exchange) || !exchange->pulls_only)
        stream->device->record(exchange->fabric->order->read[slot], stream);
}

/* With communicators of devices, other exchanges wait for events of the slots that earlier ones have recorded. They
 * cannot wait for what was recorded in a capture. */
bool iso_exchange_can_be_captured(const iso_exchange *exchange)
{
    const iso_fabric *fabric = exchange->fabric;
    return !exchange->active || (exchange->pulls_only && !exchange->communicates && fabric->order &&
                                 has_host(fabric) && !fabric->links && !fabric->all_links);
}

void iso_exchange_resume(const iso_exchange *exchange, int slot)
{
    if (iso_exchange_is_awaited(exchange))
        await_all(exchange->fabric, stream_of(exchange->fabric, slot), exchange->fabric->order->read, slot,
                  slot);
}
