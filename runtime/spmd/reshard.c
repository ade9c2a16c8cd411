/* Reshards: which slots each slot takes its elements from, found by intersecting boxes. All-gather, slice,
 * all-to-all, all-reduce and reduce-scatter are the cases in which the two layouts differ in one way. */
#include <assert.h>
#include <float.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/spmd/program.h"

/* The role of each axis in a reshard, seen from the slot that receives. */
typedef enum axis_role {
    SAME, /* the source has the receiver's coordinate: the axis replicates, stays partial, turns from sharded
           * into partial (each slot keeps its part among zeros), or splits the positions of one window
           * before and after */
    SEARCH, /* the axis sharded the tensor: look for parts along it */
    SUM,    /* the tensor is partial along it: partial sums of the whole, or of parts that overlap */
    MASK,   /* replicated before, partial after: coordinate 0 keeps its part, the others hold zeros */
} axis_role;

static axis_role role_of(const iso_layout *from, const iso_layout *to, int axis)
{
    uint32_t bit = 1u << axis;
    if (from->partial & bit)
        return to->partial & bit ? SAME : SUM;
    int d = iso_layout_dimension_of(from, axis);
    if (to->partial & bit)
        return d >= 0 ? SAME : MASK;
    if (d < 0)
        return SAME;
    if (!iso_sharding_has_window(&from->dim[d]))
        return SEARCH;
    return iso_sharding_equal(&from->dim[d], &to->dim[d]) ? SAME : SUM;
}

/* Halos are copies: they are read only by readers that need the same halo. */
static bool from_other_halo(const iso_layout *from, const iso_layout *to)
{
    for (int d = 0; d < from->rank; d++)
        if (iso_sharding_has_window(&from->dim[d]) && !from->dim[d].addends &&
            !iso_sharding_equal(&from->dim[d], &to->dim[d]))
            return true;
    return false;
}

typedef struct visitor {
    const iso_mesh *mesh;
    const iso_layout *from;
    const iso_shape *shape;
    iso_box want, hull; /* hull: the smallest box around what the sources have of it */
    axis_role role[ISO_MAX_AXES];
    int n_addends; /* slots that may hold partial sums, in increasing order, and their boxes */
    int *slot;
    iso_box *box;
    int *region_slot; /* room for those of one region */
    iso_box *region_box;
    iso_region_visit visit;
    void *arg;
} visitor;

/* The slots that differ from `slot` along the SUM axes only, in increasing order; `slot` is the first of
 * them along these axes. */
static int list_addends(visitor *v, int slot)
{
    int count = 1;
    v->slot[0] = slot;
    for (int a = v->mesh->n_axes - 1; a >= 0;
         a--) { /* the last axis varies fastest, so the list stays in order */
        if (v->role[a] != SUM)
            continue;
        int before = count;
        for (int c = 1; c < v->mesh->size[a]; c++)
            for (int i = 0; i < before; i++)
                v->slot[count++] = iso_mesh_with_coordinate(v->mesh, v->slot[i], a, c);
    }
    return count;
}

static void widen(iso_box *hull, const iso_box *box)
{
    for (int d = 0; d < box->rank; d++) {
        int64_t end = hull->offset[d] + hull->extent[d], box_end = box->offset[d] + box->extent[d];
        hull->offset[d] = box->offset[d] < hull->offset[d] ? box->offset[d] : hull->offset[d];
        hull->extent[d] = (box_end > end ? box_end : end) - hull->offset[d];
    }
}

/* Keeps those that hold some of what is wanted. */
static void find_addends(visitor *v, int slot)
{
    int count = list_addends(v, slot);
    v->n_addends = 0;
    for (int i = 0; i < count; i++) {
        iso_box part = iso_layout_box(v->mesh, v->from, v->shape, v->slot[i]);
        iso_box common = iso_box_intersect(&v->want, &part);
        if (iso_box_count(&common) == 0)
            continue;
        if (v->n_addends == 0)
            v->hull = common;
        widen(&v->hull, &common);
        v->slot[v->n_addends] = v->slot[i];
        v->box[v->n_addends++] = part;
    }
}

