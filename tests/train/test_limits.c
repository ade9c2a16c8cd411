/* The limits of runtime/base/limits.h: what is at one works and gives the right numbers, what is one above is
 * an error that names both. Functions of 21 and of 80 inputs train as the formula says, in float64.
 * Ranks: 1, 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

static void check_names(iso_status status, const char *asked, const char *limit)
{
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), asked) && strstr(iso_error_message(), limit),
                  "'%s' or '%s' is not in '%s'", asked, limit, iso_error_message());
}

/* ---- inputs, targets and sample weights of a function ---- */

enum { ROWS = 10, WIDTH = 2, STEPS = 3, MOST = ISO_MAX_MODEL_INPUTS, MOST_OUTPUTS = ISO_MAX_MODEL_OUTPUTS };
static const double rate = 0.1;

/* y[k] = all inputs side by side times w[k], plus b[k]. */
typedef struct linear {
    int inputs, outputs;
    double x[MOST][ROWS * WIDTH], target[MOST_OUTPUTS][ROWS], weight[MOST_OUTPUTS][ROWS];
    double w[MOST_OUTPUTS][MOST * WIDTH], b[MOST_OUTPUTS], loss[STEPS];
} linear;

static double number(int a, int b)
{
    return (double)((a * 7919 + b * 104729 + 31) % 2003) / 1001.5 - 1;
}

static void fill(linear *l, int inputs, int outputs)
{
    memset(l, 0, sizeof *l);
    l->inputs = inputs;
    l->outputs = outputs;
    for (int k = 0; k < inputs; k++)
        for (int i = 0; i < ROWS * WIDTH; i++)
            l->x[k][i] = number(k, i);
    for (int k = 0; k < outputs; k++) {
        for (int i = 0; i < ROWS; i++) {
            l->target[k][i] = number(k + 50, i);
            l->weight[k][i] = 1 + number(k + 90, i);
        }
        for (int i = 0; i < inputs * WIDTH; i++)
            l->w[k][i] = number(k + 130, i) / 4;
    }
}

static double predicted(const linear *l, int k, int row)
{
    double y = l->b[k];
    for (int i = 0; i < l->inputs * WIDTH; i++)
        y += l->x[i / WIDTH][row * WIDTH + i % WIDTH] * l->w[k][i];
    return y;
}

/* One step of gradient descent on output k; its weighted mean squared error before. */
static double descend(linear *l, int k)
{
    double dw[MOST * WIDTH] = {0}, db = 0, loss = 0;
    for (int r = 0; r < ROWS; r++) {
        double error = predicted(l, k, r) - l->target[k][r], scaled = l->weight[k][r] * error / ROWS;
        loss += scaled * error;
        db += 2 * scaled;
        for (int i = 0; i < l->inputs * WIDTH; i++)
            dw[i] += 2 * scaled * l->x[i / WIDTH][r * WIDTH + i % WIDTH];
    }
    for (int i = 0; i < l->inputs * WIDTH; i++)
        l->w[k][i] -= rate * dw[i];
    l->b[k] -= rate * db;
    return loss;
}

static void train_by_formula(linear *l)
{
    for (int s = 0; s < STEPS; s++)
        for (int k = 0; k < l->outputs; k++)
            l->loss[s] += descend(l, k);
}

static iso_model *build(int inputs, int outputs)
{
    char name[16];
    iso_tensor *x[MOST + 1], *y[MOST_OUTPUTS];
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, ISO_F64);
    for (int i = 0; i < inputs; i++) {
        snprintf(name, sizeof name, "x%d", i);
        x[i] = iso_input(graph, name, ISO_F32, ISO_SHAPE(WIDTH));
    }
    iso_tensor *both = iso_concatenate(x, inputs);
    for (int i = 0; i < outputs; i++) {
        snprintf(name, sizeof name, "y%d", i);
        y[i] = iso_dense(both, 1, .name = name);
    }
    return iso_model_create_several(graph, x, inputs, y, outputs);
}

