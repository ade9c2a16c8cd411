#include "collectives/mpi/reductions_impl.h"

#include <limits.h>

#include "collectives/mpi/call.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"

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

bool iso_reductions_know(iso_dtype dtype)
{
    return type_of(dtype) != MPI_DATATYPE_NULL;
}

/* ---- regions ---- */

typedef struct wanted_region {
    const iso_reductions *r;
    const iso_hash_key *key;
} wanted_region;

static bool is_region(const void *arg, int number)
{
    const wanted_region *w = arg;
    return w->r->regions[number].key.word[1] == w->key->word[1];
}

iso_status iso_reductions_region(iso_reductions *r, const iso_reduced *region, int wanted, int *number,
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

static bool belongs(const iso_reduced *region, const iso_reduction_call *call)
{
    return region->dtype == call->dtype && region->reduce == call->reduce &&
           (region->wanted >= 0) == call->scatter;
}

static iso_status count_elements(const iso_reductions *r, iso_reduction_call *call, int leaders, int64_t *all)
{
    *all = 0;
    for (int i = 0; i < r->n_regions; i++) {
        const iso_reduced *region = &r->regions[i];
        if (!belongs(region, call))
            continue;
        *all += region->elements;
        if (*all > INT_MAX)
            return iso_error(ISO_INVALID, "--collectives mpi: more than %d elements in one sum", INT_MAX);
        if (!call->counts && !(call->counts = iso_new((size_t)leaders * sizeof *call->counts)))
            return iso_no_memory(REGIONS);
        call->counts[call->scatter ? region->wanted : 0] += (int)region->elements;
    }
    return ISO_OK;
}

/* begin: [leaders] room. The contribution has the regions of one host after those of another, as
 * MPI_Reduce_scatter wants them. */
static void place_regions(iso_reductions *r, const iso_reduction_call *call, int leaders, size_t *begin)
{
    size_t size = iso_dtype_size(call->dtype), at = call->offset;
    for (int l = 0; l < (call->scatter ? leaders : 1); l++) {
        begin[l] = at;
        at += (size_t)call->counts[l] * size;
    }
    for (int i = 0; i < r->n_regions; i++) {
        iso_reduced *region = &r->regions[i];
        if (!belongs(region, call))
            continue;
        size_t first = begin[call->scatter ? region->wanted : 0], bytes = (size_t)region->elements * size;
        region->offset = first;
        begin[call->scatter ? region->wanted : 0] += bytes;
    }
}

/* Where the results of this host lie: in the order of its regions. */
static void place_results(iso_reductions *r, const iso_reduction_call *call, int here)
{
    size_t at = call->result, size = iso_dtype_size(call->dtype);
    for (int i = 0; i < r->n_regions; i++) {
        iso_reduced *region = &r->regions[i];
        if (!belongs(region, call) || (call->scatter && region->wanted != here))
            continue;
        region->result = at;
        at += (size_t)region->elements * size;
    }
}

static iso_status add_call(iso_reductions *r, iso_reduction_call call, const iso_leaders *leaders,
                           size_t *begin)
{
    int64_t all;
    size_t size = iso_dtype_size(call.dtype);
    call.offset = r->contribution_bytes;
    call.result = r->result_bytes;
    iso_status status = count_elements(r, &call, leaders->count, &all);
    if (status != ISO_OK || all == 0) {
        iso_free(call.counts);
        return status;
    }
    place_regions(r, &call, leaders->count, begin);
    place_results(r, &call, leaders->here);
    r->contribution_bytes += iso_round_to_lines((size_t)all * size);
    int64_t mine = call.scatter ? leaders->here >= 0 ? call.counts[leaders->here] : 0 : all;
    r->result_bytes += iso_round_to_lines((size_t)mine * size);
    r->requests[r->n_calls] = MPI_REQUEST_NULL;
    r->calls[r->n_calls++] = call;
    return ISO_OK;
}

static iso_status place_all(iso_reductions *r, const iso_leaders *leaders)
{
    const iso_dtype types[] = {ISO_F32, ISO_F64, ISO_I32};
    const iso_reduce reduces[] = {ISO_SUM, ISO_MAX};
    size_t *begin = iso_new((size_t)leaders->count * sizeof *begin);
    iso_status status = begin ? ISO_OK : iso_no_memory(REGIONS);
    for (int i = 0; i < ISO_REDUCTION_CALLS && status == ISO_OK; i++)
        status = add_call(
            r,
            (iso_reduction_call){.dtype = types[i % 3], .reduce = reduces[i / 3 % 2], .scatter = i / 6 == 1},
            leaders, begin);
    iso_free(begin);
    return status;
}

iso_status iso_reductions_allocate(iso_reductions *r, const iso_leaders *leaders, const iso_comm *host)
{
    if (r->n_regions == 0)
        return ISO_OK;
    iso_status status = place_all(r, leaders);
    if (status == ISO_OK && leaders->communicator)
        status = iso_alloc(r->contribution_bytes, REGIONS, (void **)&r->contribution);
    /* all ranks of the host, whether or not one has failed */
    iso_status window = iso_window_create(host, r->result_bytes + 1, REGIONS, &r->results);
    return status != ISO_OK ? status : window;
}

void iso_reductions_free(iso_reductions *r)
{
    for (int i = 0; i < r->n_calls; i++)
        iso_free(r->calls[i].counts);
    iso_window_destroy(&r->results);
    iso_free(r->contribution);
    iso_free(r->regions);
    iso_table_free(&r->index);
}

/* ---- a run ---- */

iso_status iso_reductions_start(iso_reductions *r, const iso_leaders *leaders)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < r->n_calls; i++) {
        const iso_reduction_call *call = &r->calls[i];
        char *from = r->contribution + call->offset, *to = r->results.base + call->result;
        MPI_Op op = call->reduce == ISO_MAX ? MPI_MAX : MPI_SUM;
        MPI_Datatype type = type_of(call->dtype);
        iso_status started =
            call->scatter ? ISO_MPI(MPI_Ireduce_scatter(from, to, call->counts, type, op,
                                                        iso_mpi_of(leaders->communicator), &r->requests[i]))
                          : ISO_MPI(MPI_Iallreduce(from, to, call->counts[0], type, op,
                                                   iso_mpi_of(leaders->communicator), &r->requests[i]));
        status = status == ISO_OK ? started : status;
    }
    return status;
}

iso_status iso_reductions_test(iso_reductions *r, int *done)
{
    *done = 1;
    return r->n_calls == 0 ? ISO_OK
                           : ISO_MPI(MPI_Testall(r->n_calls, r->requests, done, MPI_STATUSES_IGNORE));
}
