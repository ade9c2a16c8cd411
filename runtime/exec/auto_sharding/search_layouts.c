#include "runtime/exec/auto_sharding/search_layouts.h"

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/session/session.h"
#include "runtime/spmd/distribution_json.h"
#include "runtime/spmd/spmd_impl.h"

static const char found[] = "the layouts that were found";

json_t *iso_suggestion_layouts(const iso_suggestion *suggestion)
{
    json_t *layouts = json_object();
    for (int i = 0; i < suggestion->n_layouts; i++)
        json_object_set_new(layouts, suggestion->layouts[i].path,
                            iso_layout_json(suggestion->layouts[i].layout));
    return layouts;
}

/* Searches on one rank. *text: a layout file, for the caller to free. */
static iso_status search(iso_graph *graph, const iso_function_options *training, char **text, size_t *size)
{
    const iso_distribution *distribution = graph->distribution;
    const iso_suggest_options how = {.rows = distribution->search_rows,
                                     .slots_per_host = iso_mesh_most_slots_of_host(distribution->mesh)};
    iso_suggestion *suggestion = NULL;
    json_t *layouts = NULL;
    iso_text file = {0};
    iso_status status;
    ISO_TRY(iso_function_suggest(graph, distribution->mesh, training, &how, &suggestion));
    layouts = iso_suggestion_layouts(suggestion);
    iso_layout_file_add(&file, layouts, 0);
    *text = file.failed ? NULL : iso_strdup(iso_text_get(&file));
    *size = file.length;
    if (!*text)
        status = iso_no_memory("%s", found);
done:
    iso_text_free(&file);
    json_decref(layouts);
    iso_suggestion_destroy(suggestion);
    return status;
}

iso_status iso_graph_search_layouts(iso_graph *graph, const iso_function_options *training)
{
    iso_distribution *distribution = graph->distribution;
    iso_context *ctx = graph->ctx;
    iso_layout_map *map = NULL;
    char *text = NULL;
    size_t size = 0;
    iso_status status = ISO_OK;
    if (!distribution || !distribution->search_rows)
        return ISO_OK;
    if (distribution->zero > 1)
        return iso_error(ISO_INVALID,
                         "iso_auto_parallel_create chooses all layouts; iso_distribution_set_zero(%d) "
                         "cannot be used with it",
                         distribution->zero);
    ISO_TRY(iso_distribution_resolve(distribution, ctx));
    status = iso_rank(ctx) == 0 ? search(graph, training, &text, &size) : ISO_OK;
    ISO_TRY(iso_share_text(ctx, status, found, &text, &size));
    status = iso_layout_map_create(distribution->mesh, &map);
    if (status == ISO_OK)
        status = iso_layout_map_parse(map, found, text, size);
    ISO_TRY(iso_agree(ctx, status));
    distribution->map = map;
    distribution->search_rows = 0;
    map = NULL;
done:
    iso_layout_map_destroy(map);
    iso_free(text);
    return status;
}
