#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* A message that MPI takes as it is has chunks only because MPI counts in int. */
static const size_t most_at_once = (size_t)1 << 30;

/* ---- a fabric ---- */

static bool has_ports(const iso_fabric *fabric)
{
    for (int rank = 0; fabric->topology.device->gather && rank < fabric->topology.n_ranks; rank++)
        if (fabric->host_of_rank[rank] != fabric->host_number)
            return true;
    return false;
}

static iso_status open_port(const iso_fabric *fabric, int slot, iso_port *port)
{
    const iso_device *device = fabric->topology.stream_of_slot[slot]->device;
    iso_status status = ISO_OK;
    port->domain = fabric->domain_of_slot[slot];
    ISO_TRY(device->create_stream(device, &port->out));
    ISO_TRY(device->create_stream(device, &port->in));
done:
    return status;
}

/* Fills in what iso_ports_open has allocated. */
static iso_status make_ports(const iso_fabric *fabric, iso_ports *ports)
{
    iso_status status = ISO_OK;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        const iso_device *device = fabric->topology.stream_of_slot[slot]->device;
        ISO_TRY(device->create_event(device, &ports->packed[fabric->local[slot]]));
        if (!iso_port_of(ports, fabric->domain_of_slot[slot]))
            ISO_TRY(open_port(fabric, slot, &ports->port[ports->count++]));
    }
done:
    return status;
}

iso_status iso_ports_open(iso_fabric *fabric)
{
    if (!has_ports(fabric))
        return ISO_OK;
    iso_ports *ports = fabric->ports = iso_new(sizeof *ports);
    if (!ports)
        return iso_no_memory("messages of devices");
    ports->direct = fabric->topology.chunk_bytes == 0;
    ports->chunk = ports->direct ? most_at_once : fabric->topology.chunk_bytes;
    ports->port = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof *ports->port);
    ports->packed = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof(iso_device_event *));
    if (!ports->port || !ports->packed)
        return iso_no_memory("messages of devices");
    return make_ports(fabric, ports);
}

void iso_ports_close(iso_fabric *fabric)
{
    const iso_device *device = fabric->topology.device;
    iso_ports *ports = fabric->ports;
    if (!ports)
        return;
    for (int i = 0; ports->port && i < ports->count; i++) {
        device->destroy_stream(ports->port[i].out);
        device->destroy_stream(ports->port[i].in);
    }
    for (int i = 0; ports->packed && i < fabric->n_local_slots; i++)
        device->destroy_event(ports->packed[i]);
    iso_free(ports->packed);
    iso_free(ports->port);
    iso_free(ports);
    fabric->ports = NULL;
}

const iso_port *iso_port_of(const iso_ports *ports, int domain)
{
    for (int i = 0; i < ports->count; i++)
        if (ports->port[i].domain == domain)
            return &ports->port[i];
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

int iso_ports_incoming(const iso_fabric *fabric, int slot)
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

size_t iso_ports_measure(const iso_fabric *fabric, iso_messages *messages, size_t linked)
{
    size_t most = linked;
    int begin = fabric->host_begin[fabric->host_number], end = fabric->host_begin[fabric->host_number + 1];
    for (int i = begin; fabric->ports && i < end; i++) {
        int domain = fabric->domain_of_slot[fabric->by_host[i]], first = begin;
        while (fabric->domain_of_slot[fabric->by_host[first]] != domain)
            first++;
        size_t needed = first == i ? measure_domain(messages, domain, linked) : 0;
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

void iso_ports_bind(iso_exchange *exchange)
{
    const iso_ports *ports = exchange->fabric->ports;
    iso_mailbox *in = &exchange->messages.in, *out = &exchange->messages.out;
    for (int i = 0; ports && i < in->n_messages; i++)
        if (in->messages[i].route.to_domain >= 0) {
            in->messages[i].data = address_in(exchange, in->messages[i].route.to_domain, &in->messages[i]);
            in->messages[i].port = iso_port_of(ports, in->messages[i].route.to_domain);
        }
    for (int i = 0; ports && i < out->n_messages; i++)
        if (out->messages[i].route.from_domain >= 0) {
            out->messages[i].data =
                address_in(exchange, out->messages[i].route.from_domain, &out->messages[i]);
            out->messages[i].port = iso_port_of(ports, out->messages[i].route.from_domain);
        }
}

/* ---- a run ---- */

iso_status iso_ports_packed(const iso_fabric *fabric, const iso_message *message)
{
    const iso_device *device = fabric->topology.device;
    const iso_ports *ports = fabric->ports;
    iso_status status = ISO_OK;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        int local = fabric->local[slot];
        if (local < 0 || fabric->domain_of_slot[slot] != message->route.from_domain)
            continue;
        iso_stream *stream = fabric->pack_streams[local];
        device->record(ports->packed[local], stream);
        device->await(message->port->out, ports->packed[local]);
        iso_status queued = device->check(stream);
        status = status == ISO_OK ? queued : status;
    }
    return status;
}

iso_status iso_ports_landed(const iso_fabric *fabric)
{
    const iso_device *device = fabric->topology.device;
    const iso_ports *ports = fabric->ports;
    iso_status status = ISO_OK;
    for (int i = 0; ports && i < ports->count; i++) {
        iso_port *port = &ports->port[i];
        iso_status queued = ISO_OK;
        if (fabric->order) {
            port->landed = iso_order_record_landed(fabric, port->domain, port->in);
            queued = device->check(port->in);
        } else {
            queued = device->wait(port->in);
        }
        status = status == ISO_OK ? queued : status;
    }
    return status;
}
