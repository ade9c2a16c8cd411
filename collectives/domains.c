/* Memory domains: which slots can load each other's memory, and the window of each domain in which this rank takes
 * part. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"
#include "runtime/base/remote_error.h"

enum { PAGE = 4096 };

/* ---- numbers ---- */

/* One domain for each host that has slots. map: [hosts] room. */
static void number_by_host(iso_fabric *fabric, int *map, int hosts)
{
    memset(map, -1, (size_t)hosts * sizeof *map);
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        int *number = &map[iso_fabric_host_of_slot(fabric, slot)];
        if (*number < 0)
            *number = fabric->n_domains++;
        fabric->domain_of_slot[slot] = *number;
    }
}

/* Takes the caller's numbers. host: [slots] room: of each domain. */
static iso_status take_numbers(iso_fabric *fabric, int *host)
{
    const iso_topology *topology = &fabric->topology;
    for (int domain = 0; domain < topology->n_slots; domain++)
        host[domain] = -1;
    for (int slot = 0; slot < topology->n_slots; slot++) {
        int domain = topology->domain_of_slot[slot], its = iso_fabric_host_of_slot(fabric, slot);
        if (domain < 0 || domain >= topology->n_slots || (host[domain] >= 0 && host[domain] != its))
            return iso_error(ISO_INVALID,
                             "slot %d of host %d is in memory domain %d, which is on another host or not one "
                             "of the first %d",
                             slot, its, domain, topology->n_slots);
        host[domain] = its;
        fabric->domain_of_slot[slot] = domain;
        fabric->n_domains = domain >= fabric->n_domains ? domain + 1 : fabric->n_domains;
    }
    return ISO_OK;
}

static iso_status take_reach(iso_fabric *fabric)
{
    size_t bytes = (size_t)fabric->topology.n_slots * sizeof *fabric->reach_of_slot;
    const int *given = fabric->topology.reach_of_slot;
    fabric->reach_of_slot = iso_new(bytes);
    if (!fabric->reach_of_slot)
        return iso_no_memory("%d memory domains", fabric->n_domains);
    memcpy(fabric->reach_of_slot, given ? given : fabric->domain_of_slot, bytes);
    fabric->topology.reach_of_slot = fabric->reach_of_slot;
    return ISO_OK;
}

static iso_status number_domains(iso_fabric *fabric)
{
    int hosts = 0, slots = fabric->topology.n_slots;
    for (int rank = 0; rank < fabric->topology.n_ranks; rank++)
        hosts = fabric->host_of_rank[rank] >= hosts ? fabric->host_of_rank[rank] + 1 : hosts;
    int *room = iso_new((size_t)(hosts > slots ? hosts : slots) * sizeof *room);
    fabric->domain_of_slot = iso_new((size_t)slots * sizeof *fabric->domain_of_slot);
    iso_status status = room && fabric->domain_of_slot ? ISO_OK : iso_no_memory("%d memory domains", slots);
    if (status == ISO_OK && fabric->topology.domain_of_slot)
        status = take_numbers(fabric, room);
    else if (status == ISO_OK)
        number_by_host(fabric, room, hosts);
    iso_free(room);
    fabric->topology.domain_of_slot = fabric->domain_of_slot;
    return status == ISO_OK ? take_reach(fabric) : status;
}

/* Whether slots of the domain and of `slot` reach each other. */
static bool reaches(const iso_fabric *fabric, int slot, int domain)
{
    int other = 0;
    while (fabric->domain_of_slot[other] != domain)
        other++;
    return fabric->reach_of_slot[slot] == fabric->reach_of_slot[other];
}

/* Whether this rank takes part in a domain of its host, or reaches it. first: it is the host's first. */
static bool takes_part(const iso_fabric *fabric, int domain, bool first)
{
    bool any = false;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++)
        if (fabric->rank_of_slot[slot] == fabric->topology.rank) {
            any = true;
            if (reaches(fabric, slot, domain))
                return true;
        }
    return first && !any;
}

static iso_domain *find_domain(const iso_fabric *fabric, int number)
{
    for (int i = 0; i < fabric->n_own_domains; i++)
        if (fabric->domains[i].number == number)
            return &fabric->domains[i];
    return NULL;
}

