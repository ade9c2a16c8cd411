/* Records of what a graph was built from: calls of layers, and the blocks around them. */
#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/origin.h"

/* The number of the block that was begun last; -1: none is open. */
static int open_block(const iso_graph *graph)
{
    return graph->n_scopes ? graph->scope_block[graph->n_scopes - 1] : -1;
}

/* A list that lives as long as the graph; NULL when out of memory. */
static iso_tensor **keep_list(iso_graph *graph, iso_tensor *const *list, int count)
{
    size_t bytes = (size_t)count * sizeof *list;
    iso_tensor **kept = iso_graph_keep(graph, bytes ? bytes : 1);
    if (kept && bytes)
        memcpy(kept, list, bytes);
    return kept;
}

/* ---- layers ---- */

static iso_layer_part *keep_parts(iso_graph *graph, const iso_layer_record *layer)
{
    size_t bytes = (size_t)layer->n_parts * sizeof *layer->parts;
    iso_layer_part *kept = iso_graph_keep(graph, bytes ? bytes : 1);
    if (kept && bytes)
        memcpy(kept, layer->parts, bytes);
    return kept;
}

void iso_graph_add_layer(iso_graph *graph, const iso_layer_record *layer)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, layer))
        return;
    iso_graph_check_name(graph, "layer", layer->name);
    if (graph->status != ISO_OK)
        return;
    iso_layer_record *record = iso_graph_keep(graph, sizeof *record);
    iso_tensor **input = record ? keep_list(graph, layer->inputs, layer->n_inputs) : NULL;
    iso_tensor **other = input ? keep_list(graph, layer->others, layer->n_others) : NULL;
    iso_layer_part *part = other ? keep_parts(graph, layer) : NULL;
    if (!part)
        return;
    *record = *layer;
    record->inputs = input;
    record->others = other;
    record->parts = part;
    record->block = open_block(graph);
    record->depth = graph->making;
    record->n_ops = graph->n_ops;
    record->frozen = iso_graph_freezes(graph);
    record->compute = graph->compute;
    iso_tensor_add_path(layer->output, layer->name, (int)strlen(layer->name));
    if (graph->making)
        iso_graph_append(graph, graph->parts, graph->n_parts, record);
    else
        iso_graph_append(graph, graph->layers, graph->n_layers, record);
}

int iso_graph_layer_count(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return 0;
    return graph->n_layers;
}

const iso_layer_record *iso_graph_layer(const iso_graph *graph, int index)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return index >= 0 && index < graph->n_layers ? graph->layers[index] : NULL;
}

int iso_graph_count_calls(const iso_graph *graph, const char *name)
{
    int count = 0;
    if (ISO_ANY_NULL(graph, name))
        return 0;
    for (int i = 0; i < graph->n_layers; i++)
        count += strcmp(graph->layers[i]->name, name) == 0;
    for (int i = 0; i < graph->n_parts; i++)
        count += strcmp(graph->parts[i]->name, name) == 0;
    return count;
}

static bool is_within(const char *path, const char *name)
{
    size_t length = strlen(name);
    return strncmp(path, name, length) == 0 && (path[length] == '/' || !path[length]);
}

static iso_status no_such_layer(const iso_graph *graph, const char *name)
{
    iso_text nearest = {0};
    const char **names = iso_new(((size_t)graph->n_layers + 1) * sizeof *names);
    for (int i = 0; names && i < graph->n_layers; i++)
        names[i] = graph->layers[i]->name;
    if (names)
        iso_text_add_nearest(&nearest, name, names, graph->n_layers);
    iso_status status =
        iso_error(ISO_INVALID, "there is no layer or block '%s'%s", name, iso_text_get(&nearest));
    iso_text_free(&nearest);
    iso_free(names);
    return status;
}

