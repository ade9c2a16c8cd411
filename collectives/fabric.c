#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "runtime/base/cores.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* ---- topology ---- */

int iso_fabric_host_of_slot(const iso_fabric *fabric, int slot)
{
    return fabric->host_of_rank[fabric->rank_of_slot[slot]];
}

static iso_status check_topology(const iso_topology *topology)
{
    if (topology->n_slots < 1 || topology->n_ranks < 1 || topology->rank < 0 ||
        topology->rank >= topology->n_ranks)
        return iso_error(ISO_INVALID, "a topology of %d slots, rank %d of %d", topology->n_slots,
                         topology->rank, topology->n_ranks);
    if (topology->n_threads < 1)
        return iso_error(ISO_INVALID, "a topology with %d threads", topology->n_threads);
    for (int slot = 0; slot < topology->n_slots; slot++)
        if (topology->rank_of_slot[slot] < 0 || topology->rank_of_slot[slot] >= topology->n_ranks)
            return iso_error(ISO_INVALID, "slot %d is on rank %d of %d", slot, topology->rank_of_slot[slot],
                             topology->n_ranks);
    return ISO_OK;
}

static int *copy_integers(const int *from, int count)
{
    int *copy = iso_new((size_t)count * sizeof *copy);
    return copy ? memcpy(copy, from, (size_t)count * sizeof *copy) : NULL;
}

static iso_status copy_topology(iso_fabric *fabric, const iso_topology *topology)
{
    iso_status status = check_topology(topology);
    if (status != ISO_OK)
        return status;
    fabric->topology = *topology;
    if (!topology->device)
        fabric->topology.device = iso_device_cpu();
    if (fabric->topology.device->gather && !topology->stream_of_slot)
        return iso_error(ISO_INVALID, "a topology without streams on the device '%s'",
                         fabric->topology.device->name);
    fabric->gather_kernels = iso_gather_kernels_for(fabric->topology.device);
    if (!fabric->gather_kernels)
        return iso_error(ISO_INVALID, "exchanges cannot pull from the memory of the device '%s'",
                         fabric->topology.device->name);
    fabric->rank_of_slot = copy_integers(topology->rank_of_slot, topology->n_slots);
    fabric->host_of_rank = copy_integers(topology->host_of_rank, topology->n_ranks);
    fabric->area = iso_new((size_t)topology->n_slots * sizeof *fabric->area);
    fabric->local = iso_new((size_t)topology->n_slots * sizeof *fabric->local);
    if (!fabric->rank_of_slot || !fabric->host_of_rank || !fabric->area || !fabric->local)
        return iso_no_memory("a fabric of %d slots", topology->n_slots);
    fabric->topology.rank_of_slot = fabric->rank_of_slot;
    fabric->topology.host_of_rank = fabric->host_of_rank;
    return ISO_OK;
}

/* Lists the slots of each host. */
static iso_status fabric_list_slots(iso_fabric *fabric)
{
    int hosts = 0;
    for (int rank = 0; rank < fabric->topology.n_ranks; rank++)
        hosts = fabric->host_of_rank[rank] >= hosts ? fabric->host_of_rank[rank] + 1 : hosts;
    fabric->by_host = iso_new((size_t)fabric->topology.n_slots * sizeof *fabric->by_host);
    fabric->host_begin = iso_new(((size_t)hosts + 1) * sizeof *fabric->host_begin);
    if (!fabric->by_host || !fabric->host_begin)
        return iso_no_memory("a fabric of %d slots", fabric->topology.n_slots);
    for (int slot = 0; slot < fabric->topology.n_slots; slot++)
        fabric->host_begin[iso_fabric_host_of_slot(fabric, slot) + 1]++;
    for (int host = 0; host < hosts; host++) /* host_begin[host + 1] becomes the end of the host's slots */
        fabric->host_begin[host + 1] += fabric->host_begin[host];
    for (int slot = fabric->topology.n_slots - 1; slot >= 0; slot--)
        fabric->by_host[--fabric->host_begin[iso_fabric_host_of_slot(fabric, slot) + 1]] = slot;
    memmove(fabric->host_begin, fabric->host_begin + 1, (size_t)hosts * sizeof *fabric->host_begin);
    fabric->host_begin[hosts] = fabric->topology.n_slots;
    return ISO_OK;
}

/* Thread 0 packs, while other threads queue work on the slots' own streams. */
static iso_status make_pack_streams(iso_fabric *fabric)
{
    iso_status status = ISO_OK;
    iso_stream *const *of = fabric->topology.stream_of_slot;
    if (!fabric->topology.device->gather)
        return ISO_OK;
    fabric->pack_streams = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof *fabric->pack_streams);
    if (!fabric->pack_streams)
        return iso_no_memory("the streams of %d slots", fabric->n_local_slots);
    for (int slot = 0; slot < fabric->topology.n_slots && status == ISO_OK; slot++)
        if (fabric->local[slot] >= 0)
            status =
                of[slot]->device->create_stream(of[slot]->device, &fabric->pack_streams[fabric->local[slot]]);
    return status;
}