static iso_status visit_region(visitor *v, const iso_box *box)
{
    iso_region region = {.box = *box, .slot = v->region_slot, .source_box = v->region_box};
    for (int i = 0; i < v->n_addends; i++) {
        iso_box common = iso_box_intersect(box, &v->box[i]);
        if (!iso_box_equal(&common, box))
            continue;
        v->region_slot[region.sources] = v->slot[i];
        v->region_box[region.sources++] = v->box[i];
    }
    return region.sources ? v->visit(v->arg, &region) : ISO_OK;
}

/* The next boundary of a box after `at`, in dimension d. */
static int64_t next_cut(const visitor *v, int d, int64_t at)
{
    int64_t next = v->hull.offset[d] + v->hull.extent[d];
    for (int i = 0; i < v->n_addends; i++) {
        int64_t begin = v->box[i].offset[d], end = begin + v->box[i].extent[d];
        if (begin > at && begin < next)
            next = begin;
        if (end > at && end < next)
            next = end;
    }
    return next;
}

/* Visits the hull from dimension d on, split wherever a box begins or ends; as one region if the boxes are
 * equal. */
static iso_status visit_cut(visitor *v, iso_box *box, int d)
{
    if (d == box->rank)
        return visit_region(v, box);
    iso_status status = ISO_OK;
    int64_t end = v->hull.offset[d] + v->hull.extent[d];
    for (int64_t at = v->hull.offset[d], next; at < end; at = next) {
        next = next_cut(v, d, at);
        box->offset[d] = at;
        box->extent[d] = next - at;
        ISO_TRY(visit_cut(v, box, d + 1));
    }
done:
    return status;
}

static iso_status visit_part(visitor *v, int slot)
{
    iso_box box = v->want;
    find_addends(v, slot);
    return v->n_addends ? visit_cut(v, &box, 0) : ISO_OK;
}

/* Visits every part along the SEARCH axes from `axis` on. */
static iso_status search(visitor *v, int slot, int axis)
{
    if (axis == v->mesh->n_axes)
        return visit_part(v, slot);
    if (v->role[axis] != SEARCH)
        return search(v, slot, axis + 1);
    iso_status status = ISO_OK;
    for (int c = 0; c < v->mesh->size[axis]; c++)
        ISO_TRY(search(v, iso_mesh_with_coordinate(v->mesh, slot, axis, c), axis + 1));
done:
    return status;
}

iso_status iso_reshard_visit(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, int slot, iso_region_visit visit, void *arg)
{
    visitor v = {.mesh = mesh, .from = from, .shape = shape, .visit = visit, .arg = arg};
    assert(!from_other_halo(from, to));
    v.want = iso_layout_box(mesh, to, shape, slot);
    int sums = 1, start = slot;
    for (int a = 0; a < mesh->n_axes; a++) {
        v.role[a] = role_of(from, to, a);
        if (v.role[a] == MASK && iso_mesh_coordinate(mesh, slot, a) != 0)
            return ISO_OK;
        if (v.role[a] == SUM) {
            sums *= mesh->size[a];
            start = iso_mesh_with_coordinate(mesh, start, a, 0);
        }
    }
    v.slot = iso_new(2 * (size_t)sums * sizeof *v.slot);
    v.box = iso_new(2 * (size_t)sums * sizeof *v.box);
    v.region_slot = v.slot + sums;
    v.region_box = v.box + sums;
    iso_status status = v.slot && v.box ? search(&v, start, 0) : iso_no_memory("a reshard of %d slots", sums);
    iso_free(v.slot);
    iso_free(v.box);
    return status;
}

/* Identifies the pulls of a slot: they follow from its new box, and from its coordinates along the axes that stay. */
iso_hash_key iso_reshard_key(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, int slot)
{
    iso_box want = iso_layout_box(mesh, to, shape, slot);
    int start = slot;
    for (int a = 0; a < mesh->n_axes; a++) {
        axis_role role = role_of(from, to, a);
        if (role == MASK && iso_mesh_coordinate(mesh, slot, a) != 0)
            return (iso_hash_key){{0, 0}}; /* nothing */
        if (role == SUM || role == SEARCH)
            start = iso_mesh_with_coordinate(mesh, start, a, 0);
    }
    size_t bytes = (size_t)want.rank * sizeof *want.offset;
    iso_hash_key key = {{1 + (uint64_t)start, iso_hash_mix(1 + (uint64_t)start)}};
    for (int i = 0; i < 2; i++)
        key.word[i] = iso_hash_bytes(iso_hash_bytes(key.word[i], want.offset, bytes), want.extent, bytes);
    return key;
}

