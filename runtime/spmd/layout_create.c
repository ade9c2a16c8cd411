/* Layouts that users hold: on a mesh, made from text or by kind. */
#include <stdio.h>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/spmd/spmd_impl.h"

static iso_status keep(iso_mesh *mesh, const iso_layout *layout, iso_layout **out)
{
    iso_layout *kept = iso_new(sizeof *kept);
    if (!kept)
        return iso_error(ISO_NO_MEMORY, "no memory for a layout");
    *kept = *layout;
    kept->mesh = mesh;
    *out = kept;
    return ISO_OK;
}

static iso_status check_rank(const iso_mesh *mesh, int rank)
{
    if (!mesh)
        return iso_error(ISO_INVALID, "a layout needs a mesh, and there is none");
    if (rank < 0 || rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "a layout of %d dimensions; there may be 0 to %d", rank, ISO_MAX_RANK);
    return ISO_OK;
}

iso_status iso_layout_create(iso_mesh *mesh, const char *text, iso_layout **out)
{
    iso_layout layout;
    iso_status status = check_rank(mesh, 0);
    if (status == ISO_OK && !text)
        status = iso_error(ISO_INVALID, "a layout needs a text, for example 'data, -', and there is none");
    if (status == ISO_OK)
        status = iso_layout_parse_addends(mesh, text, &layout);
    return status == ISO_OK ? keep(mesh, &layout, out) : status;
}

iso_status iso_layout_replicated(iso_mesh *mesh, int rank, iso_layout **out)
{
    iso_status status = check_rank(mesh, rank);
    iso_layout layout = iso_layout_whole(rank);
    return status == ISO_OK ? keep(mesh, &layout, out) : status;
}

iso_status iso_layout_batch_sharded(iso_mesh *mesh, const char *axis, int rank, iso_layout **out)
{
    iso_text text = {0};
    iso_status status = check_rank(mesh, rank);
    if (status == ISO_OK && (rank == 0 || !axis))
        status = iso_error(ISO_INVALID, "a layout of %d dimensions, the first to be cut along axis '%s'",
                           rank, axis ? axis : "");
    if (status != ISO_OK)
        return status;
    iso_text_add(&text, "%s", axis);
    for (int d = 1; d < rank; d++)
        iso_text_add(&text, ", -");
    status = text.failed ? iso_error(ISO_NO_MEMORY, "no memory for a layout")
                         : iso_layout_create(mesh, iso_text_get(&text), out);
    iso_text_free(&text);
    return status;
}

void iso_layout_destroy(iso_layout *layout)
{
    iso_free(layout);
}

void iso_layout_print(const iso_layout *layout, FILE *out)
{
    char text[512];
    if (layout)
        fprintf(out, "layout '%s' on mesh %s\n", iso_layout_text(layout->mesh, layout, text, sizeof text),
                layout->mesh->text);
    else
        fprintf(out, "no layout\n");
}

char *iso_layout_describe(const iso_layout *layout, char *text, size_t size)
{
    return iso_layout_text(layout->mesh, layout, text, size);
}
