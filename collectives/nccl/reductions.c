/* Sums that NCCL adds, in its own order (--collectives nccl): all-reduces and reduce-scatters whose sources are on
 * several devices. Their bits depend on the devices, and on how slots are placed on them. Slots that share a device
 * add their parts first, in the order of a tree; the rank that owns the device packs this sum, and all slots there
 * read the results. There is one communicator for each set of devices that add together. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/table.h"

static const char SUMS[] = "the sums that NCCL adds";

/* Devices that add together: their domains, in order, and the communicator. */
typedef struct device_set {
    int *number; /* [domains] of the domain in the set; -1: it is not in it */
    int count;
    iso_device_comm *const *comm; /* [own] of the devices of this rank: iso_links_split; NULL: not made yet */
} device_set;

typedef struct device_sets {
    device_set *list;
    int count, made; /* that have their communicators */
} device_sets;

/* Of a fabric. */
typedef struct nccl_module {
    iso_fabric *fabric;
    iso_links *links; /* of all devices */
    device_sets *sets;
} nccl_module;

/* A region that NCCL adds. */
typedef struct reduced_region {
    iso_hash_key key;
    int set;
    iso_dtype dtype;
    iso_reduce reduce;
    int64_t elements;
    int wanted;            /* the only domain that wants it; -1: several do */
    size_t offset, result; /* in the contribution, and in the results */
} reduced_region;

/* One call of the library: all regions of a set, type and kind of sum that several domains want, or single ones. */
typedef struct reduction_call {
    int set;
    iso_dtype dtype;
    iso_reduce reduce;
    bool scatter;
    size_t offset, result; /* in the contribution, and in the results */
    int64_t count;         /* elements; of one member's part if it scatters */
} reduction_call;

/* The reductions of one exchange. */
typedef struct nccl_schedule {
    const nccl_module *module;
    reduced_region *regions;
    int n_regions;
    iso_table index; /* regions by key */
    reduction_call *calls;
    int n_calls;
    size_t *end;                      /* [domains] of what the calls so far have in an area */
    size_t contribution_bytes, bytes; /* of an area: contribution, then results */
    iso_device_areas *areas;          /* [own domains of the fabric] */
    iso_pack_list packs;              /* of this rank */
    iso_device_operation *list;       /* [own] room for those of a call */
    iso_link_run run;
} nccl_schedule;

/* ---- a fabric ---- */

static void close_module(void *module)
{
    nccl_module *m = module;
    for (int s = 0; m->sets && s < m->sets->count; s++)
        iso_free(m->sets->list[s].number);
    if (m->sets)
        iso_free(m->sets->list);
    iso_free(m->sets);
    iso_free(m);
}

iso_status iso_nccl_check_device(const iso_device *device)
{
    if (!device->gather || !device->comms)
        return iso_error(
            ISO_INVALID,
            "--collectives nccl needs --backend cuda: NCCL adds between GPUs, but this job computes "
            "on the device '%s'",
            device->name);
    return device->comms->adds ? ISO_OK : iso_error_prefix(device->comms->open(), "--collectives nccl: ");
}

static iso_status open_module(iso_fabric *fabric, void **module)
{
    nccl_module *m = NULL;
    iso_status status = iso_nccl_check_device(fabric->topology.device);
    if (status == ISO_OK && (!(m = iso_new(sizeof *m)) || !(m->sets = iso_new(sizeof *m->sets))))
        status = iso_no_memory(SUMS);
    status = iso_channel_agree(&fabric->channel, status);
    if (status == ISO_OK && fabric->n_domains > 1) {
        m->fabric = fabric;
        status = iso_links_open_all(fabric, &m->links);
        if (status != ISO_OK)
            iso_error_prefix(status, "--collectives nccl: ");
    }
    if (status == ISO_OK && m->links)
        *module = m;
    else if (m)
        close_module(m);
    return status;
}

