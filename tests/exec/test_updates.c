/* Updates are made at the end of a step, from values of its beginning: outputs and assignments that are
 * variables themselves, on one slot and on many, with layouts.
 * Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/function.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { COUNT = 7 };

typedef struct set_up {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_layout_map *map;
    iso_distribution *distribution;
    iso_variable *a, *b;
} set_up;

/* Two variables of 7 elements. */
static void begin(set_up *s, const char *a_layout, const char *b_layout)
{
    s->graph = iso_graph_create(ctx);
    check_ok(iso_mesh_create(ctx, "data=2,model=2", &s->mesh));
    check_ok(iso_layout_map_create(s->mesh, &s->map));
    check_ok(iso_layout_map_set(s->map, "a", a_layout));
    check_ok(iso_layout_map_set(s->map, "b", b_layout));
    check_ok(iso_model_parallel_create(s->map, &s->distribution));
    iso_graph_distribute(s->graph, s->distribution);
    s->a = iso_variable_create(s->graph, "a", ISO_F32, ISO_SHAPE(COUNT),
                               (iso_initializer){.kind = ISO_INIT_ONES}, true);
    s->b = iso_variable_create(s->graph, "b", ISO_F32, ISO_SHAPE(COUNT),
                               (iso_initializer){.kind = ISO_INIT_ZEROS}, true);
}

static void end(set_up *s)
{
    iso_graph_destroy(s->graph);
    iso_distribution_destroy(s->distribution);
    iso_layout_map_destroy(s->map);
    iso_mesh_destroy(s->mesh);
}

static void check_all(iso_variable *variable, double wanted, const char *when)
{
    double values[COUNT];
    check_ok(iso_variable_read(variable, values, COUNT));
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(values[i] == wanted, "%s: element %d of '%s' is %g instead of %g", when, i,
                      iso_variable_path(variable), values[i], wanted);
}

static const char *const layouts[][2] = {
    {"-", "-"}, {"model", "-"}, {"-", "data"}, {"data+model", "model"}, {"model", "model"}};
enum { LAYOUTS = 5 };

START_TEST(variables_are_swapped)
{
    for (int l = 0; l < LAYOUTS; l++) {
        set_up s;
        iso_function *function;
        begin(&s, layouts[l][0], layouts[l][1]);
        iso_update *both = iso_update_join(iso_assign(s.a, iso_variable_value(s.b)),
                                           iso_assign(s.b, iso_variable_value(s.a)));
        check_ok(iso_function_create(s.graph, &function, .updates = {both}, .training = true));
        check_ok(iso_function_run(function, NULL, NULL));
        check_all(s.a, 0, "swapped");
        check_all(s.b, 1, "swapped");
        check_ok(iso_function_run(function, NULL, NULL));
        check_all(s.a, 1, "swapped twice");
        check_all(s.b, 0, "swapped twice");
        iso_function_destroy(function);
        end(&s);
    }
}
END_TEST

/* a is trained by its gradient 1 at the rate 1; b keeps what a was. */
START_TEST(a_copy_is_of_the_old_value)
{
    for (int l = 0; l < LAYOUTS; l++) {
        set_up s;
        iso_function *function;
        double sum;
        begin(&s, layouts[l][0], layouts[l][1]);
        iso_tensor *loss = iso_sum(iso_variable_value(s.a));
        iso_update *train = iso_minimize(loss, iso_sgd(1)), *keep = iso_assign(s.b, iso_variable_value(s.a));
        check_ok(iso_function_create(s.graph, &function, .outputs = {loss}, .updates = {train, keep},
                                     .training = true));
        for (int step = 0; step < 3; step++) {
            check_ok(iso_function_run(function, NULL, &sum));
            ck_assert(sum == COUNT * (1 - step));
            check_all(s.b, 1 - step, "the copy");
            check_all(s.a, -step, "the original");
        }
        iso_function_destroy(function);
        end(&s);
    }
}
END_TEST

START_TEST(outputs_are_of_the_beginning)
{
    for (int l = 0; l < LAYOUTS; l++) {
        set_up s;
        iso_function *function;
        double rate, iteration, values[COUNT], column[COUNT];
        begin(&s, layouts[l][0], layouts[l][1]);
        iso_update *train = iso_minimize(iso_sum(iso_variable_value(s.a)), iso_sgd(1));
        iso_variable *count = iso_graph_find_variable(s.graph, "optimizer/iteration");
        check_ok(iso_function_create(
            s.graph, &function,
            .outputs = {iso_variable_value(count), iso_variable_value(s.a),
                        iso_variable_value(iso_graph_find_variable(s.graph, "optimizer/learning_rate")),
                        iso_reshape_to(iso_variable_value(s.a), ISO_SHAPE(COUNT, 1))},
            .updates = {train}, .training = true));
        for (int step = 0; step < 3; step++) {
            check_ok(
                iso_function_evaluate(function, NULL, (double *const[]){&iteration, values, &rate, column}));
            ck_assert(rate == 1);
            ck_assert_msg(iteration == step, "iteration %g in step %d", iteration, step);
            for (int i = 0; i < COUNT; i++)
                ck_assert_msg(values[i] == 1 - step && column[i] == 1 - step, "%g and %g in step %d",
                              values[i], column[i], step);
        }
        iso_function_destroy(function);
        end(&s);
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("updates", 0, variables_are_swapped, a_copy_is_of_the_old_value,
                                      outputs_are_of_the_beginning))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
