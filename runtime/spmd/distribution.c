/* Distributions: a mesh, the axes that split the batch, and the layouts of variables and outputs. */
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/spmd/spmd_impl.h"

static iso_status create(iso_distribution value, iso_distribution **out)
{
    iso_distribution *distribution = iso_new(sizeof *distribution);
    if (!distribution)
        return iso_error(ISO_NO_MEMORY, "no memory for a distribution");
    *distribution = value;
    *out = distribution;
    return ISO_OK;
}

static uint32_t all_axes(const iso_mesh *mesh)
{
    return (1u << iso_mesh_axes(mesh)) - 1;
}

iso_status iso_data_parallel_create(iso_mesh *mesh, iso_distribution **distribution)
{
    return create((iso_distribution){.mesh = mesh, .batch_axes = mesh ? all_axes(mesh) : 0}, distribution);
}

iso_status iso_model_parallel_create_with(iso_layout_map *map, iso_distribution **distribution,
                                          const iso_model_parallel_options *options, size_t size)
{
    (void)size;
    iso_mesh *mesh = iso_layout_map_mesh(map);
    int axis = options->batch_axis ? iso_mesh_find_axis(mesh, options->batch_axis) : 0;
    if (axis >= 0)
        return create((iso_distribution){.mesh = mesh, .map = map, .batch_axes = 1u << axis}, distribution);
    const char *names[ISO_MAX_AXES];
    iso_text message = {0};
    for (int a = 0; a < mesh->axes; a++)
        names[a] = mesh->name[a];
    iso_text_add(&message, "the batch axis '%s' is no axis of the mesh %s", options->batch_axis, mesh->text);
    iso_text_add_nearest(&message, options->batch_axis, names, mesh->axes);
    iso_status status = iso_error(ISO_INVALID, "%s", iso_text_get(&message));
    iso_text_free(&message);
    return status;
}

void iso_distribution_destroy(iso_distribution *distribution)
{
    if (!distribution)
        return;
    if (distribution->owns_mesh)
        iso_mesh_destroy(distribution->mesh);
    iso_free(distribution);
}

iso_mesh *iso_distribution_mesh(const iso_distribution *distribution)
{
    return distribution->mesh;
}

iso_status iso_distribution_resolve(iso_distribution *distribution, iso_context *ctx)
{
    if (distribution->mesh)
        return ISO_OK;
    iso_status status = iso_mesh_create(ctx, "data=*", &distribution->mesh);
    if (status != ISO_OK)
        return status;
    distribution->owns_mesh = true;
    distribution->batch_axes = all_axes(distribution->mesh);
    return ISO_OK;
}

void iso_graph_distribute(iso_graph *graph, iso_distribution *distribution)
{
    if (graph->runtime && graph->distribution != distribution)
        iso_graph_fail(graph, "a graph must be distributed before its first function is made");
    else
        graph->distribution = distribution;
}
