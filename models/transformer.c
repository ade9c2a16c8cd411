#include "models/transformer_impl.h"

#include <stdio.h>

#include "models/models.h"
#include "runtime/graph/op.h"

iso_initializer iso_transformer_normal(double deviation)
{
    return (iso_initializer){ISO_INIT_RANDOM_NORMAL, .stddev = deviation};
}

bool iso_transformer_count_fits(iso_graph *graph, const char *model, const char *setting, int64_t count,
                                int most)
{
    bool fits = count >= ISO_BUILTIN_LEAST && count <= most;
    if (!fits)
        iso_graph_fail(graph, "%s: %s is %lld; it must be from 1 to %d", model, setting, (long long)count,
                       most);
    return fits;
}

void iso_transformer_block_begin(iso_graph *graph, int64_t number, bool recompute)
{
    char name[32];
    snprintf(name, sizeof name, "block_%lld", (long long)number);
    iso_name_scope_begin(graph, name);
    if (recompute)
        iso_recompute_begin(graph);
}

iso_tensor *iso_transformer_block_end(iso_tensor *y, bool recompute)
{
    iso_graph *graph = iso_tensor_graph(y);
    if (recompute)
        iso_recompute_end(graph);
    return iso_name_scope_end(graph, y);
}
