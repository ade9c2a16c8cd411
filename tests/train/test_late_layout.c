/* A layout that is given to a variable when functions have laid it out is an error: whichever rank gives it,
 * the next collective call returns it on all, once; the calls after it work as before. Ranks: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];
static float outputs[8 * 3];

static iso_model *build(void)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(6));
    return iso_model_create(graph, x, iso_dense(x, 3));
}

static iso_dataset *rows(void)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_random(ctx, 8, &data, .shape = ISO_SHAPE(6), .targets = ISO_SHAPE(3)));
    return data;
}

static bool last_rank(void)
{
    return iso_rank(ctx) == iso_ranks(ctx) - 1;
}

static iso_status predict(iso_model *model, iso_dataset *data)
{
    return iso_predict(model, data, .outputs = {outputs}, .verbose = ISO_ZERO);
}

enum { FIT, EVALUATE, PREDICT, COMPILE, SAVE, SAVE_KERAS, READ, LOAD, CALLS };

/* A collective call on a model. */
static iso_status use(int call, iso_model *model, iso_dataset *data, iso_variable *kernel)
{
    double number, values[6 * 3];
    switch (call) {
    case FIT:
        return iso_fit(model, data, .verbose = ISO_ZERO);
    case EVALUATE:
        return iso_evaluate(model, data, .loss = &number, .verbose = ISO_ZERO);
    case PREDICT:
        return predict(model, data);
    case COMPILE:
        return iso_compile(model, .loss = ISO_LOSS_MSE);
    case SAVE:
        return iso_model_save_weights(model, in_folder(folder, "of.weights.h5"));
    case SAVE_KERAS:
        return iso_keras_save(model, in_folder(folder, "model.keras"));
    case READ:
        return iso_variable_read(kernel, values, 6 * 3);
    default:
        return iso_model_load_weights(model, in_folder(folder, "of.weights.h5"));
    }
}

START_TEST(after_compiling)
{
    iso_model *model = build();
    iso_dataset *data = rows();
    iso_variable *kernel = iso_model_variable(model, "dense/kernel");
    double loss, again;
    char layout[64];
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    for (int call = 0; call < CALLS; call++) {
        if (call % 2 == 0 || last_rank())
            iso_variable_set_layout(kernel, "-, data");
        check_refused_naming(use(call, model, data, kernel), "'dense/kernel'", "'-, data'");
        if (call > 0) /* training changes the loss */
            check_ok(use(call, model, data, kernel));
        if (call > 0) {
            check_ok(iso_evaluate(model, data, .loss = &again, .verbose = ISO_ZERO));
            ck_assert_double_eq(again, loss);
        }
    }
    iso_layout_describe(iso_variable_layout(kernel), layout, sizeof layout);
    ck_assert_str_eq(layout, "-, -");
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

START_TEST(after_predicting)
{
    iso_model *model = build();
    iso_dataset *data = rows();
    check_ok(predict(model, data));
    iso_variable_set_layout(iso_model_variable(model, "dense/kernel"), NULL); /* as it is */
    check_ok(predict(model, data));
    iso_variable_set_layout(iso_model_variable(model, "dense/kernel"), "data, -");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE), "Set it before");
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* A key that is set on the map later counts for the next function that is made. */
START_TEST(a_late_key_of_the_map)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_model *model = build();
    iso_dataset *data = rows();
    double loss, again;
    check_ok(iso_mesh_create(ctx, "data=3", &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "dense/output", "data, -"));
    check_ok(iso_model_parallel_create(map, &distribution));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = distribution));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    check_ok(iso_layout_map_set(map, "dense/kernel", "-, data"));
    check_ok(iso_evaluate(model, data, .loss = &again, .verbose = ISO_ZERO));
    ck_assert_double_eq(again, loss);
    check_refused(predict(model, data),
                  "variable 'dense/kernel' has layout '-, -' since the graph's first function and "
                  "cannot change to '-, data'");
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    check_ok(iso_layout_map_remove(map, "dense/kernel"));
    check_ok(predict(model, data));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* The function itself, a batch at a time: the batch is refused on all ranks, none waits. */
START_TEST(between_steps_of_a_function)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_function *function = NULL;
    iso_dataset *data = rows();
    const iso_batch *batch = NULL;
    iso_tensor *loss = iso_mean(iso_square(iso_dense(x, 3)));
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {loss}));
    check_ok(iso_dataset_batch(data, 8));
    check_ok(iso_dataset_next(data, &batch));
    check_ok(iso_function_run(function, batch, NULL));
    if (last_rank())
        iso_variable_set_layout(iso_graph_find_variable(graph, "dense/kernel"), "-, data");
    check_refused(iso_function_run(function, batch, NULL), "'dense/kernel'");
    check_ok(iso_function_run(function, batch, NULL));
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_dataset_destroy(data);
}
END_TEST

/* Layers that are added when there are functions already have variables of their own. */
START_TEST(of_a_variable_that_no_function_has_seen)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(6));
    iso_function *first = NULL, *second = NULL;
    char text[64];
    iso_tensor *y = iso_dense(x, 3);
    check_ok(iso_function_create(graph, &first, .inputs = {x}, .outputs = {iso_mean(y)}));
    iso_tensor *z = iso_dense(y, 4);
    iso_variable *kernel = iso_graph_find_variable(graph, "dense_1/kernel");
    iso_variable_set_layout(kernel, "-, data");
    check_ok(iso_function_create(graph, &second, .inputs = {x}, .outputs = {iso_mean(z)}));
    iso_layout_describe(iso_variable_layout(kernel), text, sizeof text);
    ck_assert_str_eq(text, "-, data");
    iso_function_destroy(first);
    iso_function_destroy(second);
    iso_graph_destroy(graph);
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        status = make_test_folder(ctx, folder);
    if (status == ISO_OK)
        failed = RUN_TESTS("late layout", 0, after_compiling, after_predicting, a_late_key_of_the_map,
                           between_steps_of_a_function, of_a_variable_that_no_function_has_seen);
    if (status == ISO_OK)
        status = remove_test_folder(ctx, folder);
    return iso_finish(ctx, status) || failed;
}
