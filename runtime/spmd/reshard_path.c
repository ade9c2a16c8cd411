/* Reshard paths: the intermediate layouts by which one layout becomes another with the fewest bytes.
 *
 * Boxes that only move go directly: a slot receives what it lacks, which cannot be avoided. Partial sums
 * are different: a slot that wants the sum of k of them receives k - 1 of each element, and if several
 * slots want the same sum, each of them does. So a sum is first scattered, over the axes along which it is
 * partial and those along which the result is replicated, and gathered afterwards, as in an all-reduce in
 * two halves (Rabenseifner 2004). The dimension to split along each axis is found by trying. */
#include <float.h>

#include "runtime/spmd/collective.h"
#include "runtime/spmd/spmd_impl.h"

typedef struct path {
    int count;
    iso_layout stop[ISO_MAX_RESHARD_PATH];
    double total, most;
} path;

typedef struct search {
    const iso_mesh *mesh;
    const iso_layout *from, *to;
    const iso_shape *shape;
    uint32_t summed;
    path best;
} search;

static bool is_better(const path *a, const path *b)
{
    if (a->total != b->total)
        return a->total < b->total;
    return a->count != b->count ? a->count < b->count : a->most < b->most;
}

static void consider(search *s, path candidate)
{
    const iso_layout *at = s->from;
    for (int i = 0; i < candidate.count; i++) {
        iso_collective step = iso_collective_of(s->mesh, at, &candidate.stop[i], s->shape, false);
        candidate.total += step.total;
        candidate.most += (double)step.most;
        at = &candidate.stop[i];
    }
    if (is_better(&candidate, &s->best))
        s->best = candidate;
}

static void reshard_path_append(iso_sharding *sharding, int axis)
{
    sharding->axis[sharding->count++] = (int8_t)axis;
}

static uint32_t axes_in_use(const iso_mesh *mesh, const iso_layout *layout)
{
    uint32_t single = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        single |= mesh->size[a] == 1 ? 1u << a : 0;
    return iso_layout_sharded_axes(layout) | layout->partial | single;
}

/* Tries paths through `stop`, split further over more axes along each dimension. */
static void try_cuts(search *s, const iso_layout *stop, uint32_t axes)
{
    for (int d = 0; d < stop->rank; d++) {
        path candidate = {.count = 2, .stop = {*stop, *s->to}};
        for (int a = 0; a < s->mesh->n_axes; a++)
            if (axes & 1u << a)
                reshard_path_append(&candidate.stop[0].dim[d], a);
        consider(s, candidate);
    }
}

static void try_stop(search *s, const iso_layout *stop)
{
    uint32_t idle = ~axes_in_use(s->mesh, stop) & ((1u << s->mesh->n_axes) - 1);
    consider(s, (path){.count = 2, .stop = {*stop, *s->to}});
    try_cuts(s, stop, idle & s->summed);
    try_cuts(s, stop, idle);
}

/* Dimensions that are sharded stay so; partial sums are scattered as `to` is sharded. */
static iso_layout scattered(const search *s)
{
    iso_layout stop = *s->from;
    stop.partial &= s->to->partial;
    for (int d = 0; d < stop.rank; d++)
        for (int i = 0; i < s->to->dim[d].count; i++)
            if (s->summed & 1u << s->to->dim[d].axis[i])
                reshard_path_append(&stop.dim[d], s->to->dim[d].axis[i]);
    return stop;
}

static bool has_windows(const iso_layout *layout)
{
    for (int d = 0; d < layout->rank; d++)
        if (iso_sharding_has_window(&layout->dim[d]))
            return true;
    return false;
}

static int search_path(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                       const iso_shape *shape, iso_layout *stops)
{
    search s = {.mesh = mesh, .from = from, .to = to, .shape = shape, .best = {.total = DBL_MAX}};
    s.summed = from->partial & ~to->partial;
    consider(&s, (path){.count = 1, .stop = {*to}});
    if (s.summed && s.best.total > 0 && !has_windows(from) && !has_windows(to)) {
        iso_layout before = scattered(&s), after = *to;
        after.partial &= from->partial;
        try_stop(&s, &before);
        try_stop(&s, &after);
    }
    for (int i = 0; i < s.best.count; i++)
        stops[i] = s.best.stop[i];
    return s.best.count;
}

int iso_reshard_path(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                     const iso_shape *shape, iso_layout stop[ISO_MAX_RESHARD_PATH])
{
    if (iso_layout_equal(from, to))
        return 0;
    bool other_addends = from->partial && to->partial && from->partial_max != to->partial_max;
    if (!other_addends)
        return search_path(mesh, from, to, shape, stop);
    iso_layout reduced = *to; /* sums are independent of candidates for a maximum */
    reduced.partial = 0;
    int count = search_path(mesh, from, &reduced, shape, stop);
    stop[count] = *to;
    return count + 1;
}
