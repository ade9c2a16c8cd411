/* The text in the cells of a picture, above and below it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/memory.h"
#include "runtime/report/visualize_impl.h"
#include "runtime/session/session.h"

/* ---- lists of numbers ---- */

typedef struct label {
    char *text;
    size_t size, length;
} label;

static void visualize_labels_add(label *l, const char *lead, int64_t number)
{
    if (l->length < l->size)
        l->length += (size_t)snprintf(l->text + l->length, l->size - l->length, "%s%" PRId64, lead, number);
}

/* "0, 4, 8-15, ..., 31" of increasing numbers. */
void iso_picture_list(const int *number, int64_t count, char *text, size_t size)
{
    enum { MOST_RUNS = 4 };
    label l = {text, size, 0};
    int runs = 0;
    text[0] = 0;
    for (int64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && number[end] == number[end - 1] + 1; end++)
            ;
        if (end == i + 2)
            end--; /* two neighbours are listed as two numbers */
        if (++runs == MOST_RUNS && end < count) {
            visualize_labels_add(&l, ", ..., ", number[count - 1]);
            return;
        }
        visualize_labels_add(&l, i ? ", " : "", number[i]);
        if (end > i + 1)
            visualize_labels_add(&l, "-", number[end - 1]);
    }
}

/* "0+1+2+3" or "0+1+...+7". */
static void list_addends(label *l, const char *lead, const char *sign, const int *slot, int64_t count)
{
    char dots[16];
    snprintf(dots, sizeof dots, "%s...%s", sign, sign);
    for (int64_t i = 0; i < count; i++) {
        bool left_out = count > 4 && i > 1;
        visualize_labels_add(l, i == 0 ? lead : left_out ? dots : sign, slot[left_out ? count - 1 : i]);
        if (left_out)
            return;
    }
}

/* A number that is equal for slots whose partial sums together make one copy of the tensor. */
static int64_t copy_of(const iso_picture *picture, int slot)
{
    int64_t number = 0;
    for (int a = 0; a < picture->mesh->n_axes; a++)
        if (!(picture->layout->partial & 1u << a))
            number = number * picture->mesh->size[a] + iso_mesh_coordinate(picture->mesh, slot, a);
    return number;
}

static bool is_partial(const iso_picture *picture)
{
    for (int a = 0; a < picture->mesh->n_axes; a++)
        if (picture->layout->partial & 1u << a && picture->mesh->size[a] > 1)
            return true;
    return false;
}

static int64_t count_addends(const iso_picture *picture)
{
    int64_t count = 1;
    for (int a = 0; a < picture->mesh->n_axes; a++)
        count *= picture->layout->partial & 1u << a ? picture->mesh->size[a] : 1;
    return count;
}

typedef struct keyed {
    int64_t copy;
    int slot;
} keyed;

static int by_copy(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->copy != y->copy)
        return x->copy < y->copy ? -1 : 1;
    return x->slot - y->slot;
}

/* "0+2, 1+3": copies of the cell, each a sum over slots. */
static iso_status list_copies(const iso_picture *picture, int *slot, int64_t count, char *text, size_t size)
{
    enum { MOST_COPIES = 3 };
    label l = {text, size, 0};
    int64_t addends = count_addends(picture), copies = count / addends;
    keyed *order = iso_new((size_t)count * sizeof *order);
    if (!order)
        return iso_no_memory("a cell of %" PRId64 " slots", count);
    for (int64_t i = 0; i < count; i++)
        order[i] = (keyed){copy_of(picture, slot[i]), slot[i]};
    qsort(order, (size_t)count, sizeof *order, by_copy);
    for (int64_t i = 0; i < count; i++)
        slot[i] = order[i].slot;
    iso_free(order);
    for (int64_t c = 0; c < copies; c++) {
        bool left_out = copies > MOST_COPIES && c == MOST_COPIES - 1;
        list_addends(&l,
                     c == 0     ? ""
                     : left_out ? ", ..., "
                                : ", ",
                     picture->layout->partial_max ? "|" : "+", slot + (left_out ? copies - 1 : c) * addends,
                     addends);
        if (left_out)
            break;
    }
    return ISO_OK;
}

/* ---- where slots are ---- */

static int rank_of(const iso_picture *picture, int slot)
{
    int64_t block = picture->options.slots_per_rank;
    return block ? (int)(slot / block) : picture->mesh->rank_of_slot[slot];
}

