/* Functions that cannot be made or run: the same status on every rank, nothing changed, and training goes on.
 * Ranks: 1, 3   More: 2 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/value/value.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

static void begin(trial *t, const char *name)
{
    iso_optimizer adam = iso_adam(0.01);
    trial_begin(t, ctx, net_kind_find(name), ISO_F32, 7);
    trial_mesh(t, "data=2,model=2", NULL);
    if (strcmp(name, "mlp") == 0)
        trial_layout(t, "a/kernel", "-, model");
    trial_make(t, "data", &adam);
}

/* ---- meshes of a job ---- */

#define LISTS                                                                                                \
    "rank 1 differs from rank 0 in the mesh: rank 0 has 'data=3 on ranks 0, 1, 2', rank 1 has 'data=3 on "   \
    "ranks 1, 1, 2'"

START_TEST(meshes_that_do_not_fit_the_job_are_refused)
{
    iso_mesh *mesh = NULL;
    if (iso_ranks(ctx) < 3)
        return;
    check_refused(iso_mesh_create(ctx, "data=2", &mesh),
                  "mesh 'data=2' has 2 slots, fewer than the 3 ranks of this job");
    check_refused(iso_mesh_create(ctx, "data=*,model=2", &mesh),
                  "3 ranks are not a multiple of the other axes' 2 slots");
    iso_status status = iso_mesh_create(ctx, iso_rank(ctx) == 1 ? "data=4" : "data=3", &mesh);
    ck_assert_msg(status == ISO_INVALID, "status %d: %s", (int)status, iso_error_message());
    status = iso_mesh_create_on(ctx, "data=3", (int[]){iso_rank(ctx) == 1, 1, 2}, 3, &mesh);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), LISTS);
    status = iso_mesh_create(ctx, iso_rank(ctx) == 2 ? "data=" : "data=3", &mesh); /* one rank fails alone */
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_ptr_null(mesh);
}
END_TEST

/* ---- making ---- */

START_TEST(a_missing_input_is_named)
{
    trial t;
    iso_function *function = NULL;
    begin(&t, "mlp");
    check_refused(
        iso_function_create(t.net.graph, &function, .inputs = {t.net.input[0]}, .outputs = {t.net.loss}),
        "the function needs the input 'weight', which is not among its inputs");
    ck_assert_ptr_null(function);
    trial_end(&t);
}
END_TEST

START_TEST(a_variable_has_one_update)
{
    trial t;
    iso_function *function = NULL;
    begin(&t, "mlp");
    iso_variable *bias = iso_graph_find_variable(t.net.graph, "d/bias");
    iso_update *twice = iso_assign(bias, iso_affine(iso_variable_value(bias), 2, 0));
    check_refused(iso_function_create(t.net.graph, &function,
                                      .inputs = {t.net.input[0], t.net.input[1], t.net.input[2]},
                                      .updates = {t.update, twice}, .training = true),
                  "a function updates the variable 'd/bias' twice");
    trial_end(&t);
}
END_TEST

START_TEST(a_graph_s_error_is_the_function_s)
{
    iso_function *function = NULL;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3));
    iso_tensor *y =
        iso_matmul(x, iso_constant(graph, ISO_F32, ISO_SHAPE(4, 1), (const double[]){1, 2, 3, 4}));
    check_refused(iso_function_create(graph, &function, .inputs = {x}, .outputs = {iso_sum(y)}),
                  "[batch, 3]");
    iso_graph_destroy(graph);
}
END_TEST

START_TEST(layouts_that_do_not_fit_are_the_function_s_error)
{
    trial t;
    iso_optimizer sgd = iso_sgd(0.1);
    iso_function *function = NULL;
    trial_begin(&t, ctx, net_kind_find("mlp"), ISO_F32, 7);
    trial_mesh(&t, "data=2,model=2", NULL);
    trial_layout(&t, "a/kernel", "model");
    check_ok(iso_model_parallel_create(t.map, &t.distribution));
    iso_graph_distribute(t.net.graph, t.distribution);
    t.update = iso_minimize(t.net.loss, sgd);
    check_refused(iso_function_create(t.net.graph, &function,
                                      .inputs = {t.net.input[0], t.net.input[1], t.net.input[2]},
                                      .outputs = {t.net.loss}),
                  "layout 'model' of key 'a/kernel' has 1 entry, but 'a/kernel' has the shape [7, 13]");
    trial_end(&t);
}
END_TEST

