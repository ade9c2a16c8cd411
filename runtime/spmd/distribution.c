/* Distributions: a mesh, and what gives inputs, variables and layers' outputs their layouts on it. Data
 * parallel splits the batch, model parallel has a layout map, all others have the user's callbacks. */
#include "runtime/base/arguments.h"
#include "runtime/spmd/layout_map_impl.h"

#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/graph_impl.h"

enum { EVERY_AXIS = -1 };

static iso_status distribution_create(iso_distribution value, iso_distribution **out)
{
    iso_distribution *distribution = iso_new(sizeof *distribution);
    if (!distribution)
        return iso_no_memory("a distribution");
    *distribution = value;
    distribution->holders = 1;
    iso_mesh_hold(value.mesh);
    iso_layout_map_hold(value.map);
    if (!distribution->how.arg)
        distribution->how.arg = distribution;
    *out = distribution;
    return ISO_OK;
}

iso_sharding iso_distribution_batch(const iso_distribution *distribution)
{
    iso_sharding sharding = {0};
    for (int a = 0; a < distribution->mesh->n_axes; a++)
        if (distribution->batch_axis == EVERY_AXIS || distribution->batch_axis == a)
            sharding.axis[sharding.count++] = (int8_t)a;
    return sharding;
}

/* The batch split over one axis of the mesh or over all. */
static iso_layout batch_layout(const iso_distribution *distribution, const iso_shape *shape)
{
    iso_layout layout = iso_layout_whole(shape->rank);
    layout.dim[0] = iso_distribution_batch(distribution);
    return layout;
}

/* ---- making ---- */

iso_status iso_distribution_create_with(iso_mesh *mesh, iso_distribution **distribution,
                                        const iso_distribution_options *options, size_t size)
{
    ISO_NEED(distribution);
    iso_distribution_options how = {0};
    iso_options_copy(&how, sizeof how, options, size);
    return distribution_create((iso_distribution){.mesh = mesh, .how = how, .batch_axis = EVERY_AXIS},
                               distribution);
}

iso_status iso_data_parallel_create(iso_mesh *mesh, iso_distribution **distribution)
{
    ISO_NEED(distribution);
    return distribution_create((iso_distribution){.mesh = mesh, .batch_axis = EVERY_AXIS}, distribution);
}

iso_status iso_model_parallel_create_with(iso_layout_map *map, iso_distribution **distribution,
                                          const iso_model_parallel_options *options, size_t size)
{
    ISO_NEED(map, distribution);
    iso_model_parallel_options own;
    iso_options_copy(&own, sizeof own, options, size);
    iso_mesh *mesh = iso_layout_map_mesh(map);
    int axis = own.batch_axis ? iso_mesh_find_axis(mesh, own.batch_axis) : 0;
    if (axis < 0)
        return iso_error_prefix(iso_mesh_unknown_axis(mesh, own.batch_axis), "the batch axis: ");
    return distribution_create((iso_distribution){.mesh = mesh, .batch_axis = axis, .map = map},
                               distribution);
}

iso_status iso_auto_parallel_create_with(iso_mesh *mesh, iso_distribution **distribution,
                                         const iso_auto_parallel_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(distribution);
    iso_auto_parallel_options own;
    iso_options_copy(&own, sizeof own, options, size);
    if (own.rows < 0)
        return iso_error(ISO_INVALID, "layouts for batches of %lld rows; .rows must not be negative",
                         (long long)own.rows);
    return distribution_create(
        (iso_distribution){.mesh = mesh, .batch_axis = 0, .search_rows = own.rows ? own.rows : 32},
        distribution);
}

const iso_layout_map *iso_distribution_map(const iso_distribution *distribution)
{
    if (ISO_ANY_NULL(distribution))
        return NULL;
    return distribution->map;
}

iso_distribution *iso_distribution_hold(iso_distribution *distribution)
{
    if (distribution)
        distribution->holders++;
    return distribution;
}

void iso_distribution_destroy(iso_distribution *distribution)
{
    if (!distribution || --distribution->holders > 0)
        return;
    iso_layout_map_destroy(distribution->map);
    iso_mesh_destroy(distribution->mesh);
    iso_free(distribution);
}

iso_mesh *iso_distribution_mesh(const iso_distribution *distribution)
{
    if (ISO_ANY_NULL(distribution))
        return NULL;
    return distribution->mesh;
}

iso_status iso_distribution_resolve(iso_distribution *distribution, iso_context *ctx)
{
    if (distribution->mesh)
        return ISO_OK;
    return iso_mesh_create(ctx, NULL, &distribution->mesh);
}

void iso_graph_distribute(iso_graph *graph, iso_distribution *distribution)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (graph->runtime && graph->distribution != distribution)
        iso_graph_fail(
            graph, "the distribution cannot be changed after a function of the graph was made; a compiled "
                   "model keeps its distribution");
    if (graph->status != ISO_OK || graph->distribution == distribution)
        return;
    iso_distribution_destroy(graph->distribution);
    graph->distribution = iso_distribution_hold(distribution);
    graph->destroy_distribution = iso_distribution_destroy;
}

/* ---- queries ---- */

static iso_status check_rank(const iso_layout *layout, const char *text, const iso_shape *shape)
{
    char have[160];
    if (layout->rank == shape->rank)
        return ISO_OK;
    return iso_error(ISO_INVALID, "layout '%s' has %d entr%s, its shape is %s", text, layout->rank,
                     layout->rank == 1 ? "y" : "ies", iso_shape_text(shape, have, sizeof have));
}

