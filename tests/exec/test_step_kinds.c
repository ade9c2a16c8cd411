/* Steps of one function that do different things in turn: they send their new weights or leave them to the next one,
 * follow a batch for which memory has moved, and count what they do. On CUDA (tests/standin/test_graphs) steps are
 * graphs, of which each kind has its own: their bits are those without graphs. Ranks: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/deferred_weights.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { ROWS = 17, MANY_ROWS = 1700, STEPS = 20 };

static iso_context *ctx;

typedef struct outcome {
    double loss[STEPS];
    double *weights;
    int64_t count;
} outcome;

static void begin(trial *t, const char *mesh, const char *kernels, int accumulation)
{
    iso_optimizer adam = iso_adam(0.01, .accumulation = accumulation, .use_ema = true,
                                  .ema_overwrite_frequency = accumulation > 1 ? 0 : 3);
    trial_begin(t, ctx, net_kind_find("mlp"), ISO_F32, ROWS);
    trial_mesh(t, mesh, NULL);
    if (kernels)
        trial_layout(t, ".*kernel", kernels);
    trial_make(t, kernels ? "data" : NULL, &adam);
}

static void end(trial *t, outcome *of)
{
    of->weights = trial_weights(t, &of->count);
    trial_end(t);
}

/* The same trial with graphs and without. */
static void check_same_bits(void (*run)(outcome *of))
{
    outcome graphs, plain;
    run(&graphs);
    setenv("ISOGRID_CUDA_GRAPHS", "0", 1);
    run(&plain);
    unsetenv("ISOGRID_CUDA_GRAPHS");
    ck_assert_mem_eq(graphs.loss, plain.loss, sizeof plain.loss);
    ck_assert_int_eq(graphs.count, plain.count);
    ck_assert_mem_eq(graphs.weights, plain.weights, (size_t)plain.count * sizeof *plain.weights);
    free(graphs.weights);
    free(plain.weights);
}

static void run_deferred(outcome *of)
{
    trial t;
    begin(&t, "data=3", NULL, 1);
    for (int i = 0; i < STEPS; i++) {
        iso_function_defer_weights(t.train, i < 8 || i > 13);
        of->loss[i] = trial_step(&t, i);
    }
    end(&t, of);
}

START_TEST(steps_send_weights_or_leave_them_to_the_next_one)
{
    check_same_bits(run_deferred);
}
END_TEST

/* After the large batch memory has moved. The next graph cannot be made, so that the step is done in parts. */
static void run_moved(outcome *of)
{
    trial t;
    begin(&t, "data=1,model=2", "-,model", 1);
    for (int i = 0; i < STEPS; i++) {
        t.rows = i == 8 ? MANY_ROWS : ROWS;
        of->loss[i] = trial_step(&t, i);
        if (i == 8)
            setenv("STANDIN_FAIL", "cudaGraphInstantiate:2:1:1", 1);
    }
    unsetenv("STANDIN_FAIL");
    end(&t, of);
}

START_TEST(memory_moves_between_steps)
{
    check_same_bits(run_moved);
}
END_TEST

static void check_counts(const char *mesh, const char *kernels, int accumulation)
{
    trial t;
    begin(&t, mesh, kernels, accumulation);
    for (int i = 0; i < STEPS; i++)
        trial_step(&t, i);
    trial_check_counts(&t, STEPS, accumulation);
    trial_end(&t);
}

START_TEST(each_step_counts_its_operations_and_bytes)
{
    check_counts("data=1", NULL, 1);
    check_counts("data=3", NULL, 1);
    check_counts("data=3", NULL, 4);
    check_counts("data=1,model=2", "-,model", 1);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_BACKEND", "test", 0); /* unless another is asked for */
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("kinds of steps", 0, steps_send_weights_or_leave_them_to_the_next_one,
                                      memory_moves_between_steps, each_step_counts_its_operations_and_bytes))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