/* ---- sets ---- */

static bool is_in(const nccl_module *m, const device_set *set, const iso_request *request)
{
    int count = 0;
    for (int domain = 0; domain < m->fabric->n_domains; domain++) {
        bool found = false;
        for (int i = 0; i < request->count && !found; i++)
            found = m->fabric->domain_of_slot[request->sources[i].slot] == domain;
        if (found != (set->number[domain] >= 0))
            return false;
        count += found;
    }
    return count == set->count;
}

/* Finds the set of the devices of a request's sources, or adds it. The same calls on all ranks. */
static iso_status find_set(const nccl_module *m, const iso_request *request, int *number)
{
    device_set fresh = {0};
    iso_status status = ISO_OK;
    for (*number = 0; *number < m->sets->count; ++*number)
        if (is_in(m, &m->sets->list[*number], request))
            return ISO_OK;
    fresh.number = iso_new((size_t)m->fabric->n_domains * sizeof *fresh.number);
    if (!fresh.number)
        status = iso_no_memory(SUMS);
    else
        memset(fresh.number, -1, (size_t)m->fabric->n_domains * sizeof *fresh.number);
    for (int i = 0; status == ISO_OK && i < request->count; i++)
        fresh.number[m->fabric->domain_of_slot[request->sources[i].slot]] = 0;
    for (int domain = 0; status == ISO_OK && domain < m->fabric->n_domains; domain++)
        if (fresh.number[domain] == 0)
            fresh.number[domain] = fresh.count++;
    if (status == ISO_OK)
        status = iso_list_add(m->sets->list, m->sets->count, fresh, SUMS);
    if (status != ISO_OK)
        iso_free(fresh.number);
    return status;
}

static iso_status make_communicators(const nccl_module *m)
{
    iso_status status = ISO_OK;
    for (; m->sets->made < m->sets->count && status == ISO_OK; m->sets->made++) {
        device_set *set = &m->sets->list[m->sets->made];
        status = iso_links_split(m->fabric, m->links, set->number, &set->comm);
    }
    return status;
}

/* ---- pulls ---- */

/* Whether sources are on several devices, of which the reader's is one. */
static bool supports(const void *module, const iso_request *request)
{
    const nccl_module *m = module;
    const int *domain = m->fabric->domain_of_slot;
    bool several = false, own = false;
    if ((request->kind != ISO_EXCHANGE_ALL_REDUCE && request->kind != ISO_EXCHANGE_REDUCE_SCATTER) ||
        request->count < 2 || !m->links->comms->adds(request->dtype))
        return false;
    for (int i = 0; i < request->count; i++) {
        several |= domain[request->sources[i].slot] != domain[request->sources[0].slot];
        own |= domain[request->sources[i].slot] == domain[request->slot];
    }
    return several && own;
}

typedef struct wanted_region {
    const nccl_schedule *s;
    const iso_hash_key *key;
} wanted_region;

static bool is_region(const void *arg, int number)
{
    const wanted_region *wanted = arg;
    return wanted->s->regions[number].key.word[1] == wanted->key->word[1];
}

static iso_status find_region(nccl_schedule *s, const reduced_region *region, int *number, bool *fresh)
{
    wanted_region wanted = {s, &region->key};
    iso_status status = ISO_OK;
    *number = iso_table_find(&s->index, region->key.word[0], is_region, &wanted);
    *fresh = *number < 0;
    if (!*fresh) {
        if (s->regions[*number].wanted != region->wanted)
            s->regions[*number].wanted = -1;
        return ISO_OK;
    }
    *number = s->n_regions;
    ISO_TRY(iso_list_add(s->regions, s->n_regions, *region, SUMS));
    ISO_TRY(iso_table_add(&s->index, region->key.word[0], *number, SUMS));
done:
    return status;
}

