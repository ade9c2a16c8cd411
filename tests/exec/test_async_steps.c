/* Steps that begin before the last one is concluded, on the test device: results come in order and are those of steps
 * one by one; after a fault of the data, of a kernel or of one rank's batch, the step that had begun after it has
 * changed nothing either. Ranks: 1, 3 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/async_steps.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 6, FEATURES = 3, CLASSES = 4 };

static iso_context *ctx;

/* ---- batches: number k, with a wrong label in row 4, or that one rank cannot read ---- */

typedef struct rows {
    iso_batch batch;
    int number;
    bool wrong, unreadable;
} rows;

static iso_status read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    const rows *of = (const rows *)batch->impl;
    if (of->unreadable && iso_rank(ctx) == iso_ranks(ctx) - 1)
        return iso_error(ISO_IO, "the rows of batch %d are gone", of->number);
    for (int64_t i = begin; i < begin + count; i++) {
        if (component == 1)
            ((int32_t *)out)[i - begin] = of->wrong && i == 4 ? 9 : (int32_t)((i + of->number) % CLASSES);
        for (int64_t k = 0; component == 0 && k < FEATURES; k++)
            ((double *)out)[(i - begin) * FEATURES + k] =
                (double)((i * 7 + k * 5 + of->number) % 11) / 8 - 0.5;
    }
    ck_assert_int_eq(dtype, component == 0 ? ISO_F64 : ISO_I32);
    return ISO_OK;
}

/* Batch k has the rows from 100 k on. */
static int64_t source_row(const iso_batch *batch, int64_t position, int64_t row)
{
    (void)batch;
    return 100 * position + row;
}

static void make_rows(rows *of, int number)
{
    *of = (rows){.number = number};
    of->batch = (iso_batch){.rows = ROWS,
                            .n_components = 2,
                            .dtype = {ISO_F64, ISO_I32},
                            .shape = {ISO_SHAPE(FEATURES), ISO_SCALAR},
                            .read = read_rows,
                            .source_row = source_row,
                            .position = number,
                            .impl = of};
}

/* ---- a training ---- */

typedef struct training {
    iso_graph *graph;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_variable *weights;
    iso_function *step;
} training;

static void begin_training(training *t, const char *mesh)
{
    t->graph = iso_graph_create(ctx);
    const int alone[] = {0};
    check_ok(strcmp(mesh, "data=1") == 0 ? iso_mesh_create_on(ctx, mesh, alone, 1, &t->mesh)
                                         : iso_mesh_create(ctx, mesh, &t->mesh));
    check_ok(iso_data_parallel_create(t->mesh, &t->distribution));
    iso_graph_distribute(t->graph, t->distribution);
    iso_tensor *x = iso_input(t->graph, "x", ISO_F64, ISO_SHAPE(FEATURES));
    iso_tensor *labels = iso_input(t->graph, "labels", ISO_I32, ISO_SCALAR);
    t->weights = iso_variable_create(t->graph, "w", ISO_F64, ISO_SHAPE(FEATURES, CLASSES),
                                     (iso_initializer){.kind = ISO_INIT_GLOROT_UNIFORM}, true);
    iso_tensor *logits = iso_dropout(iso_matmul(x, iso_variable_value(t->weights)), .rate = 0.25);
    iso_tensor *loss = iso_mean(iso_sparse_crossentropy(labels, logits, .from_logits = true));
    check_ok(iso_function_create(t->graph, &t->step, .inputs = {x, labels}, .outputs = {loss},
                                 .updates = {iso_minimize(loss, iso_adam(0.1))}, .training = true));
}

static void end_training(training *t)
{
    iso_function_destroy(t->step);
    iso_graph_destroy(t->graph);
    iso_distribution_destroy(t->distribution);
    iso_mesh_destroy(t->mesh);
}

static void read_weights(const training *t, double *values)
{
    check_ok(iso_variable_read(t->weights, values, FEATURES * CLASSES));
}

static double run(training *t, int number)
{
    rows of;
    double loss;
    make_rows(&of, number);
    check_ok(iso_function_run(t->step, &of.batch, &loss));
    return loss;
}

static void check_same_weights(const training *a, const training *b)
{
    double of_a[FEATURES * CLASSES], of_b[FEATURES * CLASSES];
    read_weights(a, of_a);
    read_weights(b, of_b);
    ck_assert_mem_eq(of_a, of_b, sizeof of_a);
}

