/* Initial values that depend on their index alone, against Keras (tests/keras/initializers.h5): the rows of
 * each rank. Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed = RUN_TESTS("initializers", 0, values_are_keras_s, shapes_and_kinds_are_checked);
    return iso_finish(ctx, ISO_OK) || failed;
}