/* Whether there is a layer of this name, or of its block. */
static bool freeze_layers(iso_layer_record **layers, int count, const char *name, bool frozen)
{
    bool found = !name;
    for (int i = 0; i < count; i++)
        if (!name || is_within(layers[i]->name, name)) {
            layers[i]->frozen = frozen;
            found = true;
        }
    return found;
}

iso_status iso_graph_set_trainable(iso_graph *graph, const char *name, bool trainable)
{
    ISO_NEED(graph);
    if (graph->status != ISO_OK)
        return iso_graph_error(graph);
    bool found = freeze_layers(graph->layers, graph->n_layers, name, !trainable);
    found |= freeze_layers(graph->parts, graph->n_parts, name, !trainable);
    if (!found)
        return no_such_layer(graph, name);
    for (int i = 0; i < graph->n_variables; i++)
        if (!name || is_within(graph->variables[i]->path, name))
            graph->variables[i]->frozen = !trainable;
    return ISO_OK;
}

/* Layers are recorded one after another: an op belongs to the first layer that was recorded after it. */
const char *iso_op_layer(const iso_graph *graph, const iso_op *op)
{
    int first = 0, count = graph->n_layers;
    while (op->backward_of)
        op = op->backward_of;
    while (count > 0) {
        int half = count / 2;
        bool before = graph->layers[first + half]->n_ops <= op->id;
        first += before ? half + 1 : 0;
        count = before ? count - half - 1 : half;
    }
    return first < graph->n_layers ? graph->layers[first]->name : "";
}

/* ---- layers that are made of others ---- */

/* Opens a scope of the path NAME/. False, and an error, if there are too many. */
static bool open_scope(iso_graph *graph, const char *name, int block)
{
    char path[ISO_MAX_PATH + 1];
    if (graph->n_scopes == ISO_MAX_SCOPES)
        iso_graph_fail(graph, "block '%s': %d blocks within each other, at most %d are possible", name,
                       graph->n_scopes + 1, ISO_MAX_SCOPES);
    if (graph->status != ISO_OK)
        return false;
    snprintf(path, sizeof path, "%s/", name);
    graph->scope_block[graph->n_scopes] = block;
    graph->scope_parts[graph->n_scopes] = graph->n_parts;
    graph->scopes[graph->n_scopes++] = iso_graph_keep_text(graph, path);
    return true;
}

void iso_layer_parts_begin(iso_graph *graph, const char *name)
{
    if (!ISO_ANY_NULL(graph) && !ISO_NULL_IN(graph, name) && open_scope(graph, name, open_block(graph)))
        graph->making++;
}

bool iso_graph_makes_parts(const iso_graph *graph)
{
    return !ISO_ANY_NULL(graph) && graph->making > 0;
}

int iso_layer_parts_end(iso_graph *graph, const iso_layer_record **parts, int capacity)
{
    int count = 0;
    if (ISO_ANY_NULL(graph) || (capacity > 0 && ISO_NULL_IN(graph, parts)))
        return 0;
    if (graph->making == 0 || graph->n_scopes == 0)
        iso_graph_fail(graph, "iso_layer_parts_end without iso_layer_parts_begin");
    if (graph->status != ISO_OK)
        return 0;
    for (int i = graph->scope_parts[--graph->n_scopes]; i < graph->n_parts; i++)
        if (graph->parts[i]->depth == graph->making) {
            if (count < capacity)
                parts[count] = graph->parts[i];
            count++;
        }
    graph->making--;
    return count;
}

/* ---- blocks ---- */

/* The first block of this name if layers are shared; -1: this is the first. */
static int first_block(const iso_graph *graph, const char *name)
{
    for (int i = 0; iso_graph_shares(graph) && i < graph->n_blocks; i++)
        if (strcmp(graph->blocks[i]->name, name) == 0)
            return i;
    return -1;
}

