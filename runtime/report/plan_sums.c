/* A plan's report: the memory of sums that NCCL adds (--collectives nccl). Each exchange has an area on every GPU,
 * counted as collectives/nccl/reductions.c takes it: what the GPU contributes to each call of the library, then the
 * results. Sets of GPUs that have none in common use the same places. */
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/table.h"
#include "runtime/report/plan_report_impl.h"

static const char SUMS[] = "the sums of a plan";

/* Domains that add together. */
typedef struct domain_set {
    bool *has; /* [n_domains] */
    int count;
} domain_set;

/* Regions of a set, type and reduction: those that several domains want are one call of the library, the others
 * another one. */
typedef struct reduction_call {
    int set;
    iso_dtype dtype;
    iso_reduce reduce;
    int64_t shared;  /* elements that several domains want */
    int64_t *wanted; /* [n_domains] elements that it alone wants */
} reduction_call;

typedef struct reduced_region {
    int call, wanted; /* the only domain that wants it; -1: several do */
    int64_t elements;
} reduced_region;

struct iso_report_sums {
    const int *domain_of_slot;
    int n_domains;
    int only; /* the sets of this domain alone are counted; -1: all */
    domain_set *sets;
    int n_sets;
    bool *has;   /* [n_domains] room: of a region */
    size_t *end; /* [n_domains] room: of what the calls so far have in an area */
    /* Of the exchange. */
    iso_table index;
    reduced_region *regions;
    int n_regions;
    reduction_call *calls;
    int n_calls;
};

iso_status iso_report_sums_create(const int *domain_of_slot, int n_domains, int only, iso_report_sums **out)
{
    iso_report_sums *sums = iso_new(sizeof *sums);
    if (sums) {
        *sums = (iso_report_sums){.domain_of_slot = domain_of_slot, .n_domains = n_domains, .only = only};
        sums->has = iso_new((size_t)n_domains * sizeof *sums->has);
        sums->end = iso_new((size_t)n_domains * sizeof *sums->end);
    }
    *out = sums;
    return sums && sums->has && sums->end ? ISO_OK : iso_no_memory(SUMS);
}

static void clear(iso_report_sums *sums)
{
    for (int i = 0; i < sums->n_calls; i++)
        iso_free(sums->calls[i].wanted);
    sums->n_calls = sums->n_regions = 0;
    iso_table_clear(&sums->index);
}

void iso_report_sums_free(iso_report_sums *sums)
{
    if (!sums)
        return;
    clear(sums);
    for (int i = 0; i < sums->n_sets; i++)
        iso_free(sums->sets[i].has);
    iso_free(sums->sets);
    iso_free(sums->has);
    iso_free(sums->end);
    iso_free(sums->regions);
    iso_free(sums->calls);
    iso_table_free(&sums->index);
    iso_free(sums);
}

int iso_report_sums_sets(const iso_report_sums *sums)
{
    return sums ? sums->n_sets : 0;
}

/* ---- regions ---- */

/* Writes the domains of the sources to sums->has; returns their number. */
static int find_domains(iso_report_sums *sums, const iso_summed_region *region)
{
    int count = 0;
    memset(sums->has, 0, (size_t)sums->n_domains * sizeof *sums->has);
    for (int i = 0; i < region->count; i++) {
        bool *has = &sums->has[sums->domain_of_slot[region->source[i]]];
        count += !*has;
        *has = true;
    }
    return count;
}

static iso_status find_set(iso_report_sums *sums, int count, int *number)
{
    size_t bytes = (size_t)sums->n_domains * sizeof *sums->has;
    domain_set fresh = {.count = count};
    for (*number = 0; *number < sums->n_sets; ++*number)
        if (!memcmp(sums->sets[*number].has, sums->has, bytes))
            return ISO_OK;
    if (!(fresh.has = iso_new(bytes)))
        return iso_no_memory(SUMS);
    memcpy(fresh.has, sums->has, bytes);
    iso_status status = iso_list_add(sums->sets, sums->n_sets, fresh, SUMS);
    if (status != ISO_OK)
        iso_free(fresh.has);
    return status;
}