/* Parses the text of a tensor's layout, and checks it against the shape. */
static iso_status distribution_take(const iso_distribution *distribution, const char *path, const char *text,
                                    const iso_shape *shape, iso_layout *layout)
{
    iso_layout parsed;
    iso_status status;
    ISO_TRY(iso_layout_parse(distribution->mesh, text, &parsed));
    ISO_TRY(check_rank(&parsed, text, shape));
    *layout = parsed;
    return ISO_OK;
done:
    return iso_error_prefix(status, "'%s': ", path);
}

/* The layout that a user's callback gives. */
static iso_status query_callback(const iso_distribution *distribution, iso_layout_callback callback,
                                 const char *path, const iso_shape *shape, iso_layout *layout, bool *given)
{
    char text[ISO_LAYOUT_TEXT] = "";
    iso_status status = callback(distribution->how.arg, path, shape, text, sizeof text);
    text[sizeof text - 1] = 0;
    if (status != ISO_OK)
        return iso_error_prefix(status, "the layout of '%s': ", path);
    *given = *text;
    return *given ? distribution_take(distribution, path, text, shape, layout) : ISO_OK;
}

/* The layout that the distribution gives to a path: by its map, by the user's callback (may be NULL), or
 * none. */
static iso_status query(const iso_distribution *distribution, iso_layout_callback callback, const char *path,
                        const iso_shape *shape, iso_layout *layout, bool *given)
{
    const char *key = NULL;
    iso_status status = ISO_OK;
    *given = false;
    *layout = iso_layout_whole(shape->rank);
    if (callback)
        return query_callback(distribution, callback, path, shape, layout, given);
    if (distribution->map)
        status = iso_layout_map_find(distribution->map, path, shape, layout, &key);
    *given = key != NULL;
    return status;
}

iso_status iso_distribution_input(const iso_distribution *distribution, const iso_tensor *input,
                                  iso_layout *layout)
{
    bool given;
    iso_text path = {0};
    iso_text_add(&path, "%s/output", iso_tensor_name(input));
    if (path.failed)
        return iso_no_memory("the path of an input");
    iso_status status =
        query(distribution, distribution->how.data, iso_text_get(&path), &input->shape, layout, &given);
    if (status == ISO_OK && !given && iso_input_has_batch(input))
        *layout = batch_layout(distribution, &input->shape);
    iso_text_free(&path);
    return status;
}

/* The state that an optimizer keeps in a variable of the graph has the layout of its variable's update; if it has one
 * dimension less, without that dimension. */
static iso_status state_layout(const iso_distribution *distribution, const iso_variable *variable,
                               iso_layout *layout)
{
    const iso_variable *of = variable->state_of;
    iso_status status = ISO_OK;
    iso_layout whole;
    ISO_TRY(iso_distribution_variable(distribution, of, &whole));
    ISO_TRY(iso_zero_state(distribution, of, strrchr(variable->path, '/') + 1, &whole));
    *layout = iso_layout_whole(variable->shape.rank);
    for (int d = 0, to = 0; d < whole.rank; d++)
        if (d != variable->without - 1)
            layout->dim[to++] = whole.dim[d];
done:
    return status;
}

iso_status iso_distribution_variable(const iso_distribution *distribution, const iso_variable *variable,
                                     iso_layout *layout)
{
    bool given;
    iso_status status = ISO_OK;
    ISO_TRY(
        query(distribution, distribution->how.variable, variable->path, &variable->shape, layout, &given));
    if (!given && variable->state_of)
        return state_layout(distribution, variable, layout);
    if (!given)
        iso_zero_variable(distribution, variable, layout);
    if (variable->layout)
        ISO_TRY(distribution_take(distribution, variable->path, variable->layout, &variable->shape, layout));
done:
    return status;
}

const char *iso_distribution_reason(const iso_distribution *distribution, const iso_variable *variable,
                                    const char **key)
{
    iso_layout layout;
    *key = NULL;
    if (variable->layout)
        return "own";
    if (distribution->map) {
        iso_status status =
            iso_layout_map_find(distribution->map, variable->path, &variable->shape, &layout, key);
        return status == ISO_OK && *key ? "key" : "default";
    }
    bool given = false;
    iso_status status =
        query(distribution, distribution->how.variable, variable->path, &variable->shape, &layout, &given);
    return status == ISO_OK && given ? "distribution" : "default";
}

iso_status iso_distribution_output(const iso_distribution *distribution, const char *path,
                                   const iso_shape *shape, iso_layout *layout, bool *given)
{
    iso_status status = query(distribution, distribution->how.output, path, shape, layout, given);
    if (status == ISO_OK && !*given)
        *given = iso_zero_output(distribution, path, shape, layout);
    return status;
}

iso_status iso_distribution_slot(const iso_distribution *distribution, const iso_variable *variable,
                                 const char *slot, iso_layout *layout, bool *given)
{
    iso_text path = {0};
    iso_text_add(&path, "%s%s/%s", ISO_OPTIMIZER_PREFIX, variable->path, slot);
    iso_status status = path.failed ? iso_no_memory("the path of a slot of '%s'", variable->path)
                                    : query(distribution, distribution->how.optimizer, iso_text_get(&path),
                                            &variable->shape, layout, given);
    iso_text_free(&path);
    return status;
}