static iso_status number_slots(iso_fabric *fabric)
{
    fabric->host_number = fabric->host_of_rank[fabric->topology.rank];
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        bool mine = fabric->rank_of_slot[slot] == fabric->topology.rank;
        fabric->local[slot] = mine ? fabric->n_local_slots++ : -1;
    }
    fabric->counters = iso_new(((size_t)fabric->n_local_slots + 1) * sizeof *fabric->counters);
    if (!fabric->counters)
        return iso_no_memory("the counters of %d slots", fabric->n_local_slots);
    iso_status status = make_pack_streams(fabric);
    if (status == ISO_OK)
        status = fabric_list_slots(fabric);
    return status == ISO_OK ? iso_fabric_find_domains(fabric) : status;
}

/* ---- barriers ---- */

/* Threads of this rank that take part in barriers: 0 if it has no slot. */
static int taking_part(const iso_fabric *fabric)
{
    return fabric->n_local_slots > 0 ? fabric->topology.n_threads : 0;
}

/* Whether the machine has more threads than cores (simulated hosts share one machine), or a rank more threads
 * than cores that it may use. All ranks of a machine get the same result. */
static iso_status find_crowded(const iso_fabric *fabric, bool *found)
{
    iso_cores cores;
    iso_comm *machine = NULL;
    iso_status status = ISO_OK;
    const int each = fabric->topology.intra_op_threads;
    int total = taking_part(fabric) * (each > 1 ? each : 1);
    int crowded = !iso_cores_find(&cores) || total > iso_cores_count(&cores);
    ISO_TRY(iso_comm_split_shared(fabric->channel.communicator, 0, &machine));
    ISO_TRY(iso_comm_reduce(machine, ISO_COMM_SUM, ISO_COMM_INT, &total, 1));
    ISO_TRY(iso_comm_reduce(machine, ISO_COMM_OR, ISO_COMM_BYTE, &cores, (int)sizeof cores));
    ISO_TRY(iso_comm_reduce(machine, ISO_COMM_MAX, ISO_COMM_INT, &crowded, 1));
    *found = crowded || total > iso_cores_count(&cores);
done:
    iso_comm_free(&machine);
    return status;
}

static iso_status make_barriers(iso_fabric *fabric)
{
    int threads = taking_part(fabric), before = 0, total = threads;
    bool crowded = false;
    iso_status status = ISO_OK;
    ISO_TRY(find_crowded(fabric, &crowded)); /* collective over all ranks, so it comes before what may fail on
                                                one host */
    ISO_TRY(iso_comm_sum_before(fabric->host, threads, &before));
    ISO_TRY(iso_comm_reduce(fabric->host, ISO_COMM_SUM, ISO_COMM_INT, &total, 1));
    ISO_TRY(iso_window_create(fabric->host, ((size_t)total + 3) * sizeof(iso_count), "the flags of threads",
                              &fabric->flags));
    const atomic_int *over = iso_watchdog_flag(fabric->channel.watchdog);
    fabric->first_flag = before;
    fabric->host_barrier = (iso_barrier){(iso_count *)fabric->flags.base, total, crowded, over};
done:
    return status;
}

static iso_count *ranks_with_failed_device(const iso_fabric *fabric)
{
    return (iso_count *)fabric->flags.base + fabric->host_barrier.count + 2;
}

void iso_fabric_set_device_failed(iso_fabric *fabric, bool failed)
{
    if (atomic_exchange(&fabric->device_failed, failed) != failed)
        atomic_fetch_add(&ranks_with_failed_device(fabric)->value, failed ? 1 : (uint32_t)-1);
}

bool iso_fabric_device_failed(const iso_fabric *fabric)
{
    return atomic_load(&ranks_with_failed_device(fabric)->value) != 0;
}

bool iso_fabric_is_crowded(const iso_fabric *fabric)
{
    return fabric->host_barrier.crowded;
}

void iso_fabric_barrier(iso_fabric *fabric, int thread)
{
    if (fabric->n_local_slots > 0)
        iso_barrier_wait(&fabric->host_barrier, fabric->first_flag + thread);
}

/* ---- create and destroy ---- */

static iso_status join_communicators(iso_fabric *fabric, const void *communicator)
{
    iso_channel *channel = &fabric->channel;
    iso_status status = iso_comm_dup(communicator, channel->watchdog, &channel->communicator);
    channel->rank = iso_comm_rank(channel->communicator);
    channel->n_ranks = iso_comm_size(channel->communicator);
    return status;
}