static void check_order(const char *mesh)
{
    enum { STEPS = 5 };
    training ahead, plain;
    rows of[STEPS];
    double loss[STEPS];
    begin_training(&ahead, mesh);
    begin_training(&plain, mesh);
    ck_assert(iso_function_is_async(ahead.step));
    for (int i = 0; i < STEPS; i++) {
        make_rows(&of[i], i);
        check_ok(iso_function_begin_step(ahead.step, &of[i].batch));
        if (i > 0)
            check_ok(iso_function_end_step(ahead.step, &loss[i - 1]));
    }
    double weights[FEATURES * CLASSES], later[FEATURES * CLASSES];
    read_weights(&ahead, weights); /* after the last step, though it is not concluded */
    check_ok(iso_function_end_step(ahead.step, &loss[STEPS - 1]));
    read_weights(&ahead, later);
    ck_assert_mem_eq(weights, later, sizeof weights);
    for (int i = 0; i < STEPS; i++)
        ck_assert(loss[i] == run(&plain, i));
    check_same_weights(&ahead, &plain);
    end_training(&ahead);
    end_training(&plain);
}

START_TEST(results_come_in_order_and_are_those_of_steps_one_by_one)
{
    check_order("data=1"); /* with 3 ranks, two have no slot */
    check_order("data=4");
}
END_TEST

typedef enum kind { OF_A_KERNEL, UNREADABLE_ON_ONE_RANK, REFUSED_BY_ONE_RANK } kind;

/* Ranks without slots read no batch. */
static void check_fault(const char *mesh, kind which)
{
    if (strcmp(mesh, "data=1") == 0 && iso_ranks(ctx) > 1)
        return;
    training t, plain;
    rows bad, good;
    double loss, before[FEATURES * CLASSES], after[FEATURES * CLASSES];
    const char *says[] = {
        "label 9 of row 4 of the batch (row 104 of the data set) is not one of the 4 classes",
        "the rows of batch 1 are gone", "input 'x' takes rows of shape"};
    begin_training(&t, mesh);
    begin_training(&plain, mesh);
    for (int i = 0; i < 4; i++) /* on CUDA, steps are graphs by then */
        ck_assert(run(&t, i) == run(&plain, i));
    read_weights(&t, before);
    make_rows(&bad, 1);
    make_rows(&good, 2);
    bad.wrong = which == OF_A_KERNEL;
    bad.unreadable = which == UNREADABLE_ON_ONE_RANK;
    if (which == REFUSED_BY_ONE_RANK && iso_rank(ctx) == iso_ranks(ctx) - 1)
        bad.batch.shape[0] = ISO_SHAPE(FEATURES + 1);
    check_ok(iso_function_begin_step(t.step, &bad.batch));
    check_ok(iso_function_begin_step(t.step, &good.batch));
    ck_assert_int_eq(iso_function_end_step(t.step, &loss),
                     which == UNREADABLE_ON_ONE_RANK ? ISO_IO : ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), says[which]) != NULL, "%s", iso_error_message());
    read_weights(&t, after);
    ck_assert_mem_eq(before, after, sizeof before);
    ck_assert_uint_eq(iso_graph_steps(t.graph), iso_graph_steps(plain.graph));
    for (int i = 2; i < 4; i++)
        ck_assert(run(&t, i) == run(&plain, i));
    check_same_weights(&t, &plain);
    end_training(&t);
    end_training(&plain);
}

START_TEST(nothing_changes_after_a_fault_of_a_kernel)
{
    check_fault("data=1", OF_A_KERNEL);
    check_fault("data=4", OF_A_KERNEL);
}
END_TEST

START_TEST(nothing_changes_after_a_batch_that_one_rank_cannot_read)
{
    check_fault("data=1", UNREADABLE_ON_ONE_RANK);
    check_fault("data=4", UNREADABLE_ON_ONE_RANK);
}
END_TEST

START_TEST(nothing_changes_after_a_batch_that_one_rank_refuses)
{
    check_fault("data=1", REFUSED_BY_ONE_RANK);
    check_fault("data=4", REFUSED_BY_ONE_RANK);
}
END_TEST

START_TEST(a_function_may_be_destroyed_while_a_step_has_begun)
{
    training t;
    rows of;
    begin_training(&t, "data=1");
    make_rows(&of, 0);
    check_ok(iso_function_begin_step(t.step, &of.batch));
    end_training(&t);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_BACKEND", "test", 0); /* unless another is asked for */
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("steps ahead", 0, results_come_in_order_and_are_those_of_steps_one_by_one,
                  nothing_changes_after_a_fault_of_a_kernel,
                  nothing_changes_after_a_batch_that_one_rank_cannot_read,
                  nothing_changes_after_a_batch_that_one_rank_refuses,
                  a_function_may_be_destroyed_while_a_step_has_begun))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
