/* Describes reshards as collectives, and counts the elements that they move.
 *
 * What a slot receives follows from its coordinates: it is computed from the extents of its boxes before
 * and after, which are products over dimensions. Along an axis most coordinates are alike (a dimension is
 * split into equal parts, then a shorter one, then empty ones), so sums over slots are computed over
 * classes of coordinates. */
#include "runtime/spmd/collective.h"

#include <stdio.h>
#include <string.h>

#include "runtime/spmd/spmd_impl.h"

/* ---- one reshard, without the axes of one slot, along which nothing happens ---- */

typedef struct change {
    const iso_mesh *mesh;
    const iso_shape *shape;
    iso_layout from, to;
    uint32_t summed;        /* axes along which the slots hold partial sums */
    uint32_t masked;        /* replicated before, partial after: coordinate 0 keeps its part */
    uint32_t kept;          /* sharded before, partial after: each slot keeps its part */
    int same[ISO_MAX_RANK]; /* leading axes that split a dimension alike before and after */
    int64_t group;          /* partial sums of an element */
    bool halves;
} change;

static iso_sharding without_single(const iso_mesh *mesh, const iso_sharding *sharding)
{
    iso_sharding kept = {.addends = sharding->addends, .window = sharding->window};
    for (int i = 0; i < sharding->count; i++)
        if (mesh->size[sharding->axis[i]] > 1)
            kept.axis[kept.count++] = sharding->axis[i];
    return kept;
}

static iso_layout simplify(const iso_mesh *mesh, const iso_layout *layout)
{
    iso_layout simple = *layout;
    for (int d = 0; d < layout->rank; d++)
        simple.dim[d] = without_single(mesh, &layout->dim[d]);
    for (int a = 0; a < mesh->n_axes; a++)
        if (mesh->size[a] == 1)
            simple.partial &= ~(1u << a);
    return simple;
}

static int common_axes(const iso_sharding *a, const iso_sharding *b)
{
    int count = 0;
    while (count < a->count && count < b->count && a->axis[count] == b->axis[count])
        count++;
    return count;
}

static change change_of(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                        const iso_shape *shape, bool halves)
{
    change c = {.mesh = mesh, .shape = shape, .group = 1, .halves = halves};
    c.from = simplify(mesh, from);
    c.to = simplify(mesh, to);
    c.summed = c.from.partial & ~c.to.partial;
    uint32_t fresh = c.to.partial & ~c.from.partial;
    c.kept = fresh & iso_layout_sharded_axes(&c.from);
    c.masked = fresh & ~c.kept;
    for (int d = 0; d < c.from.rank; d++)
        c.same[d] = common_axes(&c.from.dim[d], &c.to.dim[d]);
    for (int a = 0; a < mesh->n_axes; a++)
        c.group *= c.summed & 1u << a ? mesh->size[a] : 1;
    return c;
}

/* True if windows split a dimension before or after, and differ. */
static bool changes_windows(const change *c, int dim)
{
    const iso_sharding *from = &c->from.dim[dim], *to = &c->to.dim[dim];
    return (iso_sharding_has_window(from) || iso_sharding_has_window(to)) && !iso_sharding_equal(from, to);
}

/* ---- kinds ---- */

/* Axes of a dimension after the common ones. */
static uint32_t axes_behind(const iso_sharding *sharding, int same)
{
    uint32_t axes = 0;
    for (int i = same; i < sharding->count; i++)
        axes |= 1u << sharding->axis[i];
    return axes;
}

/* A dimension that gains windows: each slot takes what its windows read beyond its part. A dimension that
 * loses them: what windows left in the parts of other slots is added up there. */
static void find_window_parts(const change *c, int dim, uint32_t axes[ISO_COLLECTIVE_KINDS])
{
    uint32_t old = axes_behind(&c->from.dim[dim], 0), new = axes_behind(&c->to.dim[dim], 0);
    if (iso_sharding_has_window(&c->from.dim[dim]))
        axes[ISO_COLLECTIVE_HALO_SUM] |= old & ~c->kept;
    else
        axes[old & ~c->kept ? ISO_COLLECTIVE_HALO : ISO_COLLECTIVE_SLICE] |= (old & ~c->kept) | new;
}

/* The axes of each kind. An axis that no longer splits a dimension gathers, unless another axis now splits
 * that dimension or this axis splits another one: then every slot has a part for every other slot. */
