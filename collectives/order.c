#include "collectives/order_impl.h"

#include <string.h>

#include "collectives/coll_impl.h"
#include "runtime/base/memory.h"

enum { WORDS = ISO_DEVICE_HANDLE / sizeof(uint64_t) };

static iso_stream *stream_of(const iso_fabric *fabric, int slot)
{
    return fabric->topology.stream_of_slot[slot];
}

static bool is_here(const iso_fabric *fabric, int slot)
{
    return iso_fabric_host_of_slot(fabric, slot) == fabric->host_number;
}

/* handle: [n_slots][2] of the slots of this rank. */
static iso_status make_own(const iso_fabric *fabric, const iso_stream_order *order,
                           uint64_t (*handle)[2][WORDS])
{
    iso_status status = ISO_OK;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        const iso_device *device = stream_of(fabric, slot)->device;
        ISO_TRY(device->create_shared_event(device, &order->ready[slot]));
        ISO_TRY(device->create_shared_event(device, &order->read[slot]));
        if (iso_comm_size(fabric->host) == 1)
            continue;
        ISO_TRY(device->export_event(order->ready[slot], (unsigned char *)handle[slot][0]));
        ISO_TRY(device->export_event(order->read[slot], (unsigned char *)handle[slot][1]));
    }
done:
    return status;
}

static iso_status import_others(const iso_fabric *fabric, const iso_stream_order *order,
                                uint64_t (*handle)[2][WORDS])
{
    iso_status status = ISO_OK;
    const iso_device *device = fabric->topology.device;
    for (int slot = 0; slot < fabric->topology.n_slots && fabric->n_local_slots > 0; slot++) {
        if (fabric->local[slot] >= 0 || !is_here(fabric, slot))
            continue;
        ISO_TRY(device->import_event(device, (unsigned char *)handle[slot][0], &order->ready[slot]));
        ISO_TRY(device->import_event(device, (unsigned char *)handle[slot][1], &order->read[slot]));
    }
done:
    return status;
}

static void free_order(const iso_fabric *fabric, iso_stream_order *order)
{
    for (int slot = 0; order && slot < fabric->topology.n_slots; slot++)
        for (int i = 0; i < 2; i++) {
            iso_device_event *event = !order->ready || !order->read ? NULL
                                      : i                           ? order->read[slot]
                                                                    : order->ready[slot];
            if (event)
                event->device->destroy_event(event);
        }
    if (order) {
        iso_free(order->ready);
        iso_free(order->read);
    }
    iso_free(order);
}

static bool can_order(const iso_fabric *fabric)
{
    int host = fabric->host_number;
    return fabric->topology.device->gather && fabric->topology.device->create_shared_event &&
           fabric->host_begin[host + 1] - fabric->host_begin[host] > 1 &&
           !(iso_comm_size(fabric->host) > 1 && iso_watch_goes_on(fabric->channel.watch));
}

iso_status iso_order_open(iso_fabric *fabric)
{
    if (!can_order(fabric))
        return ISO_OK;
    bool good;
    int slots = fabric->topology.n_slots;
    iso_stream_order *order = iso_new(sizeof *order);
    uint64_t(*handle)[2][WORDS] = iso_new((size_t)slots * sizeof *handle);
    if (order) {
        order->ready = iso_new((size_t)slots * sizeof(iso_device_event *));
        order->read = iso_new((size_t)slots * sizeof(iso_device_event *));
    }
    iso_status mine = order && order->ready && order->read && handle ? make_own(fabric, order, handle)
                                                                     : iso_no_memory("the events of slots");
    iso_status status = iso_comm_all(fabric->host, mine == ISO_OK, &good);
    if (status == ISO_OK && good) {
        status = iso_comm_reduce(fabric->host, ISO_COMM_OR, ISO_COMM_U64, handle, slots * 2 * WORDS);
        mine = status == ISO_OK ? import_others(fabric, order, handle) : status;
        status = iso_comm_all(fabric->host, mine == ISO_OK, &good);
    }
    iso_free(handle);
    if (status == ISO_OK && good)
        fabric->order = order;
    else
        free_order(fabric, order);
    return status;
}

void iso_order_close(iso_fabric *fabric)
{
    free_order(fabric, fabric->order);
    fabric->order = NULL;
}

/* ---- an exchange ---- */

bool iso_exchange_is_ordered(const iso_exchange *exchange)
{
    return exchange->fabric->order && exchange->active && exchange->pulls_only;
}

void iso_exchange_ready(const iso_exchange *exchange, int slot)
{
    iso_stream *stream = stream_of(exchange->fabric, slot);
    if (!exchange->settled)
        stream->device->record(exchange->fabric->order->ready[slot], stream);
}

/* Slots that this one reaches. */
static void await_others(const iso_fabric *fabric, iso_device_event *const *event, int slot)
{
    iso_stream *stream = stream_of(fabric, slot);
    for (int other = 0; other < fabric->topology.n_slots; other++)
        if (other != slot && event[other] && fabric->reach_of_slot[other] == fabric->reach_of_slot[slot])
            stream->device->await(stream, event[other]);
}

void iso_order_await_ready(const iso_exchange *exchange, int slot)
{
    if (!exchange->settled)
        await_others(exchange->fabric, exchange->fabric->order->ready, slot);
}

void iso_exchange_read(const iso_exchange *exchange, int slot)
{
    iso_stream *stream = stream_of(exchange->fabric, slot);
    if (!exchange->settled)
        stream->device->record(exchange->fabric->order->read[slot], stream);
}

void iso_exchange_resume(const iso_exchange *exchange, int slot)
{
    if (!exchange->settled)
        await_others(exchange->fabric, exchange->fabric->order->read, slot);
}