static iso_block_record *add_block(iso_graph *graph, const char *name)
{
    iso_block_record *record = iso_graph_keep(graph, sizeof *record);
    if (!record)
        return NULL;
    *record = (iso_block_record){.name = name,
                                 .around = open_block(graph),
                                 .again = first_block(graph, name),
                                 .first_op = graph->n_ops,
                                 .last_op = graph->n_ops,
                                 .first_layer = graph->n_layers,
                                 .last_layer = graph->n_layers};
    return iso_graph_append(graph, graph->blocks, graph->n_blocks, record) ? record : NULL;
}

void iso_name_scope_begin(iso_graph *graph, const char *name)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, name))
        return;
    if (graph->status != ISO_OK)
        return;
    const char *taken = iso_graph_take_name(graph, name);
    if (add_block(graph, taken))
        open_scope(graph, taken, graph->n_blocks - 1);
}

void iso_name_scope_note(iso_graph *graph, bool sequential, iso_tensor *const *inputs, int count, int again)
{
    if (ISO_ANY_NULL(graph) || (count > 0 && ISO_NULL_IN(graph, inputs)))
        return;
    if (count < 0)
        iso_graph_fail(graph, "iso_name_scope_note: count is %d, it must not be negative", count);
    if (graph->status != ISO_OK)
        return;
    if (graph->n_scopes == 0) {
        graph->sequential = sequential;
        return;
    }
    iso_block_record *record = graph->blocks[open_block(graph)];
    record->sequential = sequential;
    if (again >= 0)
        record->again = again;
    if ((record->inputs = keep_list(graph, inputs, count)))
        record->n_inputs = count;
}

void iso_name_scope_end_several(iso_graph *graph, iso_tensor *const *outputs, int count)
{
    if (ISO_ANY_NULL(graph) || (count > 0 && ISO_NULL_IN(graph, outputs)))
        return;
    if (count < 0)
        iso_graph_fail(graph, "iso_name_scope_end_several: count is %d, it must not be negative", count);
    if (graph->n_scopes == 0)
        iso_graph_fail(graph, "iso_name_scope_end without iso_name_scope_begin");
    if (graph->status != ISO_OK)
        return;
    iso_block_record *record = graph->blocks[open_block(graph)];
    graph->n_scopes--;
    record->last_op = graph->n_ops;
    record->last_layer = graph->n_layers;
    if ((record->outputs = keep_list(graph, outputs, count)))
        record->n_outputs = count;
    for (int i = 0; i < count; i++) /* Keras's models do not say what masks their results have */
        iso_tensor_set_masks(outputs[i], (iso_masks){.run = iso_tensor_masks(outputs[i]).run});
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
    return graph->n_blocks;
}

const iso_block_record *iso_graph_block(const iso_graph *graph, int index)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return index >= 0 && index < graph->n_blocks ? graph->blocks[index] : NULL;
}

/* ---- the whole network ---- */

bool iso_graph_is_sequential(const iso_graph *graph)
{
    return !ISO_ANY_NULL(graph) && graph->sequential;
}

void iso_graph_set_name(iso_graph *graph, const char *name)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (name)
        iso_graph_check_name(graph, "model", name);
    if (graph->status == ISO_OK)
        graph->name = name ? iso_graph_keep_text(graph, name) : NULL;
}

void iso_graph_set_origin(iso_tensor *x, iso_tensor *y, const char *name, const void *options, size_t size)
{
    iso_graph *graph = y->graph;
    void *copy = graph->status == ISO_OK ? iso_graph_keep(graph, size) : NULL;
    if (!copy)
        return;
    memcpy(copy, options, size);
    graph->origin.name = name;
    graph->origin.x = x;
    graph->origin.y = y;
    graph->origin.options = copy;
}

const void *iso_graph_origin(const iso_tensor *x, const iso_tensor *y, const char *name)
{
    const iso_graph *graph = y->graph;
    bool same = graph->origin.name && strcmp(graph->origin.name, name) == 0 && graph->origin.x == x &&
                graph->origin.y == y;
    return same ? graph->origin.options : NULL;
}

const char *iso_graph_name(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    return graph->name;
}