/* ---- running ---- */

START_TEST(batches_that_do_not_fit_are_refused)
{
    trial t;
    memory_batch batch;
    double numbers[100] = {0}, loss = 7;
    begin(&t, "mlp");
    check_refused(iso_function_run(t.train, NULL, &loss), "has 3 inputs and was given no batch");
    memory_batch_begin(&batch, 0);
    check_refused(iso_function_run(t.train, &batch.batch, &loss), "was given a batch of 0 rows");
    memory_batch_begin(&batch, 7);
    memory_batch_add(&batch, ISO_SHAPE(7), numbers);
    check_refused(iso_function_run(t.train, &batch.batch, &loss), "has 3 inputs, the batch has 1 components");
    memory_batch_add(&batch, (iso_shape){0}, numbers);
    memory_batch_add(&batch, ISO_SHAPE(2), numbers);
    check_refused(iso_function_run(t.train, &batch.batch, &loss),
                  "input 'label' takes rows of shape [], the data's are [2]");
    ck_assert(loss == 7);
    trial_end(&t);
}
END_TEST

START_TEST(run_gives_scalars_only)
{
    trial t;
    double value;
    iso_function *function;
    begin(&t, "merges");
    check_ok(iso_function_create(t.net.graph, &function, .inputs = {t.net.input[0]},
                                 .outputs = {iso_reduce_mean(t.net.input[0], (const int[]){0}, 1, false)}));
    check_refused(iso_function_run(function, NULL, &value), "is not a scalar: use iso_function_evaluate");
    iso_function_destroy(function);
    trial_end(&t);
}
END_TEST

/* ---- faults of the data ---- */

typedef struct faulty {
    memory_batch memory;
    double x[7 * 7], weight[7], label[7];
    int failing_rank; /* whose reads fail; -1: none */
} faulty;

static iso_status fail_here(const iso_batch *batch, int component, int64_t begin, int64_t count,
                            iso_dtype dtype, void *out)
{
    (void)batch, (void)component, (void)begin, (void)count, (void)dtype, (void)out;
    return iso_error(ISO_INVALID, "rank %d cannot read", iso_rank(ctx));
}

static void make_faulty(faulty *f, double label, int failing_rank)
{
    memset(f, 0, sizeof *f);
    f->label[5] = label; /* in the rows of one slot of the batch's axis */
    memory_batch_begin(&f->memory, 7);
    memory_batch_add(&f->memory, ISO_SHAPE(7), f->x);
    memory_batch_add(&f->memory, (iso_shape){0}, f->weight);
    memory_batch_add(&f->memory, (iso_shape){0}, f->label);
    if (failing_rank == iso_rank(ctx))
        f->memory.batch.read = fail_here;
}

/* A step that fails between others leaves no trace. */
static void fail_between(double label, int failing_rank, const char *message)
{
    trial whole, broken;
    faulty f;
    double loss = 7;
    int64_t count;
    begin(&whole, "mlp");
    begin(&broken, "mlp");
    make_faulty(&f, label, failing_rank);
    for (int i = 0; i < 3; i++) {
        double *before = trial_weights(&broken, &count);
        check_refused(iso_function_run(broken.train, &f.memory.batch, &loss), message);
        double *after = trial_weights(&broken, &count);
        ck_assert(loss == 7);
        ck_assert(memcmp(before, after, (size_t)count * sizeof *before) == 0);
        free(before);
        free(after);
        ck_assert(trial_step(&broken, i) == trial_step(&whole, i));
    }
    double *a = trial_weights(&whole, &count), *b = trial_weights(&broken, &count);
    ck_assert(memcmp(a, b, (size_t)count * sizeof *a) == 0);
    free(a);
    free(b);
    trial_end(&whole);
    trial_end(&broken);
}

START_TEST(a_label_outside_the_classes_changes_nothing)
{
    fail_between(5, -1, "label 5");
    fail_between(-1, -1, "label -1");
}
END_TEST

START_TEST(a_rank_that_cannot_read_stops_all)
{
    fail_between(0, iso_ranks(ctx) - 1, "cannot read");
}
END_TEST

/* ---- batches that one rank alone refuses ---- */

enum { NO_BATCH, NO_ROWS, FEW_COMPONENTS, WRONG_SHAPE, NO_TYPE, SPOILS };