/* Adds the contribution of a device of this rank: the sources in its domain. */
static iso_status add_pack(const iso_request *request, nccl_schedule *s, int region, int domain)
{
    const iso_fabric *fabric = request->exchange->fabric;
    int count = 0;
    iso_source *own = iso_new((size_t)request->count * sizeof *own);
    if (!own)
        return iso_no_memory(SUMS);
    for (int i = 0; i < request->count; i++)
        if (fabric->domain_of_slot[request->sources[i].slot] == domain)
            own[count++] = request->sources[i];
    iso_status status = iso_request_pack(request, s->module->links->first_slot[domain], own, count,
                                         (iso_pack){.message = region}, &s->packs);
    iso_free(own);
    return status;
}

static iso_status add_packs(const iso_request *request, nccl_schedule *s, int region)
{
    iso_status status = ISO_OK;
    const device_set *set = &s->module->sets->list[s->regions[region].set];
    for (int i = 0; i < s->module->links->n_own && status == ISO_OK; i++)
        if (set->number[s->module->links->own[i].domain] >= 0)
            status = add_pack(request, s, region, s->module->links->own[i].domain);
    return status;
}

/* A result is numbered by its region and the domain that reads it. */
static iso_status add(const void *module, const iso_request *request, void **schedule, int *result,
                      bool *fresh)
{
    const nccl_module *m = module;
    int number, domain = m->fabric->domain_of_slot[request->slot];
    reduced_region region = {.key = iso_request_key(request),
                             .dtype = request->dtype,
                             .reduce = request->reduce,
                             .elements = iso_box_count(request->region),
                             .wanted = domain};
    iso_status status = ISO_OK;
    if (!*schedule && !(*schedule = iso_new(sizeof(nccl_schedule))))
        return iso_no_memory(SUMS);
    nccl_schedule *s = *schedule;
    s->module = m;
    ISO_TRY(find_set(m, request, &region.set));
    ISO_TRY(find_region(s, &region, &number, fresh));
    *result = number * m->fabric->n_domains + domain;
    if (*fresh)
        status = add_packs(request, s, number);
done:
    return status;
}

/* ---- places in the areas ---- */

static bool belongs(const reduced_region *region, const reduction_call *call)
{
    return region->set == call->set && region->dtype == call->dtype && region->reduce == call->reduce &&
           (region->wanted >= 0) == call->scatter;
}

/* Elements that the domains of a call want: of one domain (-1: of those that several want). */
static int64_t count_elements(const nccl_schedule *s, const reduction_call *call, int domain)
{
    int64_t count = 0;
    for (int i = 0; i < s->n_regions; i++)
        if (belongs(&s->regions[i], call) && s->regions[i].wanted == domain)
            count += s->regions[i].elements;
    return count;
}

/* The part of a member that a call scatters is as long as the longest. */
static int64_t count_of(const nccl_schedule *s, const reduction_call *call)
{
    int64_t most = 0;
    if (!call->scatter)
        return count_elements(s, call, -1);
    for (int domain = 0; domain < s->module->fabric->n_domains; domain++) {
        int64_t count = count_elements(s, call, domain);
        most = count > most ? count : most;
    }
    return most;
}

static void put_regions(nccl_schedule *s, const reduction_call *call, int domain)
{
    size_t size = iso_dtype_size(call->dtype), at = 0, begin = 0;
    if (domain >= 0)
        begin = (size_t)s->module->sets->list[call->set].number[domain] * (size_t)call->count * size;
    for (int i = 0; i < s->n_regions; i++) {
        reduced_region *region = &s->regions[i];
        if (!belongs(region, call) || region->wanted != domain)
            continue;
        region->offset = call->offset + begin + at;
        region->result = call->result + at;
        at += (size_t)region->elements * size;
    }
}

/* Takes bytes behind what each device of the set has so far: the memory of sets without common devices overlaps.
 * Returns where they begin; *bytes is the largest end of all. */