static iso_status find_call(iso_report_sums *sums, const iso_summed_region *region, int set, int *number)
{
    reduction_call fresh = {.set = set, .dtype = region->dtype, .reduce = region->reduce};
    for (*number = 0; *number < sums->n_calls; ++*number) {
        const reduction_call *call = &sums->calls[*number];
        if (call->set == set && call->dtype == region->dtype && call->reduce == region->reduce)
            return ISO_OK;
    }
    if (!(fresh.wanted = iso_new((size_t)sums->n_domains * sizeof *fresh.wanted)))
        return iso_no_memory(SUMS);
    iso_status status = iso_list_add(sums->calls, sums->n_calls, fresh, SUMS);
    if (status != ISO_OK)
        iso_free(fresh.wanted);
    return status;
}

static iso_status add_region(iso_report_sums *sums, const iso_summed_region *region, int count)
{
    reduced_region fresh = {.wanted = region->shared ? -1 : region->domain, .elements = region->elements};
    int set, number = iso_table_find(&sums->index, region->key, NULL, NULL);
    iso_status status = ISO_OK;
    if (number >= 0) {
        if (sums->regions[number].wanted != region->domain)
            sums->regions[number].wanted = -1;
        return ISO_OK;
    }
    ISO_TRY(find_set(sums, count, &set));
    ISO_TRY(find_call(sums, region, set, &fresh.call));
    ISO_TRY(iso_table_add(&sums->index, region->key, sums->n_regions, SUMS));
    ISO_TRY(iso_list_add(sums->regions, sums->n_regions, fresh, SUMS));
done:
    return status;
}

iso_status iso_report_sums_add(iso_report_sums *sums, const iso_summed_region *region, bool *taken)
{
    *taken = false;
    if (region->count < 2)
        return ISO_OK;
    int count = find_domains(sums, region);
    *taken = count > 1 && sums->has[region->domain];
    if (!*taken || (sums->only >= 0 && !sums->has[sums->only]))
        return ISO_OK;
    return add_region(sums, region, count);
}

/* ---- areas ---- */

/* Takes bytes behind what each domain of the set has so far. Returns the end. */
static size_t take_area(iso_report_sums *sums, const reduction_call *call, int64_t elements, size_t most)
{
    const bool *has = sums->sets[call->set].has;
    size_t end = 0;
    for (int d = 0; d < sums->n_domains; d++)
        if (has[d] && sums->end[d] > end)
            end = sums->end[d];
    end += iso_round_to_lines((size_t)elements * iso_dtype_size(call->dtype));
    for (int d = 0; d < sums->n_domains; d++)
        if (has[d])
            sums->end[d] = end;
    return end > most ? end : most;
}

/* The part of a member is as long as the longest. */
static int64_t longest_part(const iso_report_sums *sums, const reduction_call *call)
{
    int64_t most = 0;
    for (int d = 0; d < sums->n_domains; d++)
        most = call->wanted[d] > most ? call->wanted[d] : most;
    return most;
}

size_t iso_report_sums_end(iso_report_sums *sums)
{
    size_t contributions = 0;
    for (int i = 0; i < sums->n_regions; i++) {
        const reduced_region *region = &sums->regions[i];
        reduction_call *call = &sums->calls[region->call];
        *(region->wanted < 0 ? &call->shared : &call->wanted[region->wanted]) += region->elements;
    }
    memset(sums->end, 0, (size_t)sums->n_domains * sizeof *sums->end);
    for (int i = 0; i < sums->n_calls; i++) {
        const reduction_call *call = &sums->calls[i];
        int64_t members = sums->sets[call->set].count;
        contributions = take_area(sums, call, call->shared, contributions);
        contributions = take_area(sums, call, members * longest_part(sums, call), contributions);
    }
    size_t bytes = contributions;
    for (int d = 0; d < sums->n_domains; d++)
        sums->end[d] = contributions;
    for (int i = 0; i < sums->n_calls; i++) {
        bytes = take_area(sums, &sums->calls[i], sums->calls[i].shared, bytes);
        bytes = take_area(sums, &sums->calls[i], longest_part(sums, &sums->calls[i]), bytes);
    }
    clear(sums);
    return bytes;
}
