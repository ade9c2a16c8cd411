/* Layouts as text, and the boxes that they assign to slots. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/spmd/spmd_impl.h"

iso_layout iso_layout_whole(int rank)
{
    return (iso_layout){.rank = rank};
}

bool iso_sharding_equal(const iso_sharding *a, const iso_sharding *b)
{
    return a->count == b->count && memcmp(a->axis, b->axis, (size_t)a->count) == 0 &&
           iso_sliding_window_equal(&a->window, &b->window) &&
           (!iso_sharding_has_window(a) || a->addends == b->addends);
}

bool iso_sharding_refines(const iso_sharding *from, const iso_sharding *to)
{
    return from->count <= to->count && memcmp(from->axis, to->axis, (size_t)from->count) == 0;
}

bool iso_layout_equal(const iso_layout *a, const iso_layout *b)
{
    if (!a || !b)
        return a == b;
    if (a->mesh && b->mesh && !iso_mesh_equal(a->mesh, b->mesh)) /* within programs they have none */
        return false;
    if (a->rank != b->rank || a->partial != b->partial || (a->partial && a->partial_max != b->partial_max))
        return false;
    for (int d = 0; d < a->rank; d++)
        if (!iso_sharding_equal(&a->dim[d], &b->dim[d]))
            return false;
    return true;
}

uint32_t iso_layout_sharded_axes(const iso_layout *layout)
{
    uint32_t axes = 0;
    for (int d = 0; d < layout->rank; d++)
        for (int i = 0; i < layout->dim[d].count; i++)
            axes |= 1u << layout->dim[d].axis[i];
    return axes;
}

int iso_layout_dimension_of(const iso_layout *layout, int axis)
{
    for (int d = 0; layout && d < layout->rank; d++)
        for (int i = 0; i < layout->dim[d].count; i++)
            if (layout->dim[d].axis[i] == axis)
                return d;
    return -1;
}

/* ---- text ---- */

static iso_status bad_layout(const char *text, const char *at, const char *what)
{
    return iso_error(
        ISO_INVALID,
        "layout '%s': %s at position %d; expected one entry per dimension, for example 'data, -'", text, what,
        (int)(at - text) + 1);
}

static iso_status unknown_axis(const iso_mesh *mesh, const char *text, const char *at, const char *name)
{
    return iso_error_prefix(iso_mesh_unknown_axis(mesh, name), "layout '%s', position %d: ", text,
                            (int)(at - text) + 1);
}

const char *iso_skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* One axis name at *at, which the layout must not use yet. */
static iso_status parse_axis(const iso_mesh *mesh, const char *text, const char **at,
                             const iso_layout *layout, int *out)
{
    char name[ISO_MAX_AXIS_NAME];
    size_t length = 0;
    const char *begin = iso_skip_space(*at);
    while (isalnum((unsigned char)begin[length]) || begin[length] == '_')
        length++;
    if (length == 0 || length >= sizeof name)
        return bad_layout(text, begin, "neither an axis nor '-'");
    memcpy(name, begin, length);
    name[length] = 0;
    int axis = iso_mesh_find_axis(mesh, name);
    if (axis < 0)
        return unknown_axis(mesh, text, begin, name);
    if ((iso_layout_sharded_axes(layout) | layout->partial) & 1u << axis)
        return bad_layout(text, begin, "an axis for the second time");
    *at = iso_skip_space(begin + length);
    *out = axis;
    return ISO_OK;
}

static iso_status parse_dimension(const iso_mesh *mesh, const char *text, const char **at, iso_layout *layout)
{
    if (layout->rank == ISO_MAX_RANK)
        return bad_layout(text, *at, "more than 8 dimensions");
    layout->rank++;
    *at = iso_skip_space(*at);
    if (**at == '-') {
        *at = iso_skip_space(*at + 1);
        return ISO_OK;
    }
    for (;;) {
        int axis;
        iso_status status = parse_axis(mesh, text, at, layout, &axis);
        if (status != ISO_OK)
            return status;
        iso_sharding *sharding = &layout->dim[layout->rank - 1];
        sharding->axis[sharding->count++] = (int8_t)axis;
        if (**at != '+')
            return ISO_OK;
        ++*at;
    }
}

