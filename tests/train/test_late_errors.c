/* An error made in the graph of a trained model is returned by the next collective call, on all ranks, once.
 * What was added is taken out again: the model is used, saved and compiled as before. Ranks: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/graph/layer.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];
static float outputs[8 * 3];

static iso_graph *graph;
static iso_tensor *x, *y, *hidden;
static iso_model *model;
static iso_dataset *data;

static bool last_rank(void)
{
    return iso_rank(ctx) == iso_ranks(ctx) - 1;
}

static void set_up(void)
{
    graph = iso_graph_create(ctx);
    x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(6));
    hidden = iso_dense(x, 4);
    y = iso_dense(hidden, 3);
    model = iso_model_create(graph, x, y);
    check_ok(iso_dataset_random(ctx, 8, &data, .shape = ISO_SHAPE(6), .targets = ISO_SHAPE(3)));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_adam(0.01)));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
}

static void tear_down(void)
{
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}

static double loss(void)
{
    double loss = -1;
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    return loss;
}

/* ---- mistakes ---- */

static void bad_layer(void)
{
    iso_dense(x, -1);
}

static void good_layer_then_bad(void)
{
    iso_dense(iso_dense(hidden, 5, .name = "late"), -1);
}

static void bad_shape_in_a_block(void)
{
    iso_name_scope_begin(graph, "block");
    iso_freeze_begin(graph);
    iso_variable_create(graph, "v", ISO_F32, ISO_SHAPE(2), (iso_initializer){0}, true);
    iso_reshape_to(y, ISO_SHAPE(7));
}

static void distribute(void)
{
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    check_ok(iso_mesh_create(ctx, NULL, &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph_distribute(graph, distribution);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}

static const struct mistake {
    void (*make)(void);
    const char *says;
    bool alone; /* the last rank alone can make it */
} mistakes[] = {
    {bad_layer, "units is -1", true},
    {good_layer_then_bad, "units is -1", true},
    {bad_shape_in_a_block, "reshape", true},
    {distribute, "the distribution cannot be changed", false},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

/* ---- calls ---- */

enum { EVALUATE, PREDICT, SAVE, SAVE_KERAS, READ, LOAD, COMPILE, FIT, CALLS };

static iso_status use(int call)
{
    double number, values[6 * 4];
    switch (call) {
    case FIT:
        return iso_fit(model, data, .verbose = ISO_ZERO);
    case EVALUATE:
        return iso_evaluate(model, data, .loss = &number, .verbose = ISO_ZERO);
    case PREDICT:
        return iso_predict(model, data, .outputs = {outputs}, .verbose = ISO_ZERO);
    case COMPILE:
        return iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_adam(0.01));
    case SAVE:
        return iso_model_save_weights(model, in_folder(folder, "of.weights.h5"));
    case SAVE_KERAS:
        return iso_keras_save(model, in_folder(folder, "model.keras"));
    case READ:
        return iso_variable_read(iso_model_variable(model, "dense/kernel"), values, 6 * 4);
    default:
        return iso_model_load_weights(model, in_folder(folder, "of.weights.h5"));
    }
}

START_TEST(every_call_reports_it_once)
{
    for (int i = 0; i < MISTAKES; i++) {
        for (int call = 0; call < CALLS; call++) {
            double before = loss();
            int layers = iso_graph_layer_count(graph), variables = iso_graph_variable_count(graph);
            if (!mistakes[i].alone || call % 2 == 0 || last_rank())
                mistakes[i].make();
            check_refused(use(call), mistakes[i].says);
            ck_assert_int_eq(iso_graph_layer_count(graph), layers);
            ck_assert_int_eq(iso_graph_variable_count(graph), variables);
            ck_assert_double_eq(loss(), before);
            check_ok(use(call));
        }
    }
}
END_TEST

/* A layer that is added again has the name and the variables of the first attempt. */
START_TEST(the_graph_can_be_built_on)
{
    iso_function *function = NULL;
    good_layer_then_bad();
    check_refused(use(SAVE), "units is -1");
    iso_tensor *late = iso_dense(hidden, 5, .name = "late");
    check_ok(iso_graph_error(graph));
    ck_assert_str_eq(iso_tensor_name(late), "late/output");
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {iso_mean(late)}));
    bad_layer();
    check_refused(use(EVALUATE), "units is -1");
    ck_assert_ptr_nonnull(iso_graph_find_variable(graph, "late/kernel")); /* a function has it */
    check_ok(use(EVALUATE));
    iso_function_destroy(function);
}
END_TEST

/* Tensors that were taken out, and those that a failed call returned, are refused, not used. */
START_TEST(what_was_taken_out)
{
    iso_tensor *late = iso_dense(hidden, 5, .name = "late"), *gradients[1];
    iso_variable *kernel = iso_graph_find_variable(graph, "late/kernel");
    iso_tensor *sum = iso_sum(late), *bad = iso_dense(x, -1);
    iso_function *function = NULL;
    double values[20];
    check_refused(use(EVALUATE), "units is -1");
    iso_relu(late);
    check_refused(use(EVALUATE), "was taken out of the graph");
    iso_dense(bad, 3);
    ck_assert_int_eq(use(EVALUATE), ISO_INVALID);
    iso_gradients(sum, &x, 1, gradients);
    check_refused(use(EVALUATE), "was taken out of the graph");
    iso_gradients(bad, &x, 1, gradients);
    check_refused(use(EVALUATE), "was taken out of the graph");
    check_refused(iso_function_create(graph, &function, .inputs = {x}, .outputs = {sum}),
                  "is not in its graph");
    check_refused(iso_function_create(graph, &function, .inputs = {x}, .outputs = {bad}),
                  "is not in its graph");
    check_refused(iso_variable_read(kernel, values, 20), "'late/kernel' has no value");
    check_ok(use(FIT));
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        status = make_test_folder(ctx, folder);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH("late errors", 0, set_up, tear_down, every_call_reports_it_once,
                                the_graph_can_be_built_on, what_was_taken_out);
    if (status == ISO_OK)
        status = remove_test_folder(ctx, folder);
    return iso_finish(ctx, status) || failed;
}
