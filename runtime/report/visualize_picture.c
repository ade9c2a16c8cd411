/* The contents of the picture of a layout: which dimensions are drawn, their parts, and which slots hold
 * each cell. */
#include <inttypes.h>

#include "runtime/base/memory.h"
#include "runtime/report/visualize_impl.h"

static const char PICTURE[] = "the picture of a layout on mesh %s";

enum { MOST_SLICES = 4 };

/* The parts of one dimension: all parts that its axes make, and those of them that are not empty. */
typedef struct cutting {
    int64_t n_numbers; /* parts */
    int filled;        /* parts that hold something */
    int64_t *numbers;  /* [filled] */
    int *shown_number; /* [numbers] among the filled ones, -1: empty */
    int *shown;        /* [filled] among those that are drawn, -1: left out */
} cutting;

/* Slots by cell: those of cell i are slot[first[i] .. first[i + 1] - 1], in increasing order. */
typedef struct holders {
    int64_t *first;
    int *slot;
} holders;

typedef struct maker {
    iso_picture *picture;
    cutting cut[ISO_MAX_RANK + 1]; /* the last for sides without a dimension */
    int *shown_slice;              /* [slices], -1: left out */
    holders held;
} maker;

/* ---- parts of a dimension ---- */

static int64_t count_parts(const iso_mesh *mesh, const iso_sharding *sharding)
{
    int64_t count = 1;
    for (int i = 0; i < sharding->count; i++)
        count *= mesh->size[sharding->axis[i]];
    return count;
}

static void find_part(const iso_mesh *mesh, const iso_sharding *sharding, int64_t n, int64_t number,
                      int64_t *begin, int64_t *count)
{
    int64_t below = count_parts(mesh, sharding);
    *begin = 0;
    *count = n;
    for (int i = 0; i < sharding->count; i++) {
        int64_t size = mesh->size[sharding->axis[i]], at;
        below /= size;
        iso_part_range(*count, size, number / below % size, &at, count);
        *begin += at;
    }
}

void iso_picture_part_range(const iso_picture *picture, int dim, int64_t number, int64_t *begin,
                            int64_t *count)
{
    find_part(picture->mesh, &picture->layout->dim[dim], picture->shape.dim[dim], number, begin, count);
}

static int64_t part_of_slot(const iso_mesh *mesh, const iso_sharding *sharding, int slot)
{
    int64_t number = 0;
    for (int i = 0; i < sharding->count; i++)
        number = number * mesh->size[sharding->axis[i]] + iso_mesh_coordinate(mesh, slot, sharding->axis[i]);
    return number;
}

static iso_status list_parts(const iso_mesh *mesh, const iso_sharding *sharding, int64_t n, cutting *cut)
{
    cut->n_numbers = count_parts(mesh, sharding);
    cut->numbers = iso_new((size_t)cut->n_numbers * sizeof *cut->numbers);
    cut->shown_number = iso_new((size_t)cut->n_numbers * sizeof *cut->shown_number);
    cut->shown = iso_new((size_t)cut->n_numbers * sizeof *cut->shown);
    if (!cut->numbers || !cut->shown_number || !cut->shown)
        return iso_no_memory(PICTURE, mesh->text);
    for (int64_t k = 0; k < cut->n_numbers; k++) {
        int64_t begin, count;
        find_part(mesh, sharding, n, k, &begin, &count);
        cut->shown_number[k] = count > 0 ? cut->filled : -1;
        if (count > 0)
            cut->numbers[cut->filled++] = k;
    }
    return ISO_OK;
}

/* Chooses the parts of `count` to show: the first ones and the last. Returns their number; which: [count],
 * -1 for a part that is left out. */
static int visualize_picture_choose(int64_t count, int most, int *which)
{
    int shown = count < most ? (int)count : most, last = count > most ? most / 3 : 0;
    for (int64_t i = 0; i < count; i++)
        which[i] = i < shown - last ? (int)i : i >= count - last ? shown - (int)(count - i) : -1;
    return shown;
}

/* ---- what is drawn ---- */

static bool is_cut(const maker *m, int dim)
{
    return m->cut[dim].n_numbers > 1;
}

/* Chooses two dimensions: those that are sharded, or the first and the last. */
static void choose_dimensions(maker *m)
{
    int rank = m->picture->shape.rank, chosen[ISO_MAX_RANK + 2], count = 0;
    for (int d = 0; d < rank; d++)
        if (is_cut(m, d))
            chosen[count++] = d;
    if (count == 1 && rank > 1)
        chosen[count++] = chosen[0] == 0 ? rank - 1 : 0;
    if (count == 0 && rank > 1) {
        chosen[count++] = 0;
        chosen[count++] = rank - 1;
    }
    if (count >= 2) {
        m->picture->side[0].dim = chosen[0] < chosen[1] ? chosen[0] : chosen[1];
        m->picture->side[1].dim = chosen[0] < chosen[1] ? chosen[1] : chosen[0];
    } else {
        m->picture->side[0].dim = -1;
        m->picture->side[1].dim = rank - 1;
    }
}