static int host_of(const iso_picture *picture, int slot)
{
    int64_t block = picture->options.slots_per_host;
    if (picture->host)
        return picture->host[slot];
    if (block || picture->options.slots_per_rank)
        return block ? (int)(slot / block) : 0;
    if (picture->mesh->abstract)
        return 0;
    return iso_host_of_rank(picture->mesh->ctx, picture->mesh->rank_of_slot[slot]);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The different ranks or hosts of some slots, in order; returns their number. */
static int64_t list_numbers(const iso_picture *picture, int (*number_of)(const iso_picture *, int),
                            const int *slot, int64_t count, int *room, char *text, size_t size)
{
    int64_t kinds = 0;
    for (int64_t i = 0; i < count; i++)
        room[i] = number_of(picture, slot[i]);
    qsort(room, (size_t)count, sizeof *room, by_number);
    for (int64_t i = 0; i < count; i++)
        if (kinds == 0 || room[i] != room[kinds - 1])
            room[kinds++] = room[i];
    iso_picture_list(room, kinds, text, size);
    return kinds;
}

/* ---- cells ---- */

iso_status iso_picture_describe(const iso_picture *picture, int *slot, int64_t count, int *room,
                                iso_picture_cell *cell)
{
    iso_status status = ISO_OK;
    cell->several_slots = count > 1;
    cell->several_ranks =
        list_numbers(picture, rank_of, slot, count, room, cell->ranks, sizeof cell->ranks) > 1;
    cell->several_hosts =
        list_numbers(picture, host_of, slot, count, room, cell->hosts, sizeof cell->hosts) > 1;
    if (is_partial(picture))
        status = list_copies(picture, slot, count, cell->slots, sizeof cell->slots);
    else
        iso_picture_list(slot, count, cell->slots, sizeof cell->slots);
    return status;
}

/* ---- above ---- */

void iso_picture_title(const iso_picture *picture, iso_text *text)
{
    char layout[512], shape[160];
    iso_text_add(text, "layout '%s' of %s on mesh %s",
                 iso_layout_text(picture->mesh, picture->layout, layout, sizeof layout),
                 iso_shape_text(&picture->shape, shape, sizeof shape), picture->mesh->text);
}

/* Adds the range of a dimension that is not drawn: `filled` is the number of its part among
 * those that are not empty. */
static void add_slice_range(const iso_picture *picture, int dim, int64_t filled, iso_text *text)
{
    int64_t begin, count;
    if (picture->layout->dim[dim].count == 0) {
        iso_text_add(text, ":");
        return;
    }
    for (int64_t number = 0;; number++) {
        iso_picture_part_range(picture, dim, number, &begin, &count);
        if (count > 0 && filled-- == 0)
            break;
    }
    iso_text_add(text, "%" PRId64 ":%" PRId64, begin, begin + count);
}

void iso_picture_slice_title(const iso_picture *picture, int slice, iso_text *text)
{
    int64_t rest = picture->slices[slice], number[ISO_MAX_RANK] = {0};
    for (int d = picture->shape.rank - 1; d >= 0; d--) {
        number[d] = rest % picture->filled[d];
        rest /= picture->filled[d];
    }
    iso_text_add(text, "[");
    for (int d = 0; d < picture->shape.rank; d++) {
        iso_text_add(text, "%s", d ? ", " : "");
        if (d == picture->side[0].dim)
            iso_text_add(text, "rows");
        else if (d == picture->side[1].dim)
            iso_text_add(text, "columns");
        else
            add_slice_range(picture, d, number[d], text);
    }
    iso_text_add(text, "]");
}

/* ---- below ---- */

/* "slots 0-3: rank 0, host 0", for each run of slots; of many, the first and the last. */
static void add_hosts(const iso_picture *picture, iso_text *text)
{
    enum { MOST_LINES = 8 };
    int slots = picture->mesh->n_slots, lines = 0;
    for (int s = 0, end; s < slots; s = end) {
        for (end = s + 1; end < slots && rank_of(picture, end) == rank_of(picture, s); end++)
            ;
        bool last = end == slots;
        if (++lines == MOST_LINES && !last)
            iso_text_add(text, "...\n");
        if (lines >= MOST_LINES && !last)
            continue;
        if (end > s + 1)
            iso_text_add(text, "slots %d-%d: ", s, end - 1);
        else
            iso_text_add(text, "slot %d: ", s);
        iso_text_add(text, "rank %d, host %d\n", rank_of(picture, s), host_of(picture, s));
    }
}

static void add_partial(const iso_picture *picture, iso_text *text)
{
    const char *lead = "";
    bool maximum = picture->layout->partial_max;
    iso_text_add(text, "slots joined by '%s' hold %s of the same part (along ", maximum ? "|" : "+",
                 maximum ? "candidates for the greatest elements" : "partial sums");
    for (int a = 0; a < picture->mesh->n_axes; a++)
        if (picture->layout->partial & 1u << a) {
            iso_text_add(text, "%s%s", lead, picture->mesh->name[a]);
            lead = ", ";
        }
    iso_text_add(text, ")\n");
}

static void add_left_out(const iso_picture *picture, iso_text *text)
{
    static const char *const what[] = {"rows", "columns"};
    for (int i = 0; i < 2; i++) {
        const iso_picture_side *side = &picture->side[i];
        int64_t skipped = 0;
        for (int k = 0; k < side->shown; k++)
            skipped += side->part[k].skipped;
        if (skipped > 0)
            iso_text_add(text, "%" PRId64 " of %" PRId64 " %s of parts are left out\n", skipped,
                         skipped + side->shown, what[i]);
    }
    if (picture->n_slices > picture->n_shown_slices)
        iso_text_add(text, "%" PRId64 " of %" PRId64 " grids are left out\n",
                     picture->n_slices - picture->n_shown_slices, picture->n_slices);
}

void iso_picture_notes(const iso_picture *picture, bool hosts, iso_text *text)
{
    if (is_partial(picture))
        add_partial(picture, text);
    if (picture->idle > 0)
        iso_text_add(text, "%s %s %s nothing\n", picture->idle > 1 ? "slots" : "slot", picture->idle_slots,
                     picture->idle > 1 ? "hold" : "holds");
    add_left_out(picture, text);
    if (hosts)
        add_hosts(picture, text);
}
