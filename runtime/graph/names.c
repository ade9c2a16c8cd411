/* Names: of layers and blocks, of what is made within blocks, and those by which layouts find a tensor. */
#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph_impl.h"

static bool name_taken(const iso_graph *graph, const char *name)
{
    for (int i = 0; i < graph->names; i++)
        if (strcmp(graph->name[i], name) == 0)
            return true;
    return false;
}

void iso_tensor_add_path(iso_tensor *tensor, const char *name, int length)
{
    char text[ISO_MAX_PATH + 16];
    snprintf(text, sizeof text, "%.*s/output", length, name);
    if (tensor->name && strcmp(tensor->name, text) == 0)
        return;
    iso_tensor_path *path = iso_graph_keep(tensor->graph, sizeof *path);
    if (!path)
        return;
    *path = (iso_tensor_path){.text = iso_graph_keep_text(tensor->graph, text)};
    iso_tensor_path **last = &tensor->paths;
    while (*last)
        last = &(*last)->next;
    *last = path;
}

/* The path of the block that is open, with its '/'; "" outside of all. */
static const char *scope_of(const iso_graph *graph)
{
    return graph->scopes ? graph->scope[graph->scopes - 1] : "";
}

/* A text behind the open block's path. Where it is too long, an error in the graph. */
static void in_scope(iso_graph *graph, const char *text, char path[ISO_MAX_PATH])
{
    if (snprintf(path, ISO_MAX_PATH, "%s%s", scope_of(graph), text) >= ISO_MAX_PATH)
        iso_graph_fail(graph, "a name of more than %d characters: '%.60s...'", ISO_MAX_PATH - 1, path);
}

const char *iso_graph_path(iso_graph *graph, const char *path, char *room)
{
    const char *scope = scope_of(graph);
    if (strncmp(path, scope, strlen(scope)) == 0) /* a layer's variable has it already, from the layer's name */
        return path;
    in_scope(graph, path, room);
    return room;
}

static const char *take(iso_graph *graph, const char *path)
{
    const char *kept = iso_graph_keep_text(graph, path);
    iso_graph_append(graph, &graph->name, &graph->names, &graph->name_capacity, kept);
    return kept;
}

const char *iso_graph_take_name(iso_graph *graph, const char *name)
{
    char path[ISO_MAX_PATH];
    in_scope(graph, name, path);
    if (!*name || strchr(name, '/'))
        iso_graph_fail(graph, "a layer or block is named '%s': a name must have characters, and no '/' among them",
                       name);
    if (name_taken(graph, path))
        iso_graph_fail(graph, "two layers are named '%s'", path);
    return take(graph, path);
}

const char *iso_graph_unique_name(iso_graph *graph, const char *base)
{
    char first[ISO_MAX_PATH], path[ISO_MAX_PATH + 16];
    in_scope(graph, base, first);
    snprintf(path, sizeof path, "%s", first);
    for (int k = 1; name_taken(graph, path); k++)
        snprintf(path, sizeof path, "%s_%d", first, k);
    return take(graph, path);
}

void iso_name_scope_begin(iso_graph *graph, const char *name)
{
    char path[ISO_MAX_PATH + 1];
    if (graph->scopes == ISO_MAX_SCOPES)
        iso_graph_fail(graph, "block '%s': more than %d blocks within each other", name, ISO_MAX_SCOPES);
    if (graph->status != ISO_OK)
        return;
    snprintf(path, sizeof path, "%s/", iso_graph_take_name(graph, name));
    graph->scope[graph->scopes++] = iso_graph_keep_text(graph, path);
}

iso_tensor *iso_name_scope_end(iso_graph *graph, iso_tensor *y)
{
    if (graph->scopes == 0)
        iso_graph_fail(graph, "a block ends that was not begun");
    if (graph->status != ISO_OK)
        return y;
    const char *path = graph->scope[--graph->scopes];
    if (y)
        iso_tensor_add_path(y, path, (int)strlen(path) - 1);
    return y;
}