static iso_status fabric_build(iso_fabric *fabric, const iso_topology *topology)
{
    iso_status status = copy_topology(fabric, topology);
    if (status == ISO_OK && fabric->channel.n_ranks != topology->n_ranks)
        status = iso_error(ISO_INVALID, "a topology of %d ranks on a communicator of %d", topology->n_ranks,
                           fabric->channel.n_ranks);
    status = iso_channel_agree(&fabric->channel, status);
    if (status != ISO_OK)
        return status;
    status = iso_channel_agree(&fabric->channel, number_slots(fabric));
    if (status != ISO_OK)
        return status;
    status = iso_comm_split(fabric->channel.communicator, fabric->host_number, fabric->channel.rank,
                            &fabric->host);
    if (status == ISO_OK)
        status = make_barriers(fabric);
    if (status == ISO_OK)
        status = iso_fabric_join_domains(fabric);
    if (status == ISO_OK)
        status = iso_links_open(fabric);
    if (status == ISO_OK)
        status = iso_order_open(fabric);
    if (status == ISO_OK)
        status = iso_endpoints_open(fabric);
    return iso_channel_agree(&fabric->channel, status);
}

iso_status iso_fabric_create(const iso_topology *topology, void *communicator, iso_combine sum,
                             iso_combine maximum, iso_fabric **out)
{
    iso_fabric *fabric = iso_new(sizeof *fabric);
    if (!fabric)
        return iso_no_memory("a fabric");
    fabric->combine[ISO_SUM] = sum;
    fabric->combine[ISO_MAX] = maximum;
    fabric->channel = (iso_channel){.rank = 0, .n_ranks = 1};
    fabric->channel.watchdog = topology->watchdog;
    iso_status status = communicator ? join_communicators(fabric, communicator) : ISO_OK;
    if (status == ISO_OK)
        status = fabric_build(fabric, topology);
    if (status == ISO_OK)
        *out = fabric;
    else
        iso_fabric_destroy(fabric);
    return status;
}

static void destroy_pack_streams(const iso_fabric *fabric)
{
    const iso_device *device = fabric->topology.device;
    for (int i = 0; fabric->pack_streams && i < fabric->n_local_slots; i++)
        device->destroy_stream(fabric->pack_streams[i]);
    iso_free(fabric->pack_streams);
}

static void close_components(iso_fabric *fabric)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    for (int c = 0; c < count; c++)
        if (fabric->modules[c])
            components[c]->close(fabric->modules[c]);
}

void iso_fabric_destroy(iso_fabric *fabric)
{
    if (!fabric || fabric->abandoned) /* MPI may still use its memory */
        return;
    close_components(fabric);
    for (int i = 0; i < fabric->n_groups; i++)
        iso_free(fabric->groups[i]);
    iso_free(fabric->groups);
    iso_fabric_free_link_areas(fabric, fabric->link_areas);
    iso_links_close(fabric);
    iso_endpoints_close(fabric);
    iso_order_close(fabric);
    iso_fabric_free_domains(fabric);
    destroy_pack_streams(fabric);
    if (fabric->topology.device) {
        iso_buffer_destroy(fabric->topology.device, &fabric->incoming);
        fabric->topology.device->release_pinned(fabric->topology.device, fabric->outgoing);
    }
    iso_window_destroy(&fabric->flags);
    iso_comm_free(&fabric->host);
    iso_comm_free(&fabric->channel.communicator);
    iso_free(fabric->counters);
    iso_free(fabric->host_begin);
    iso_free(fabric->by_host);
    iso_free(fabric->local);
    iso_free(fabric->area);
    iso_free(fabric->host_of_rank);
    iso_free(fabric->rank_of_slot);
    iso_free(fabric);
}

const iso_topology *iso_fabric_topology(const iso_fabric *fabric)
{
    return &fabric->topology;
}

/* Whether domains of this host reach each other. */
static bool some_reach(const iso_fabric *fabric)
{
    int host = fabric->host_number, begin = fabric->host_begin[host], end = fabric->host_begin[host + 1];
    for (int i = begin; i < end; i++)
        if (fabric->reach_of_slot[fabric->by_host[i]] == fabric->reach_of_slot[fabric->by_host[begin]] &&
            fabric->domain_of_slot[fabric->by_host[i]] != fabric->domain_of_slot[fabric->by_host[begin]])
            return true;
    return false;
}