/* here: [n_domains] the domains of this host. */
static iso_status list_domains(iso_fabric *fabric, const bool *here)
{
    fabric->domains =
        iso_new((size_t)(fabric->n_host_domains ? fabric->n_host_domains : 1) * sizeof *fabric->domains);
    if (!fabric->domains)
        return iso_no_memory("%d memory domains", fabric->n_host_domains);
    bool first = true;
    for (int domain = 0; domain < fabric->n_domains; domain++) {
        if (!here[domain])
            continue;
        if (takes_part(fabric, domain, first))
            fabric->domains[fabric->n_own_domains++].number = domain;
        first = false;
    }
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        iso_domain *domain = find_domain(fabric, fabric->domain_of_slot[slot]);
        fabric->area[slot] = domain ? domain->n_slots++ : -1;
    }
    return ISO_OK;
}

iso_status iso_fabric_find_domains(iso_fabric *fabric)
{
    iso_status status = number_domains(fabric);
    bool *here = iso_new((size_t)fabric->n_domains + 1);
    if (status == ISO_OK && !here)
        status = iso_no_memory("%d memory domains", fabric->n_domains);
    for (int slot = 0; status == ISO_OK && slot < fabric->topology.n_slots; slot++) {
        bool *its = &here[fabric->domain_of_slot[slot]];
        if (iso_fabric_host_of_slot(fabric, slot) == fabric->host_number && !*its) {
            *its = true;
            fabric->n_host_domains++;
        }
    }
    if (status == ISO_OK)
        status = list_domains(fabric, here);
    iso_free(here);
    return status;
}

/* ---- communicators ---- */

/* The communicator of one domain of this host; NULL: this rank takes no part in it. */
static iso_status join_domain(const iso_fabric *fabric, int number)
{
    iso_domain *domain = find_domain(fabric, number);
    iso_comm *made = NULL;
    iso_status status = iso_comm_split(fabric->host, domain != NULL, iso_comm_rank(fabric->host), &made);
    if (domain)
        domain->ranks = domain->own = made;
    else
        iso_comm_free(&made);
    return status;
}

/* If a host has one domain, all its ranks take part in it, and no communicator is made. */
iso_status iso_fabric_join_domains(iso_fabric *fabric)
{
    iso_status status = ISO_OK;
    if (fabric->n_host_domains == 1)
        fabric->domains[0].ranks = fabric->host;
    if (fabric->n_host_domains <= 1)
        return ISO_OK;
    int *first = iso_new((size_t)fabric->n_domains * sizeof *first); /* a slot of this host; -1: none */
    if (!first)
        return iso_no_memory("%d memory domains", fabric->n_domains);
    memset(first, -1, (size_t)fabric->n_domains * sizeof *first);
    for (int slot = 0; slot < fabric->topology.n_slots; slot++)
        if (iso_fabric_host_of_slot(fabric, slot) == fabric->host_number)
            first[fabric->domain_of_slot[slot]] = slot;
    for (int number = 0; number < fabric->n_domains; number++)
        if (first[number] >= 0)
            ISO_TRY(join_domain(fabric, number));
done:
    iso_free(first);
    return status;
}

/* ---- memory ---- */

static size_t pages_of(size_t bytes)
{
    return (bytes + ISO_ALIGN + PAGE - 1) / PAGE * PAGE;
}

/* A window: the area that the slots share, then those of the slots. Each has its own pages, and bytes after its end
 * may be read. */
iso_status iso_fabric_window_bytes(int slots, size_t slot_bytes, size_t shared_bytes, size_t *bytes)
{
    const size_t most = (size_t)1 << 56;
    if (slot_bytes > most || shared_bytes > most)
        return iso_error(ISO_INVALID, "shared memory of %zu bytes for each slot and %zu for all", slot_bytes,
                         shared_bytes);
    size_t stride = pages_of(slot_bytes);
    iso_status status = iso_size_mul(stride, (size_t)slots, "the slots' shared memory", bytes);
    if (status == ISO_OK && __builtin_add_overflow(*bytes, pages_of(shared_bytes), bytes))
        status = iso_error(ISO_INVALID, "shared memory of %zu bytes for each slot overflows", stride);
    return status;
}

/* ---- in memory of the host ---- */

static void destroy_areas(const iso_fabric *fabric, iso_domain *domain)
{
    if (domain->areas)
        fabric->topology.device->detach(fabric->topology.device, domain->areas);
    domain->areas = NULL;
    iso_window_destroy(&domain->memory);
}

/* Pages that a device has pinned stay where they are. */
static void keep_contents(const iso_fabric *fabric, const iso_domain *domain, const iso_window *fresh)
{
    if (fabric->topology.device->host_access)
        iso_window_move(&domain->memory, domain->shared_bytes, fresh);
    else
        memcpy(fresh->base, domain->memory.base, domain->shared_bytes);
}