static bool is_drawn(const iso_picture *picture, int dim)
{
    return dim == picture->side[0].dim || dim == picture->side[1].dim;
}

static cutting *cutting_of(maker *m, int dim)
{
    return &m->cut[dim < 0 ? ISO_MAX_RANK : dim];
}

static iso_status make_side(maker *m, iso_picture_side *side, int most)
{
    const iso_picture *picture = m->picture;
    cutting *cut = cutting_of(m, side->dim);
    side->shown = visualize_picture_choose(cut->filled, most, cut->shown);
    side->part = iso_new(((size_t)side->shown + 1) * sizeof *side->part);
    if (!side->part)
        return iso_no_memory(PICTURE, picture->mesh->text);
    int64_t last = -1;
    for (int i = 0; i < cut->filled; i++) {
        if (cut->shown[i] < 0)
            continue;
        iso_picture_part *part = &side->part[cut->shown[i]];
        *part = (iso_picture_part){.count = 1, .number = cut->numbers[i], .skipped = i - last - 1};
        if (side->dim >= 0)
            iso_picture_part_range(picture, side->dim, part->number, &part->begin, &part->count);
        last = i;
    }
    return ISO_OK;
}

static iso_status choose_slices(maker *m)
{
    iso_picture *picture = m->picture;
    picture->n_slices = 1;
    for (int d = 0; d < picture->shape.rank; d++)
        picture->n_slices *= is_drawn(picture, d) ? 1 : m->cut[d].filled;
    m->shown_slice = iso_new(((size_t)picture->n_slices + 1) * sizeof *m->shown_slice);
    if (!m->shown_slice)
        return iso_no_memory(PICTURE, picture->mesh->text);
    picture->n_shown_slices = visualize_picture_choose(picture->n_slices, MOST_SLICES, m->shown_slice);
    picture->slices = iso_new(((size_t)picture->n_shown_slices + 1) * sizeof *picture->slices);
    if (!picture->slices)
        return iso_no_memory(PICTURE, picture->mesh->text);
    for (int64_t i = 0; i < picture->n_slices; i++)
        if (m->shown_slice[i] >= 0)
            picture->slices[m->shown_slice[i]] = i;
    return ISO_OK;
}

/* ---- the holders of cells ---- */

enum { HOLDS_NOTHING = -1, NOT_SHOWN = -2 };

/* The cell of a slot. */
static int64_t cell_of(const maker *m, int slot)
{
    const iso_picture *picture = m->picture;
    int64_t slice = 0, at[2] = {0, 0};
    for (int d = 0; d < picture->shape.rank; d++) {
        const cutting *cut = &m->cut[d];
        int shown_number = cut->shown_number[part_of_slot(picture->mesh, &picture->layout->dim[d], slot)];
        if (shown_number < 0)
            return HOLDS_NOTHING;
        if (d == picture->side[0].dim)
            at[0] = cut->shown[shown_number];
        else if (d == picture->side[1].dim)
            at[1] = cut->shown[shown_number];
        else
            slice = slice * cut->filled + shown_number;
    }
    if (m->shown_slice[slice] < 0 || at[0] < 0 || at[1] < 0)
        return NOT_SHOWN;
    return (m->shown_slice[slice] * (int64_t)picture->side[0].shown + at[0]) * picture->side[1].shown + at[1];
}

static int64_t count_cells(const iso_picture *picture)
{
    return (int64_t)picture->n_shown_slices * picture->side[0].shown * picture->side[1].shown;
}

/* Sorts the slots by cells; the idle ones come last. */
static iso_status visualize_picture_find_holders(maker *m)
{
    const iso_picture *picture = m->picture;
    int64_t cells = count_cells(picture);
    int slots = picture->mesh->n_slots;
    m->held.first = iso_new(((size_t)cells + 2) * sizeof *m->held.first);
    m->held.slot = iso_new((size_t)slots * sizeof *m->held.slot);
    if (!m->held.first || !m->held.slot)
        return iso_no_memory(PICTURE, picture->mesh->text);
    int64_t *end =
        m->held.first; /* holds counts, then the ends of the cells, then, slot by slot, their beginnings */
    for (int s = 0; s < slots; s++) {
        int64_t cell = cell_of(m, s);
        if (cell != NOT_SHOWN)
            end[cell == HOLDS_NOTHING ? cells : cell]++;
    }
    for (int64_t i = 1; i <= cells; i++)
        end[i] += end[i - 1];
    end[cells + 1] = end[cells];
    for (int s = slots - 1; s >= 0; s--) {
        int64_t cell = cell_of(m, s);
        if (cell != NOT_SHOWN)
            m->held.slot[--end[cell == HOLDS_NOTHING ? cells : cell]] = s;
    }
    return ISO_OK;
}

