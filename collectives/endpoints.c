#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* A message that MPI takes as it is has chunks only because MPI counts in int. */
static const size_t most_at_once = (size_t)1 << 30;

/* ---- a fabric ---- */

static bool has_endpoints(const iso_fabric *fabric)
{
    for (int rank = 0; fabric->topology.device->gather && rank < fabric->topology.n_ranks; rank++)
        if (fabric->host_of_rank[rank] != fabric->host_number)
            return true;
    return false;
}

static iso_status open_endpoint(const iso_fabric *fabric, int slot, iso_endpoint *endpoint)
{
    const iso_device *device = fabric->topology.stream_of_slot[slot]->device;
    iso_status status = ISO_OK;
    endpoint->domain = fabric->domain_of_slot[slot];
    ISO_TRY(device->create_stream(device, &endpoint->out));
    ISO_TRY(device->create_stream(device, &endpoint->in));
done:
    return status;
}

/* Fills in what iso_endpoints_open has allocated. */
static iso_status make_endpoints(const iso_fabric *fabric, iso_endpoints *endpoints)
{
    iso_status status = ISO_OK;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        const iso_device *device = fabric->topology.stream_of_slot[slot]->device;
        ISO_TRY(device->create_event(device, &endpoints->packed[fabric->local[slot]]));
        if (!iso_endpoint_of(endpoints, fabric->domain_of_slot[slot]))
            ISO_TRY(open_endpoint(fabric, slot, &endpoints->endpoint[endpoints->count++]));
    }
done:
    return status;
}

iso_status iso_endpoints_open(iso_fabric *fabric)
{
    if (!has_endpoints(fabric))
        return ISO_OK;
    iso_endpoints *endpoints = fabric->endpoints = iso_new(sizeof *endpoints);
    if (!endpoints)
        return iso_no_memory("messages of devices");
    endpoints->direct = fabric->topology.chunk_bytes == 0;
    endpoints->chunk = endpoints->direct ? most_at_once : fabric->topology.chunk_bytes;
    endpoints->endpoint = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof *endpoints->endpoint);
    endpoints->packed = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof(iso_device_event *));
    if (!endpoints->endpoint || !endpoints->packed)
        return iso_no_memory("messages of devices");
    return make_endpoints(fabric, endpoints);
}

void iso_endpoints_close(iso_fabric *fabric)
{
    const iso_device *device = fabric->topology.device;
    iso_endpoints *endpoints = fabric->endpoints;
    if (!endpoints)
        return;
    for (int i = 0; endpoints->endpoint && i < endpoints->count; i++) {
        device->destroy_stream(endpoints->endpoint[i].out);
        device->destroy_stream(endpoints->endpoint[i].in);
    }
    for (int i = 0; endpoints->packed && i < fabric->n_local_slots; i++)
        device->destroy_event(endpoints->packed[i]);
    iso_free(endpoints->packed);
    iso_free(endpoints->endpoint);
    iso_free(endpoints);
    fabric->endpoints = NULL;
}

const iso_endpoint *iso_endpoint_of(const iso_endpoints *endpoints, int domain)
{
    for (int i = 0; i < endpoints->count; i++)
        if (endpoints->endpoint[i].domain == domain)
            return &endpoints->endpoint[i];
    return NULL;
}

/* ---- places ---- */

/* Whether all slots of a host reach each other. */
static bool is_one_reach(const iso_fabric *fabric, int host)
{
    for (int i = fabric->host_begin[host]; i < fabric->host_begin[host + 1]; i++)
        if (fabric->reach_of_slot[fabric->by_host[i]] !=
            fabric->reach_of_slot[fabric->by_host[fabric->host_begin[host]]])
            return false;
    return true;
}

int iso_endpoints_incoming(const iso_fabric *fabric, int slot)
{
    return is_one_reach(fabric, iso_fabric_host_of_slot(fabric, slot)) ? fabric->domain_of_slot[slot] : -1;
}

size_t iso_exchange_staged_bytes(size_t bytes, size_t chunk_bytes)
{
    size_t most = ISO_CHUNKS_AT_ONCE * chunk_bytes;
    return bytes < most ? bytes : most;
}