static size_t take_area(nccl_schedule *s, const device_set *set, size_t wanted, size_t *bytes)
{
    size_t begin = 0;
    for (int domain = 0; domain < s->module->fabric->n_domains; domain++)
        if (set->number[domain] >= 0 && s->end[domain] > begin)
            begin = s->end[domain];
    size_t end = begin + iso_round_to_lines(wanted);
    for (int domain = 0; domain < s->module->fabric->n_domains; domain++)
        if (set->number[domain] >= 0)
            s->end[domain] = end;
    *bytes = end > *bytes ? end : *bytes;
    return begin;
}

static iso_status add_call(nccl_schedule *s, reduction_call call)
{
    const device_set *set = &s->module->sets->list[call.set];
    call.count = count_of(s, &call);
    if (call.count == 0)
        return ISO_OK;
    call.offset = take_area(
        s, set, (size_t)call.count * iso_dtype_size(call.dtype) * (size_t)(call.scatter ? set->count : 1),
        &s->contribution_bytes);
    return iso_list_add(s->calls, s->n_calls, call, SUMS);
}

/* The results of a call, and the places of its regions. */
static void put_call(nccl_schedule *s, reduction_call *call)
{
    const device_set *set = &s->module->sets->list[call->set];
    size_t bytes = (size_t)call->count * iso_dtype_size(call->dtype);
    call->result = take_area(s, set, bytes, &s->bytes);
    for (int domain = call->scatter ? 0 : -1; domain < (call->scatter ? s->module->fabric->n_domains : 0);
         domain++)
        if (domain < 0 || set->number[domain] >= 0)
            put_regions(s, call, domain);
}

/* Calls in the order of their sets: it is the same on all ranks. */
static iso_status add_calls(nccl_schedule *s)
{
    const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32, ISO_I64, ISO_BF16};
    const int domains = s->module->fabric->n_domains;
    iso_status status = ISO_OK;
    if (!(s->end = iso_new((size_t)domains * sizeof *s->end)))
        return iso_no_memory(SUMS);
    for (int set = 0; set < s->module->sets->count; set++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int kind = 0; kind < 4; kind++)
                ISO_TRY(add_call(s, (reduction_call){.set = set,
                                                     .dtype = types[t],
                                                     .reduce = kind % 2 ? ISO_MAX : ISO_SUM,
                                                     .scatter = kind / 2}));
    for (int domain = 0; domain < domains; domain++)
        s->end[domain] = s->contribution_bytes;
    for (int i = 0; i < s->n_calls; i++)
        put_call(s, &s->calls[i]);
done:
    return status;
}

/* Called on all ranks, of which none may leave the others alone. */
static iso_status allocate(const iso_fabric *fabric, const void *module, void *schedule)
{
    nccl_schedule *s = schedule;
    bool good;
    iso_status status = add_calls(s), met;
    if (status == ISO_OK && !(s->list = iso_new(((size_t)s->module->links->n_own + 1) * sizeof *s->list)))
        status = iso_no_memory(SUMS);
    if (status == ISO_OK)
        status = iso_link_run_create(s->module->links, &s->run);
    met = iso_comm_all(fabric->channel.communicator, status == ISO_OK, &good);
    if (!good)
        return status != ISO_OK ? status : met;
    status = iso_fabric_reserve_link_areas(fabric, s->bytes, &s->areas);
    iso_status made = make_communicators(module);
    return status != ISO_OK ? status : made;
}

static char *result_of(const void *schedule, int number)
{
    const nccl_schedule *s = schedule;
    const iso_fabric *fabric = s->module->fabric;
    char *area = iso_fabric_link_area(fabric, number % fabric->n_domains, s->areas);
    return area ? area + s->regions[number / fabric->n_domains].result : NULL;
}

