/* Destroying in any order is defined: every order of some objects that hold one another is tried, by a table
 * of permutations, with the program's own reference let go first, last or in between, and the context
 * finished before the others. Ranks: 1, 3. Sanitize: 1, 3 */
#include <check.h>
#include <string.h>

#include "runtime/checkpoint/saver.h"
#include "runtime/isogrid.h"
#include "tests/support/run_tests.h"

static int argc;
static char **argv;

static iso_model *build(iso_context *ctx)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    return iso_model_create(g, x, iso_dense(x, 1));
}

static void check_trains(iso_context *ctx, iso_model *model)
{
    iso_dataset *data = NULL;
    ck_assert(iso_dataset_random(ctx, 12, &data, .shape = ISO_SHAPE(4), .targets = ISO_SHAPE(1)) == ISO_OK);
    ck_assert_msg(iso_fit(model, data, .verbose = ISO_ZERO) == ISO_OK, "%s", iso_error_message());
    iso_dataset_destroy(data);
}

START_TEST(a_model_keeps_its_graph)
{
    iso_context *ctx;
    ck_assert(iso_init(&argc, &argv, &ctx) == ISO_OK);
    iso_model *model = build(ctx);
    iso_graph_destroy(iso_model_graph(model));
    ck_assert(iso_compile(model, .loss = ISO_LOSS_MSE) == ISO_OK);
    iso_graph_destroy(iso_model_graph(model));
    check_trains(ctx, model);
    iso_graph_destroy(iso_model_graph(model));
    iso_model_destroy(model);
    iso_graph *alone = iso_graph_create(ctx);
    iso_graph_destroy(alone);
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
}
END_TEST

/* ---- all orders ---- */

typedef enum object { MESH, MAP, LAYOUT, DISTRIBUTION, DATA, MODEL, FUNCTION, VALUE, FINISH, OBJECTS } object;

typedef struct objects {
    iso_context *ctx;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_layout *layout;
    iso_distribution *distribution;
    iso_dataset *data;
    iso_model *model;
    iso_function *function; /* the program's own, of the model's graph */
    iso_value *value;       /* of a variable of the model */
} objects;

/* Ends a fit in the middle of its first epoch, while rows are fetched ahead. */
static iso_status stop(void *user, iso_fit_state *state)
{
    (void)user;
    (void)state;
    return iso_error(ISO_FAILED, "enough");
}

static iso_status make_model(objects *o)
{
    iso_status status = ISO_OK;
    o->model = build(o->ctx);
    iso_graph *g = iso_model_graph(o->model);
    ISO_TRY(iso_compile(o->model, .loss = ISO_LOSS_MSE, .distribution = o->distribution));
    ISO_TRY(iso_dataset_random(o->ctx, 12, &o->data, .shape = ISO_SHAPE(4), .targets = ISO_SHAPE(1)));
    ISO_TRY(iso_dataset_batch(o->data, 3));
    ISO_TRY(iso_dataset_prefetch(o->data, 2));
    ISO_TRY(iso_function_create(g, &o->function, .inputs = {iso_model_input(o->model)},
                                .outputs = {iso_model_output(o->model)}));
    ISO_TRY(iso_variable_read_value(iso_model_variable(o->model, "dense/kernel"), &o->value));
    status = iso_fit(o->model, o->data, .verbose = ISO_ZERO,
                     .callbacks = (iso_callback *[]){iso_callback_create(.batch_end = stop), NULL});
    return status == ISO_FAILED ? ISO_OK : iso_error(ISO_FAILED, "the fit did not stop");
done:
    return status;
}

static iso_status make(objects *o)
{
    iso_status status = ISO_OK;
    ISO_TRY(iso_init(&argc, &argv, &o->ctx));
    ISO_TRY(iso_mesh_create(o->ctx, NULL, &o->mesh));
    ISO_TRY(iso_layout_map_create(o->mesh, &o->map));
    ISO_TRY(iso_layout_map_set(o->map, "dense/kernel", "-, -"));
    ISO_TRY(iso_layout_create(o->mesh, "data", &o->layout));
    ISO_TRY(iso_model_parallel_create(o->map, &o->distribution));
    ISO_TRY(make_model(o));
done:
    return status;
}

/* Uses what is about to be destroyed, though objects that it was made from may be gone. */
static void use(const objects *o, object which)
{
    float kernel[4] = {0};
    if (which == LAYOUT)
        ck_assert_int_eq(iso_layout_parts(o->layout, 0), iso_mesh_slots(iso_layout_mesh(o->layout)));
    if (which == DISTRIBUTION)
        ck_assert_int_eq(iso_mesh_axes(iso_distribution_mesh(o->distribution)), 1);
    if (which == MODEL && o->ctx && o->data)
        ck_assert_msg(iso_fit(o->model, o->data, .verbose = ISO_ZERO) == ISO_OK, "%s", iso_error_message());
    if (which == VALUE && o->ctx)
        ck_assert_msg(iso_value_fetch(o->value, kernel) == ISO_OK && kernel[0] != 0, "%s",
                      iso_error_message());
}

