/* Scopes: what holds for all that is added to a graph between a begin and its end. */
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"

void iso_freeze_begin(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    graph->frozen++;
}

void iso_freeze_end(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (graph->frozen == 0)
        iso_graph_fail(graph, "iso_freeze_end without iso_freeze_begin");
    else
        graph->frozen--;
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
    if (ISO_ANY_NULL(graph))
        return;
    if (graph->recomputing == 0)
        iso_graph_fail(graph, "iso_recompute_end without iso_recompute_begin");
    else
        graph->recomputing--;
}