static iso_dataset *data_of(const linear *l)
{
    iso_dataset *data = NULL;
    iso_dataset_arrays_options o = {.dataset = &data};
    for (int k = 0; k < l->inputs; k++)
        o.inputs[k] = (iso_data_array){l->x[k], ISO_F64, ISO_SHAPE(ROWS, WIDTH)};
    for (int k = 0; k < l->outputs; k++) {
        o.targets[k] = (iso_data_array){l->target[k], ISO_F64, ISO_SHAPE(ROWS, 1)};
        o.weights[k] = (iso_data_array){l->weight[k], ISO_F64, ISO_SHAPE(ROWS)};
    }
    check_ok(iso_dataset_arrays_with(ctx, &o, sizeof o));
    check_ok(iso_dataset_batch(data, ROWS));
    return data;
}

static iso_variable *variable_of(iso_model *model, int k, const char *what)
{
    char path[32];
    snprintf(path, sizeof path, "y%d/%s", k, what);
    return iso_model_variable(model, path);
}

static void compare(iso_model *model, const linear *l)
{
    double w[MOST * WIDTH], b;
    for (int k = 0; k < l->outputs; k++) {
        check_ok(iso_variable_read(variable_of(model, k, "kernel"), w, l->inputs * WIDTH));
        check_near("kernel", w, l->w[k], l->inputs * WIDTH, 1e-13);
        check_ok(iso_variable_read(variable_of(model, k, "bias"), &b, 1));
        check_near("bias", &b, &l->b[k], 1, 1e-13);
    }
}

/* 21 inputs of the training function, and 80, as many as there can be. */
static const int many_inputs[][2] = {{7, 7}, {MOST, MOST_OUTPUTS}};
START_TEST(a_function_of_many_inputs_trains)
{
    static linear l;
    double loss = 0, expected = 0;
    fill(&l, many_inputs[_i][0], many_inputs[_i][1]);
    iso_model *model = build(l.inputs, l.outputs);
    iso_dataset *data = data_of(&l);
    check_ok(iso_compile(model, .optimizer = iso_sgd(rate), .loss = ISO_LOSS_MSE, .sample_weights = true));
    for (int k = 0; k < l.outputs; k++)
        check_ok(iso_variable_assign(variable_of(model, k, "kernel"), l.w[k], l.inputs * WIDTH));
    train_by_formula(&l);
    check_ok(iso_fit(model, data, .epochs = STEPS, .verbose = ISO_ZERO));
    compare(model, &l);
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    for (int k = 0; k < l.outputs; k++)
        expected += descend(&l, k);
    check_near("loss", &loss, &expected, 1, 1e-13);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

START_TEST(more_inputs_or_outputs_than_a_model_has)
{
    iso_model *model = build(MOST + 1, 1);
    check_names(iso_compile(model, .loss = ISO_LOSS_MSE), "65 inputs", "1 to 64");
    iso_model_destroy(model);
    iso_tensor *y[ISO_MAX_MODEL_OUTPUTS + 1];
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    for (int i = 0; i <= ISO_MAX_MODEL_OUTPUTS; i++)
        y[i] = iso_dense(x, 1);
    model = iso_model_create_several(graph, &x, 1, y, ISO_MAX_MODEL_OUTPUTS + 1);
    check_names(iso_compile(model, .loss = ISO_LOSS_MSE), "9 outputs", "1 to 8");
    iso_model_destroy(model);
}
END_TEST

/* ---- values that are reported ---- */

/* Seven outputs with eight metrics each, of two sums, and their losses and the total are 64 values. */
START_TEST(as_many_losses_and_metrics_as_possible)
{
    iso_tensor *y[7];
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_compile_options options = {.loss = ISO_LOSS_MSE, .sample_weights = true};
    for (int i = 0; i < 7; i++)
        y[i] = iso_dense(x, 1);
    for (int i = 0; i < ISO_MAX_METRICS; i++)
        options.weighted_metrics[i] = ISO_METRIC_MAE;
    iso_model *model = iso_model_create_several(graph, &x, 1, y, 7);
    check_ok(iso_compile_with(model, &options, sizeof options));
    ck_assert_int_eq(iso_model_value_count(model), ISO_MAX_VALUES);
    iso_model_destroy(model);
}
END_TEST

static iso_tensor *absolute_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    return iso_abs(iso_subtract(y_true, y_pred));
}