static void find_parts(const change *c, uint32_t axes[ISO_COLLECTIVE_KINDS])
{
    uint32_t ended = 0, begun = 0, crossed = 0;
    for (int d = 0; d < c->from.rank; d++) {
        if (changes_windows(c, d)) {
            find_window_parts(c, d, axes);
            continue;
        }
        uint32_t old = axes_behind(&c->from.dim[d], c->same[d]) & ~c->kept;
        uint32_t new = axes_behind(&c->to.dim[d], c->same[d]);
        ended |= old;
        begun |= new;
        if (new & ~c->summed)
            crossed |= old;
    }
    crossed |= ended & begun;
    axes[ISO_COLLECTIVE_ALL_TO_ALL] = crossed;
    axes[ISO_COLLECTIVE_ALL_GATHER] = ended & ~crossed;
    axes[ISO_COLLECTIVE_REDUCE_SCATTER] = c->summed & begun;
    axes[ISO_COLLECTIVE_ALL_REDUCE] = c->summed & ~begun;
    axes[ISO_COLLECTIVE_SLICE] |= begun & ~c->summed & ~crossed;
    axes[ISO_COLLECTIVE_LOCAL] = c->masked | c->kept;
}

static void classify(const change *c, iso_collective *out)
{
    find_parts(c, out->part_axes);
    for (int k = 0; k < ISO_COLLECTIVE_MIXED; k++) {
        if (!out->part_axes[k])
            continue;
        bool moves = k > ISO_COLLECTIVE_SLICE;
        out->axes |= moves ? out->part_axes[k] : 0;
        out->kind = out->kind > ISO_COLLECTIVE_SLICE && moves ? ISO_COLLECTIVE_MIXED : (iso_collective_kind)k;
    }
}

/* ---- what one slot takes ---- */

typedef struct range {
    int64_t begin, count;
} range;

static range collective_cut(range whole, const iso_mesh *mesh, int axis, int coordinate)
{
    range part;
    iso_part_range(whole.count, mesh->size[axis], coordinate, &part.begin, &part.count);
    part.begin += whole.begin;
    return part;
}

/* The range that the axes split: the positions of windows or, without windows, the elements. */
static range positions(const iso_sharding *sharding, int64_t n)
{
    return (range){0, iso_sharding_has_window(sharding) ? sharding->window.positions : n};
}

/* The elements that a range of window positions reads. */
static range read_by(const iso_sharding *sharding, int64_t n, range part)
{
    range read = part;
    if (iso_sharding_has_window(sharding))
        iso_sliding_window_covers(&sharding->window, n, part.begin, part.count, &read.begin, &read.count);
    return read;
}

static range range_of(const change *c, const iso_layout *layout, int dim, const int *coordinate)
{
    const iso_sharding *sharding = &layout->dim[dim];
    range part = positions(sharding, c->shape->dim[dim]);
    for (int i = 0; i < sharding->count; i++)
        part = collective_cut(part, c->mesh, sharding->axis[i], coordinate[sharding->axis[i]]);
    return read_by(sharding, c->shape->dim[dim], part);
}

static int64_t overlap(range a, range b)
{
    int64_t begin = a.begin > b.begin ? a.begin : b.begin;
    int64_t end = a.begin + a.count < b.begin + b.count ? a.begin + a.count : b.begin + b.count;
    return end > begin ? end - begin : 0;
}

/* Elements of `want` in the parts which have this slot's coordinates along the kept axes. */
static int64_t covered(const change *c, int dim, int next, range part, range want, const int *coordinate)
{
    const iso_sharding *from = &c->from.dim[dim];
    if (next == from->count)
        return overlap(read_by(from, c->shape->dim[dim], part), want);
    int axis = from->axis[next];
    if (c->kept & 1u << axis)
        return covered(c, dim, next + 1, collective_cut(part, c->mesh, axis, coordinate[axis]), want,
                       coordinate);
    int64_t count = 0;
    for (int i = 0; i < c->mesh->size[axis]; i++)
        count += covered(c, dim, next + 1, collective_cut(part, c->mesh, axis, i), want, coordinate);
    return count;
}

/* True if the parts of a slot's coordinates do not cover what it wants exactly once: some lie outside, or
 * overlap. */
static bool covers_unevenly(const change *c, int dim)
{
    return axes_behind(&c->from.dim[dim], 0) & c->kept ||
           (iso_sharding_has_window(&c->from.dim[dim]) && changes_windows(c, dim));
}

