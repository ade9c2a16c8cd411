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

/* Float64 is for a network as its own oracle, so all of it computes in it. */
void iso_policy_begin(iso_graph *graph, iso_dtype dtype)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (dtype != ISO_BF16 && dtype != ISO_F32 && dtype != graph->precision)
        iso_graph_fail(graph,
                       "iso_policy_begin: %s in a graph of precision %s: float32 or bfloat16 "
                       "(mixed_bfloat16) is possible",
                       iso_dtype_name(dtype), iso_dtype_name(graph->precision));
    else if (graph->n_policies == ISO_MAX_POLICIES)
        iso_graph_fail(graph, "iso_policy_begin: more than %d scopes within one another", ISO_MAX_POLICIES);
    else {
        iso_dtype compute = graph->precision == ISO_F64 || dtype != ISO_BF16 ? graph->precision : ISO_BF16;
        graph->several_policies |= compute != graph->compute;
        graph->outside[graph->n_policies++] = graph->compute;
        graph->compute = compute;
    }
}

void iso_policy_end(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    if (graph->n_policies > 0)
        graph->compute = graph->outside[graph->n_policies - 1];
    end_scope(graph, &graph->n_policies, "iso_policy");
}

void iso_graph_check_scopes(iso_graph *graph)
{
    if (ISO_ANY_NULL(graph))
        return;
    const struct {
        bool open;
        const char *name;
    } scopes[] = {{graph->n_scopes > 0, "iso_name_scope"},   {graph->sharing != NULL, "iso_share"},
                  {graph->frozen > 0, "iso_freeze"},         {graph->lora != NULL, "iso_lora"},
                  {graph->recomputing > 0, "iso_recompute"}, {graph->n_policies > 0, "iso_policy"}};
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (scopes[i].open)
            iso_graph_fail(graph, "a model is made while a scope of %s_begin is open: %s_end is missing",
                           scopes[i].name, scopes[i].name);
}
