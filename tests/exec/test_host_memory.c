/* Plans that need more memory than their host has: an error that names the host, the uses and the control
 * group, before the memory is taken; a warning if it is only in use. This program stands in for the system.
 * Ranks: 1, 3, 5 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/log.h"
#include "runtime/data/data.h"
#include "runtime/exec/function/function.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_host_memory here; /* what the system says on this rank */
static char warning[600];

void iso_host_memory_find(const char *root, iso_host_memory *memory)
{
    ck_assert_str_eq(root, "");
    *memory = here;
}

static void take(void *user, const char *text)
{
    ++*(int *)user;
    snprintf(warning, sizeof warning, "%s", text);
}

/* A function of a layer of 1000 x 1000 weights: 4 MB, on slots of all ranks. */
static iso_status make(iso_graph **graph, iso_function **function)
{
    iso_graph *g = *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(1000));
    return iso_function_create(g, function, .name = "mine", .inputs = {x}, .outputs = {iso_dense(x, 1000)});
}

/* Rank 0's host has this much, the others plenty. */
static void have(int64_t limit, int64_t available, const char *group)
{
    bool first = iso_host_of_rank(ctx, iso_rank(ctx)) == 0;
    here = (iso_host_memory){first ? limit : INT64_MAX, first ? available : INT64_MAX, ""};
    snprintf(here.group, sizeof here.group, "%s", first ? group : "");
}

START_TEST(a_batch_is_too_large_for_a_host)
{
    iso_graph *graph;
    iso_function *function;
    int64_t rows = 10000 * iso_ranks(ctx); /* 40 MB of x for each rank, and as much of the result */
    have(40000000, 40000000, "/slurm/job_7");
    check_ok(make(&graph, &function));
    iso_status status = iso_function_prepare(function, rows);
    ck_assert_int_eq(status, ISO_NO_MEMORY);
    const char *parts[] = {"'mine' of a batch of ",
                           " on a host of ",
                           "(weights 4",
                           "activations ",
                           ": host ",
                           " has 40 MB of memory by the limit of the control group /slurm/job_7, and ",
                           " are needed there"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert_msg(strstr(iso_error_message(), parts[i]), "not '%s' but '%s'", parts[i],
                      iso_error_message());
    check_ok(iso_function_prepare(function, 1)); /* a smaller batch fits after the error */
    have(INT64_MAX, INT64_MAX, "");
    check_ok(iso_function_prepare(function, rows));
    iso_function_destroy(function);
    iso_graph_destroy(graph);
}
END_TEST

START_TEST(weights_are_too_large_for_a_host)
{
    iso_graph *graph;
    iso_function *function;
    have(3000000, 3000000, "");
    ck_assert_int_eq(make(&graph, &function), ISO_NO_MEMORY);
    ck_assert_msg(strstr(iso_error_message(), " has 3 MB of memory, and 4"), "%s", iso_error_message());
    iso_graph_destroy(graph);
}
END_TEST

START_TEST(memory_in_use_is_a_warning)
{
    iso_graph *graph;
    iso_function *function;
    int warnings = 0, all;
    iso_set_warning_handler(take, &warnings);
    have(INT64_MAX, 20000000, "");
    check_ok(make(&graph, &function)); /* 4 MB fit */
    ck_assert_int_eq(warnings, 0);
    check_ok(iso_function_prepare(function, 10000 * iso_ranks(ctx)));
    ck_assert_int_eq(warnings, iso_rank(ctx) == 0);
    if (warnings)
        ck_assert_msg(strstr(warning, " has 20 MB of memory available, and ") &&
                          strstr(warning, " are needed now: the system may end the job"),
                      "%s", warning);
    all = warnings;
    check_ok(iso_function_prepare(function, 10 * iso_ranks(ctx))); /* which has its memory already */
    ck_assert_int_eq(warnings, all);
    iso_set_warning_handler(NULL, NULL);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
}
END_TEST

/* ---- batches that are read ahead ---- */

enum { ROWS = 1000, FEATURES = 1000, AHEAD = 2 }; /* rows of each rank: 4 MB */

static iso_status same(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    memcpy(out[0], in->data[0], (size_t)in->rows * FEATURES * sizeof(float));
    return ISO_OK;
}

/* Batches of a map, which are made ahead, or of rows in memory. */
static iso_dataset *open_rows(const float *x, bool maps)
{
    iso_dataset *data = NULL;
    const int64_t rows = (int64_t)ROWS * iso_ranks(ctx);
    check_ok(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(5 * rows, FEATURES)}));
    if (maps)
        check_ok(iso_dataset_map(data, same, .threads = 1));
    check_ok(iso_dataset_batch(data, rows));
    check_ok(iso_dataset_prefetch(data, AHEAD));
    return data;
}

static iso_status run_one(iso_function *function, const float *x, bool maps)
{
    const iso_batch *batch = NULL;
    iso_dataset *data = open_rows(x, maps);
    double sum;
    check_ok(iso_dataset_next(data, &batch));
    iso_status status = iso_function_run(function, batch, &sum);
    iso_dataset_destroy(data);
    return status;
}

