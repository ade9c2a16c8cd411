#include "runtime/train/tensorboard/histogram.h"
#include "runtime/exec/function/inspect.h"

#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/function.h"
#include "runtime/session/session.h"
#include "runtime/train/snapshot.h"

typedef struct range {
    double least, minus_greatest; /* negated, so that one minimum over all ranks gives both */
} range;

typedef struct counts {
    double count[ISO_HISTOGRAM_BUCKETS];
} counts;

typedef struct maker {
    iso_graph *graph;
    iso_context *ctx;
    int n_variables;
    iso_histogram *list; /* [variables] */
    iso_state_shards shards;
    range *range;   /* [variables] */
    counts *counts; /* [variables] */
} maker;

static iso_status list_variables(maker *m)
{
    int all = iso_graph_variable_count(m->graph);
    m->list = iso_new(((size_t)all + 1) * sizeof *m->list);
    for (int i = 0; m->list && i < all; i++) {
        const char *path = iso_variable_path(iso_graph_variable(m->graph, i));
        if (!iso_path_below_optimizer(path))
            m->list[m->n_variables++].path = path;
    }
    m->range = iso_new(((size_t)all + 1) * sizeof *m->range);
    m->counts = iso_new(((size_t)all + 1) * sizeof *m->counts);
    if (!m->list || !m->range || !m->counts)
        return iso_no_memory("histograms of %d variables", all);
    return iso_graph_shards(m->graph, &m->shards);
}

/* The index in the list of a shard's variable; -1: this rank does not count it. */
static int listed(const maker *m, const iso_state_shard *shard)
{
    for (int v = 0; shard->writer && v < m->n_variables; v++)
        if (m->list[v].path == shard->path || strcmp(m->list[v].path, shard->path) == 0)
            return v;
    return -1;
}

/* Visits the finite elements that this rank counts, each with the index of its variable. */
static iso_status each_finite(maker *m, void (*visit)(maker *m, int variable, double value))
{
    iso_mapping mapping;
    iso_status status = ISO_OK;
    for (int p = 0; p < m->shards.count; p++) {
        const iso_state_shard *shard = &m->shards.shards[p];
        int variable = listed(m, shard);
        if (variable < 0)
            continue;
        ISO_TRY(iso_map(shard->stream, shard->data, iso_shard_bytes(shard), &mapping));
        for (int64_t i = 0; i < shard->count; i++) {
            double value = iso_element_get(mapping.data, shard->dtype, i);
            if (isfinite(value))
                visit(m, variable, value);
        }
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

/* ---- the ranges ---- */

static void widen(maker *m, int variable, double value)
{
    range *seen = &m->range[variable];
    seen->least = fmin(seen->least, value);
    seen->minus_greatest = fmin(seen->minus_greatest, -value);
}

static iso_status find_ranges(maker *m)
{
    for (int v = 0; v < m->n_variables; v++)
        m->range[v] = (range){INFINITY, INFINITY};
    iso_status status = iso_agree(m->ctx, each_finite(m, widen));
    if (status == ISO_OK)
        status = iso_all_reduce(m->ctx, ISO_REDUCE_MIN, ISO_F64, m->range, 2 * (size_t)m->n_variables);
    for (int v = 0; status == ISO_OK && v < m->n_variables; v++) {
        range seen = m->range[v];
        bool any = isfinite(seen.least);
        m->list[v].least = any ? seen.least : 0;
        m->list[v].greatest = any ? -seen.minus_greatest : 0;
    }
    return status;
}

/* ---- the counts ---- */

static int bucket_of(const iso_histogram *histogram, double value)
{
    double width = (histogram->greatest - histogram->least) / ISO_HISTOGRAM_BUCKETS;
    double bucket = width > 0 ? floor((value - histogram->least) / width) : ISO_HISTOGRAM_BUCKETS - 1;
    return bucket < ISO_HISTOGRAM_BUCKETS - 1 ? (int)bucket : ISO_HISTOGRAM_BUCKETS - 1;
}

static void count(maker *m, int variable, double value)
{
    m->counts[variable].count[bucket_of(&m->list[variable], value)]++;
}

static iso_status add_counts(maker *m)
{
    iso_status status = iso_agree(m->ctx, each_finite(m, count));
    if (status == ISO_OK)
        status = iso_all_reduce(m->ctx, ISO_REDUCE_SUM, ISO_F64, m->counts,
                                ISO_HISTOGRAM_BUCKETS * (size_t)m->n_variables);
    for (int v = 0; status == ISO_OK && v < m->n_variables; v++)
        memcpy(m->list[v].count, m->counts[v].count, sizeof m->list[v].count);
    return status;
}

iso_status iso_graph_histograms(iso_graph *graph, iso_histogram **list, int *count)
{
    maker m = {.graph = graph, .ctx = iso_graph_context(graph)};
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(m.ctx, list_variables(&m)));
    ISO_TRY(find_ranges(&m));
    ISO_TRY(add_counts(&m));
    *list = m.list;
    *count = m.n_variables;
    m.list = NULL;
done:
    iso_state_shards_free(&m.shards);
    iso_free(m.list);
    iso_free(m.range);
    iso_free(m.counts);
    return status;
}