static void resolve(const iso_exchange *exchange, void *schedule)
{
    nccl_schedule *s = schedule;
    for (int i = 0; i < s->packs.count; i++) {
        iso_pack *pack = &s->packs.packs[i];
        iso_exchange_resolve_gather(exchange, &pack->gather);
        pack->gather.out =
            iso_fabric_link_area(exchange->fabric, exchange->fabric->domain_of_slot[pack->reader], s->areas) +
            s->regions[pack->message].offset;
    }
}

static void destroy(void *schedule)
{
    nccl_schedule *s = schedule;
    iso_free(s->list);
    iso_free(s->end);
    if (s->module) {
        iso_link_run_free(s->module->links, &s->run);
        iso_fabric_free_link_areas(s->module->fabric, s->areas);
    }
    iso_packs_free(&s->packs);
    iso_free(s->calls);
    iso_free(s->regions);
    iso_table_free(&s->index);
    iso_free(s);
}

/* ---- a run ---- */

static bool communicates(const void *module, const void *schedule)
{
    return ((const nccl_module *)module)->links->n_own > 0 && ((const nccl_schedule *)schedule)->n_calls > 0;
}

/* The devices of this rank in a call together, as one group. */
static iso_status queue_call(const nccl_schedule *s, const reduction_call *call)
{
    const iso_links *links = s->module->links;
    const device_set *set = &s->module->sets->list[call->set];
    int count = 0;
    for (int i = 0; i < links->n_own; i++) {
        char *area = iso_fabric_link_area(s->module->fabric, links->own[i].domain, s->areas);
        if (set->comm[i])
            s->list[count++] = (iso_device_operation){.kind = call->scatter ? ISO_DEVICE_REDUCE_SCATTER
                                                                            : ISO_DEVICE_ALL_REDUCE,
                                                      .comm = set->comm[i],
                                                      .stream = links->own[i].stream,
                                                      .from = area + call->offset,
                                                      .to = area + call->result,
                                                      .count = (size_t)call->count,
                                                      .dtype = call->dtype,
                                                      .maximum = call->reduce == ISO_MAX};
    }
    iso_status status = links->comms->run(s->list, count);
    for (int i = 0; i < links->n_own && status == ISO_OK; i++)
        if (set->comm[i])
            status = iso_links_await(s->module->fabric, set->comm[i]);
    return status;
}

static iso_status start(const iso_exchange *exchange, const void *module, void *schedule)
{
    nccl_schedule *s = schedule;
    const iso_links *links = ((const nccl_module *)module)->links;
    iso_status status = iso_link_run_pack(exchange->fabric, links, &s->packs, &s->run);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < s->n_calls && status == ISO_OK; i++)
        status = queue_call(s, &s->calls[i]);
    if (status == ISO_OK)
        status = iso_link_run_record(exchange->fabric, links, &s->run);
    return status == ISO_OK ? ISO_OK : iso_links_fail(exchange->fabric, status);
}

static void await(const void *schedule, int slot, iso_stream *stream)
{
    const nccl_schedule *s = schedule;
    iso_link_run_await(s->module->fabric, s->module->links, &s->run, slot, stream);
}

static iso_status check(const void *arg, int own)
{
    const nccl_module *m = arg;
    iso_status status = ISO_OK;
    bool begun;
    for (int s = 0; s < m->sets->count && status == ISO_OK; s++)
        if (m->sets->list[s].comm && m->sets->list[s].comm[own])
            status = m->links->comms->test(m->sets->list[s].comm[own], &begun);
    return status;
}

static iso_status test(void *schedule, int *done)
{
    nccl_schedule *s = schedule;
    return iso_link_run_test(s->module->fabric, s->module->links, &s->run, check, s->module, done);
}

const iso_coll_component iso_coll_component_nccl = {
    .name = "nccl",
    .open = open_module,
    .close = close_module,
    .supports = supports,
    .add = add,
    .allocate = allocate,
    .resolve = resolve,
    .result = result_of,
    .communicates = communicates,
    .start = start,
    .test = test,
    .await = await,
    .destroy = destroy,
};
