/* Names of layers and blocks, of what is made within blocks, and those by which layouts find a tensor. */
#include <stdio.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"
#include "runtime/graph/paths.h"

/* ---- tables ---- */

static const char names_of_a_graph[] = "the names of a graph";

/* A name that is looked up in a table. */
typedef struct wanted {
    const iso_name_table *table;
    const char *text;
} wanted;

static bool is_wanted(const void *key, int number)
{
    const wanted *w = key;
    return strcmp(w->table->name[number].text, w->text) == 0;
}

iso_name *iso_name_find(const iso_name_table *table, const char *text)
{
    wanted key = {table, text};
    int number = iso_table_find(&table->index, iso_hash_text(0, text), is_wanted, &key);
    return number >= 0 ? &table->name[number] : NULL;
}

void iso_name_add(iso_graph *graph, iso_name_table *table, const char *text, int value)
{
    iso_name fresh = {.text = text, .value = value};
    iso_status status = iso_list_reserve(table->name, table->count, 1, names_of_a_graph);
    if (status == ISO_OK)
        status = iso_table_add(&table->index, iso_hash_text(0, text), table->count, names_of_a_graph);
    if (status == ISO_OK)
        status = iso_list_add(table->name, table->count, fresh, names_of_a_graph);
    if (status != ISO_OK)
        iso_graph_fail_memory(graph, names_of_a_graph, ((size_t)table->count + 1) * sizeof fresh);
}

iso_status iso_names_copy(const iso_name_table *from, iso_name_table *to)
{
    iso_status status = iso_list_reserve(to->name, 0, from->count, names_of_a_graph);
    if (status != ISO_OK)
        return status;
    if (from->count)
        memcpy(to->name, from->name, (size_t)from->count * sizeof *to->name);
    to->count = from->count;
    return iso_table_copy(&from->index, &to->index, names_of_a_graph);
}

void iso_names_free(iso_name_table *table)
{
    iso_free(table->name);
    iso_table_free(&table->index);
}

/* ---- the names of a graph ---- */

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

/* Whether "<name>/output" is the path. */
static bool is_output_of(const char *path, const char *name)
{
    size_t length = strlen(name);
    return strncmp(path, name, length) == 0 && strcmp(path + length, "/output") == 0;
}

static bool tensor_has_path(const iso_tensor *tensor, const char *path)
{
    if (tensor->producer->type == &iso_op_variable)
        return false;
    if (iso_tensor_is_input(tensor) ? is_output_of(path, tensor->name)
                                    : tensor->name && strcmp(path, tensor->name) == 0)
        return true;
    for (const iso_tensor_path *own = tensor->paths; own; own = own->next)
        if (strcmp(path, own->text) == 0)
            return true;
    return false;
}

int iso_graph_count_path(const iso_graph *graph, const char *path)
{
    int count = iso_name_find(&graph->variable_paths, path) != NULL;
    for (int i = 0; i < graph->n_tensors; i++)
        count += tensor_has_path(graph->tensors[i], path);
    return count;
}

/* The path of the open block, with its '/'; "" outside all blocks. */
static const char *scope_of(const iso_graph *graph)
{
    return graph->n_scopes ? graph->scopes[graph->n_scopes - 1] : "";
}

/* Joins the open block's path and a text. If the result is too long, an error in the graph. */
static void in_scope(iso_graph *graph, const char *text, char path[ISO_MAX_PATH])
{
    int length = snprintf(path, ISO_MAX_PATH, "%s%s", scope_of(graph), text);
    if (length >= ISO_MAX_PATH)
        iso_graph_fail(graph, "a name of %d characters, at most %d are possible: '%.60s...'", length,
                       ISO_MAX_PATH - 1, path);
}

const char *iso_graph_path(iso_graph *graph, const char *path, char *room)
{
    const char *scope = scope_of(graph);
    if (strncmp(path, scope, strlen(scope)) ==
        0) /* a layer's variable already has it, from the layer's name */
        return path;
    in_scope(graph, path, room);
    return room;
}

static const char *names_take(iso_graph *graph, const char *path)
{
    const char *kept = iso_graph_keep_text(graph, path);
    if (graph->status == ISO_OK)
        iso_name_add(graph, &graph->layer_names, kept, 1);
    return kept;
}

/* An existing name of the graph, for a layer that is built again. */
static const char *take_again(iso_graph *graph, const char *path)
{
    iso_name *had = iso_name_find(&graph->layer_names, path);
    if (graph->status != ISO_OK)
        return "";
    if (!had) {
        iso_graph_fail(graph, "'%s' is to be used again, but there is no layer or block of this name", path);
        return "";
    }
    iso_name_add(graph, &graph->sharing->names, had->text, 1);
    return had->text;
}

/* "optimizer", "optimizer_1": the paths of iso_minimize's variables begin with these. */
static bool is_optimizers(const char *name)
{
    static const char word[] = "optimizer";
    const char *end = name + sizeof word - 1;
    if (strncmp(name, word, sizeof word - 1) != 0)
        return false;
    return !*end || (*end == '_' && end[1] && !end[1 + strspn(end + 1, "0123456789")]);
}

bool iso_path_below_optimizer(const char *path)
{
    char name[32];
    if (ISO_ANY_NULL(path))
        return false;
    size_t length = strcspn(path, "/");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), path);
    return path[length] && is_optimizers(name);
}

const char *iso_graph_take_name(iso_graph *graph, const char *name)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, name))
        return "";
    char path[ISO_MAX_PATH];
    in_scope(graph, name, path);
    if (!*name || strchr(name, '/'))
        iso_graph_fail(graph,
                       "a layer or block is named '%s': a name must have characters, and no '/' among them",
                       name);
    if (is_optimizers(path))
        iso_graph_fail(graph,
                       "a layer or block is named '%s', as the optimizer's own variables are "
                       "('%s/iteration'): it needs another name",
                       path, path);
    if (iso_name_find(graph->sharing ? &graph->sharing->names : &graph->layer_names, path))
        iso_graph_fail(graph, "two layers are named '%s'", path);
    return graph->sharing ? take_again(graph, path) : names_take(graph, path);
}

const char *iso_graph_unique_name(iso_graph *graph, const char *base)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, base))
        return "";
    char first[ISO_MAX_PATH], path[ISO_MAX_PATH + 16];
    const iso_name_table *names = graph->sharing ? &graph->sharing->names : &graph->layer_names;
    in_scope(graph, base, first);
    iso_name *entry = iso_name_find(names, first);
    if (entry) {
        do
            snprintf(path, sizeof path, "%s_%d", first, entry->value++);
        while (iso_name_find(names, path));
    } else {
        snprintf(path, sizeof path, "%s", first);
    }
    return graph->sharing ? take_again(graph, path) : names_take(graph, path);
}

void iso_share_begin(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    iso_sharing *sharing = iso_graph_keep(graph, sizeof *sharing);
    if (!sharing)
        return;
    sharing->outer = graph->sharing;
    graph->sharing = sharing;
}

void iso_share_end(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    iso_sharing *sharing = graph->sharing;
    if (!sharing) {
        iso_graph_fail(graph, "iso_share_end without iso_share_begin");
        return;
    }
    iso_names_free(&sharing->names);
    graph->sharing = sharing->outer;
}

bool iso_graph_shares(const iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return false;
    return graph->sharing != NULL;
}
