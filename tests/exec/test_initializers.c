/* Initial values that depend on their index alone, against Keras (tests/keras/initializers.h5): the rows of
 * each rank. What slots and threads compute together in the copies of variables is what one call computes.
 * Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/graph/initializers.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* The settings of a case, read through the row. */
static iso_initializer settings_of(oracle *file, const char *name)
{
    iso_initializer init = {.kind = ISO_INIT_STFT};
    const iso_initializer_type *type = iso_initializer_type_of(init.kind);
    for (int i = 0; type->row.setting[i].name; i++) {
        const char *key = iso_setting_keras(&type->row.setting[i]);
        double value = 0;
        if (!type->choice[i])
            value = oracle_number(file, name, key, 0);
        else
            while (strcmp(type->choice[i][(int)value], oracle_text(file, name, key)) != 0)
                value++;
        iso_setting_set(&type->row.setting[i], &init, value);
    }
    return init;
}

static void check_rows(oracle *file, const char *name)
{
    iso_shape shape;
    double *expected = oracle_data(file, name, "y", &shape);
    iso_graph *graph = iso_graph_create(ctx);
    iso_variable *variable = iso_variable_create(graph, "v", ISO_F64, shape, settings_of(file, name), true);
    iso_box box = iso_box_whole(&shape);
    int64_t rows = (shape.dim[0] + iso_ranks(ctx) - 1) / iso_ranks(ctx), first = rows * iso_rank(ctx);
    first = first < shape.dim[0] ? first : shape.dim[0];
    box.offset[0] = first;
    box.extent[0] = shape.dim[0] - first < rows ? shape.dim[0] - first : rows;
    double *values = calloc((size_t)iso_box_count(&box) + 1, sizeof *values);
    check_ok(iso_graph_error(graph));
    check_ok(iso_initialize(variable, 1337, &box, values));
    check_near(name, values, expected + first * shape.dim[1] * shape.dim[2], iso_box_count(&box), 1e-14);
    free(values);
    iso_graph_destroy(graph);
}

START_TEST(values_are_keras_s)
{
    oracle *file = oracle_open("initializers.h5");
    ck_assert_int_eq(oracle_cases(file), 9);
    for (int i = 0; i < oracle_cases(file); i++)
        check_rows(file, oracle_case(file, i));
    oracle_close(file);
}
END_TEST

START_TEST(shapes_and_kinds_are_checked)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_variable_create(graph, "v", ISO_F32, ISO_SHAPE(4, 3), (iso_initializer){.kind = ISO_INIT_STFT}, true);
    check_refused(iso_graph_error(graph), "variable 'v': shape [4, 3] cannot be filled with an stft matrix");
    iso_graph_destroy(graph);
    graph = iso_graph_create(ctx);
    iso_variable_create(graph, "w", ISO_F32, ISO_SHAPE(4),
                        (iso_initializer){.kind = (iso_initializer_kind)99}, true);
    check_refused(iso_graph_error(graph), "variable 'w': unknown initializer number 99");
    iso_graph_destroy(graph);
}
END_TEST

/* Elements begin .. begin + count - 1 of the bias of an LSTM of 2 units. */
static void check_forget_bias(const iso_recurrent_options *given, int64_t begin, int64_t count,
                              const double *expected)
{
    double values[8];
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, ISO_F64);
    iso_recurrent_options options = *given;
    options.x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3));
    options.units = 2;
    iso_lstm_with(&options, sizeof options);
    check_ok(iso_graph_error(graph));
    const iso_variable *bias = iso_graph_find_variable(graph, "lstm/lstm_cell/bias");
    iso_box box = {.rank = 1, .offset = {begin}, .extent = {count}};
    check_ok(iso_initialize(bias, 1337, &box, values));
    check_near("bias", values, expected, count, 0);
    iso_graph_destroy(graph);
}

/* keras/src/layers/rnn/lstm.py: unit_forget_bias */
START_TEST(the_forget_bias_of_lstm_begins_with_ones)
{
    const iso_initializer quarter = {.kind = ISO_INIT_CONSTANT, .value = 0.25};
    const double ones[] = {0, 0, 1, 1, 0, 0, 0, 0}, none[8] = {0},
                 others[] = {0.25, 0.25, 1, 1, 0.25, 0.25, 0.25, 0.25};
    check_forget_bias(&(iso_recurrent_options){0}, 0, 8, ones);
    check_forget_bias(&(iso_recurrent_options){0}, 3, 4, ones + 3);
    check_forget_bias(&(iso_recurrent_options){.no_unit_forget_bias = true}, 0, 8, none);
    check_forget_bias(&(iso_recurrent_options){.bias_initializer = quarter}, 1, 6, others + 1);
}
END_TEST

