/* The rates of an optimizer where a device computes the steps, and steps go ahead: those of each step's iteration and
 * learning rate, whether the host knows these or a step computes them, also after the host has changed them, after an
 * error, and with several optimizers. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/device.h"
#include "runtime/exec/function/async_steps.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 12, FEATURES = 4 };

static iso_context *ctx;

/* ---- batches of ones: the gradient of each weight is 1 / FEATURES ---- */

static iso_status read_ones(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    (void)component, (void)dtype, (void)begin;
    for (int64_t i = 0; i < count * FEATURES; i++)
        ((double *)out)[i] = 1;
    return batch->impl ? iso_error(ISO_IO, "the rows are gone") : ISO_OK;
}

static const iso_batch good = {
    .rows = ROWS, .n_components = 1, .dtype = {ISO_F64}, .shape = {{1, {FEATURES}}}, .read = read_ones};

/* ---- a training, and what its first weight should be ---- */

typedef struct training {
    iso_graph *graph;
    iso_distribution *distribution;
    iso_mesh *mesh;
    iso_optimizer optimizer;
    iso_variable *weights, *rate, *iteration;
    iso_function *step;
    int64_t expected_iteration;
    double expected_rate, expected;
} training;

/* factor: by which each step multiplies the learning rate; 1: none does. */
static void begin_training(training *t, const char *mesh, iso_optimizer optimizer, double factor)
{
    *t = (training){.graph = iso_graph_create(ctx), .optimizer = optimizer, .expected = 1};
    check_ok(iso_mesh_create(ctx, mesh, &t->mesh));
    check_ok(iso_data_parallel_create(t->mesh, &t->distribution));
    iso_graph_distribute(t->graph, t->distribution);
    iso_tensor *x = iso_input(t->graph, "x", ISO_F64, ISO_SHAPE(FEATURES));
    t->weights = iso_variable_create(t->graph, "w", ISO_F64, ISO_SHAPE(FEATURES),
                                     (iso_initializer){.kind = ISO_INIT_ONES}, true);
    iso_tensor *loss = iso_mean(iso_multiply(x, iso_variable_value(t->weights)));
    iso_update *update = iso_minimize(loss, optimizer);
    t->rate = iso_graph_find_variable(t->graph, "optimizer/learning_rate");
    t->iteration = iso_graph_find_variable(t->graph, "optimizer/iteration");
    if (factor != 1)
        update =
            iso_update_join(update, iso_assign(t->rate, iso_affine(iso_variable_value(t->rate), factor, 0)));
    check_ok(iso_function_create(t->graph, &t->step, .inputs = {x}, .outputs = {loss}, .updates = {update},
                                 .training = true));
    t->expected_rate = optimizer.learning_rate;
}

static void end_training(training *t)
{
    iso_function_destroy(t->step);
    iso_graph_destroy(t->graph);
    iso_distribution_destroy(t->distribution);
    iso_mesh_destroy(t->mesh);
}

static void expect_step(training *t, double factor)
{
    t->expected -= iso_schedule_rate(&t->optimizer, t->expected_iteration++, t->expected_rate) / FEATURES;
    t->expected_rate *= factor;
}

static void check_weights(const training *t)
{
    double values[FEATURES];
    check_ok(iso_variable_read(t->weights, values, FEATURES));
    for (int i = 0; i < FEATURES; i++)
        ck_assert_msg(fabs(values[i] - t->expected) < 1e-12,
                      "after iteration %d the weight is %.17g, not %.17g", (int)t->expected_iteration,
                      values[i], t->expected);
}

/* Steps that go ahead. */
static void run_steps(training *t, int count, double factor)
{
    double loss;
    for (int i = 0; i < count; i++) {
        check_ok(iso_function_begin_step(t->step, &good));
        expect_step(t, factor);
        if (i > 0)
            check_ok(iso_function_end_step(t->step, &loss));
    }
    check_ok(iso_function_end_step(t->step, &loss));
    check_weights(t);
}

static iso_optimizer decaying(void)
{
    return iso_sgd(.schedule = iso_exponential_decay(0.5, 3, 0.7));
}

static void set(iso_variable *variable, double value)
{
    check_ok(iso_variable_assign(variable, &value, 1));
}

START_TEST(a_schedule_counts_steps)
{
    training t;
    begin_training(&t, "data=3", decaying(), 1);
    run_steps(&t, 5, 1);
    run_steps(&t, 4, 1);
    set(t.iteration, t.expected_iteration = 40);
    run_steps(&t, 3, 1);
    end_training(&t);
}
END_TEST

START_TEST(a_rate_may_be_set_between_steps)
{
    training t;
    begin_training(&t, "data=3", iso_sgd(0.5), 1);
    run_steps(&t, 3, 1);
    set(t.rate, t.expected_rate = 0.125);
    run_steps(&t, 3, 1);
    end_training(&t);
}
END_TEST

/* As a checkpoint that is restored does. */
START_TEST(a_shard_may_be_written_between_steps)
{
    training t;
    iso_state_shards shards;
    begin_training(&t, "data=3", decaying(), 1);
    run_steps(&t, 3, 1);
    check_ok(iso_graph_shards(t.graph, &shards));
    t.expected_iteration = 11;
    for (int i = 0; i < shards.count; i++)
        if (strcmp(shards.shards[i].path, "optimizer/iteration") == 0)
            check_ok(iso_shard_write(&shards.shards[i], &t.expected_iteration));
    iso_state_shards_free(&shards);
    check_ok(iso_agree(ctx, ISO_OK));
    run_steps(&t, 3, 1);
    end_training(&t);
}
END_TEST

START_TEST(a_step_may_compute_the_rate)
{
    training t;
    begin_training(&t, "data=3", iso_sgd(0.5), 0.75);
    run_steps(&t, 5, 0.75);
    set(t.rate, t.expected_rate = 0.25);
    run_steps(&t, 3, 0.75);
    end_training(&t);
}
END_TEST

START_TEST(a_step_with_an_error_does_not_count)
{
    training t;
    double loss;
    iso_batch bad = good;
    begin_training(&t, "data=3", decaying(), 1);
    bad.impl = &t;
    run_steps(&t, 2, 1);
    check_ok(iso_function_begin_step(t.step, &bad));
    check_ok(iso_function_begin_step(t.step, &good)); /* changes nothing */
    ck_assert_int_eq(iso_function_end_step(t.step, &loss), ISO_IO);
    check_weights(&t);
    run_steps(&t, 3, 1);
    end_training(&t);
}
END_TEST

/* The second of two functions makes each step of the first one the last but one of its kind. */
START_TEST(another_function_may_change_what_rates_depend_on)
{
    training t;
    iso_function *other;
    begin_training(&t, "data=3", iso_sgd(0.5), 1);
    iso_update *halve = iso_assign(t.rate, iso_affine(iso_variable_value(t.rate), 0.5, 0));
    check_ok(iso_function_create(t.graph, &other, .updates = {halve}, .training = true));
    for (int i = 0; i < 3; i++) {
        run_steps(&t, 2, 1);
        check_ok(iso_function_run(other, NULL, NULL));
        t.expected_rate *= 0.5;
    }
    run_steps(&t, 2, 1);
    iso_function_destroy(other);
    end_training(&t);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_BACKEND", "test", 0); /* unless another is asked for */
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("rates", 0, a_schedule_counts_steps, a_rate_may_be_set_between_steps,
                  a_shard_may_be_written_between_steps, a_step_may_compute_the_rate,
                  a_step_with_an_error_does_not_count, another_function_may_change_what_rates_depend_on))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
