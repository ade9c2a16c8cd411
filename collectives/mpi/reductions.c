/* Sums between hosts that MPI adds, in its own order (--collectives mpi), if slots of all hosts have a part of them:
 * their bits depend on the number of hosts. One rank of each host, its leader, takes part: it contributes the sums of
 * its host, and receives the results into memory that the host's ranks share. */
#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"

#include <limits.h>

#include "collectives/mpi/call.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/table.h"

/* The leaders of the hosts that have slots: the data of a fabric. */
typedef struct leaders {
    iso_comm *communicator; /* of the leaders; NULL on other ranks */
    int count;
    int *number; /* [hosts] of the host's leader in the communicator; -1: the host has no slot */
    bool *seen;  /* [hosts] room, all false */
    int here;    /* this host's */
} leaders;

/* A region that MPI adds. */
typedef struct reduced_region {
    iso_hash_key key;
    iso_dtype dtype;
    iso_reduce reduce;
    int64_t elements;
    int wanted;            /* number of the only leader whose host wants it; -1: several do */
    size_t offset, result; /* in the leader's contribution, and in the results of this host, if it wants it */
} reduced_region;

/* One MPI call: all regions of one type and kind of sum that several hosts want, or that single hosts want. */
typedef struct reduction_call {
    iso_dtype dtype;
    iso_reduce reduce;
    bool scatter;
    size_t offset, result;
    int *counts; /* [leaders] elements for each host; without scatter counts[0] is for all */
} reduction_call;

enum { CALLS = 12 };

typedef struct reductions {
    reduced_region *regions;
    int n_regions;
    iso_table index; /* regions by key */
    reduction_call calls[CALLS];
    MPI_Request requests[CALLS];
    int n_calls;
    size_t contribution_bytes, result_bytes;
    const iso_device *device; /* NULL until memory is allocated */
    char *contribution;       /* of a leader */
    iso_pack_list packs;      /* of a leader: what its host adds to each region */
    iso_window results;       /* of the host */
} reductions;

static const char REGIONS[] = "the sums that MPI adds";

