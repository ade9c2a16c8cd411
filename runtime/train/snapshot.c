#include "runtime/train/snapshot.h"
#include "runtime/exec/function/inspect.h"

#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/device.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/function.h"

struct iso_snapshot {
    iso_graph *graph;
    int count;
    iso_state_shard *shard; /* [count] the graph's shards, with `data` in the copy */
    char **path;            /* [count] paths in files; NULL until requested */
    char *memory;
};

static bool has_path(const iso_state_shards *shards, const char *path)
{
    for (int i = 0; i < shards->count; i++)
        if (strcmp(shards->shards[i].path, path) == 0)
            return true;
    return false;
}

/* Adds an empty shard for each variable of which this rank has nothing, so that snapshots have the same names
 * on every rank. */
static iso_status add_missing(iso_graph *graph, iso_state_shards *shards)
{
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        const iso_shape *shape = iso_variable_shape(variable);
        if (iso_path_below_optimizer(iso_variable_path(variable)) ||
            has_path(shards, iso_variable_path(variable)))
            continue;
        iso_state_shard empty = {.path = iso_variable_path(variable),
                                 .dtype = iso_variable_dtype(variable),
                                 .shape = *shape,
                                 .box = {.rank = shape->rank}};
        iso_status status = iso_list_add(shards->shards, shards->count, empty, "shards");
        if (status != ISO_OK)
            return status;
    }
    return ISO_OK;
}

/* The graph's shards without the optimizer's, with pointers to its own data. */
static iso_status find_shards(iso_graph *graph, iso_state_shards *shards)
{
    int kept = 0;
    iso_status status = iso_graph_shards(graph, shards);
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < shards->count; i++)
        if (!iso_path_below_optimizer(shards->shards[i].path))
            shards->shards[kept++] = shards->shards[i];
    shards->count = kept;
    return add_missing(graph, shards);
}

/* Each copy begins at a multiple of ISO_ALIGN. */
static size_t shard_room(const iso_state_shard *shard)
{
    return (iso_shard_bytes(shard) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
}

static iso_status snapshot_make_room(iso_snapshot *snapshot, const iso_state_shards *shards)
{
    void *memory = NULL;
    size_t count = (size_t)shards->count, bytes = 0, at = 0;
    snapshot->shard = iso_new((count + 1) * sizeof *snapshot->shard);
    snapshot->path = iso_new((count + 1) * sizeof *snapshot->path);
    if (!snapshot->shard || !snapshot->path)
        return iso_no_memory("a copy of %zu variables", count);
    for (int i = 0; i < shards->count; i++)
        bytes += shard_room(&shards->shards[i]);
    iso_status status = iso_alloc(bytes, "a copy of the weights", &memory);
    if (status != ISO_OK)
        return status;
    snapshot->memory = memory;
    snapshot->count = shards->count;
    for (int i = 0; i < shards->count; i++) {
        snapshot->shard[i] = shards->shards[i];
        snapshot->shard[i].data = snapshot->memory + at;
        snapshot->shard[i].stream = NULL;
        at += shard_room(&shards->shards[i]);
    }
    return ISO_OK;
}

static iso_status same_shards(const iso_snapshot *snapshot, const iso_state_shards *shards)
{
    bool same = snapshot->count == shards->count;
    for (int i = 0; same && i < shards->count; i++)
        same = shards->shards[i].count == snapshot->shard[i].count &&
               strcmp(shards->shards[i].path, snapshot->shard[i].path) == 0;
    return same ? ISO_OK
                : iso_error(ISO_FAILED, "the graph's variables are not those that were copied earlier");
}

static iso_status copy_out(const iso_snapshot *snapshot, const iso_state_shards *shards)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < snapshot->count && status == ISO_OK; i++)
        status = iso_shard_read(&shards->shards[i], snapshot->shard[i].data);
    return status;
}

iso_status iso_snapshot_create(iso_graph *graph, iso_snapshot **out)
{
    iso_state_shards shards = {0};
    iso_status status = ISO_OK;
    iso_snapshot *snapshot = iso_new(sizeof *snapshot);
    if (!snapshot)
        return iso_no_memory("a copy of the weights");
    snapshot->graph = graph;
    ISO_TRY(find_shards(graph, &shards));
    ISO_TRY(snapshot_make_room(snapshot, &shards));
    ISO_TRY(copy_out(snapshot, &shards));
    *out = snapshot;
    snapshot = NULL;
done:
    iso_state_shards_free(&shards);
    iso_snapshot_destroy(snapshot);
    return status;
}

void iso_snapshot_destroy(iso_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (int i = 0; i < snapshot->count; i++)
        iso_free(snapshot->path[i]);
    iso_free(snapshot->path);
    iso_free(snapshot->shard);
    iso_free(snapshot->memory);
    iso_free(snapshot);
}

/* The shards are looked up each time, because their memory may have moved. */
iso_status iso_snapshot_take(iso_snapshot *snapshot)
{
    iso_state_shards shards = {0};
    iso_status status = ISO_OK;
    ISO_TRY(find_shards(snapshot->graph, &shards));
    ISO_TRY(same_shards(snapshot, &shards));
    ISO_TRY(copy_out(snapshot, &shards));
done:
    iso_state_shards_free(&shards);
    return status;
}

iso_status iso_snapshot_put(iso_snapshot *snapshot)
{
    iso_state_shards shards = {0};
    iso_context *ctx = iso_graph_context(snapshot->graph);
    iso_status status = find_shards(snapshot->graph, &shards);
    if (status == ISO_OK)
        status = same_shards(snapshot, &shards);
    ISO_TRY(iso_agree(ctx, status)); /* no rank still reads the old values */
    for (int i = 0; i < snapshot->count && status == ISO_OK; i++)
        status = iso_shard_write(&shards.shards[i], snapshot->shard[i].data);
    status = iso_agree(ctx, status); /* no rank runs a step before all have written */
done:
    iso_state_shards_free(&shards);
    return status;
}

static iso_status name_shards(iso_snapshot *snapshot, const char *path)
{
    char text[512];
    for (int i = 0; i < snapshot->count; i++) {
        iso_free(snapshot->path[i]);
        snprintf(text, sizeof text, "%s/%s", path, snapshot->shard[i].path);
        if (!(snapshot->path[i] = iso_strdup(text)))
            return iso_no_memory("the names of %d variables", snapshot->count);
    }
    return ISO_OK;
}

iso_status iso_snapshot_shards(iso_snapshot *snapshot, const char *path, iso_state_shards *shards)
{
    iso_status status = name_shards(snapshot, path);
    for (int i = 0; i < snapshot->count && status == ISO_OK; i++) {
        iso_state_shard named = snapshot->shard[i];
        named.path = snapshot->path[i];
        status = iso_list_add(shards->shards, shards->count, named, "shards");
    }
    return status;
}
