/* What is used after iso_finish says so: every public function of an object that waits for other ranks returns
 * ISO_INVALID and its reason, on any number of ranks, and the objects can still be destroyed.
 * Ranks: 1, 3 Sanitize: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/run_tests.h"

enum { ROWS = 12 };

static iso_context *ctx;
static iso_mesh *mesh;
static iso_layout *layout;
static iso_dataset *data;
static iso_model *model;
static iso_function *function, *scalar, *parted;
static iso_variable *kernel;
static iso_value *value, *made;
static float array[ROWS * 4];
static double numbers[ROWS * 4];
static const iso_batch *batch;

static iso_status compile(void)
{
    return iso_compile(model, .optimizer = iso_adam(1e-3), .loss = ISO_LOSS_MSE);
}

static iso_status make(void)
{
    iso_status status;
    ISO_TRY(iso_init(NULL, NULL, &ctx));
    ISO_TRY(iso_mesh_create(ctx, NULL, &mesh));
    ISO_TRY(iso_layout_replicated(mesh, 1, &layout));
    ISO_TRY(iso_dataset_random(ctx, ROWS, &data, .shape = ISO_SHAPE(4), .targets = ISO_SHAPE(1)));
    ISO_TRY(iso_dataset_batch(data, 3));
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    model = iso_model_create(g, x, iso_dense(x, 1));
    iso_tensor *sum = iso_reduce_sum(iso_model_output(model), (const int[]){0, 1}, 2, false);
    ISO_TRY(compile());
    ISO_TRY(iso_fit(model, data, .verbose = ISO_ZERO));
    ISO_TRY(iso_function_create(g, &function, .inputs = {x}, .outputs = {iso_model_output(model)}));
    ISO_TRY(iso_function_create(g, &scalar, .inputs = {x}, .outputs = {sum}));
    ISO_TRY(iso_function_create(g, &parted, .inputs = {x}, .outputs = {sum}, .parts = true));
    kernel = iso_model_variable(model, "dense/kernel");
    ISO_TRY(iso_variable_read_value(kernel, &value));
    ISO_TRY(iso_dataset_rewind(data, 0));
    ISO_TRY(iso_dataset_next(data, &batch));
done:
    return status;
}

static iso_model *build(iso_context *context)
{
    (void)context;
    ck_abort_msg("a model is built");
    return NULL;
}

#define AFTER(call)                                                                                          \
    do {                                                                                                     \
        iso_error(ISO_FAILED, "an older error");                                                             \
        ck_assert_msg((call) == ISO_INVALID, "%s is not refused", #call);                                    \
        ck_assert_msg(strstr(iso_error_message(), "its context has ended"), "%s: '%s'", #call,               \
                      iso_error_message());                                                                  \
    } while (0)

static void use_models(void)
{
    iso_callback *none[] = {NULL};
    AFTER(iso_fit(model, data, .verbose = ISO_ZERO));
    AFTER(iso_fit(model, data, .epochs = 2, .validation = data, .callbacks = none));
    AFTER(iso_evaluate(model, data, .verbose = ISO_ZERO));
    AFTER(iso_predict(model, data, .outputs = {array}, .verbose = ISO_ZERO));
    AFTER(compile());
    AFTER(iso_model_save_weights(model, "after.weights.h5"));
    AFTER(iso_model_load_weights(model, "after.weights.h5"));
    AFTER(iso_keras_save(model, "after.keras"));
    AFTER(iso_keras_load_weights(model, "after.keras"));
    AFTER(iso_model_learning_rate(model, numbers));
    AFTER(iso_model_set_learning_rate(model, 0.1));
}

static void use_functions(void)
{
    iso_function *another = NULL;
    iso_fingerprint sum;
    int64_t compared;
    AFTER(iso_function_create(iso_model_graph(model), &another, .inputs = {iso_model_input(model)},
                              .outputs = {iso_model_output(model)}));
    AFTER(iso_function_run(scalar, batch, numbers));
    AFTER(iso_function_run(scalar, batch, NULL));
    AFTER(iso_function_evaluate(function, batch, (double *const[]){numbers}));
    AFTER(iso_function_step(parted, batch));
    AFTER(iso_function_call(function, .batch = batch));
    AFTER(iso_function_prepare(function, 5));
    AFTER(iso_graph_fingerprint(iso_model_graph(model), &sum));
    AFTER(iso_graph_check_replicas(iso_model_graph(model), &compared));
}

static void use_values(void)
{
    AFTER(iso_variable_read(kernel, numbers, 4));
    AFTER(iso_variable_assign(kernel, numbers, 4));
    AFTER(iso_variable_read_value(kernel, &made));
    AFTER(iso_variable_assign_value(kernel, value));
    AFTER(iso_value_create(layout, ISO_F32, ISO_SHAPE(4), &made));
    AFTER(iso_value_copy_to_mesh(value, array));
    AFTER(iso_value_fetch(value, array));
    AFTER(iso_value_reshard(value, layout, &made));
}

static void use_data(void)
{
    iso_dataset *last = NULL;
    iso_model *another = NULL;
    AFTER(iso_dataset_check(data));
    AFTER(iso_dataset_agree_order(data, "the data"));
    AFTER(iso_dataset_random(ctx, ROWS, &last, .shape = ISO_SHAPE(4)));
    AFTER(iso_broadcast(ctx, numbers, sizeof numbers));
    AFTER(iso_gather_all(ctx, numbers, 1, numbers));
    AFTER(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, numbers, 1));
    AFTER(iso_mesh_create(ctx, NULL, &mesh));
    AFTER(iso_keras_load(ctx, "after.keras", &another));
    AFTER(iso_model_restore_or_create(ctx, "after", build, &another));
    AFTER(iso_stop_on_signals(ctx));
}

START_TEST(all_is_refused)
{
    ck_assert_msg(make() == ISO_OK, "%s", iso_error_message());
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
    use_models();
    use_functions();
    use_values();
    use_data();
    iso_value_destroy(value);
    iso_function_destroy(function);
    iso_function_destroy(scalar);
    iso_function_destroy(parted);
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(void)
{
    return RUN_TESTS("after iso_finish", 0, all_is_refused);
}