/* The elements read in one exchange: all partial sums of the slot's new box, except its own. */
static int64_t taken_at_once(const change *c, const int *coordinate)
{
    int64_t wanted = 1, own = 1;
    for (int a = 0; a < c->mesh->n_axes; a++)
        if (c->masked & 1u << a && coordinate[a] != 0)
            return 0;
    for (int d = 0; d < c->shape->rank; d++) {
        range all = positions(&c->from.dim[d], c->shape->dim[d]), want = range_of(c, &c->to, d, coordinate);
        wanted *= covers_unevenly(c, d) ? covered(c, d, 0, all, want, coordinate) : want.count;
        own *= overlap(want, range_of(c, &c->from, d, coordinate));
    }
    return wanted * c->group - own;
}

/* The slot's number among those that hold partial sums of its elements: row-major along the summed axes. */
static int64_t number_in_group(const change *c, const int *coordinate)
{
    int64_t number = 0;
    for (int a = 0; a < c->mesh->n_axes; a++)
        if (c->summed & 1u << a)
            number = number * c->mesh->size[a] + coordinate[a];
    return number;
}

/* The elements read in two halves: the other partial sums of its own chunk, then the other chunks. */
static int64_t taken_in_halves(const change *c, const int *coordinate)
{
    int64_t elements = 1, begin, chunk;
    for (int d = 0; d < c->shape->rank; d++)
        elements *= range_of(c, &c->to, d, coordinate).count;
    iso_part_range(elements, c->group, number_in_group(c, coordinate), &begin, &chunk);
    return chunk * (c->group - 1) + elements - chunk;
}

int64_t iso_collective_taken(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                             const iso_shape *shape, bool halves, int slot)
{
    change c = change_of(mesh, from, to, shape, halves);
    int coordinate[ISO_MAX_AXES];
    for (int a = 0; a < mesh->n_axes; a++)
        coordinate[a] = iso_mesh_coordinate(mesh, slot, a);
    return halves ? taken_in_halves(&c, coordinate) : taken_at_once(&c, coordinate);
}

/* ---- sums over slots ---- */

enum { MOST_CLASSES = 64 };

/* Runs of coordinates along one axis: each from its start to the start of the next. `each`: every
 * coordinate is a class of its own. */
typedef struct classes {
    bool each;
    int count;
    int start[MOST_CLASSES]; /* in increasing order */
} classes;

static void add_start(classes *k, int64_t start, int size)
{
    int at = 0;
    if (start <= 0 || start >= size)
        return;
    while (at < k->count && k->start[at] < start)
        at++;
    if (at < k->count && k->start[at] == start)
        return;
    if (k->count == MOST_CLASSES) {
        k->each = true;
        return;
    }
    memmove(&k->start[at + 1], &k->start[at], (size_t)(k->count - at) * sizeof k->start[0]);
    k->start[at] = (int)start;
    k->count++;
}

/* Adds the cuts of a range of n elements by the axes from number `next` on: equal parts first, then a shorter one,
 * then empty ones. */
static void add_cuts(const change *c, const iso_sharding *sharding, int next, int64_t n, classes *of)
{
    if (next == sharding->count || n == 0)
        return;
    int axis = sharding->axis[next], size = c->mesh->size[axis];
    int64_t part = (n + size - 1) / size, full = n / part;
    add_start(&of[axis], full, size);
    add_start(&of[axis], full + 1, size);
    add_cuts(c, sharding, next + 1, part, of);
    add_cuts(c, sharding, next + 1, n - full * part, of);
}

static void find_classes(const change *c, classes *of)
{
    for (int a = 0; a < c->mesh->n_axes; a++) {
        of[a] = (classes){.count = 1};
        if (c->masked & 1u << a)
            add_start(&of[a], 1, c->mesh->size[a]);
    }
    for (int d = 0; d < c->shape->rank; d++) {
        add_cuts(c, &c->from.dim[d], 0, c->shape->dim[d], of);
        add_cuts(c, &c->to.dim[d], 0, c->shape->dim[d], of);
        bool windows = iso_sharding_has_window(&c->from.dim[d]) || iso_sharding_has_window(&c->to.dim[d]);
        int same = windows ? 0 : c->same[d];
        uint32_t old = axes_behind(&c->from.dim[d], same), new = axes_behind(&c->to.dim[d], same);
        for (int a = 0; a < c->mesh->n_axes; a++)
            of[a].each |= (windows || (old && new)) && (old | new) & 1u << a;
    }
}