/* ---- local reshards ---- */

/* True if a slot's new part of the dimension comes from its old one: `to` refines `from`, except for the
 * last axes of `from` along which the tensor becomes partial. */
static bool keeps_part(const iso_sharding *from, const iso_sharding *to, uint32_t partial)
{
    int kept = 0;
    if (iso_sharding_equal(from, to))
        return true;
    while (kept < from->count && !(partial & 1u << from->axis[kept]))
        kept++;
    for (int i = kept; i < from->count; i++)
        if (!(partial & 1u << from->axis[i]))
            return false;
    bool windows = iso_sharding_has_window(from) || iso_sharding_has_window(to);
    iso_sharding rest = *from;
    rest.count = (int8_t)kept;
    return windows ? kept == 0 : iso_sharding_refines(&rest, to);
}

bool iso_reshard_local(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to)
{
    for (int a = 0; a < mesh->n_axes; a++)
        if (role_of(from, to, a) == SUM && mesh->size[a] > 1)
            return false;
    for (int d = 0; d < from->rank; d++)
        if (!keeps_part(&from->dim[d], &to->dim[d], to->partial))
            return false;
    return true;
}

/* ---- costs ---- */

static double parts(const iso_mesh *mesh, const iso_sharding *sharding)
{
    double count = 1;
    for (int i = 0; i < sharding->count; i++)
        count *= mesh->size[sharding->axis[i]];
    return count;
}

/* The number of elements of a dimension that a slot holds. */
static double reshard_share(const iso_mesh *mesh, const iso_sharding *sharding, double n)
{
    return iso_sharding_has_window(sharding) ? (double)iso_sharding_longest(mesh, sharding, (int64_t)n)
                                             : n / parts(mesh, sharding);
}

/* Elements of a dimension: what a slot has afterwards, what it had before, how much of the former it had
 * itself, and how many overlapping parts contain each. */
typedef struct extents {
    double after, before, own, overlap;
} extents;

static extents reshard_compare(const iso_mesh *mesh, const iso_sharding *from, const iso_sharding *to,
                               double n)
{
    extents e = {reshard_share(mesh, to, n), reshard_share(mesh, from, n), 0, 1};
    if (iso_sharding_equal(from, to))
        e.own = e.after;
    else if (iso_sharding_refines(from, to) || iso_sharding_refines(to, from))
        e.own = e.after < e.before ? e.after : e.before;
    else
        e.own = n > 0 ? e.before * e.after / n : 0;
    if (iso_sharding_has_window(from) && !iso_sharding_equal(from, to) && n > 0)
        e.overlap = e.before * parts(mesh, from) / n;
    return e;
}

double iso_reshard_cost(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                        const iso_shape *shape)
{
    double wanted = 1, had = 1, addends = 1, whole = 1, overlap = 1;
    bool scattered = false;
    if (from_other_halo(from, to))
        return DBL_MAX;
    if (iso_reshard_local(mesh, from, to))
        return 0;
    for (int d = 0; d < shape->rank; d++) {
        extents e = reshard_compare(mesh, &from->dim[d], &to->dim[d], (double)shape->dim[d]);
        wanted *= e.after;
        whole *= e.before;
        had *= e.own;
        overlap *= e.overlap;
    }
    for (int a = 0; a < mesh->n_axes; a++)
        if (role_of(from, to, a) == SUM && from->partial & 1u << a) {
            addends *= mesh->size[a];
            scattered |= (iso_layout_sharded_axes(to) & 1u << a) != 0;
        }
    if (addends == 1 || overlap > 1)
        return wanted * overlap * addends - had;
    /* a reduce-scatter receives (k - 1) times its own part; an all-reduce is that and a gather */
    return scattered ? (addends - 1) * wanted
                     : 2 * (addends - 1) / addends * (wanted > whole ? wanted : whole);
}
