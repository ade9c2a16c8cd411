/* Reshards: from whom a slot takes what, by intersecting boxes. All-gather, slice, all-to-all, all-reduce and
 * reduce-scatter are the cases in which the two layouts differ in one way. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/spmd/program.h"

/* What each axis does in a reshard, seen from the slot that receives. */
typedef enum axis_role {
    SAME, /* the source has my coordinate: the axis replicates, stays partial, or sharded what becomes partial
           * (each keeps its part among zeros) */
    SEARCH, /* the axis sharded the tensor: parts lie along it */
    SUM,    /* addends lie along it */
    MASK,   /* replicated before, partial after: coordinate 0 keeps its part, the others hold zeros */
} axis_role;

static axis_role role_of(const iso_layout *from, const iso_layout *to, int axis)
{
    uint32_t bit = 1u << axis;
    if (from->partial & bit)
        return to->partial & bit ? SAME : SUM;
    bool sharded = iso_layout_sharded_axes(from) & bit;
    if (to->partial & bit)
        return sharded ? SAME : MASK;
    return sharded ? SEARCH : SAME;
}

typedef struct visitor {
    const iso_mesh *mesh;
    const iso_layout *from;
    const iso_shape *shape;
    iso_box want;
    axis_role role[ISO_MAX_AXES];
    int *slot; /* room for the addends of a region */
    iso_box *box;
    iso_region_visit visit;
    void *arg;
} visitor;

static int compare_slots(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The slots that differ from `slot` along the SUM axes, in increasing order. */
static int addends(visitor *v, int slot)
{
    int count = 1;
    v->slot[0] = slot;
    for (int a = 0; a < v->mesh->axes; a++) {
        if (v->role[a] != SUM)
            continue;
        int before = count;
        for (int c = 0; c < v->mesh->size[a]; c++)
            for (int i = 0; i < before; i++)
                if (c != iso_mesh_coordinate(v->mesh, v->slot[i], a))
                    v->slot[count++] = iso_mesh_with_coordinate(v->mesh, v->slot[i], a, c);
    }
    for (int i = 1; i < count; i++) /* nearly always few and in order */
        for (int j = i; j > 0 && compare_slots(&v->slot[j - 1], &v->slot[j]) > 0; j--) {
            int kept = v->slot[j];
            v->slot[j] = v->slot[j - 1];
            v->slot[j - 1] = kept;
        }
    return count;
}

static iso_status visit_part(visitor *v, int slot)
{
    iso_box part = iso_layout_box(v->mesh, v->from, v->shape, slot);
    iso_box common = iso_box_intersect(&v->want, &part);
    if (iso_box_count(&common) == 0)
        return ISO_OK;
    int count = addends(v, slot);
    for (int i = 0; i < count; i++)
        v->box[i] = part;
    iso_region region = {.box = common, .sources = count, .slot = v->slot, .source_box = v->box};
    return v->visit(v->arg, &region);
}

/* Every part along the SEARCH axes from `axis` on. */
static iso_status search(visitor *v, int slot, int axis)
{
    if (axis == v->mesh->axes)
        return visit_part(v, slot);
    if (v->role[axis] != SEARCH)
        return search(v, slot, axis + 1);
    iso_status status = ISO_OK;
    for (int c = 0; c < v->mesh->size[axis] && status == ISO_OK; c++)
        status = search(v, iso_mesh_with_coordinate(v->mesh, slot, axis, c), axis + 1);
    return status;
}

iso_status iso_reshard_visit(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, int slot, iso_region_visit visit, void *arg)
{
    visitor v = {.mesh = mesh, .from = from, .shape = shape, .visit = visit, .arg = arg};
    v.want = iso_layout_box(mesh, to, shape, slot);
    int sums = 1, start = slot;
    for (int a = 0; a < mesh->axes; a++) {
        v.role[a] = role_of(from, to, a);
        if (v.role[a] == MASK && iso_mesh_coordinate(mesh, slot, a) != 0)
            return ISO_OK;
        if (v.role[a] == SUM) {
            sums *= mesh->size[a];
            start = iso_mesh_with_coordinate(mesh, start, a, 0);
        }
    }
    v.slot = iso_new((size_t)sums * sizeof *v.slot);
    v.box = iso_new((size_t)sums * sizeof *v.box);
    iso_status status = v.slot && v.box
                            ? search(&v, start, 0)
                            : iso_error(ISO_NO_MEMORY, "no memory for a reshard of %d slots", sums);
    iso_free(v.slot);
    iso_free(v.box);
    return status;
}

/* True where `to` cuts the dimension as `from` does and then perhaps further: the part lies inside. */
static bool refines(const iso_sharding *from, const iso_sharding *to)
{
    return from->count <= to->count && memcmp(from->axis, to->axis, (size_t)from->count) == 0;
}

/* True where a slot's new part of the dimension comes from its old one: `to` refines `from`, but for axes
 * that cut last in `from` and along which the tensor becomes partial. */
static bool keeps_part(const iso_sharding *from, const iso_sharding *to, uint32_t partial)
{
    int kept = 0;
    while (kept < from->count && !(partial & 1u << from->axis[kept]))
        kept++;
    for (int i = kept; i < from->count; i++)
        if (!(partial & 1u << from->axis[i]))
            return false;
    iso_sharding rest = *from;
    rest.count = (int8_t)kept;
    return refines(&rest, to);
}

bool iso_reshard_local(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to)
{
    for (int a = 0; a < mesh->axes; a++)
        if (role_of(from, to, a) == SUM && mesh->size[a] > 1)
            return false;
    for (int d = 0; d < from->rank; d++)
        if (!keeps_part(&from->dim[d], &to->dim[d], to->partial))
            return false;
    return true;
}

static double parts(const iso_mesh *mesh, const iso_sharding *sharding)
{
    double count = 1;
    for (int i = 0; i < sharding->count; i++)
        count *= mesh->size[sharding->axis[i]];
    return count;
}

double iso_reshard_cost(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                        const iso_shape *shape)
{
    double wanted = 1, had = 1, addends = 1, whole = 1;
    bool scattered = false;
    if (iso_reshard_local(mesh, from, to))
        return 0;
    for (int d = 0; d < shape->rank; d++) {
        double n = (double)shape->dim[d], after = n / parts(mesh, &to->dim[d]),
               before = n / parts(mesh, &from->dim[d]);
        wanted *= after;
        whole *= before;
        had *= refines(&from->dim[d], &to->dim[d])   ? after
               : refines(&to->dim[d], &from->dim[d]) ? before
                                                     : before * after / (n > 0 ? n : 1);
    }
    for (int a = 0; a < mesh->axes; a++)
        if (role_of(from, to, a) == SUM) {
            addends *= mesh->size[a];
            scattered |= (iso_layout_sharded_axes(to) & 1u << a) != 0;
        }
    if (addends == 1)
        return wanted - had;
    /* reduce-scatter takes (k - 1) times its own part; an all-reduce is that and a gather */
    return scattered ? (addends - 1) * wanted
                     : 2 * (addends - 1) / addends * (wanted > whole ? wanted : whole);
}