/* Places the messages of one domain. Returns where they end. */
static size_t measure_domain(iso_messages *messages, int domain, size_t begin)
{
    iso_mailbox *in = &messages->in, *out = &messages->out;
    size_t at = begin;
    for (int i = 0; i < in->n_messages; i++)
        if (in->messages[i].route.to_domain == domain) {
            in->messages[i].position = at;
            at += in->messages[i].bytes;
        }
    for (int i = 0; i < out->n_messages; i++)
        if (out->messages[i].route.from_domain == domain) {
            out->messages[i].position = at;
            at += out->messages[i].bytes;
        }
    return at;
}

size_t iso_endpoints_measure(const iso_fabric *fabric, iso_messages *messages, size_t link_bytes)
{
    size_t most = link_bytes;
    int begin = fabric->host_begin[fabric->host_number], end = fabric->host_begin[fabric->host_number + 1];
    for (int i = begin; fabric->endpoints && i < end; i++) {
        int domain = fabric->domain_of_slot[fabric->by_host[i]], first = begin;
        while (fabric->domain_of_slot[fabric->by_host[first]] != domain)
            first++;
        size_t needed = first == i ? measure_domain(messages, domain, link_bytes) : 0;
        most = needed > most ? needed : most;
    }
    return most;
}

/* NULL: this rank has no part in the domain. */
static char *address_in(const iso_exchange *exchange, int domain, const iso_message *message)
{
    char *area = iso_exchange_area(exchange, domain);
    return area ? area + message->position : NULL;
}

void iso_endpoints_bind(iso_exchange *exchange)
{
    const iso_endpoints *endpoints = exchange->fabric->endpoints;
    iso_mailbox *in = &exchange->messages.in, *out = &exchange->messages.out;
    for (int i = 0; endpoints && i < in->n_messages; i++)
        if (in->messages[i].route.to_domain >= 0) {
            in->messages[i].data = address_in(exchange, in->messages[i].route.to_domain, &in->messages[i]);
            in->messages[i].endpoint = iso_endpoint_of(endpoints, in->messages[i].route.to_domain);
        }
    for (int i = 0; endpoints && i < out->n_messages; i++)
        if (out->messages[i].route.from_domain >= 0) {
            out->messages[i].data =
                address_in(exchange, out->messages[i].route.from_domain, &out->messages[i]);
            out->messages[i].endpoint = iso_endpoint_of(endpoints, out->messages[i].route.from_domain);
        }
}

/* ---- a run ---- */

iso_status iso_endpoints_packed(const iso_fabric *fabric, const iso_message *message)
{
    const iso_device *device = fabric->topology.device;
    const iso_endpoints *endpoints = fabric->endpoints;
    iso_status status = ISO_OK;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        int local = fabric->local[slot];
        if (local < 0 || fabric->domain_of_slot[slot] != message->route.from_domain)
            continue;
        iso_stream *stream = fabric->pack_streams[local];
        device->record(endpoints->packed[local], stream);
        device->await(message->endpoint->out, endpoints->packed[local]);
        iso_status queued = device->check(stream);
        status = status == ISO_OK ? queued : status;
    }
    endpoints->endpoint[message->endpoint - endpoints->endpoint].unpacked = status != ISO_OK;
    return status;
}

iso_status iso_endpoints_received(const iso_fabric *fabric)
{
    const iso_device *device = fabric->topology.device;
    const iso_endpoints *endpoints = fabric->endpoints;
    iso_status status = ISO_OK;
    for (int i = 0; endpoints && i < endpoints->count; i++) {
        iso_endpoint *endpoint = &endpoints->endpoint[i];
        iso_status queued = ISO_OK;
        if (fabric->order) {
            endpoint->received = iso_order_record_received(fabric, endpoint->domain, endpoint->in);
            queued = device->check(endpoint->in);
        } else {
            queued = device->wait(endpoint->in);
        }
        status = status == ISO_OK ? queued : status;
    }
    return status;
}