/* The sum over all slots of the classes chosen so far. axis: the next one to choose. */
static void sum_classes(const change *c, const classes *of, int axis, double slots, int *coordinate,
                        iso_collective *out)
{
    if (axis == c->mesh->n_axes) {
        int64_t taken = c->halves ? taken_in_halves(c, coordinate) : taken_at_once(c, coordinate);
        out->most = taken > out->most ? taken : out->most;
        out->total += (double)taken * slots;
        return;
    }
    const classes *k = &of[axis];
    int size = c->mesh->size[axis], count = k->each ? size : k->count;
    for (int i = 0; i < count; i++) {
        coordinate[axis] = k->each ? i : k->start[i];
        int end = k->each ? i + 1 : i + 1 < count ? k->start[i + 1] : size;
        sum_classes(c, of, axis + 1, slots * (end - coordinate[axis]), coordinate, out);
    }
}

/* The first slot of a group has the largest chunk, so it takes the most. Together the slots take all but
 * one of the partial sums of each element, twice. */
static void sum_halves(const change *c, classes *of, iso_collective *out)
{
    int coordinate[ISO_MAX_AXES] = {0};
    iso_collective at_once = {0};
    change whole = *c;
    for (int a = 0; a < c->mesh->n_axes; a++)
        if (c->summed & 1u << a)
            of[a] = (classes){.count = 1};
    sum_classes(c, of, 0, 1, coordinate, out);
    whole.halves = false;
    sum_classes(&whole, of, 0, 1, coordinate, &at_once); /* (group - 1) times what all slots hold */
    out->total = 2 * at_once.total / (double)c->group;
}

iso_collective iso_collective_of(const iso_mesh *mesh, const iso_layout *from, const iso_layout *to,
                                 const iso_shape *shape, bool halves)
{
    iso_collective out = {0};
    classes of[ISO_MAX_AXES];
    int coordinate[ISO_MAX_AXES] = {0};
    change c = change_of(mesh, from, to, shape, halves);
    classify(&c, &out);
    find_classes(&c, of);
    if (halves)
        sum_halves(&c, of, &out);
    else
        sum_classes(&c, of, 0, 1, coordinate, &out);
    return out;
}

/* ---- text ---- */

const char *iso_collective_name(iso_collective_kind kind)
{
    static const char *const names[ISO_COLLECTIVE_KINDS] = {
        [ISO_COLLECTIVE_LOCAL] = "local",
        [ISO_COLLECTIVE_SLICE] = "slice",
        [ISO_COLLECTIVE_ALL_GATHER] = "all-gather",
        [ISO_COLLECTIVE_ALL_TO_ALL] = "all-to-all",
        [ISO_COLLECTIVE_ALL_REDUCE] = "all-reduce",
        [ISO_COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
        [ISO_COLLECTIVE_HALO] = "halo",
        [ISO_COLLECTIVE_HALO_SUM] = "halo sum",
        [ISO_COLLECTIVE_MIXED] = "mixed",
    };
    return names[kind];
}

static size_t add_part(const iso_mesh *mesh, const char *name, uint32_t axes, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s", name);
    const char *lead = "(";
    for (int a = 0; a < mesh->n_axes && at < size; a++) {
        if (!(axes & 1u << a))
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s%s", lead, mesh->name[a]);
        lead = ", ";
    }
    if (axes && at < size)
        at += (size_t)snprintf(text + at, size - at, ")");
    return at;
}

char *iso_collective_text(const iso_mesh *mesh, const iso_collective *collective, char *text, size_t size)
{
    size_t at = 0;
    bool moves = collective->kind > ISO_COLLECTIVE_SLICE;
    text[0] = 0;
    for (int k = moves ? ISO_COLLECTIVE_ALL_GATHER : 0; k < ISO_COLLECTIVE_MIXED && at < size; k++) {
        if (!collective->part_axes[k])
            continue;
        if (at)
            at += (size_t)snprintf(text + at, size - at, " + ");
        if (at < size)
            at += add_part(mesh, iso_collective_name((iso_collective_kind)k), collective->part_axes[k],
                           text + at, size - at);
    }
    if (!at)
        snprintf(text, size, "%s", iso_collective_name(collective->kind));
    return text;
}