static MPI_Datatype type_of(iso_dtype dtype)
{
    switch (dtype) {
    case ISO_F32:
        return MPI_FLOAT;
    case ISO_F64:
        return MPI_DOUBLE;
    case ISO_I32:
        return MPI_INT32_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* ---- regions ---- */

typedef struct wanted_region {
    const reductions *r;
    const iso_hash_key *key;
} wanted_region;

static bool is_region(const void *arg, int number)
{
    const wanted_region *w = arg;
    return w->r->regions[number].key.word[1] == w->key->word[1];
}

/* Finds or adds a region that the host of leader `wanted` wants. *fresh: it was added. */
static iso_status find_region(reductions *r, const reduced_region *region, int wanted, int *number,
                              bool *fresh)
{
    wanted_region w = {r, &region->key};
    iso_status status = ISO_OK;
    *number = iso_table_find(&r->index, region->key.word[0], is_region, &w);
    *fresh = *number < 0;
    if (!*fresh) {
        if (r->regions[*number].wanted != wanted)
            r->regions[*number].wanted = -1;
        return ISO_OK;
    }
    *number = r->n_regions;
    ISO_TRY(iso_list_add(r->regions, r->n_regions, *region, REGIONS));
    r->regions[*number].wanted = wanted;
    ISO_TRY(iso_table_add(&r->index, region->key.word[0], *number, REGIONS));
done:
    return status;
}

/* ---- places ---- */

static bool belongs(const reduced_region *region, const reduction_call *call)
{
    return region->dtype == call->dtype && region->reduce == call->reduce &&
           (region->wanted >= 0) == call->scatter;
}

static iso_status count_elements(const reductions *r, reduction_call *call, int n_leaders, int64_t *all)
{
    *all = 0;
    for (int i = 0; i < r->n_regions; i++) {
        const reduced_region *region = &r->regions[i];
        if (!belongs(region, call))
            continue;
        *all += region->elements;
        if (*all > INT_MAX)
            return iso_error(ISO_INVALID, "--collectives mpi: more than %d elements in one sum", INT_MAX);
        if (!call->counts && !(call->counts = iso_new((size_t)n_leaders * sizeof *call->counts)))
            return iso_no_memory(REGIONS);
        call->counts[call->scatter ? region->wanted : 0] += (int)region->elements;
    }
    return ISO_OK;
}

/* begin: [leaders] room. The contribution has the regions of one host after those of another, as
 * MPI_Reduce_scatter wants them. */
static void place_regions(reductions *r, const reduction_call *call, int n_leaders, size_t *begin)
{
    size_t size = iso_dtype_size(call->dtype), at = call->offset;
    for (int l = 0; l < (call->scatter ? n_leaders : 1); l++) {
        begin[l] = at;
        at += (size_t)call->counts[l] * size;
    }
    for (int i = 0; i < r->n_regions; i++) {
        reduced_region *region = &r->regions[i];
        if (!belongs(region, call))
            continue;
        size_t first = begin[call->scatter ? region->wanted : 0], bytes = (size_t)region->elements * size;
        region->offset = first;
        begin[call->scatter ? region->wanted : 0] += bytes;
    }
}

/* Sets the offsets of this host's results, in the order of its regions. */
static void place_results(reductions *r, const reduction_call *call, int here)
{
    size_t at = call->result, size = iso_dtype_size(call->dtype);
    for (int i = 0; i < r->n_regions; i++) {
        reduced_region *region = &r->regions[i];
        if (!belongs(region, call) || (call->scatter && region->wanted != here))
            continue;
        region->result = at;
        at += (size_t)region->elements * size;
    }
}

static iso_status add_call(reductions *r, reduction_call call, const leaders *l, size_t *begin)
{
    int64_t all;
    size_t size = iso_dtype_size(call.dtype);
    call.offset = r->contribution_bytes;
    call.result = r->result_bytes;
    iso_status status = count_elements(r, &call, l->count, &all);
    if (status != ISO_OK || all == 0) {
        iso_free(call.counts);
        return status;
    }
    place_regions(r, &call, l->count, begin);
    place_results(r, &call, l->here);
    r->contribution_bytes += iso_round_to_lines((size_t)all * size);
    int64_t mine = call.scatter ? l->here >= 0 ? call.counts[l->here] : 0 : all;
    r->result_bytes += iso_round_to_lines((size_t)mine * size);
    r->requests[r->n_calls] = MPI_REQUEST_NULL;
    r->calls[r->n_calls++] = call;
    return ISO_OK;
}

static iso_status place_all(reductions *r, const leaders *l)
{
    const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32};
    const iso_reduce reduces[] = {ISO_SUM, ISO_MAX};
    size_t *begin = iso_new((size_t)l->count * sizeof *begin);
    iso_status status = begin ? ISO_OK : iso_no_memory(REGIONS);
    for (int i = 0; i < CALLS && status == ISO_OK; i++)
        status = add_call(
            r, (reduction_call){.dtype = types[i % 3], .reduce = reduces[i / 3 % 2], .scatter = i / 6 == 1},
            l, begin);
    iso_free(begin);
    return status;
}

static iso_status allocate(const iso_fabric *fabric, const void *module, void *schedule)
{
    const leaders *l = module;
    reductions *r = schedule;
    const iso_device *device = r->device = fabric->topology.device;
    iso_status status = place_all(r, l);
    if (status == ISO_OK && l->communicator)
        status = device->allocate_pinned(device, r->contribution_bytes, REGIONS, (void **)&r->contribution);
    /* all ranks of the host, whether or not one has failed */
    iso_status window = iso_buffer_create(fabric->host, device, r->result_bytes + 1, REGIONS, &r->results);
    return status != ISO_OK ? status : window;
}

static void destroy(void *schedule)
{
    reductions *r = schedule;
    for (int i = 0; i < r->n_calls; i++)
        iso_free(r->calls[i].counts);
    if (r->device) {
        iso_buffer_destroy(r->device, &r->results);
        r->device->release_pinned(r->device, r->contribution);
    }
    iso_packs_free(&r->packs);
    iso_free(r->regions);
    iso_table_free(&r->index);
    iso_free(r);
}

/* ---- a fabric ---- */

static void close_module(void *module)
{
    leaders *l = module;
    iso_free(l->number);
    iso_free(l->seen);
    iso_comm_free(&l->communicator);
    iso_free(l);
}

static iso_status number_leaders(const iso_fabric *fabric, leaders *l)
{
    int hosts = 0;
    for (int rank = 0; rank < fabric->topology.n_ranks; rank++)
        hosts = fabric->host_of_rank[rank] >= hosts ? fabric->host_of_rank[rank] + 1 : hosts;
    l->number = iso_new((size_t)hosts * sizeof *l->number);
    l->seen = iso_new((size_t)hosts * sizeof *l->seen);
    if (!l->number || !l->seen)
        return iso_no_memory("the leaders of %d hosts", hosts);
    for (int host = 0; host < hosts; host++)
        l->number[host] = fabric->host_begin[host + 1] > fabric->host_begin[host] ? l->count++ : -1;
    l->here = l->number[fabric->host_number];
    return ISO_OK;
}

/* The first slot of this rank's host: its rank leads. */
static int first_slot(const iso_fabric *fabric)
{
    return fabric->by_host[fabric->host_begin[fabric->host_number]];
}

static iso_status join(iso_fabric *fabric, leaders *l)
{
    bool leads = l->here >= 0 && fabric->local[first_slot(fabric)] >= 0;
    iso_status status =
        iso_comm_split_for_mpi(fabric->channel.communicator, leads, fabric->host_number, &l->communicator);
    if (!leads)
        iso_comm_free(&l->communicator);
    return iso_channel_agree(&fabric->channel, status);
}

static iso_status open_module(iso_fabric *fabric, void **module)
{
    if (!fabric->channel.communicator)
        return ISO_OK;
    leaders *l = iso_new(sizeof *l);
    iso_status status = iso_channel_agree(&fabric->channel,
                                          l ? number_leaders(fabric, l) : iso_no_memory("leaders of hosts"));
    if (status == ISO_OK)
        status = join(fabric, l);
    if (status == ISO_OK)
        *module = l;
    else if (l)
        close_module(l);
    return status;
}

/* ---- pulls ---- */

/* True if slots of all hosts have a part of the sum. */
static bool supports(const void *module, const iso_request *request)
{
    const leaders *l = module;
    int hosts = 0;
    if (request->count < l->count || type_of(request->dtype) == MPI_DATATYPE_NULL)
        return false;
    for (int i = 0; i < request->count; i++) {
        hosts += !l->seen[request->location[i].host];
        l->seen[request->location[i].host] = true;
    }
    for (int i = 0; i < request->count; i++)
        l->seen[request->location[i].host] = false;
    return hosts == l->count && hosts > 1;
}

/* Adds this host's contribution: its own sources, in the order of a tree over them. The leader reads them with its
 * first slot. */
static iso_status add_contribution(const iso_request *request, reductions *r, int region)
{
    const iso_fabric *fabric = request->exchange->fabric;
    int count = 0;
    iso_source *own = iso_new((size_t)request->count * sizeof *own);
    if (!own)
        return iso_no_memory(REGIONS);
    for (int i = 0; i < request->count; i++)
        if (request->location[i].host == fabric->host_number)
            own[count++] = request->sources[i];
    iso_status status =
        iso_request_pack(request, first_slot(fabric), own, count, (iso_pack){.message = region}, &r->packs);
    iso_free(own);
    return status;
}

static iso_status add(const void *module, const iso_request *request, void **schedule, int *result,
                      bool *fresh)
{
    const leaders *l = module;
    int host = iso_fabric_host_of_slot(request->exchange->fabric, request->slot);
    reduced_region region = {.key = iso_request_key(request),
                             .dtype = request->dtype,
                             .reduce = request->reduce,
                             .elements = iso_box_count(request->region)};
    if (!*schedule && !(*schedule = iso_new(sizeof(reductions))))
        return iso_no_memory(REGIONS);
    iso_status status = find_region(*schedule, &region, l->number[host], result, fresh);
    if (status != ISO_OK || !*fresh || l->here < 0)
        return status;
    return add_contribution(request, *schedule, *result);
}

static char *result_of(const void *schedule, int number)
{
    const reductions *r = schedule;
    return r->results.base + r->regions[number].result;
}

static void resolve(const iso_exchange *exchange, void *schedule)
{
    reductions *r = schedule;
    for (int i = 0; i < r->packs.count; i++) {
        iso_pack *pack = &r->packs.packs[i];
        iso_exchange_resolve_gather(exchange, &pack->gather);
        pack->gather.out = r->contribution + r->regions[pack->message].offset;
    }
}

/* ---- a run ---- */

static bool communicates(const void *module, const void *schedule)
{
    return ((const leaders *)module)->communicator && ((const reductions *)schedule)->n_calls > 0;
}

static iso_status start(const iso_exchange *exchange, const void *module, void *schedule)
{
    const leaders *l = module;
    reductions *r = schedule;
    iso_status status = ISO_OK;
    bool packed = iso_packs_run(exchange, &r->packs);
    iso_messages_replace(&exchange->messages, r->contribution, r->contribution_bytes, packed);
    for (int i = 0; i < r->n_calls; i++) {
        const reduction_call *call = &r->calls[i];
        char *from = r->contribution + call->offset, *to = r->results.base + call->result;
        MPI_Op op = call->reduce == ISO_MAX ? MPI_MAX : MPI_SUM;
        MPI_Datatype type = type_of(call->dtype);
        iso_status started = call->scatter
                                 ? ISO_MPI(MPI_Ireduce_scatter(from, to, call->counts, type, op,
                                                               iso_mpi_of(l->communicator), &r->requests[i]))
                                 : ISO_MPI(MPI_Iallreduce(from, to, call->counts[0], type, op,
                                                          iso_mpi_of(l->communicator), &r->requests[i]));
        status = status == ISO_OK ? started : status;
    }
    return status;
}

static iso_status test(void *schedule, int *done)
{
    reductions *r = schedule;
    return ISO_MPI(MPI_Testall(r->n_calls, r->requests, done, MPI_STATUSES_IGNORE));
}

const iso_coll_component iso_coll_component_mpi = {
    .name = "mpi",
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
    .destroy = destroy,
};
