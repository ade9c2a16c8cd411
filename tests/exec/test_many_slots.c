/* Meshes of many slots: what a rank holds grows with their number, not with its square; the sums over slots
 * are those of few; and every slot learns of a fault. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>

#include "models/layers.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

static double step_on(const char *mesh, size_t *held)
{
    trial t;
    iso_optimizer sgd = iso_sgd(0.1);
    trial_begin(&t, ctx, net_kind_find("mlp"), ISO_F64, 24);
    trial_mesh(&t, mesh, NULL);
    trial_make(&t, NULL, &sgd);
    trial_step(&t, 0);
    double loss = trial_step(&t, 1);
    *held = iso_memory_held();
    trial_check_counts(&t, 2, 1);
    trial_end(&t);
    return loss;
}

START_TEST(memory_grows_with_the_slots)
{
    size_t few, some, many;
    double three = step_on("data=3", &few);
    double a = step_on("data=200", &some), b = step_on("data=40,model=20", &many);
    ck_assert_msg(fabs(a - three) <= 1e-12 * fabs(three), "%.17g on 200 slots, %.17g on three", a, three);
    ck_assert_msg(fabs(b - three) <= 1e-12 * fabs(three), "%.17g on 800 slots, %.17g on three", b, three);
    step_on("data=800", &many);
    ck_assert_msg(many - few < 6 * (some - few), "%zu bytes of 200 slots, %zu of 800", some - few,
                  many - few);
}
END_TEST

/* The label of one row, read by one slot, is none of the classes. */
START_TEST(a_fault_of_one_slot_is_known_to_all)
{
    enum { ROWS = 100, CLASSES = 3 };
    static double x[ROWS * CLASSES], label[ROWS];
    iso_graph *graph = iso_graph_create(ctx);
    iso_function *function;
    iso_mesh *mesh;
    iso_distribution *distribution;
    memory_batch data;
    double loss = 7;
    iso_tensor *in = iso_input(graph, "x", ISO_F32, ISO_SHAPE(CLASSES));
    iso_tensor *classes = iso_input(graph, "label", ISO_I32, (iso_shape){0});
    iso_tensor *mean =
        iso_mean(iso_sparse_crossentropy(classes, iso_dense(in, CLASSES), .from_logits = true));
    check_ok(iso_mesh_create(ctx, "data=100", &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_graph_distribute(graph, distribution);
    check_ok(iso_function_create(graph, &function, .inputs = {in, classes}, .outputs = {mean},
                                 .updates = {iso_minimize(mean, iso_sgd(0.1))}, .training = true));
    memory_batch_begin(&data, ROWS);
    memory_batch_add(&data, ISO_SHAPE(CLASSES), x);
    memory_batch_add(&data, (iso_shape){0}, label);
    check_ok(iso_function_run(function, &data.batch, &loss));
    label[99] = CLASSES;
    check_refused(iso_function_run(function, &data.batch, &loss), "label");
    label[99] = 0;
    check_ok(iso_function_run(function, &data.batch, &loss));
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("many slots", 0, memory_grows_with_the_slots, a_fault_of_one_slot_is_known_to_all))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