iso_device_exchange iso_fabric_device_exchange(const iso_fabric *fabric)
{
    return fabric->links        ? ISO_DEVICE_EXCHANGE_LINKS
           : some_reach(fabric) ? ISO_DEVICE_EXCHANGE_PEERS
                                : ISO_DEVICE_EXCHANGE_HOST;
}

const char *iso_fabric_describe_exchange(const iso_fabric *fabric)
{
    if (!fabric->topology.device->gather || fabric->n_host_domains < 2)
        return NULL;
    switch (iso_fabric_device_exchange(fabric)) {
    case ISO_DEVICE_EXCHANGE_LINKS:
        return fabric->links->comms->description();
    case ISO_DEVICE_EXCHANGE_PEERS:
        return "each other's memory";
    default:
        return "memory of the host";
    }
}

/* ---- message buffers ---- */

/* Either all hosts get their buffers, or none does. */
static iso_status grow_messages(iso_fabric *fabric, size_t incoming, size_t outgoing)
{
    const iso_device *device = fabric->topology.device;
    iso_window window = {0};
    void *memory = NULL;
    iso_status status = ISO_OK;
    if (incoming > fabric->incoming.bytes)
        status =
            iso_buffer_create(fabric->host, device, incoming, "the receive buffers of exchanges", &window);
    if (status == ISO_OK && outgoing > fabric->outgoing_bytes)
        status = device->allocate_pinned(device, outgoing, "the send buffers of exchanges", &memory);
    status = iso_channel_agree(&fabric->channel, status);
    if (status == ISO_OK && window.bytes) {
        iso_buffer_destroy(device, &fabric->incoming);
        fabric->incoming = window;
        window = (iso_window){0};
    }
    if (status == ISO_OK && memory) {
        device->release_pinned(device, fabric->outgoing);
        fabric->outgoing = memory;
        fabric->outgoing_bytes = outgoing;
        memory = NULL;
    }
    iso_buffer_destroy(device, &window);
    device->release_pinned(device, memory);
    return status;
}

/* Ranks may have added the pulls of their own slots alone. All ranks of a host have the same exchanges in the same
 * order. */
static iso_status agree_on_active(iso_fabric *fabric)
{
    enum { AT_ONCE = 64, ACTIVE = 1, USES_COMPONENTS = 2 };
    iso_exchange *list[AT_ONCE], *next = fabric->exchanges;
    iso_status status = ISO_OK;
    while (next && status == ISO_OK) {
        int flags[AT_ONCE], count = 0;
        for (; next && count < AT_ONCE; next = next->next)
            if (!next->committed) {
                flags[count] = (next->active ? ACTIVE : 0) | (next->uses_components ? USES_COMPONENTS : 0);
                list[count++] = next;
            }
        if (count > 0)
            status =
                iso_comm_reduce(fabric->host, ISO_COMM_OR, ISO_COMM_BYTE, flags, count * (int)sizeof *flags);
        for (int i = 0; i < count; i++)
            list[i]->active = flags[i] & ACTIVE, list[i]->uses_components = flags[i] & USES_COMPONENTS;
    }
    return status;
}

iso_status iso_fabric_reserve_messages(iso_fabric *fabric, iso_message_bytes bytes)
{
    uint64_t most[2] = {bytes.incoming, bytes.device};
    iso_status status = iso_comm_reduce(fabric->host, ISO_COMM_MAX, ISO_COMM_U64, most, 2);
    if (status == ISO_OK && fabric->host)
        status = agree_on_active(fabric);
    if (status == ISO_OK && most[1] > 0)
        status = iso_fabric_reserve_link_areas(fabric, (size_t)most[1], &fabric->link_areas);
    if (status != ISO_OK)
        return iso_channel_agree(&fabric->channel, status);
    status = grow_messages(fabric, (size_t)most[0], bytes.outgoing);
    if (status != ISO_OK)
        return status;
    for (iso_exchange *exchange = fabric->exchanges; exchange && status == ISO_OK;
         exchange = exchange->next) {
        if (!exchange->committed || !exchange->shared)
            continue;
        status = iso_exchange_place_messages(exchange);
        iso_exchange_resolve(exchange);
    }
    return iso_channel_agree(&fabric->channel, status);
}

void iso_fabric_set_traffic(iso_fabric *fabric, int slot, iso_traffic traffic)
{
    fabric->counters[fabric->local[slot]].traffic = traffic;
}

iso_traffic iso_fabric_traffic(const iso_fabric *fabric, int slot)
{
    int local = fabric->local[slot];
    return local < 0 ? (iso_traffic){0, 0} : fabric->counters[local].traffic;
}

uint64_t iso_fabric_sources(const iso_fabric *fabric)
{
    return fabric->sources;
}

uint64_t iso_fabric_bound(const iso_fabric *fabric)
{
    return fabric->bound;
}
