/* iso_auto_parallel_create: a model has the layouts that iso_function_suggest proposes for it, and trains to the
 * bits of a model with these in a layout map; it can be compiled again; what cannot be is refused on all ranks.
 * Ranks: 1, 3, 8 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 64, EPOCHS = 3 };
static const char mesh_text[] = "data=2,model=4";

static iso_context *ctx;

static iso_model *build(void)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(784));
    iso_tensor *h = iso_dense(x, 200, .activation = ISO_RELU, .name = "d1");
    return iso_model_create(graph, x, iso_dense(h, 10, .name = "d2"));
}

static iso_mesh *make_mesh(void)
{
    iso_mesh *mesh = NULL;
    check_ok(iso_mesh_create(ctx, mesh_text, &mesh));
    return mesh;
}

/* Trains, and destroys model and distribution. */
static void train(iso_model *model, iso_distribution *distribution, double losses[EPOCHS])
{
    iso_dataset *data = NULL;
    iso_history *history = NULL;
    check_ok(iso_dataset_random(ctx, 2 * ROWS, &data, .shape = ISO_SHAPE(784), .targets = ISO_SHAPE(10)));
    check_ok(iso_dataset_batch(data, ROWS));
    check_ok(iso_compile(model, iso_adam(0.01), ISO_LOSS_MSE, .distribution = distribution));
    check_ok(iso_compile(model, iso_adam(0.01), ISO_LOSS_MSE)); /* again: the layouts stay */
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .verbose = ISO_ZERO, .history = &history));
    for (int i = 0; i < EPOCHS; i++) {
        iso_logs logs = iso_history_logs(history, i);
        losses[i] = iso_logs_get(&logs, "loss");
    }
    iso_history_destroy(history);
    iso_dataset_destroy(data);
}

/* The map with what iso_function_suggest proposes for the network. */
static iso_layout_map *suggested(iso_mesh *mesh)
{
    iso_model *model = build();
    iso_function_options training;
    const iso_compile_options compile = {.optimizer = iso_adam(0.01), .loss = ISO_LOSS_MSE};
    iso_suggestion *suggestion = NULL;
    iso_layout_map *map = NULL;
    const iso_suggest_options how = {
        .rows = ROWS, .slots_per_host = (iso_mesh_slots(mesh) + iso_hosts(ctx) - 1) / iso_hosts(ctx)};
    check_ok(iso_model_describe_with(model, &compile, sizeof compile, &training));
    check_ok(iso_function_suggest(iso_model_graph(model), mesh, &training, &how, &suggestion));
    check_ok(iso_layout_map_create(mesh, &map));
    for (int i = 0; i < suggestion->n_layouts; i++)
        check_ok(iso_layout_map_set(map, suggestion->layouts[i].path, suggestion->layouts[i].layout));
    iso_suggestion_destroy(suggestion);
    iso_model_destroy(model);
    return map;
}

START_TEST(trains_as_with_the_map)
{
    double found[EPOCHS], given[EPOCHS];
    iso_mesh *mesh = make_mesh();
    iso_layout_map *map = suggested(mesh);
    iso_distribution *automatic = NULL, *mapped = NULL;
    iso_model *a = build(), *b = build();
    ck_assert_int_gt(iso_layout_map_count(map), 0);
    check_ok(iso_auto_parallel_create(mesh, &automatic, .rows = ROWS));
    ck_assert_ptr_null(iso_distribution_map(automatic));
    check_ok(iso_model_parallel_create(map, &mapped));
    train(a, automatic, found);
    train(b, mapped, given);
    const iso_layout_map *of = iso_distribution_map(automatic);
    ck_assert_int_eq(iso_layout_map_count(of), iso_layout_map_count(map));
    for (int i = 0; i < iso_layout_map_count(map); i++) {
        ck_assert_str_eq(iso_layout_map_key(of, i), iso_layout_map_key(map, i));
        ck_assert_str_eq(iso_layout_map_layout(of, i), iso_layout_map_layout(map, i));
    }
    ck_assert_mem_eq(found, given, sizeof found);
    iso_model_destroy(a);
    iso_model_destroy(b);
    iso_distribution_destroy(automatic);
    iso_distribution_destroy(mapped);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

START_TEST(refused)
{
    iso_mesh *mesh = make_mesh();
    iso_distribution *distribution = NULL;
    iso_model *model = build();
    check_refused(iso_auto_parallel_create(mesh, &distribution, .rows = -3), "batches of -3 rows");
    check_ok(iso_auto_parallel_create(mesh, &distribution));
    check_ok(iso_distribution_set_zero(distribution, 3));
    check_refused(iso_compile(model, iso_sgd(), ISO_LOSS_MSE, .distribution = distribution),
                  "iso_distribution_set_zero(3) cannot be used with it");
    check_ok(iso_compile(model, iso_sgd(), ISO_LOSS_MSE)); /* nothing is left of it */
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed = RUN_TESTS("layouts that are searched", 0, trains_as_with_the_map, refused);
    return iso_finish(ctx, ISO_OK) || failed;
}