/* bytes: for each slot, and for what they share. */
static iso_status grow_on_host(const iso_fabric *fabric, iso_domain *domain, const uint64_t bytes[2])
{
    size_t total;
    iso_window fresh;
    void *areas = NULL;
    iso_status status = iso_fabric_window_bytes(domain->n_slots, (size_t)bytes[0], (size_t)bytes[1], &total);
    if (status == ISO_OK)
        status = iso_window_create(domain->ranks, total, "buffers that slots share", &fresh);
    if (status != ISO_OK)
        return status;
    if (iso_comm_rank(domain->ranks) == 0 && domain->memory.base)
        keep_contents(fabric, domain, &fresh);
    status = fabric->topology.device->attach(fabric->topology.device, fresh.base, total, &areas);
    iso_status met = iso_comm_barrier(domain->ranks); /* no rank unmaps or uses it before it is copied */
    status = status == ISO_OK ? met : status;
    if (status != ISO_OK) {
        if (areas)
            fabric->topology.device->detach(fabric->topology.device, areas);
        iso_window_destroy(&fresh);
        return status;
    }
    destroy_areas(fabric, domain);
    domain->memory = fresh;
    domain->areas = areas;
    domain->slot_bytes = (size_t)bytes[0];
    domain->shared_bytes = (size_t)bytes[1];
    return ISO_OK;
}

/* ---- in the device's memory ---- */

/* The stream of the first of this rank's slots in a domain, or else of those that reach it; NULL: it has none. */
static iso_stream *stream_in_domain(const iso_fabric *fabric, const iso_domain *domain)
{
    iso_stream *found = NULL;
    for (int slot = 0; slot < fabric->topology.n_slots; slot++) {
        if (fabric->local[slot] < 0)
            continue;
        if (fabric->domain_of_slot[slot] == domain->number)
            return fabric->topology.stream_of_slot[slot];
        if (!found && reaches(fabric, slot, domain->number))
            found = fabric->topology.stream_of_slot[slot];
    }
    return found;
}

/* The rank that has the domain's first slot allocates: its number among the domain's. Collective. */
static iso_status find_owner(const iso_fabric *fabric, const iso_domain *domain, int *owner)
{
    int slot = 0;
    while (fabric->domain_of_slot[slot] != domain->number)
        slot++;
    *owner = fabric->local[slot] >= 0 ? iso_comm_rank(domain->ranks) : 0;
    return iso_comm_reduce(domain->ranks, ISO_COMM_MAX, ISO_COMM_INT, owner, 1);
}

static iso_status grow_on_device(const iso_fabric *fabric, iso_domain *domain, const uint64_t bytes[2])
{
    size_t total;
    int owner = 0;
    iso_status status = ISO_OK;
    ISO_TRY(iso_fabric_window_bytes(domain->n_slots, (size_t)bytes[0], (size_t)bytes[1], &total));
    ISO_TRY(find_owner(fabric, domain, &owner));
    ISO_TRY(iso_device_areas_grow(domain->ranks, owner, stream_in_domain(fabric, domain), total,
                                  domain->shared_bytes, &domain->on_device));
    domain->areas = domain->on_device.base;
    domain->slot_bytes = (size_t)bytes[0];
    domain->shared_bytes = (size_t)bytes[1];
done:
    return status;
}

/* ---- messages between devices ---- */

/* An error of one rank of the host is an error of all. */
static iso_status agree_on_links(const iso_fabric *fabric, iso_status mine)
{
    bool good;
    iso_status met = iso_comm_all(fabric->host, mine == ISO_OK, &good);
    if (mine != ISO_OK || met != ISO_OK)
        return mine != ISO_OK ? mine : met;
    if (good)
        return ISO_OK;
    return iso_error_remote(iso_no_memory("messages between devices on another rank of this host"));
}

static iso_status grow_link_areas(const iso_fabric *fabric, size_t bytes, iso_device_areas *areas)
{
    iso_status status = ISO_OK;
    int owner = 0;
    for (int i = 0; i < fabric->n_own_domains; i++) {
        const iso_domain *domain = &fabric->domains[i];
        if (areas[i].bytes >= bytes)
            continue;
        iso_status grown = find_owner(fabric, domain, &owner);
        if (grown == ISO_OK)
            grown = iso_device_areas_grow(domain->ranks, owner, stream_in_domain(fabric, domain), bytes, 0,
                                          &areas[i]);
        status = status == ISO_OK ? grown : status;
    }
    return status;
}

