#include "runtime/graph/null_tensor.h"

#include "runtime/graph/op.h"

bool iso_null_in(iso_graph *graph)
{
    iso_graph_fail(graph, "%s", iso_error_message());
    return true;
}

iso_tensor *iso_null_tensor(iso_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!tensors[i])
            continue;
        iso_null_in(tensors[i]->graph);
        return iso_graph_bad_tensor(tensors[i]->graph);
    }
    return NULL;
}