START_TEST(one_metric_too_many)
{
    iso_tensor *y[7];
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_compile_options options = {.loss = ISO_LOSS_MSE, .sample_weights = true};
    for (int i = 0; i < 7; i++)
        y[i] = iso_dense(x, 1);
    for (int i = 0; i < ISO_MAX_METRICS; i++)
        options.weighted_metrics[i] = ISO_METRIC_MAE;
    options.outputs[6].custom_metrics[0] = (iso_custom_metric){"own", absolute_error};
    iso_model *model = iso_model_create_several(graph, &x, 1, y, 7);
    check_names(iso_compile_with(model, &options, sizeof options), "65 losses and metrics", "at most 64");
    iso_model_destroy(model);
}
END_TEST

static iso_status log_values(void *user, iso_fit_state *state)
{
    char name[32];
    iso_status status = ISO_OK;
    for (int i = 0; i < *(int *)user && status == ISO_OK; i++) {
        snprintf(name, sizeof name, "value_%d", i);
        status = iso_fit_log(state, name, i);
    }
    return status;
}

START_TEST(values_that_callbacks_log)
{
    int logged = _i;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_model *model = iso_model_create(graph, x, iso_dense(x, 1));
    iso_dataset *data = NULL;
    iso_callback *callbacks[] = {iso_callback_create(.user = &logged, .epoch_end = log_values), NULL};
    check_ok(iso_dataset_random(ctx, 8, &data, .shape = ISO_SHAPE(WIDTH), .targets = ISO_SHAPE(1)));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    iso_status status = iso_fit(model, data, .callbacks = callbacks, .verbose = ISO_ZERO);
    if (logged <= ISO_MAX_LOGGED)
        check_ok(status);
    else
        check_names(status, "besides 16 other", "at most 16");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* ---- graphs ---- */

START_TEST(inputs_of_an_op)
{
    iso_tensor *x[ISO_MAX_INPUTS + 1];
    iso_graph *graph = iso_graph_create(ctx);
    for (int i = 0; i <= ISO_MAX_INPUTS; i++)
        x[i] = iso_input(graph, "x", ISO_F32, ISO_SHAPE(1));
    const iso_axis_attrs attrs = {1};
    iso_tensor *y = iso_op_create(graph, &iso_op_concat, x, ISO_MAX_INPUTS, &attrs);
    check_ok(iso_graph_error(graph));
    ck_assert_int_eq(iso_tensor_shape(y)->dim[1], ISO_MAX_INPUTS);
    iso_op_create(graph, &iso_op_concat, x, ISO_MAX_INPUTS + 1, &attrs);
    check_names(iso_graph_error(graph), "17 inputs", "at most 16");
    iso_graph_destroy(graph);
}
END_TEST

START_TEST(blocks_within_each_other)
{
    iso_graph *graph = iso_graph_create(ctx);
    for (int i = 0; i < ISO_MAX_SCOPES; i++)
        iso_name_scope_begin(graph, "b");
    check_ok(iso_graph_error(graph));
    iso_name_scope_begin(graph, "b");
    check_names(iso_graph_error(graph), "33 blocks", "at most 32");
    iso_graph_destroy(graph);
}
END_TEST

/* Axes and their names. */
START_TEST(axes_of_a_mesh)
{
    iso_mesh *mesh = NULL;
    check_ok(iso_mesh_create(ctx, "a=1,b=1,c=1,d=1,e=1,f=4", &mesh));
    iso_mesh_destroy(mesh);
    check_names(iso_mesh_create(ctx, "a=1,b=1,c=1,d=1,e=1,f=1,g=1", &mesh), "7 axes", "at most 6");
    check_ok(iso_mesh_create(ctx, "axis_with_a_name_of_31_letters_=4", &mesh));
    iso_mesh_destroy(mesh);
    check_names(iso_mesh_create(ctx, "axis_with_a_name_of_32_letters__=1", &mesh), "32 characters",
                "at most 31");
}
END_TEST

/* ---- long names ---- */

static iso_model *build_with_names(const char *name)
{
    char other[ISO_MAX_PATH];
    snprintf(other, sizeof other, "%s", name);
    other[strlen(name) - 1] = 'b';
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_tensor *y = iso_dense(iso_dense(x, 3, .name = name), 1, .name = other);
    return iso_model_create(graph, x, y);
}

/* Two layers whose names differ in the last of 1015 characters: each slot of the optimizer has its own path,
 * and comes back from a file. */
START_TEST(paths_of_full_length)
{
    static const char file[] = "test_limits.weights.h5";
    char name[ISO_MAX_PATH], message[64];
    memset(name, 'a', sizeof name);
    name[ISO_MAX_PATH - 1 - (int)strlen("/kernel")] = 0;
    iso_dataset *data = NULL;
    iso_fingerprint before, after, resumed;
    check_ok(iso_dataset_random(ctx, 8, &data, .shape = ISO_SHAPE(WIDTH), .targets = ISO_SHAPE(1)));
    iso_model *model = build_with_names(name);
    check_ok(iso_compile(model, .optimizer = iso_adam(0.1, .accumulation = 2), .loss = ISO_LOSS_MSE));
    check_ok(iso_fit(model, data, .epochs = 3, .verbose = ISO_ZERO));
    check_ok(iso_model_save_weights(model, file));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &before));
    check_ok(iso_fit(model, data, .epochs = 2, .verbose = ISO_ZERO));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &after));
    iso_model_destroy(model);
    model = build_with_names(name);
    check_ok(iso_compile(model, .optimizer = iso_adam(0.1, .accumulation = 2), .loss = ISO_LOSS_MSE));
    check_ok(iso_model_load_weights(model, file));
    check_ok(iso_fit(model, data, .epochs = 2, .verbose = ISO_ZERO));
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &resumed));
    ck_assert_mem_ne(&before, &after, sizeof before);
    ck_assert_mem_eq(&after, &resumed, sizeof after);
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    if (iso_is_chief(ctx))
        remove(file);
    strcat(name, "a"); /* the path of the kernel is one too long */
    model = build_with_names(name);
    snprintf(message, sizeof message, "at most %d", ISO_MAX_PATH - 1);
    check_names(iso_compile(model, .loss = ISO_LOSS_MSE), "1024 characters", message);
    iso_model_destroy(model);
    model = build_with_names("de\nnse"); /* no file of weights with it could be read */
    check_names(iso_compile(model, .loss = ISO_LOSS_MSE), "de?nse", "control characters");
    iso_model_destroy(model);
}
END_TEST

