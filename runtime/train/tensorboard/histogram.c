#include "runtime/train/tensorboard/histogram.h"
#include "runtime/exec/inspect.h"

#include <math.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function.h"
#include "runtime/session/session.h"
#include "runtime/train/snapshot.h"

/* What one rank has seen of a variable. */
typedef struct range {
    double least, greatest;
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
    size_t room; /* of `mine` and, for each rank, of `all`: bytes */
    void *mine, *all;
} maker;

static iso_status list_variables(maker *m)
{
    int all = iso_graph_variable_count(m->graph), ranks = iso_ranks(m->ctx);
    m->list = iso_new(((size_t)all + 1) * sizeof *m->list);
    for (int i = 0; m->list && i < all; i++) {
        const char *path = iso_variable_path(iso_graph_variable(m->graph, i));
        if (!iso_path_below_optimizer(path))
            m->list[m->n_variables++].path = path;
    }
    m->room = ((size_t)m->n_variables + 1) * sizeof(counts);
    m->mine = iso_new(m->room);
    m->all = iso_new((size_t)ranks * m->room);
    if (!m->list || !m->mine || !m->all)
        return iso_error(ISO_NO_MEMORY, "no memory for histograms of %d variables on %d ranks", all, ranks);
    return iso_graph_shards(m->graph, &m->shards);
}

/* The number of a shard's variable in the list where this rank is to count it, else -1. */
static int listed(const maker *m, const iso_state_shard *shard)
{
    for (int v = 0; shard->writer && v < m->n_variables; v++)
        if (m->list[v].path == shard->path || strcmp(m->list[v].path, shard->path) == 0)
            return v;
    return -1;
}

/* What this rank has to count: finite elements, each with the number of its variable. */
static void each_finite(maker *m, void (*visit)(maker *m, int variable, double value))
{
    for (int p = 0; p < m->shards.count; p++) {
        const iso_state_shard *shard = &m->shards.shards[p];
        int variable = listed(m, shard);
        for (int64_t i = 0; variable >= 0 && i < shard->count; i++) {
            double value = iso_element_get(shard->data, shard->dtype, i);
            if (isfinite(value))
                visit(m, variable, value);
        }
    }
}

/* ---- the ranges ---- */

static void widen(maker *m, int variable, double value)
{
    range *seen = &((range *)m->mine)[variable];
    seen->least = value < seen->least ? value : seen->least;
    seen->greatest = value > seen->greatest ? value : seen->greatest;
}

static iso_status find_ranges(maker *m)
{
    range *mine = m->mine, *all = m->all;
    for (int v = 0; v < m->n_variables; v++)
        mine[v] = (range){INFINITY, -INFINITY};
    each_finite(m, widen);
    iso_status status = iso_gather_all(m->ctx, mine, (size_t)m->n_variables * sizeof *mine, all);
    for (int v = 0; status == ISO_OK && v < m->n_variables; v++) {
        range seen = {INFINITY, -INFINITY};
        for (int r = 0; r < iso_ranks(m->ctx); r++) {
            const range *theirs = &all[r * m->n_variables + v]; /* upside down where they have nothing */
            seen.least = fmin(seen.least, theirs->least);
            seen.greatest = fmax(seen.greatest, theirs->greatest);
        }
        bool any = isfinite(seen.least) && isfinite(seen.greatest);
        m->list[v].least = any ? seen.least : 0;
        m->list[v].greatest = any ? seen.greatest : 0;
    }
    return status;
}

/* ---- the counts ---- */

static int bucket_of(const iso_histogram *histogram, double value)
{
    double width = (histogram->greatest - histogram->least) / ISO_HISTOGRAM_BUCKETS;
    double place = width > 0 ? floor((value - histogram->least) / width) : ISO_HISTOGRAM_BUCKETS - 1;
    return place < ISO_HISTOGRAM_BUCKETS - 1 ? (int)place : ISO_HISTOGRAM_BUCKETS - 1;
}

static void count(maker *m, int variable, double value)
{
    ((counts *)m->mine)[variable].count[bucket_of(&m->list[variable], value)]++;
}

static iso_status add_counts(maker *m)
{
    counts *mine = m->mine, *all = m->all;
    memset(mine, 0, m->room);
    each_finite(m, count);
    iso_status status = iso_gather_all(m->ctx, mine, (size_t)m->n_variables * sizeof *mine, all);
    for (int v = 0; status == ISO_OK && v < m->n_variables; v++)
        for (int r = 0; r < iso_ranks(m->ctx); r++)
            for (int b = 0; b < ISO_HISTOGRAM_BUCKETS; b++)
                m->list[v].count[b] += all[r * m->n_variables + v].count[b];
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
    iso_free(m.mine);
    iso_free(m.all);
    return status;
}
