/* Updates: how variables change at the end of a step; the terms that layers add to the loss. */
#include <string.h>

#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"

static iso_update *single(iso_graph *graph, iso_change change)
{
    iso_update *update = iso_graph_keep(graph, sizeof *update);
    if (!update || !(update->change = iso_graph_keep(graph, sizeof change)))
        return &graph->bad_update;
    update->graph = graph;
    update->count = 1;
    update->change[0] = change;
    return update;
}

iso_update *iso_assign(iso_variable *variable, iso_tensor *value)
{
    bool missing = ISO_ANY_NULL(variable, value);
    if (!variable && !value)
        return NULL;
    iso_graph *graph = variable ? variable->graph : value->graph;
    if (missing)
        iso_null_in(graph);
    char have[160], want[160];
    if (graph->status != ISO_OK || !iso_tensor_good(value))
        return &graph->bad_update;
    if (!iso_shape_equal(&variable->shape, &value->shape) || variable->dtype != value->dtype) {
        iso_graph_fail(graph, "assigning a tensor %s of %s to the variable '%s' %s of %s",
                       iso_shape_text(&value->shape, have, sizeof have), iso_dtype_name(value->dtype),
                       variable->path, iso_shape_text(&variable->shape, want, sizeof want),
                       iso_dtype_name(variable->dtype));
        return &graph->bad_update;
    }
    return single(graph, (iso_change){.variable = variable, .value = value});
}

iso_update *iso_update_apply(iso_variable *variable, iso_tensor *gradient, iso_variable *iteration,
                             iso_variable *rate, const iso_optimizer *optimizer)
{
    iso_graph *graph = variable->graph;
    iso_apply_attrs attrs = {.optimizer = *optimizer, .variable = variable};
    iso_tensor *inputs[] = {variable->value, gradient, iteration->value, rate->value};
    iso_tensor *value = iso_op_create(graph, &iso_op_apply_optimizer, inputs, 4, &attrs);
    if (graph->status != ISO_OK)
        return &graph->bad_update;
    variable->updated = true;
    return single(graph, (iso_change){.variable = variable, .value = value, .apply = value->producer});
}

/* Memory for twice `count` changes, which begins with those of an update. */
static iso_change_room *new_room(const iso_update *update, size_t count)
{
    iso_change_room *room = iso_graph_keep(update->graph, sizeof *room);
    if (!room || !(room->change = iso_graph_keep(update->graph, 2 * count * sizeof *room->change)))
        return NULL;
    room->capacity = (int)(2 * count);
    room->used = update->count;
    if (update->count)
        memcpy(room->change, update->change, (size_t)update->count * sizeof *update->change);
    return room;
}

/* Appends b's changes to the memory of a's, unless others were appended there before. Joining updates one
 * by one therefore takes time and memory in proportion to their number. */
iso_update *iso_update_join(iso_update *a, iso_update *b)
{
    if (!a || !b)
        return a ? a : b;
    iso_graph *graph = a->graph;
    int count = a->count + b->count;
    iso_update *both = iso_graph_keep(graph, sizeof *both);
    bool fits = a->room && a->room->used == a->count && count <= a->room->capacity;
    iso_change_room *room = fits ? a->room : new_room(a, (size_t)count);
    if (!both || !room)
        return &graph->bad_update;
    if (b->count)
        memcpy(room->change + a->count, b->change, (size_t)b->count * sizeof *b->change);
    room->used = count;
    *both = (iso_update){.graph = graph, .count = count, .change = room->change, .room = room};
    return both;
}

/* The change of a variable in an update; NULL: none. */
static iso_change *update_find(const iso_update *update, const iso_variable *variable)
{
    for (int i = 0; update && i < update->count; i++)
        if (update->change[i].variable == variable)
            return &update->change[i];
    return NULL;
}

/* A copy of an update without the changes of those variables that `other` changes; NULL: nothing is left. */
static iso_update *without(const iso_update *update, const iso_update *other)
{
    iso_update *rest = NULL;
    for (int i = 0; i < update->count; i++)
        if (!update_find(other, update->change[i].variable))
            rest = iso_update_join(rest, single(update->graph, update->change[i]));
    return rest;
}

void iso_graph_add_training_update(iso_graph *graph, iso_update *update)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, update))
        return;
    if (graph->sharing && graph->training_update)
        graph->training_update = without(graph->training_update, update);
    graph->training_update = iso_update_join(graph->training_update, update);
}

iso_tensor *iso_graph_training_value(iso_graph *graph, iso_variable *variable)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    if (ISO_NULL_IN(graph, variable))
        return iso_graph_bad_tensor(graph);
    const iso_change *change = update_find(graph->training_update, variable);
    return change ? change->value : variable->value;
}

iso_update *iso_update_unless_frozen(iso_update *update)
{
    if (ISO_ANY_NULL(update))
        return NULL;
    for (int i = 0; i < update->count; i++)
        update->change[i].unless_frozen = true;
    return update;
}

iso_update *iso_graph_active_update(iso_graph *graph)
{
    const iso_update *all = graph->training_update;
    iso_update *active = NULL;
    bool whole = true;
    for (int i = 0; all && i < all->count; i++)
        whole &= !(all->change[i].unless_frozen && all->change[i].variable->frozen);
    if (whole)
        return graph->training_update;
    for (int i = 0; i < all->count; i++)
        if (!(all->change[i].unless_frozen && all->change[i].variable->frozen))
            active = iso_update_join(active, single(graph, all->change[i]));
    return active;
}

void iso_graph_add_penalty(iso_graph *graph, const iso_variable *variable, iso_tensor *term)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, term) || !iso_tensor_good(term))
        return;
    iso_loss_term *added = iso_graph_keep(graph, sizeof *added);
    if (!added)
        return;
    *added = (iso_loss_term){term, variable};
    iso_graph_append(graph, graph->loss_terms, graph->n_loss_terms, added);
}

void iso_graph_add_loss(iso_graph *graph, iso_tensor *term)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, term))
        return;
    iso_graph_add_penalty(graph, NULL, term);
}

iso_tensor *iso_graph_losses(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return NULL;
    iso_tensor *sum = NULL;
    for (int i = 0; i < graph->n_loss_terms; i++) {
        const iso_loss_term *term = graph->loss_terms[i];
        if (!term->variable || !term->variable->frozen)
            sum = sum ? iso_add(sum, term->tensor) : term->tensor;
    }
    return sum;
}