/* ---- cells ---- */

static iso_status describe_cells(maker *m)
{
    iso_picture *picture = m->picture;
    int64_t cells = count_cells(picture);
    const int64_t *first = m->held.first;
    int *room = iso_new((size_t)picture->mesh->n_slots * sizeof *room);
    picture->cell = iso_new(((size_t)cells + 1) * sizeof *picture->cell);
    iso_status status = ISO_OK;
    if (!room || !picture->cell)
        ISO_TRY(iso_no_memory(PICTURE, picture->mesh->text));
    for (int64_t i = 0; i < cells; i++)
        ISO_TRY(iso_picture_describe(picture, m->held.slot + first[i], first[i + 1] - first[i], room,
                                     &picture->cell[i]));
    picture->idle = first[cells + 1] - first[cells];
    iso_picture_list(m->held.slot + first[cells], picture->idle, picture->idle_slots,
                     sizeof picture->idle_slots);
done:
    iso_free(room);
    return status;
}

const iso_picture_cell *iso_picture_at(const iso_picture *picture, int slice, int row, int column)
{
    return &picture->cell[((int64_t)slice * picture->side[0].shown + row) * picture->side[1].shown + column];
}

/* ---- creating and destroying ---- */

static iso_status visualize_picture_check(const iso_layout *layout, const iso_shape *shape)
{
    char text[160];
    if (!layout)
        return iso_error(ISO_INVALID, "there is no layout to be drawn");
    if (shape->rank < 0 || shape->rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "a shape of %d dimensions; there may be 0 to %d", shape->rank,
                         ISO_MAX_RANK);
    if (shape->rank != layout->rank)
        return iso_error(ISO_INVALID, "a layout of %d dimensions for the shape %s", layout->rank,
                         iso_shape_text(shape, text, sizeof text));
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] < 0)
            return iso_error(ISO_INVALID, "shape %s: dimension %d is not known",
                             iso_shape_text(shape, text, sizeof text), d);
    return ISO_OK;
}

static iso_status visualize_picture_make(maker *m, int rows, int columns)
{
    iso_picture *picture = m->picture;
    const iso_sharding none = {0};
    iso_status status = ISO_OK;
    for (int d = 0; d < picture->shape.rank; d++) {
        ISO_TRY(list_parts(picture->mesh, &picture->layout->dim[d], picture->shape.dim[d], &m->cut[d]));
        picture->filled[d] = m->cut[d].filled;
    }
    ISO_TRY(list_parts(picture->mesh, &none, 1, cutting_of(m, -1)));
    choose_dimensions(m);
    ISO_TRY(make_side(m, &picture->side[0], rows));
    ISO_TRY(make_side(m, &picture->side[1], columns));
    ISO_TRY(choose_slices(m));
    ISO_TRY(visualize_picture_find_holders(m));
    ISO_TRY(describe_cells(m));
done:
    return status;
}

/* If ranks were listed for an abstract mesh, their hosts are abstract too. */
static iso_status find_hosts(iso_picture *picture)
{
    const iso_mesh *mesh = picture->mesh;
    if (!mesh->abstract || !mesh->listed || picture->options.slots_per_rank)
        return ISO_OK;
    picture->host = iso_new((size_t)mesh->n_slots * sizeof *picture->host);
    return picture->host ? iso_mesh_abstract_hosts(mesh, picture->options.slots_per_host, picture->host)
                         : iso_no_memory(PICTURE, mesh->text);
}

iso_status iso_picture_create(const iso_layout *layout, const iso_shape *shape,
                              const iso_visualize_options *options, int rows, int columns, iso_picture **out)
{
    iso_status status = visualize_picture_check(layout, shape);
    if (status != ISO_OK)
        return status;
    maker m = {.picture = iso_new(sizeof *m.picture)};
    if (!m.picture)
        return iso_no_memory(PICTURE, layout->mesh->text);
    *m.picture = (iso_picture){.layout = layout, .mesh = layout->mesh, .shape = *shape, .options = *options};
    ISO_TRY(find_hosts(m.picture));
    ISO_TRY(visualize_picture_make(&m, rows, columns));
    *out = m.picture;
    m.picture = NULL;
done:
    for (int d = 0; d <= ISO_MAX_RANK; d++) {
        iso_free(m.cut[d].numbers);
        iso_free(m.cut[d].shown_number);
        iso_free(m.cut[d].shown);
    }
    iso_free(m.shown_slice);
    iso_free(m.held.first);
    iso_free(m.held.slot);
    iso_picture_destroy(m.picture);
    return status;
}

void iso_picture_destroy(iso_picture *picture)
{
    if (!picture)
        return;
    for (int i = 0; i < 2; i++)
        iso_free(picture->side[i].part);
    iso_free(picture->slices);
    iso_free(picture->cell);
    iso_free(picture->host);
    iso_free(picture);
}