static void destroy(objects *o, object which)
{
    switch (which) {
    case MESH:
        iso_mesh_destroy(o->mesh);
        break;
    case MAP:
        iso_layout_map_destroy(o->map);
        break;
    case LAYOUT:
        iso_layout_destroy(o->layout);
        break;
    case DISTRIBUTION:
        iso_distribution_destroy(o->distribution);
        break;
    case DATA:
        iso_dataset_destroy(o->data);
        o->data = NULL;
        break;
    case MODEL:
        iso_model_destroy(o->model);
        break;
    case FUNCTION:
        iso_function_destroy(o->function);
        break;
    case VALUE:
        iso_value_destroy(o->value);
        break;
    case FINISH:
    case OBJECTS:
        iso_finish(o->ctx, ISO_OK);
        o->ctx = NULL;
    }
}

static void try_order(const object *order)
{
    objects o = {0};
    ck_assert_msg(make(&o) == ISO_OK, "%s", iso_error_message());
    for (int i = 0; i < OBJECTS; i++) {
        use(&o, order[i]);
        destroy(&o, order[i]);
    }
}

/* Each object first, and each last, among the others in both directions: every pair in both orders. */
START_TEST(any_order)
{
    object order[OBJECTS];
    for (int turn = 0; turn < OBJECTS; turn++)
        for (int step = -1; step <= 1; step += 2) {
            for (int i = 0; i < OBJECTS; i++)
                order[i] = (object)((turn + step * i + OBJECTS) % OBJECTS);
            try_order(order);
        }
}
END_TEST

/* ---- what was never used ---- */

START_TEST(callbacks_that_no_fit_was_given)
{
    iso_callback_destroy(iso_early_stopping(.patience = 2));
    iso_callback_destroy(iso_csv_logger("unused.csv"));
    iso_callback_destroy(iso_model_checkpoint("unused/{epoch}.weights.h5"));
    iso_callback_destroy(iso_backup_and_restore("unused"));
    iso_callback_destroy(iso_tensorboard("unused"));
    iso_callback_destroy(iso_profile("unused.json"));
}
END_TEST

START_TEST(functions_outlive_their_graph)
{
    iso_context *ctx;
    iso_function *function = NULL;
    iso_value *in = NULL, *out = NULL;
    iso_layout *layout = NULL;
    iso_mesh *mesh = NULL;
    float got[4] = {0};
    ck_assert(iso_init(&argc, &argv, &ctx) == ISO_OK);
    ck_assert(iso_mesh_create(ctx, NULL, &mesh) == ISO_OK);
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input_unbatched(g, "x", ISO_F32, ISO_SHAPE(4));
    ck_assert(iso_function_create(g, &function, .inputs = {x}, .outputs = {iso_relu(x)}) == ISO_OK);
    iso_graph_destroy(g);
    ck_assert(iso_layout_replicated(mesh, 1, &layout) == ISO_OK);
    ck_assert(iso_value_create(layout, ISO_F32, ISO_SHAPE(4), &in) == ISO_OK);
    iso_layout_destroy(layout);
    iso_mesh_destroy(mesh);
    ck_assert(iso_value_copy_to_mesh(in, (float[]){-1, 2, -3, 4}) == ISO_OK);
    ck_assert_msg(iso_function_call(function, .inputs = {in}, .outputs = {&out}) == ISO_OK, "%s",
                  iso_error_message());
    iso_value_destroy(in);
    iso_function_destroy(function);
    ck_assert(iso_value_fetch(out, got) == ISO_OK);
    ck_assert(memcmp(got, (float[]){0, 2, 0, 4}, sizeof got) == 0);
    iso_value_destroy(out);
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
}
END_TEST

/* The program's context, and with it MPI, is finished while objects live. */
static iso_status finish_first(iso_context *ctx, int *code)
{
    objects o = {0};
    iso_saver *saver = NULL;
    iso_status status = make(&o);
    if (status == ISO_OK)
        status = iso_saver_create(ctx, &saver, .waits = true);
    if (status == ISO_OK)
        iso_finish(o.ctx, ISO_OK);
    *code = iso_finish(ctx, status);
    o.ctx = NULL;
    for (int i = 0; i < FINISH; i++)
        destroy(&o, (object)i);
    iso_saver_destroy(saver);
    return status;
}

int main(int count, char **arguments)
{
    argc = count;
    argv = arguments;
    iso_context *outer; /* keeps MPI running */
    iso_status status = iso_init(NULL, NULL, &outer);
    int failed = status == ISO_OK ? RUN_TESTS("destroy", 0, a_model_keeps_its_graph, any_order,
                                              callbacks_that_no_fit_was_given, functions_outlive_their_graph)
                                  : 1;
    int code = 0;
    status = status == ISO_OK ? finish_first(outer, &code) : status;
    return status != ISO_OK ? 1 : code ? code : failed;
}