/* ---- computed together ---- */

typedef struct stored {
    const char *path, *layout;
    iso_shape shape;
    iso_dtype dtype;
    iso_initializer_kind kind;
} stored;

static const stored variables[] = {
    {"small/scalar", NULL, {0}, ISO_F32, ISO_INIT_ONES},
    {"small/one", NULL, {1, {1}}, ISO_F32, ISO_INIT_RANDOM_NORMAL},
    {"small/few", NULL, {1, {7}}, ISO_F64, ISO_INIT_RANDOM_UNIFORM},
    {"small/rows", "model, -", {2, {5, 11}}, ISO_F32, ISO_INIT_HE_NORMAL},
    {"small/empty", "-, model", {2, {9, 2}}, ISO_F32, ISO_INIT_GLOROT_UNIFORM},
    {"small/both", "data, -, model", {3, {3, 4, 13}}, ISO_F32, ISO_INIT_TRUNCATED_NORMAL},
    {"small/matrix", "-, model", {2, {6, 10}}, ISO_F32, ISO_INIT_ORTHOGONAL},
    {"large/rows", "-, data", {2, {1031, 1023}}, ISO_F32, ISO_INIT_GLOROT_UNIFORM},
    {"large/all", NULL, {2, {3, 4099}}, ISO_F64, ISO_INIT_HE_NORMAL},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

/* Each slot's copy holds what iso_initialize gives for the slot's box. */
static void check_slot(const iso_runtime *runtime, const iso_variable *variable, int slot)
{
    iso_box box = iso_runtime_variable_box(runtime, variable, slot);
    size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(variable->dtype);
    void *expected = calloc(1, bytes + 1);
    check_ok(iso_initialize(variable, runtime->graph->seed, &box, expected));
    ck_assert_msg(memcmp(iso_runtime_variable(runtime, variable, slot), expected, bytes) == 0,
                  "%s of slot %d", variable->path, slot);
    free(expected);
}

/* The first `count` variables on a mesh. rank_of_slot: [1] for a mesh of one slot. */
static void check_copies(const char *mesh_text, const int *rank_of_slot, int count)
{
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_function *function;
    iso_graph *graph = iso_graph_create(ctx);
    check_ok(rank_of_slot ? iso_mesh_create_on(ctx, mesh_text, rank_of_slot, 1, &mesh)
                          : iso_mesh_create(ctx, mesh_text, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    for (int v = 0; v < count; v++) {
        const stored *kind = &variables[v];
        iso_variable_create(graph, kind->path, kind->dtype, kind->shape,
                            (iso_initializer){.kind = kind->kind}, true);
        if (kind->layout)
            check_ok(iso_layout_map_set(map, kind->path, kind->layout));
    }
    check_ok(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    iso_graph_distribute(graph, distribution);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3));
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {iso_affine(x, 2, 0)}));
    for (int v = 0; v < count; v++)
        for (int i = 0; i < function->runtime->n_locals; i++)
            check_slot(function->runtime, graph->variables[v], function->runtime->locals[i].slot);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

START_TEST(slots_and_threads_compute_one_set_of_values)
{
    const int first[1] = {0};
    for (int domains = 0; domains < 2; domains++) {
        if (domains)
            setenv("ISOGRID_SLOTS_PER_DOMAIN", "4", 1);
        /* More threads than slots, and one slot without a thread. */
        check_copies("data=2,model=3", NULL, VARIABLES);
        check_copies("data=2,model=3", NULL, VARIABLES - 2);
        check_copies("data=5,model=4", NULL, VARIABLES);
        check_copies("data=1,model=1", first, VARIABLES);
    }
    unsetenv("ISOGRID_SLOTS_PER_DOMAIN");
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_THREADS", "5", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed =
        RUN_TESTS("initializers", 0, values_are_keras_s, shapes_and_kinds_are_checked,
                  the_forget_bias_of_lstm_begins_with_ones, slots_and_threads_compute_one_set_of_values);
    return iso_finish(ctx, ISO_OK) || failed;
}