static const char *const refusals[SPOILS] = {"was given no batch", "was given a batch of 0 rows",
                                             "the batch has 2 components", "the data's are [3]",
                                             "has no element type"};

static const iso_batch *spoil(faulty *f, int how, int rank)
{
    iso_batch *batch = &f->memory.batch;
    make_faulty(f, 0, -1);
    if (iso_rank(ctx) != rank)
        return batch;
    batch->rows = how == NO_ROWS ? 0 : batch->rows;
    batch->n_components = how == FEW_COMPONENTS ? 2 : batch->n_components;
    batch->dtype[1] = how == NO_TYPE ? ISO_DTYPE_NONE : batch->dtype[1];
    if (how == WRONG_SHAPE)
        batch->shape[0] = ISO_SHAPE(3);
    return how == NO_BATCH ? NULL : batch;
}

/* Before the first step, when nobody has a plan, and between steps. */
static void refuse_alone(const char *mesh, const int *rank_of_slot, int rank)
{
    iso_optimizer adam = iso_adam(0.01);
    faulty f;
    for (int how = 0; how < SPOILS; how++) {
        trial t;
        int64_t count;
        trial_begin(&t, ctx, net_kind_find("mlp"), ISO_F32, 7);
        trial_mesh(&t, mesh, rank_of_slot);
        trial_make(&t, "data", &adam);
        for (int i = 0; i < 3; i++) {
            double loss = 7, *before = trial_weights(&t, &count);
            check_refused(iso_function_run(t.train, spoil(&f, how, rank), &loss), refusals[how]);
            double *after = trial_weights(&t, &count);
            ck_assert(loss == 7);
            ck_assert(memcmp(before, after, (size_t)count * sizeof *before) == 0);
            free(before);
            free(after);
            ck_assert(trial_step(&t, i) > 0);
        }
        trial_end(&t);
    }
}

START_TEST(a_batch_that_one_rank_refuses_is_refused)
{
    for (int rank = 0; rank < iso_ranks(ctx); rank++)
        refuse_alone("data=2,model=2", NULL, rank);
}
END_TEST

/* The last rank hosts no slot. */
START_TEST(an_idle_rank_s_batch_counts_too)
{
    const int first[2] = {0, 0};
    for (int rank = 0; rank < iso_ranks(ctx); rank++)
        refuse_alone("data=2", first, rank);
}
END_TEST

/* ---- ranks that run different functions ---- */

/* A graph with two functions of one shape, each with a variable that it changes. */
typedef struct two {
    iso_graph *graph;
    iso_variable *variable[2];
    iso_function *function[2];
    iso_distribution *distribution;
    iso_mesh *mesh;
    memory_batch batch, half;
} two;

static void two_begin(two *t, const char *mesh, const int *rank_of_slot, int slots)
{
    static const double values[24] = {1, 2, 3, 4, 5, 6, 7};
    static const char *const names[2] = {"twice", "thrice"};
    check_ok(iso_mesh_create_on(ctx, mesh, rank_of_slot, slots, &t->mesh));
    check_ok(iso_data_parallel_create(t->mesh, &t->distribution));
    t->graph = iso_graph_create(ctx);
    iso_graph_distribute(t->graph, t->distribution);
    iso_tensor *x = iso_input(t->graph, "x", ISO_F32, ISO_SHAPE(4));
    for (int i = 0; i < 2; i++) {
        t->variable[i] = iso_variable_create(t->graph, names[i], ISO_F32, ISO_SCALAR,
                                             (iso_initializer){.kind = ISO_INIT_ZEROS}, true);
        iso_tensor *y = iso_sum(iso_affine(x, 2 + i, 0));
        check_ok(iso_function_create(t->graph, &t->function[i], .inputs = {x}, .outputs = {y},
                                     .updates = {iso_assign(t->variable[i], y)}, .name = names[i]));
    }
    memory_batch_begin(&t->batch, 6);
    memory_batch_add(&t->batch, ISO_SHAPE(4), values);
    memory_batch_begin(&t->half, 3);
    memory_batch_add(&t->half, ISO_SHAPE(4), values);
}

static void two_end(two *t)
{
    for (int i = 0; i < 2; i++)
        iso_function_destroy(t->function[i]);
    iso_graph_destroy(t->graph);
    iso_distribution_destroy(t->distribution);
    iso_mesh_destroy(t->mesh);
}