/* ---- groups of variables ---- */

/* Each optimizer of another rate of decay has a bucket of its own. */
START_TEST(groups_of_variables_to_update)
{
    iso_function *function = NULL;
    iso_update *all = NULL;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    for (int i = 0; i < _i; i++) {
        iso_tensor *loss = iso_mean(iso_dense(x, 1, .no_bias = true));
        all = iso_update_join(all, iso_minimize(loss, iso_sgd(0.1, .weight_decay = 0.001 * (i + 1))));
    }
    iso_status status =
        iso_function_create(graph, &function, .inputs = {x}, .updates = {all}, .training = true);
    if (_i <= ISO_MAX_BUCKETS)
        check_ok(status);
    else
        check_names(status, "65 groups", "at most 64");
    iso_function_destroy(function);
    iso_graph_destroy(graph);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_function_of_many_inputs_trains, 0, 2);
    tcase_add_test(tests, more_inputs_or_outputs_than_a_model_has);
    tcase_add_test(tests, as_many_losses_and_metrics_as_possible);
    tcase_add_test(tests, one_metric_too_many);
    tcase_add_loop_test(tests, values_that_callbacks_log, ISO_MAX_LOGGED, ISO_MAX_LOGGED + 2);
    tcase_add_test(tests, inputs_of_an_op);
    tcase_add_test(tests, blocks_within_each_other);
    tcase_add_test(tests, axes_of_a_mesh);
    tcase_add_test(tests, paths_of_full_length);
    tcase_add_loop_test(tests, groups_of_variables_to_update, ISO_MAX_BUCKETS, ISO_MAX_BUCKETS + 2);
    suite_add_tcase(suite, tests);
    int failed = run_suite(suite);
    return failed ? failed : iso_finish(ctx, ISO_OK);
}
