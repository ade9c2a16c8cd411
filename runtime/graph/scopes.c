/* Scopes: what holds for all that is added to a graph between a begin and its end. */
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"

/* Closes one of the scopes that are open. */
static void end_scope(iso_graph *graph, int *open, const char *name)
{
    if (*open == 0)
        iso_graph_fail(graph, "%s_end without %s_begin", name, name);
    else
        --*open;
}

void iso_freeze_begin(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    graph->frozen++;
}

void iso_freeze_end(iso_graph *graph)
{
    if (!ISO_ANY_NULL(graph))
        end_scope(graph, &graph->frozen, "iso_freeze");
}

void iso_recompute_begin(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (graph->recomputing++ == 0)
        graph->recomputations++;
}

void iso_recompute_end(iso_graph *graph)
{
    if (!ISO_ANY_NULL(graph))
        end_scope(graph, &graph->recomputing, "iso_recompute");
}
