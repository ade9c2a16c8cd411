/* Every metric against Keras: running results over batches of different length, with and without sample
 * weights, for all cases of tests/keras/metrics.h5. Ranks: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"
#include "runtime/train/losses.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static oracle *file;

/* The inputs of a case's function and the batch that is read. */
typedef struct metric_case {
    const char *name;
    iso_graph *graph;
    iso_tensor *input[3];
} metric_case;

static const char *const parts[] = {"y_true", "y_pred", "sample_weight"};

static double *part(const metric_case *c, int which, int number, iso_shape *row, int64_t *rows)
{
    char dataset[40];
    iso_shape shape;
    snprintf(dataset, sizeof dataset, "%s%d", parts[which], number);
    double *values = oracle_data(file, c->name, dataset, &shape);
    if (!values)
        return NULL;
    *rows = shape.dim[0];
    row->rank = shape.rank - 1;
    memcpy(row->dim, shape.dim + 1, (size_t)row->rank * sizeof row->dim[0]);
    return values;
}

static void add_inputs(metric_case *c)
{
    char dataset[40];
    iso_shape row;
    int64_t rows;
    for (int i = 0; i < 3; i++) {
        snprintf(dataset, sizeof dataset, "%s0", parts[i]);
        if (!part(c, i, 0, &row, &rows))
            continue;
        iso_dtype dtype = oracle_is_integer(file, c->name, dataset) ? ISO_I32 : ISO_F32;
        c->input[i] = iso_input(c->graph, parts[i], dtype, row);
    }
}

static void fill(const metric_case *c, memory_batch *batch, int number)
{
    iso_shape row;
    int64_t rows = 0;
    part(c, 0, number, &row, &rows);
    memory_batch_begin(batch, rows);
    for (int i = 0; i < 3; i++) {
        double *values = part(c, i, number, &row, &rows);
        if (values)
            memory_batch_add(batch, row, values);
    }
}

static iso_metric metric_of(const char *name)
{
    iso_metric metric;
    const char *kind = oracle_text(file, name, "kind");
    if (strcmp(kind, "accuracy") == 0)
        return ISO_METRIC_CATEGORICAL_ACCURACY;
    check_ok(iso_metric_find(kind, &metric));
    return metric;
}

static void run_batches(const metric_case *c, iso_function *function, const iso_metric_sums *sums,
                        double tolerance)
{
    iso_shape shape;
    double *expected = oracle_data(file, c->name, "result", &shape), total = 0, weight = 0;
    ck_assert_int_ge(shape.dim[0], 1);
    for (int number = 0; number < (int)shape.dim[0]; number++) {
        memory_batch batch;
        double results[2];
        fill(c, &batch, number);
        check_ok(iso_function_run(function, &batch.batch, results));
        total += results[0];
        weight += sums->weight ? results[1] : sums->per_row * (double)batch.batch.rows;
        double result = weight == 0 ? 0 : total / weight;
        check_near(c->name, &result, &expected[number], 1, tolerance);
    }
}

static void check_case(const char *name, iso_dtype precision, double tolerance)
{
    metric_case c = {.name = name, .graph = iso_graph_create(ctx)};
    iso_function *function = NULL;
    iso_graph_set_precision(c.graph, precision);
    add_inputs(&c);
    double threshold = oracle_number(file, name, "threshold", 0);
    iso_metric_sums sums =
        iso_metric_build(metric_of(name), c.input[0], c.input[1], .weights = c.input[2],
                         .k = (int)oracle_number(file, name, "k", 0), .threshold = threshold);
    check_ok(iso_graph_error(c.graph));
    ck_assert(!sums.weight == !c.input[2]);
    check_ok(iso_function_create(c.graph, &function, .inputs = {c.input[0], c.input[1], c.input[2]},
                                 .outputs = {sums.sum, sums.weight}));
    run_batches(&c, function, &sums, tolerance);
    iso_function_destroy(function);
    iso_graph_destroy(c.graph);
}

START_TEST(in_float64)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F64, 1e-12);
}
END_TEST

START_TEST(in_float32)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F32, 1e-6);
}
END_TEST

START_TEST(every_metric_has_a_case)
{
    for (int metric = ISO_METRIC_ACCURACY + 1; metric < ISO_METRIC_COUNT; metric++) {
        int found = 0;
        for (int i = 0; i < oracle_cases(file); i++)
            found += metric_of(oracle_case(file, i)) == (iso_metric)metric;
        ck_assert_msg(found > 0, "metrics.h5 has no case of %s", iso_metric_name((iso_metric)metric));
    }
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    file = oracle_open("metrics.h5");
    int failed = RUN_TESTS("metrics against Keras", 0, every_metric_has_a_case, in_float64, in_float32);
    oracle_close(file);
    return iso_finish(ctx, ISO_OK) || failed;
}
