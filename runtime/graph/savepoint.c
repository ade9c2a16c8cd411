#include "runtime/graph/savepoint.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/graph/graph_impl.h"

/* A list of a graph: pointers to what graph->keep owns. */
typedef struct list {
    void ***item;
    int *count;
} list;
enum { LISTS = 7 };

/* The members of an earlier tensor or variable that building changes. */
typedef struct tensor_note {
    const char *name, *end_name; /* end_name: when the savepoint ended; NULL: it has not */
    iso_tensor_path *last;       /* NULL: it had no paths */
} tensor_note;
typedef struct variable_note {
    bool trained, updated;
    const char *layout;
    const iso_variable *state_of;
    int without;
} variable_note;

/* Members of a graph that are not lists. */
typedef struct scalars {
    iso_name_table layer_names, variable_paths;
    int n_scopes, making, frozen, recomputing, n_policies;
    iso_dtype compute;
    iso_sharing *sharing;
    iso_update *training_update;
} scalars;

struct iso_savepoint {
    iso_graph *graph;
    int count[LISTS], end[LISTS]; /* lengths of the lists when it was made and when it ended */
    int kept, kept_end;           /* its range of graph->keep */
    scalars scalars;              /* those of the other state: of before, or of after while it is taken out */
    tensor_note *tensor;          /* [count of tensors] likewise; of the paths, those after `last` */
    variable_note *variable;
    bool out;
    void **taken[LISTS];    /* [end - count] */
    void **taken_keep;      /* [kept_end - kept] */
    iso_tensor_path **path; /* [count of tensors] the paths that are taken out */
};

enum { TENSORS, OPS, VARIABLES, LAYERS, PARTS, BLOCKS, TERMS };

static void lists_of(iso_graph *graph, list lists[LISTS])
{
    lists[TENSORS] = (list){(void ***)&graph->tensors, &graph->n_tensors};
    lists[OPS] = (list){(void ***)&graph->ops, &graph->n_ops};
    lists[VARIABLES] = (list){(void ***)&graph->variables, &graph->n_variables};
    lists[LAYERS] = (list){(void ***)&graph->layers, &graph->n_layers};
    lists[PARTS] = (list){(void ***)&graph->parts, &graph->n_parts};
    lists[BLOCKS] = (list){(void ***)&graph->blocks, &graph->n_blocks};
    lists[TERMS] = (list){(void ***)&graph->loss_terms, &graph->n_loss_terms};
}

/* ---- creating ---- */

static scalars scalars_of(const iso_graph *graph)
{
    return (scalars){.layer_names = graph->layer_names,
                     .variable_paths = graph->variable_paths,
                     .n_scopes = graph->n_scopes,
                     .making = graph->making,
                     .frozen = graph->frozen,
                     .recomputing = graph->recomputing,
                     .n_policies = graph->n_policies,
                     .compute = graph->compute,
                     .sharing = graph->sharing,
                     .training_update = graph->training_update};
}

static iso_tensor_path *last_path(const iso_tensor *tensor)
{
    iso_tensor_path *last = tensor->paths;
    while (last && last->next)
        last = last->next;
    return last;
}

static variable_note variable_note_of(const iso_variable *variable)
{
    return (variable_note){.trained = variable->trained,
                           .updated = variable->updated,
                           .layout = variable->layout,
                           .state_of = variable->state_of,
                           .without = variable->without};
}

static iso_status savepoint_note(iso_savepoint *point)
{
    iso_graph *graph = point->graph;
    list lists[LISTS];
    lists_of(graph, lists);
    for (int i = 0; i < LISTS; i++)
        point->count[i] = point->end[i] = *lists[i].count;
    point->kept = point->kept_end = graph->kept;
    point->scalars = scalars_of(graph);
    point->scalars.layer_names = point->scalars.variable_paths = (iso_name_table){0};
    iso_status names = iso_names_copy(&graph->layer_names, &point->scalars.layer_names);
    iso_status paths = iso_names_copy(&graph->variable_paths, &point->scalars.variable_paths);
    point->tensor = iso_new(((size_t)graph->n_tensors + 1) * sizeof *point->tensor);
    point->path = iso_new(((size_t)graph->n_tensors + 1) * sizeof *point->path);
    point->variable = iso_new(((size_t)graph->n_variables + 1) * sizeof *point->variable);
    if (names != ISO_OK || paths != ISO_OK || !point->tensor || !point->path || !point->variable)
        return iso_no_memory("a savepoint of a graph of %d ops", graph->n_ops);
    for (int i = 0; i < graph->n_tensors; i++)
        point->tensor[i] =
            (tensor_note){.name = graph->tensors[i]->name, .last = last_path(graph->tensors[i])};
    for (int i = 0; i < graph->n_variables; i++)
        point->variable[i] = variable_note_of(graph->variables[i]);
    return ISO_OK;
}

