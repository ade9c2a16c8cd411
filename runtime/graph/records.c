/* What a graph was built from: calls of layers, and the blocks around them. */
#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"

/* The number of the block that was begun last; -1: none is open. */
static int open_block(const iso_graph *graph)
{
    return graph->scopes ? graph->scope_block[graph->scopes - 1] : -1;
}

/* A list that lives as long as the graph; NULL where memory ends. */
static iso_tensor **keep_list(iso_graph *graph, iso_tensor *const *list, int count)
{
    size_t bytes = (size_t)count * sizeof *list;
    iso_tensor **kept = iso_graph_keep(graph, bytes ? bytes : 1);
    if (kept && bytes)
        memcpy(kept, list, bytes);
    return kept;
}

/* ---- layers ---- */

void iso_graph_add_layer(iso_graph *graph, const iso_layer_record *layer)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, layer))
        return;
    if (graph->status != ISO_OK)
        return;
    iso_layer_record *record = iso_graph_keep(graph, sizeof *record);
    iso_tensor **input = record ? keep_list(graph, layer->input, layer->inputs) : NULL;
    if (!input)
        return;
    *record = *layer;
    record->input = input;
    record->block = open_block(graph);
    record->ops = graph->ops;
    record->frozen = iso_graph_freezes(graph);
    iso_tensor_add_path(layer->output, layer->name, (int)strlen(layer->name));
    iso_graph_append(graph, &graph->layer, &graph->layers, &graph->layer_capacity, record);
}

int iso_graph_layer_count(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    return graph->layers;
}

const iso_layer_record *iso_graph_layer(const iso_graph *graph, int index)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return index >= 0 && index < graph->layers ? graph->layer[index] : NULL;
}

/* ---- blocks ---- */

/* The first block of a name where layers are shared; -1: this is the first. */
static int first_block(const iso_graph *graph, const char *name)
{
    for (int i = 0; iso_graph_shares(graph) && i < graph->blocks; i++)
        if (strcmp(graph->block[i]->name, name) == 0)
            return i;
    return -1;
}

static iso_block_record *add_block(iso_graph *graph, const char *name)
{
    iso_block_record *record = iso_graph_keep(graph, sizeof *record);
    if (!record)
        return NULL;
    *record = (iso_block_record){.type = "Functional",
                                 .name = name,
                                 .around = open_block(graph),
                                 .again = first_block(graph, name),
                                 .first_op = graph->ops,
                                 .last_op = graph->ops,
                                 .first_layer = graph->layers,
                                 .last_layer = graph->layers};
    return iso_graph_append(graph, &graph->block, &graph->blocks, &graph->block_capacity, record) ? record
                                                                                                  : NULL;
}

void iso_name_scope_begin(iso_graph *graph, const char *name)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, name))
        return;
    char path[ISO_MAX_PATH + 1];
    if (graph->scopes == ISO_MAX_SCOPES)
        iso_graph_fail(graph, "block '%s': %d blocks within each other, at most %d are possible", name,
                       graph->scopes + 1, ISO_MAX_SCOPES);
    if (graph->status != ISO_OK)
        return;
    const char *taken = iso_graph_take_name(graph, name);
    if (!add_block(graph, taken))
        return;
    snprintf(path, sizeof path, "%s/", taken);
    graph->scope_block[graph->scopes] = graph->blocks - 1;
    graph->scope[graph->scopes++] = iso_graph_keep_text(graph, path);
}

void iso_name_scope_note(iso_graph *graph, const char *type, iso_tensor *const *inputs, int count, int again)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, type) || (count > 0 && ISO_NULL_IN(graph, inputs)))
        return;
    if (graph->status != ISO_OK)
        return;
    if (graph->scopes == 0) {
        graph->type = type;
        return;
    }
    iso_block_record *record = graph->block[open_block(graph)];
    record->type = type;
    if (again >= 0)
        record->again = again;
    if ((record->input = keep_list(graph, inputs, count)))
        record->inputs = count;
}

void iso_name_scope_end_several(iso_graph *graph, iso_tensor *const *outputs, int count)
{
    if (ISO_ANY_NULL(graph) || (count > 0 && ISO_NULL_IN(graph, outputs)))
        return;
    if (graph->scopes == 0)
        iso_graph_fail(graph, "a block ends that was not begun");
    if (graph->status != ISO_OK)
        return;
    iso_block_record *record = graph->block[open_block(graph)];
    graph->scopes--;
    record->last_op = graph->ops;
    record->last_layer = graph->layers;
    if ((record->output = keep_list(graph, outputs, count)))
        record->outputs = count;
    if (count == 1)
        iso_tensor_add_path(outputs[0], record->name, (int)strlen(record->name));
}

iso_tensor *iso_name_scope_end(iso_graph *graph, iso_tensor *y)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    iso_name_scope_end_several(graph, &y, y ? 1 : 0);
    return y;
}

int iso_graph_block_count(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    return graph->blocks;
}

const iso_block_record *iso_graph_block(const iso_graph *graph, int index)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return index >= 0 && index < graph->blocks ? graph->block[index] : NULL;
}

/* ---- the whole network ---- */

const char *iso_graph_type(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return graph->type ? graph->type : "Functional";
}

void iso_graph_set_name(iso_graph *graph, const char *name)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (graph->status == ISO_OK)
        graph->name = name ? iso_graph_keep_text(graph, name) : NULL;
}

const char *iso_graph_name(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return graph->name;
}
