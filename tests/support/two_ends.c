#include "tests/support/two_ends.h"

#include <string.h>

#include "models/layers.h"
#include "tests/support/once.h"

iso_model *two_ends_network(iso_context *ctx, double l2, iso_dtype precision)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, precision);
    iso_tensor *x[] = {iso_input(graph, "a", ISO_F32, ISO_SHAPE(5)),
                       iso_input(graph, "b", ISO_F32, ISO_SHAPE(3))};
    iso_tensor *left = iso_dense(x[0], 7, ISO_TANH, .kernel_l2 = l2, .name = "left");
    iso_tensor *right = iso_dense(x[1], 4, ISO_RELU, .name = "right");
    iso_tensor *both = iso_concatenate((iso_tensor *[]){left, right}, 2, .name = "both");
    iso_tensor *y[] = {iso_dense(both, TWO_ENDS_KINDS, .name = "kind"),
                       iso_dense(both, TWO_ENDS_PLACES, .name = "place")};
    return iso_model_create_several(graph, x, 2, y, 2);
}

iso_data_array two_ends_array(oracle *file, const char *name, const char *dataset)
{
    iso_data_array array = {.dtype = ISO_F64};
    array.data = oracle_data(file, name, dataset, &array.shape);
    return array;
}

iso_dataset *two_ends_data(iso_context *ctx, oracle *file, const char *name, int64_t batch)
{
    iso_dataset *data = NULL;
    const char *weighting = oracle_text(file, name, "weighting");
    iso_dataset_arrays_options o = {.dataset = &data};
    for (int i = 0; i < 2; i++) {
        o.inputs[i] = two_ends_array(file, name, i ? "x1" : "x0");
        o.targets[i] = two_ends_array(file, name, i ? "y1" : "y0");
        if (!strcmp(weighting, "each") || (i == 0 && !strcmp(weighting, "one")))
            o.weights[i] = two_ends_array(file, name, i ? "w1" : "w0");
    }
    check_ok(iso_dataset_arrays_with(ctx, &o, sizeof o));
    check_ok(iso_dataset_batch(data, batch));
    return data;
}

iso_distribution *two_ends_distribute(iso_context *ctx, const char *spec, const int *rank_of_slot,
                                      iso_mesh **mesh, iso_layout_map **map)
{
    iso_distribution *distribution = NULL;
    check_ok(rank_of_slot ? iso_mesh_create_on(ctx, spec, rank_of_slot, 4, mesh)
                          : iso_mesh_create(ctx, spec, mesh));
    if (!strstr(spec, "model")) {
        check_ok(iso_data_parallel_create(*mesh, &distribution));
        return distribution;
    }
    check_ok(iso_layout_map_create(*mesh, map));
    check_ok(iso_layout_map_set(*map, "left/kernel", "-, model"));
    check_ok(iso_layout_map_set(*map, "kind/kernel", "-, model"));
    check_ok(iso_layout_map_set(*map, "kind/output", "data, model")); /* classes 0, 1 and 2 */
    check_ok(iso_layout_map_set(*map, "place/kernel", "model, -"));
    check_ok(iso_model_parallel_create(*map, &distribution));
    return distribution;
}