iso_status iso_savepoint_create(iso_graph *graph, iso_savepoint **out)
{
    iso_status status = iso_graph_error(graph);
    if (status != ISO_OK)
        return status;
    iso_savepoint *point = iso_new(sizeof *point);
    if (!point)
        return iso_no_memory("a savepoint of a graph of %d ops", graph->n_ops);
    point->graph = graph;
    status = savepoint_note(point);
    if (status == ISO_OK)
        *out = point;
    else
        iso_savepoint_destroy(point);
    return status;
}

void iso_savepoint_end(iso_savepoint *point)
{
    list lists[LISTS];
    lists_of(point->graph, lists);
    for (int i = 0; i < LISTS; i++)
        point->end[i] = *lists[i].count;
    point->kept_end = point->graph->kept;
    for (int i = 0; i < point->count[TENSORS]; i++)
        point->tensor[i].end_name = point->graph->tensors[i]->name;
}

iso_status iso_savepoint_check(const iso_savepoint *point)
{
    static const char *const things[LISTS] = {
        [TENSORS] = "tensors",       [OPS] = "ops",       [VARIABLES] = "variables", [LAYERS] = "layers",
        [PARTS] = "parts of layers", [BLOCKS] = "blocks", [TERMS] = "losses"};
    list lists[LISTS];
    lists_of(point->graph, lists);
    for (int i = LISTS - 1; i >= 0; i--)
        if (*lists[i].count != point->end[i])
            return iso_error(ISO_INVALID, "%d %s were added after it was compiled",
                             *lists[i].count - point->end[i], things[i]);
    return ISO_OK;
}

int iso_savepoint_variables(const iso_savepoint *point)
{
    return point->count[VARIABLES];
}

int iso_savepoint_ops(const iso_savepoint *point)
{
    return point->count[OPS];
}

/* ---- out and back ---- */

static void swap_scalars(iso_savepoint *point)
{
    iso_graph *graph = point->graph;
    scalars now = scalars_of(graph), *to = &point->scalars;
    graph->layer_names = to->layer_names;
    graph->variable_paths = to->variable_paths;
    graph->n_scopes = to->n_scopes;
    graph->making = to->making;
    graph->frozen = to->frozen;
    graph->recomputing = to->recomputing;
    graph->n_policies = to->n_policies;
    graph->compute = to->compute;
    graph->training_update = to->training_update;
    *to = now;
}

static void swap_notes(iso_savepoint *point)
{
    iso_graph *graph = point->graph;
    for (int i = 0; i < point->count[TENSORS]; i++) {
        const char *name = graph->tensors[i]->name;
        graph->tensors[i]->name = point->tensor[i].name;
        point->tensor[i].name = name;
    }
    for (int i = 0; i < point->count[VARIABLES]; i++) {
        iso_variable *variable = graph->variables[i];
        variable_note now = variable_note_of(variable), *to = &point->variable[i];
        variable->trained = to->trained;
        variable->updated = to->updated;
        variable->layout = to->layout;
        variable->state_of = to->state_of;
        variable->without = to->without;
        *to = now;
    }
}

/* The link at which the paths that are taken out begin, or will begin again. */
static iso_tensor_path **path_behind(iso_savepoint *point, int tensor)
{
    iso_tensor_path *last = point->tensor[tensor].last;
    return last ? &last->next : &point->graph->tensors[tensor]->paths;
}

static void savepoint_free_room(iso_savepoint *point)
{
    for (int i = 0; i < LISTS; i++) {
        iso_free(point->taken[i]);
        point->taken[i] = NULL;
    }
    iso_free(point->taken_keep);
    point->taken_keep = NULL;
}

static bool savepoint_make_room(iso_savepoint *point)
{
    savepoint_free_room(point);
    for (int i = 0; i < LISTS; i++) {
        point->taken[i] = iso_new(((size_t)(point->end[i] - point->count[i]) + 1) * sizeof(void *));
        if (!point->taken[i])
            return false;
    }
    point->taken_keep = iso_new(((size_t)(point->kept_end - point->kept) + 1) * sizeof(void *));
    return point->taken_keep != NULL;
}