static double value_of(iso_variable *variable)
{
    double value;
    check_ok(iso_variable_read(variable, &value, 1));
    return value;
}

/* In the first step of all, where each makes a plan. */
static void differ_at_once(void)
{
    const int one_each[2] = {0, 1};
    two t;
    double result = -1;
    two_begin(&t, "data=2", one_each, 2);
    check_refused(iso_function_run(t.function[iso_rank(ctx) == 1], &t.batch.batch, &result),
                  "rank 0 has 'twice on 6 rows', rank 1 has 'thrice on 6 rows'");
    ck_assert(result == -1 && value_of(t.variable[0]) == 0 && value_of(t.variable[1]) == 0);
    check_ok(iso_function_run(t.function[0], &t.batch.batch, &result));
    check_ok(iso_function_run(t.function[1], &t.batch.batch, &result));
    two_end(&t);
}

/* Rank 1 alone runs another function than the others, and then other rows: nothing changes. */
START_TEST(ranks_that_run_different_functions_are_told)
{
    static const struct {
        const char *mesh;
        int slots, rank[80];
    } meshes[] = {{"data=2", 2, {0, 1}}, {"data=5", 5, {1, 0, 0, 1, 0}}, {"data=80", 80, {[30] = 1, 1}}};
    if (iso_ranks(ctx) > 1)
        differ_at_once();
    for (int m = 0; m < 3 && iso_ranks(ctx) > 1; m++) {
        two t;
        double result = -1, first;
        two_begin(&t, meshes[m].mesh, meshes[m].rank, meshes[m].slots);
        bool odd = iso_rank(ctx) == 1;
        for (int i = 0; i < 2; i++) { /* the memory of plans moves while others are made */
            check_ok(iso_function_run(t.function[0], &t.batch.batch, &first));
            check_ok(iso_function_run(t.function[1], &t.half.batch, &result));
            check_ok(iso_function_run(t.function[1], &t.batch.batch, &result));
        }
        double before[2] = {value_of(t.variable[0]), value_of(t.variable[1])};
        result = -1;
        check_refused(
            iso_function_run(t.function[!odd], &t.batch.batch, &result),
            "rank 1 differs from rank 0 in the function that it runs: rank 0 has 'thrice on 6 rows', "
            "rank 1 has 'twice on 6 rows'");
        check_refused(iso_function_run(t.function[1], odd ? &t.half.batch : &t.batch.batch, &result),
                      "rank 0 has 'thrice on 6 rows', rank 1 has 'thrice on 3 rows'");
        ck_assert(result == -1);
        ck_assert(value_of(t.variable[0]) == before[0] && value_of(t.variable[1]) == before[1]);
        check_ok(iso_function_run(t.function[0], &t.batch.batch, &result));
        ck_assert(result == first);
        two_end(&t);
    }
}
END_TEST

/* Two plans were made in advance, and only one of them is run: by all ranks but one, which is told, first in steps
 * that meet because of the plans, then in steps that do not. In these, ranks of other hosts wait for messages. */
static void differ_prepared(two *t, int rounds, int function, const memory_batch *batch, const char *other)
{
    const bool odd = iso_rank(ctx) == 1;
    char message[100];
    double result, first = -1;
    snprintf(message, sizeof message, "rank 0 has 'twice on 6 rows', rank 1 has '%s'", other);
    check_ok(iso_function_prepare(t->function[0], 6));
    check_ok(iso_function_prepare(t->function[function], batch->batch.rows));
    for (int i = 0; i < rounds; i++) {
        check_ok(iso_function_run(t->function[0], &t->batch.batch, &result));
        ck_assert(i == 0 || result == first);
        first = result;
        const double before = value_of(t->variable[0]);
        check_refused(
            iso_function_run(t->function[odd ? function : 0], odd ? &batch->batch : &t->batch.batch, &result),
            message);
        check_refused(iso_function_run(t->function[0], odd ? NULL : &t->batch.batch, &result),
                      "was given no batch");
        ck_assert(result == first && value_of(t->variable[0]) == before && value_of(t->variable[1]) == 0);
    }
}