/* Parses the dimensions, up to what follows them. */
static iso_status parse_dimensions(const iso_mesh *mesh, const char *text, const char **at,
                                   iso_layout *layout)
{
    *at = iso_skip_space(text);
    while ((**at && **at != ';') || layout->rank) {
        iso_status status = parse_dimension(mesh, text, at, layout);
        if (status != ISO_OK || **at != ',')
            return status;
        ++*at;
    }
    return ISO_OK;
}

/* "; partial(data, model)" or "; partial max(data)" at *at. */
static iso_status parse_partial(const iso_mesh *mesh, const char *text, const char **at, iso_layout *layout)
{
    *at = iso_skip_space(*at + 1);
    if (strncmp(*at, "partial", 7) != 0)
        return bad_layout(text, *at, "not 'partial'");
    *at = iso_skip_space(*at + 7);
    if (strncmp(*at, "max", 3) == 0) {
        layout->partial_max = true;
        *at = iso_skip_space(*at + 3);
    }
    if (**at != '(')
        return bad_layout(text, *at, "no '('");
    do {
        int axis;
        ++*at;
        iso_status status = parse_axis(mesh, text, at, layout, &axis);
        if (status != ISO_OK)
            return status;
        layout->partial |= 1u << axis;
    } while (**at == ',');
    if (**at != ')')
        return bad_layout(text, *at, "neither ',' nor ')'");
    *at = iso_skip_space(*at + 1);
    return ISO_OK;
}

static iso_status parse(const iso_mesh *mesh, const char *text, bool addends, iso_layout *out)
{
    iso_layout layout = {0};
    const char *at;
    iso_status status = ISO_OK;
    ISO_TRY(parse_dimensions(mesh, text, &at, &layout));
    if (addends && *at == ';')
        ISO_TRY(parse_partial(mesh, text, &at, &layout));
    if (*at)
        ISO_TRY(bad_layout(text, at, layout.partial ? "not the end" : "neither ',' nor the end"));
    *out = layout;
done:
    return status;
}

iso_status iso_layout_parse(const iso_mesh *mesh, const char *text, iso_layout *layout)
{
    return parse(mesh, text, false, layout);
}

iso_status iso_layout_parse_addends(const iso_mesh *mesh, const char *text, iso_layout *layout)
{
    return parse(mesh, text, true, layout);
}

/* "; halo(h, w)": the axes that split the positions of windows. */
static size_t add_windows(const iso_mesh *mesh, const iso_layout *layout, bool addends, char *text,
                          size_t size, size_t at)
{
    const char *lead = addends ? "; halo sum(" : "; halo(", *end = "";
    for (int d = 0; d < layout->rank; d++) {
        const iso_sharding *sharding = &layout->dim[d];
        for (int i = 0; i < sharding->count && at < size; i++) {
            if (!iso_sharding_has_window(sharding) || sharding->addends != addends)
                continue;
            at += (size_t)snprintf(text + at, size - at, "%s%s", lead, mesh->name[sharding->axis[i]]);
            lead = ", ";
            end = ")";
        }
    }
    return at < size ? at + (size_t)snprintf(text + at, size - at, "%s", end) : at;
}

char *iso_layout_text(const iso_mesh *mesh, const iso_layout *layout, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (int d = 0; d < layout->rank && at < size; d++) {
        const iso_sharding *sharding = &layout->dim[d];
        at += (size_t)snprintf(text + at, size - at, "%s%s", d ? ", " : "", sharding->count ? "" : "-");
        for (int i = 0; i < sharding->count && at < size; i++)
            at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "+" : "", mesh->name[sharding->axis[i]]);
    }
    at = add_windows(mesh, layout, false, text, size, at);
    at = add_windows(mesh, layout, true, text, size, at);
    const char *lead = layout->partial_max ? "; partial max(" : "; partial(";
    for (int a = 0; layout->partial && a < mesh->n_axes && at < size; a++) {
        if (!(layout->partial & 1u << a))
            continue;
        at += (size_t)snprintf(text + at, size - at, "%s%s", lead, mesh->name[a]);
        lead = ", ";
    }
    if (layout->partial && at < size)
        snprintf(text + at, size - at, ")");
    return text;
}