/* Stores what it takes out in taken[i] and taken_keep. If these are NULL (discard), frees it instead. */
static void take_lists(iso_savepoint *point)
{
    iso_graph *graph = point->graph;
    list lists[LISTS];
    lists_of(graph, lists);
    for (int i = 0; i < LISTS; i++) {
        size_t count = (size_t)(point->end[i] - point->count[i]);
        if (count && point->taken[i])
            memcpy(point->taken[i], *lists[i].item + point->count[i], count * sizeof(void *));
        *lists[i].count = point->count[i];
    }
    int kept = point->kept_end - point->kept, behind = graph->kept - point->kept_end;
    for (int i = 0; i < kept; i++)
        if (point->taken_keep)
            point->taken_keep[i] = graph->keep[point->kept + i];
        else
            iso_free(graph->keep[point->kept + i]);
    if (behind)
        memmove(graph->keep + point->kept, graph->keep + point->kept_end, (size_t)behind * sizeof(void *));
    graph->kept -= kept;
}

/* Names that were set after the savepoint ended are of both states. */
static void keep_later_names(iso_savepoint *point)
{
    for (int i = 0; i < point->count[TENSORS]; i++)
        if (point->tensor[i].end_name != point->graph->tensors[i]->name)
            point->tensor[i].name = point->graph->tensors[i]->name;
}

static void savepoint_take(iso_savepoint *point)
{
    iso_graph *graph = point->graph;
    while (graph->sharing && graph->sharing != point->scalars.sharing)
        iso_share_end(graph);
    for (int i = 0; i < point->count[TENSORS]; i++) {
        iso_tensor_path **behind = path_behind(point, i);
        point->path[i] = *behind;
        *behind = NULL;
    }
    take_lists(point);
    swap_scalars(point);
    swap_notes(point);
    graph->status = ISO_OK;
}

iso_status iso_savepoint_take_out(iso_savepoint *point)
{
    if (!savepoint_make_room(point))
        return iso_no_memory("a savepoint of a graph of %d ops", point->graph->n_ops);
    keep_later_names(point);
    savepoint_take(point);
    point->out = true;
    return ISO_OK;
}

void iso_savepoint_discard(iso_savepoint *point)
{
    if (!point)
        return;
    savepoint_free_room(point);
    iso_savepoint_end(point);
    savepoint_take(point);
    iso_savepoint_destroy(point);
}

void iso_savepoint_revert(iso_savepoint *point)
{
    savepoint_free_room(point);
    iso_savepoint_end(point);
    point->kept_end = point->kept; /* the graph keeps the memory */
    savepoint_take(point);
    iso_savepoint_destroy(point);
}

/* Whether the memory of a list of a graph has room for this number of items. */
static bool has_room(const void *items, int count)
{
    return (size_t)count <= iso_memory_room(items) / sizeof(void *);
}

/* The lists have held all of this before, and the memory of a list never shrinks (base/list.h): nothing needs
 * to grow, so nothing can fail. The assertions would show a caller that adds to the graph in between and does
 * not take it out again. */
void iso_savepoint_put_back(iso_savepoint *point)
{
    iso_graph *graph = point->graph;
    list lists[LISTS];
    lists_of(graph, lists);
    int kept = point->kept_end - point->kept;
    assert(has_room(graph->keep, graph->kept + kept));
    for (int i = 0; i < LISTS; i++) {
        size_t count = (size_t)(point->end[i] - point->count[i]);
        assert(*lists[i].count == point->count[i] && has_room(*lists[i].item, point->end[i]));
        if (count)
            memcpy(*lists[i].item + point->count[i], point->taken[i], count * sizeof(void *));
        *lists[i].count = point->end[i];
    }
    if (kept)
        memcpy(graph->keep + graph->kept, point->taken_keep, (size_t)kept * sizeof(void *));
    point->kept = graph->kept;
    graph->kept = point->kept_end = graph->kept + kept;
    for (int i = 0; i < point->count[TENSORS]; i++)
        *path_behind(point, i) = point->path[i];
    swap_scalars(point);
    swap_notes(point);
    point->out = false;
}

void iso_savepoint_destroy(iso_savepoint *point)
{
    if (!point)
        return;
    for (int i = 0; point->out && i < point->kept_end - point->kept; i++)
        iso_free(point->taken_keep[i]);
    savepoint_free_room(point);
    iso_names_free(&point->scalars.layer_names);
    iso_names_free(&point->scalars.variable_paths);
    iso_free(point->tensor);
    iso_free(point->path);
    iso_free(point->variable);
    iso_free(point);
}
