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

bool iso_transformer_epsilon_fits(iso_graph *graph, const char *model, double epsilon)
{
    bool fits = epsilon > 0 && epsilon < 1;
    if (!fits)
        iso_graph_fail(graph, "%s: epsilon is %g; it must be above 0 and below 1", model, epsilon);
    return fits;
}

bool iso_transformer_rate_fits(iso_graph *graph, const char *model, const char *setting, double rate)
{
    bool fits = rate >= 0 && rate < 1;
    if (!fits)
        iso_graph_fail(graph, "%s: %s %g; it must be from 0 to below 1", model, setting, rate);
    return fits;
}

iso_tensor *iso_transformer_dropout(iso_tensor *x, double rate)
{
    return rate > 0 ? iso_dropout(x, rate) : x;
}

iso_tensor *iso_transformer_layer_norm(iso_tensor *x, double epsilon, const char *name)
{
    return iso_layer_norm(x, .epsilon = epsilon, .name = name);
}

iso_tensor *iso_transformer_tied_logits(iso_tensor *h, int64_t vocabulary, int64_t width)
{
    iso_graph *graph = iso_tensor_graph(h);
    iso_share_begin(graph);
    h = iso_reversible_embedding(h, vocabulary, width, .reverse = true,
                                 .embeddings_initializer = iso_transformer_normal(0.02),
                                 .name = "token_embedding");
    iso_share_end(graph);
    return h;
}

iso_tensor *iso_transformer_first_position(iso_tensor *h)
{
    iso_tensor *first = iso_slice(h, (const int64_t[]){0, 0}, (const int64_t[]){1, -1});
    return iso_reshape_to(first, ISO_SHAPE(ISO_BATCH, iso_tensor_shape(h)->dim[2]));
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