/* ---- boxes ---- */

/* The range of a dimension of n elements that a slot holds. */
static void find_range(const iso_mesh *mesh, const iso_sharding *sharding, int64_t n, int slot,
                       int64_t *begin, int64_t *extent)
{
    int64_t first = 0, count = iso_sharding_has_window(sharding) ? sharding->window.positions : n;
    for (int i = 0; i < sharding->count; i++) {
        int axis = sharding->axis[i];
        int64_t within;
        iso_part_range(count, mesh->size[axis], iso_mesh_coordinate(mesh, slot, axis), &within, &count);
        first += within;
    }
    *begin = first;
    *extent = count;
    if (iso_sharding_has_window(sharding))
        iso_sliding_window_covers(&sharding->window, n, first, count, begin, extent);
}

/* The longest range that a part of `count` window positions from `first` on reads, split by the axes from
 * i on. */
static int64_t longest_of_positions(const iso_mesh *mesh, const iso_sharding *sharding, int64_t n, int i,
                                    int64_t first, int64_t count)
{
    int64_t begin, extent, most = 0;
    if (i == sharding->count) {
        iso_sliding_window_covers(&sharding->window, n, first, count, &begin, &extent);
        return extent;
    }
    int parts = mesh->size[sharding->axis[i]];
    for (int part = 0; part < parts; part++) {
        iso_part_range(count, parts, part, &begin, &extent);
        if (extent == 0) /* as in all that follow */
            break;
        int64_t length = longest_of_positions(mesh, sharding, n, i + 1, first + begin, extent);
        most = length > most ? length : most;
    }
    return most;
}

int64_t iso_sharding_longest(const iso_mesh *mesh, const iso_sharding *sharding, int64_t n)
{
    int64_t most = n, begin;
    if (iso_sharding_has_window(
            sharding)) /* the borders of the dimension may shorten the first and the last part */
        return longest_of_positions(mesh, sharding, n, 0, 0, sharding->window.positions);
    for (int i = 0; i < sharding->count; i++) /* the first part of every split is the largest */
        iso_part_range(most, mesh->size[sharding->axis[i]], 0, &begin, &most);
    return most;
}

typedef struct holder {
    const iso_mesh *mesh;
    const iso_sharding *sharding;
    const iso_sliding_window *window;
    int64_t n;
} holder;

/* Compares the same nested splits of elements and of window positions, part by part. */
static bool parts_hold(const holder *h, int i, int64_t first, int64_t count, int64_t position,
                       int64_t positions)
{
    int64_t begin, extent;
    if (i == h->sharding->count) {
        iso_sliding_window_reads(h->window, h->n, position, positions, &begin, &extent);
        return extent == 0 || (begin >= first && begin + extent <= first + count);
    }
    int parts = h->mesh->size[h->sharding->axis[i]];
    for (int part = 0; part < parts; part++) {
        int64_t position_begin, position_count;
        iso_part_range(count, parts, part, &begin, &extent);
        iso_part_range(positions, parts, part, &position_begin, &position_count);
        if (position_count == 0)
            break;
        if (!parts_hold(h, i + 1, first + begin, extent, position + position_begin, position_count))
            return false;
    }
    return true;
}

bool iso_sharding_holds_window(const iso_mesh *mesh, const iso_sharding *sharding,
                               const iso_sliding_window *window, int64_t n)
{
    holder h = {mesh, sharding, window, n};
    return parts_hold(&h, 0, 0, n, 0, window->positions);
}

iso_box iso_layout_box(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape, int slot)
{
    iso_box box = {.rank = shape->rank};
    for (int d = 0; d < layout->rank; d++)
        find_range(mesh, &layout->dim[d], shape->dim[d], slot, &box.offset[d], &box.extent[d]);
    return box;
}

int64_t iso_layout_largest(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape)
{
    int64_t count = 1;
    for (int d = 0; d < layout->rank; d++)
        count *= iso_sharding_longest(mesh, &layout->dim[d], shape->dim[d]);
    return count;
}
