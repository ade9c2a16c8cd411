/* Layouts as text, and the boxes that they give to slots. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/spmd/spmd_impl.h"

iso_layout iso_layout_whole(int rank)
{
    return (iso_layout){.rank = rank};
}

static bool sharding_equal(const iso_sharding *a, const iso_sharding *b)
{
    return a->count == b->count && memcmp(a->axis, b->axis, (size_t)a->count) == 0;
}

bool iso_layout_equal(const iso_layout *a, const iso_layout *b)
{
    if (a->rank != b->rank || a->partial != b->partial || (a->partial && a->partial_max != b->partial_max))
        return false;
    for (int d = 0; d < a->rank; d++)
        if (!sharding_equal(&a->dim[d], &b->dim[d]))
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

/* ---- text ---- */

static iso_status bad_layout(const char *text, const char *at, const char *what)
{
    return iso_error(
        ISO_INVALID,
        "layout '%s': %s at position %d; wanted is one entry per dimension, for example 'data, -'", text,
        what, (int)(at - text) + 1);
}

static iso_status unknown_axis(const iso_mesh *mesh, const char *text, const char *at, const char *name)
{
    const char *names[ISO_MAX_AXES];
    iso_text message = {0};
    for (int a = 0; a < mesh->axes; a++)
        names[a] = mesh->name[a];
    iso_text_add(&message, "layout '%s': the mesh %s has no axis '%s', named at position %d", text,
                 mesh->text, name, (int)(at - text) + 1);
    iso_text_add_nearest(&message, name, names, mesh->axes);
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
    iso_text_free(&message);
    return status;
}

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* One axis name at *at, added to the dimension. */
static iso_status parse_axis(const iso_mesh *mesh, const char *text, const char **at, iso_layout *layout)
{
    char name[ISO_MAX_AXIS_NAME];
    size_t length = 0;
    const char *begin = skip_space(*at);
    while (isalnum((unsigned char)begin[length]) || begin[length] == '_')
        length++;
    if (length == 0 || length >= sizeof name)
        return bad_layout(text, begin, "neither an axis nor '-'");
    memcpy(name, begin, length);
    name[length] = 0;
    int axis = iso_mesh_find_axis(mesh, name);
    if (axis < 0)
        return unknown_axis(mesh, text, begin, name);
    if (iso_layout_sharded_axes(layout) & 1u << axis)
        return bad_layout(text, begin, "an axis for the second time");
    iso_sharding *sharding = &layout->dim[layout->rank - 1];
    sharding->axis[sharding->count++] = (int8_t)axis;
    *at = skip_space(begin + length);
    return ISO_OK;
}

static iso_status parse_dimension(const iso_mesh *mesh, const char *text, const char **at, iso_layout *layout)
{
    if (layout->rank == ISO_MAX_RANK)
        return bad_layout(text, *at, "more than 8 dimensions");
    layout->rank++;
    *at = skip_space(*at);
    if (**at == '-') {
        *at = skip_space(*at + 1);
        return ISO_OK;
    }
    for (;;) {
        iso_status status = parse_axis(mesh, text, at, layout);
        if (status != ISO_OK || **at != '+')
            return status;
        ++*at;
    }
}

iso_status iso_layout_parse(const iso_mesh *mesh, const char *text, iso_layout *out)
{
    iso_layout layout = {0};
    const char *at = skip_space(text);
    while (*at || layout.rank) {
        iso_status status = parse_dimension(mesh, text, &at, &layout);
        if (status != ISO_OK)
            return status;
        if (*at == 0)
            break;
        if (*at != ',')
            return bad_layout(text, at, "neither ',' nor the end");
        at++;
    }
    *out = layout;
    return ISO_OK;
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
    const char *lead = layout->partial_max ? "; partial max(" : "; partial(";
    for (int a = 0; layout->partial && a < mesh->axes && at < size; a++) {
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

iso_box iso_layout_box(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape, int slot)
{
    iso_box box = iso_box_whole(shape);
    for (int d = 0; d < layout->rank; d++) {
        for (int i = 0; i < layout->dim[d].count; i++) {
            int axis = layout->dim[d].axis[i];
            int64_t begin, count;
            iso_cut(box.extent[d], mesh->size[axis], iso_mesh_coordinate(mesh, slot, axis), &begin, &count);
            box.offset[d] += begin;
            box.extent[d] = count;
        }
    }
    return box;
}

int64_t iso_layout_largest(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape)
{
    iso_box first = iso_layout_box(mesh, layout, shape, 0); /* every cut makes its first part the largest */
    return iso_box_count(&first);
}