iso_status iso_fabric_reserve_link_areas(const iso_fabric *fabric, size_t bytes, iso_device_areas **areas)
{
    if (!*areas)
        *areas = iso_new(((size_t)fabric->n_own_domains + 1) * sizeof **areas);
    iso_status status = agree_on_links(fabric, *areas ? ISO_OK : iso_no_memory("messages between devices"));
    return status == ISO_OK ? agree_on_links(fabric, grow_link_areas(fabric, bytes, *areas)) : status;
}

char *iso_fabric_link_area(const iso_fabric *fabric, int domain, const iso_device_areas *areas)
{
    const iso_domain *own = find_domain(fabric, domain);
    return own ? areas[own - fabric->domains].base : NULL;
}

void iso_fabric_free_link_areas(const iso_fabric *fabric, iso_device_areas *areas)
{
    for (int i = 0; areas && i < fabric->n_own_domains; i++)
        iso_device_areas_drop(&areas[i]);
    iso_free(areas);
}

/* ---- both ---- */

static void free_areas(const iso_fabric *fabric, iso_domain *domain)
{
    if (fabric->topology.device->gather)
        iso_device_areas_drop(&domain->on_device);
    else
        destroy_areas(fabric, domain);
}

static iso_status grow_window(const iso_fabric *fabric, iso_domain *domain, const uint64_t bytes[2])
{
    return fabric->topology.device->gather ? grow_on_device(fabric, domain, bytes)
                                           : grow_on_host(fabric, domain, bytes);
}

static iso_status reserve_domain(const iso_fabric *fabric, iso_domain *domain, size_t slot_bytes,
                                 size_t shared_bytes)
{
    uint64_t bytes[2] = {slot_bytes > domain->slot_bytes ? slot_bytes : domain->slot_bytes,
                         shared_bytes > domain->shared_bytes ? shared_bytes : domain->shared_bytes};
    iso_status status = iso_comm_reduce(domain->ranks, ISO_COMM_MAX, ISO_COMM_U64, bytes, 2);
    if (status == ISO_OK &&
        (!domain->reserved || bytes[0] > domain->slot_bytes || bytes[1] > domain->shared_bytes))
        status = grow_window(fabric, domain, bytes);
    domain->reserved |= status == ISO_OK;
    return status;
}

/* Every rank goes through its domains in the order of their numbers, after
 * an error too, so that none waits for ever. */
iso_status iso_fabric_reserve(iso_fabric *fabric, size_t slot_bytes, const size_t *shared_bytes)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < fabric->n_own_domains; i++) {
        iso_domain *domain = &fabric->domains[i];
        iso_status reserved =
            reserve_domain(fabric, domain, slot_bytes, shared_bytes ? shared_bytes[domain->number] : 0);
        status = status == ISO_OK ? reserved : status;
    }
    fabric->reserved |= status == ISO_OK;
    for (iso_exchange *exchange = fabric->exchanges; exchange; exchange = exchange->next)
        if (exchange->committed)
            iso_exchange_resolve(exchange);
    return iso_channel_agree(&fabric->channel, status);
}

void *iso_fabric_shared_area(const iso_fabric *fabric, int slot)
{
    const iso_domain *domain = find_domain(fabric, fabric->domain_of_slot[slot]);
    return domain ? domain->areas : NULL;
}

void *iso_fabric_slot_area(const iso_fabric *fabric, int slot)
{
    const iso_domain *domain = find_domain(fabric, fabric->domain_of_slot[slot]);
    if (!domain || !domain->areas)
        return NULL;
    return domain->areas + pages_of(domain->shared_bytes) +
           (size_t)fabric->area[slot] * pages_of(domain->slot_bytes);
}

void iso_fabric_free_domains(iso_fabric *fabric)
{
    for (int i = 0; i < fabric->n_own_domains; i++) {
        free_areas(fabric, &fabric->domains[i]);
        iso_comm_free(&fabric->domains[i].own);
    }
    iso_free(fabric->domains);
    iso_free(fabric->domain_of_slot);
    iso_free(fabric->reach_of_slot);
}

int iso_fabric_domain_of_slot(const iso_fabric *fabric, int slot)
{
    return fabric->domain_of_slot[slot];
}

int iso_fabric_domains(const iso_fabric *fabric)
{
    return fabric->n_domains;
}

iso_memory_location iso_fabric_location_of_slot(const iso_fabric *fabric, int slot)
{
    return (iso_memory_location){iso_fabric_host_of_slot(fabric, slot), fabric->reach_of_slot[slot]};
}