START_TEST(ranks_that_run_different_prepared_functions_are_told)
{
    const int one_each[2] = {0, 1};
    for (int i = 0; i < 4 && iso_ranks(ctx) > 1; i++) {
        two t;
        const int rounds = i & 1 && iso_hosts(ctx) > 1 ? 1 : 4;
        two_begin(&t, i & 1 ? "data=5" : "data=2", i & 1 ? NULL : one_each, i & 1 ? 0 : 2);
        if (i & 2)
            differ_prepared(&t, rounds, 0, &t.half, "twice on 3 rows");
        else
            differ_prepared(&t, rounds, 1, &t.batch, "thrice on 6 rows");
        two_end(&t);
    }
}
END_TEST

/* The rank without slots alone runs another function, or other rows. */
START_TEST(an_idle_rank_s_function_counts_too)
{
    const int first[2] = {0, 0};
    two t;
    double result;
    if (iso_ranks(ctx) == 1)
        return;
    two_begin(&t, "data=2", first, 2);
    bool last = iso_rank(ctx) == iso_ranks(ctx) - 1;
    for (int i = 0; i < 4; i++)
        check_ok(iso_function_run(t.function[i % 2], &t.batch.batch, &result));
    check_refused(iso_function_run(t.function[last], &t.batch.batch, &result),
                  "differs from rank 0 in the function that it runs: rank 0 has 'twice on 6 rows'");
    check_refused(iso_function_run(t.function[0], last ? &t.half.batch : &t.batch.batch, &result),
                  "has 'twice on 3 rows'");
    check_ok(iso_function_run(t.function[0], &t.batch.batch, &result));
    two_end(&t);
}
END_TEST

/* ---- variables ---- */

/* Two variables of one size. */
START_TEST(ranks_that_name_different_variables_are_told)
{
    two t;
    double value = 3;
    iso_value *read = NULL;
    if (iso_ranks(ctx) == 1)
        return;
    two_begin(&t, "data=5", NULL, 0);
    bool odd = iso_rank(ctx) == 1;
    double before[2] = {value_of(t.variable[0]), value_of(t.variable[1])};
    check_refused(iso_variable_assign(t.variable[odd], &value, 1),
                  "rank 1 differs from rank 0 in the values of a variable: rank 0 has 'twice: 3..,");
    check_refused(iso_variable_read(t.variable[odd], &value, 1),
                  "in the variable to be read: rank 0 has 'twice', rank 1 has 'thrice'");
    ck_assert(value == 3);
    check_refused(iso_variable_read_value(t.variable[odd], &read),
                  "in the variable to be read: rank 0 has 'twice', rank 1 has 'thrice'");
    ck_assert_ptr_null(read);
    ck_assert(value_of(t.variable[0]) == before[0] && value_of(t.variable[1]) == before[1]);
    two_end(&t);
}
END_TEST

START_TEST(arrays_of_one_rank_alone_are_refused)
{
    trial t;
    begin(&t, "mlp");
    bool last = iso_rank(ctx) == iso_ranks(ctx) - 1;
    iso_variable *bias = iso_graph_find_variable(t.net.graph, "d/bias");
    int64_t count = count_elements(iso_variable_value(bias), 0);
    double values[100] = {0};
    check_refused(iso_variable_assign(bias, last ? NULL : values, count),
                  "iso_variable_assign: values is NULL");
    check_refused(iso_variable_read(bias, last ? NULL : values, count), "iso_variable_read: values is NULL");
    check_refused(iso_variable_read(bias, values, last ? count + 1 : count), "elements");
    check_refused(iso_variable_read(iso_graph_find_variable(t.net.graph, "e/bias"), values, count),
                  "variable is NULL");
    check_ok(iso_variable_read(bias, values, count));
    trial_end(&t);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("functions", 0, meshes_that_do_not_fit_the_job_are_refused, a_missing_input_is_named,
                  a_variable_has_one_update, a_graph_s_error_is_the_function_s,
                  layouts_that_do_not_fit_are_the_function_s_error, batches_that_do_not_fit_are_refused,
                  run_gives_scalars_only, a_label_outside_the_classes_changes_nothing,
                  a_rank_that_cannot_read_stops_all, a_batch_that_one_rank_refuses_is_refused,
                  an_idle_rank_s_batch_counts_too, ranks_that_run_different_functions_are_told,
                  ranks_that_run_different_prepared_functions_are_told, an_idle_rank_s_function_counts_too,
                  ranks_that_name_different_variables_are_told, arrays_of_one_rank_alone_are_refused))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
