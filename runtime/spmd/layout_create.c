/* Layouts that users hold: each on a mesh, made from text or by kind. */
#include <stdio.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/spmd/spmd_impl.h"

static iso_status layout_create_keep(iso_mesh *mesh, const iso_layout *layout, iso_layout **out)
{
    iso_layout *kept = iso_new(sizeof *kept);
    if (!kept)
        return iso_no_memory("a layout");
    *kept = *layout;
    kept->mesh = iso_mesh_hold(mesh);
    *out = kept;
    return ISO_OK;
}

static iso_status check_rank(int rank)
{
    if (rank < 0 || rank > ISO_MAX_RANK)
        return iso_error(ISO_INVALID, "a layout of %d dimensions; there may be 0 to %d", rank, ISO_MAX_RANK);
    return ISO_OK;
}

iso_status iso_layout_create(iso_mesh *mesh, const char *text, iso_layout **out)
{
    ISO_NEED_AS("mesh, text, layout", mesh, text, out);
    iso_layout layout;
    iso_status status = ISO_OK;
    ISO_TRY(iso_layout_parse_addends(mesh, text, &layout));
    ISO_TRY(layout_create_keep(mesh, &layout, out));
done:
    return status;
}

iso_status iso_layout_replicated(iso_mesh *mesh, int rank, iso_layout **out)
{
    ISO_NEED_AS("mesh, layout", mesh, out);
    iso_status status = ISO_OK;
    ISO_TRY(check_rank(rank));
    iso_layout layout = iso_layout_whole(rank);
    ISO_TRY(layout_create_keep(mesh, &layout, out));
done:
    return status;
}

iso_status iso_layout_batch_sharded(iso_mesh *mesh, const char *axis, int rank, iso_layout **out)
{
    ISO_NEED_AS("mesh, axis, layout", mesh, axis, out);
    iso_text text = {0};
    iso_status status = ISO_OK;
    ISO_TRY(check_rank(rank));
    if (rank == 0)
        ISO_TRY(iso_error(ISO_INVALID, "a layout of %d dimensions, the first to be sharded along axis '%s'",
                          rank, axis));
    iso_text_add(&text, "%s", axis);
    for (int d = 1; d < rank; d++)
        iso_text_add(&text, ", -");
    ISO_TRY(text.failed ? iso_no_memory("a layout") : iso_layout_create(mesh, iso_text_get(&text), out));
done:
    iso_text_free(&text);
    return status;
}

void iso_layout_destroy(iso_layout *layout)
{
    if (layout)
        iso_mesh_destroy(layout->mesh);
    iso_free(layout);
}

void iso_layout_print(const iso_layout *layout, FILE *out)
{
    char text[512];
    if (ISO_ANY_NULL(out))
        return;
    if (layout)
        fprintf(out, "layout '%s' on mesh %s\n", iso_layout_text(layout->mesh, layout, text, sizeof text),
                layout->mesh->text);
    else
        fprintf(out, "no layout\n");
}

char *iso_layout_describe(const iso_layout *layout, char *text, size_t size)
{
    if (ISO_ANY_NULL(layout, text))
        return NULL;
    return iso_layout_text(layout->mesh, layout, text, size);
}