/* What rank 0's host needs for the function's plan, within 100 kB above it. */
static int64_t need_of_plan(iso_function *function)
{
    int64_t limit = 4000000;
    do {
        limit += 100000;
        have(limit, INT64_MAX, "");
    } while (iso_function_prepare(function, (int64_t)ROWS * iso_ranks(ctx)) != ISO_OK);
    return limit;
}

static iso_status sum_rows(iso_graph *graph, iso_tensor *x, iso_function **function)
{
    return iso_function_create(graph, function, .inputs = {x},
                               .outputs = {iso_reduce_sum(x, (const int[]){0, 1}, 2, false)});
}

START_TEST(batches_that_are_read_ahead_count)
{
    const int64_t rows = (int64_t)ROWS * iso_ranks(ctx);
    float *x = calloc((size_t)(5 * rows * FEATURES), sizeof *x);
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *in = iso_input(graph, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_function *function;
    check_ok(sum_rows(graph, in, &function));
    /* The batch in use and those ahead, of the rows that each rank of the host reads. */
    const double kept = (1 + AHEAD) * 4.0 * FEATURES * (double)rows;
    const int64_t limit = need_of_plan(function);
    check_ok(run_one(function, x, false));
    iso_function_destroy(function);
    check_ok(sum_rows(graph, in, &function));
    have(limit + (int64_t)(0.95 * kept), INT64_MAX, "");
    ck_assert_int_eq(run_one(function, x, true), ISO_NO_MEMORY);
    ck_assert_msg(strstr(iso_error_message(), " are needed there, of which ") &&
                      strstr(iso_error_message(), "MB for batches that are read ahead"),
                  "%s", iso_error_message());
    have(limit + (int64_t)kept, INT64_MAX, "");
    check_ok(run_one(function, x, true));
    check_ok(run_one(function, x, true));
    have(INT64_MAX, INT64_MAX, "");
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    free(x);
}
END_TEST

/* The plan was made in advance, as by iso_function_facts. */
START_TEST(batches_of_a_prepared_plan_count)
{
    const int64_t rows = (int64_t)ROWS * iso_ranks(ctx);
    float *x = calloc((size_t)(5 * rows * FEATURES), sizeof *x);
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *in = iso_input(graph, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_function *function;
    check_ok(sum_rows(graph, in, &function));
    const double kept = (1 + AHEAD) * 4.0 * FEATURES * (double)rows;
    const int64_t limit = need_of_plan(function);
    have(limit + (int64_t)(0.95 * kept), INT64_MAX, "");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(run_one(function, x, true), ISO_NO_MEMORY);
    have(limit + (int64_t)kept, INT64_MAX, "");
    check_ok(run_one(function, x, true));
    have(INT64_MAX, INT64_MAX, "");
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    free(x);
}
END_TEST

/* Two functions read a data set, as fit and evaluate do; then another data set takes its place. */
START_TEST(batches_of_a_data_set_count_once)
{
    const int64_t rows = (int64_t)ROWS * iso_ranks(ctx);
    float *x = calloc((size_t)(5 * rows * FEATURES), sizeof *x);
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *in = iso_input(graph, "x", ISO_F32, ISO_SHAPE(FEATURES));
    iso_function *function[4];
    for (int i = 0; i < 4; i++)
        check_ok(sum_rows(graph, in, &function[i]));
    have(need_of_plan(function[0]) + (int64_t)((1 + AHEAD) * 4.0 * FEATURES * (double)rows), INT64_MAX, "");
    for (int i = 0; i < 4; i += 2) {
        const iso_batch *batch = NULL;
        iso_dataset *data = open_rows(x, true);
        double sum;
        check_ok(iso_dataset_next(data, &batch));
        check_ok(iso_function_run(function[i], batch, &sum));
        check_ok(iso_function_run(function[i + 1], batch, &sum));
        iso_dataset *more = open_rows(x, true); /* both at once are too much */
        iso_function *other;
        check_ok(sum_rows(graph, in, &other));
        check_ok(iso_dataset_next(more, &batch));
        ck_assert_int_eq(iso_function_run(other, batch, &sum), ISO_NO_MEMORY);
        iso_function_destroy(other);
        iso_dataset_destroy(more);
        iso_dataset_destroy(data);
    }
    have(INT64_MAX, INT64_MAX, "");
    for (int i = 0; i < 4; i++)
        iso_function_destroy(function[i]);
    iso_graph_destroy(graph);
    free(x);
}
END_TEST

int main(int argc, char **argv)
{
    here = (iso_host_memory){INT64_MAX, INT64_MAX, ""};
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("memory of hosts", 0, a_batch_is_too_large_for_a_host, weights_are_too_large_for_a_host,
                  memory_in_use_is_a_warning, batches_that_are_read_ahead_count,
                  batches_of_a_prepared_plan_count, batches_of_a_data_set_count_once))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
