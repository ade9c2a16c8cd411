/* Every metric against Keras: running results over batches of different length, with and without sample
 * weights, for all cases of tests/keras/metrics.h5; on one slot and on several, some without a row, with
 * equal bits for all places of the slots of one mesh. Ranks: 1, 3   More: 5 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/session/session.h"
#include "runtime/train/loss.h"
#include "tests/support/data_parallel.h"
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

/* The settings of a case are attributes under Keras's names. */
static iso_metric_settings settings_of(const char *name)
{
    iso_metric_settings settings = {0};
    const iso_metric_type *type = iso_metric_type_of(metric_of(name));
    for (const iso_setting *s = type->row.setting; s && s->name; s++) {
        const char *key = iso_setting_keras(s),
                   *word = s->kind == ISO_SETTING_CHOICE ? oracle_text(file, name, key) : NULL;
        double value = s->kind == ISO_SETTING_CHOICE ? NAN : oracle_number(file, name, key, NAN);
        for (int i = 0; word && s->words[i]; i++)
            if (strcmp(s->words[i], word) == 0)
                iso_setting_set(s, &settings, i);
        bool number = s->kind != ISO_SETTING_FLAG && s->kind != ISO_SETTING_NOT;
        if (!isnan(value))
            iso_setting_set(s, &settings, value == 0 && number ? ISO_ZERO : value);
    }
    return settings;
}

static void add_up(double *totals, const double *results, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        totals[i] += results[i];
}

/* Returns a hash of the bits of all results. */
static uint64_t run_batches(const metric_case *c, iso_function *function, const iso_metric_sums *sums,
                            double tolerance)
{
    uint64_t hash = 0;
    iso_shape shape;
    iso_metric_settings settings = settings_of(c->name);
    double *expected = oracle_data(file, c->name, "result", &shape), weight = 0;
    int64_t count = iso_tensor_shape(sums->sum)->rank > 0 ? iso_tensor_shape(sums->sum)->dim[0] : 1;
    double *results = calloc((size_t)count * 2, sizeof *results), *totals = results + count;
    ck_assert_int_ge(shape.dim[0], 1);
    for (int number = 0; number < (int)shape.dim[0]; number++) {
        memory_batch batch;
        double of_weight = 0;
        fill(c, &batch, number);
        check_ok(iso_function_evaluate(function, &batch.batch, (double *[]){results, &of_weight}));
        hash = iso_hash_bytes(hash, results, (size_t)count * sizeof *results);
        hash = iso_hash_bytes(hash, &of_weight, sizeof of_weight);
        add_up(totals, results, count);
        weight += sums->weight ? of_weight : sums->per_row * (double)batch.batch.rows;
        double result = iso_metric_result(metric_of(c->name), &settings, totals, count, weight);
        check_near(c->name, &result, &expected[number], 1, tolerance);
    }
    free(results);
    return hash;
}

static uint64_t check_case(const char *name, iso_dtype precision, double tolerance,
                           iso_distribution *distribution)
{
    metric_case c = {.name = name, .graph = iso_graph_create(ctx)};
    iso_function *function = NULL;
    iso_graph_set_precision(c.graph, precision);
    iso_graph_distribute(c.graph, distribution);
    add_inputs(&c);
    iso_metric_sums sums = iso_metric_build(metric_of(name), c.input[0], c.input[1], .weights = c.input[2],
                                            .settings = settings_of(name));
    check_ok(iso_graph_error(c.graph));
    tolerance = fmax(tolerance, oracle_number(file, name, "tolerance", 0));
    check_ok(iso_function_create(c.graph, &function, .inputs = {c.input[0], c.input[1], c.input[2]},
                                 .outputs = {sums.sum, sums.weight}));
    uint64_t hash = run_batches(&c, function, &sums, tolerance);
    iso_function_destroy(function);
    iso_graph_destroy(c.graph);
    return hash;
}

static uint64_t check_all(iso_dtype precision, double tolerance, const char *axes, placing how)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    uint64_t hash = 0;
    check_ok(data_parallel_place(ctx, axes, how, &mesh, &distribution));
    for (int i = 0; i < oracle_cases(file); i++)
        if (takes_case(iso_ranks(ctx), i))
            hash = iso_hash_mix(hash ^ check_case(oracle_case(file, i), precision, tolerance, distribution));
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return hash;
}

START_TEST(in_float64)
{
    check_all(ISO_F64, 1e-12, "data=1", ON_THE_LAST_RANK);
    check_all(ISO_F64, 1e-12, "data=3", SCATTERED);
}
END_TEST

START_TEST(in_float32)
{
    check_all(ISO_F32, 1e-6, "data=3", ON_THE_LAST_RANK);
    uint64_t one = check_all(ISO_F32, 1e-6, "data=8", ON_THE_LAST_RANK);
    ck_assert_uint_eq(check_all(ISO_F32, 1e-6, "data=8", IN_BLOCKS), one);
}
END_TEST

/* One batch of four rows through a metric whose settings are left at their defaults. */
static double result_of(iso_metric metric, int64_t classes, const double *labels, int64_t label_classes,
                        const double *predicted)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_function *function = NULL;
    memory_batch batch;
    double sum;
    iso_shape label_row = label_classes ? ISO_SHAPE(label_classes) : ISO_SCALAR;
    iso_tensor *t = iso_input(graph, "t", label_classes ? ISO_F32 : ISO_I32, label_row),
               *p = iso_input(graph, "p", ISO_F32, ISO_SHAPE(classes));
    iso_metric_sums sums = iso_metric_build(metric, t, p);
    check_ok(iso_graph_error(graph));
    check_ok(iso_function_create(graph, &function, .inputs = {t, p}, .outputs = {sums.sum}));
    memory_batch_begin(&batch, 4);
    memory_batch_add(&batch, label_row, labels);
    memory_batch_add(&batch, ISO_SHAPE(classes), predicted);
    check_ok(iso_function_run(function, &batch.batch, &sum));
    iso_function_destroy(function);
    iso_graph_destroy(graph);
    return sum / (sums.per_row * 4);
}

/* Keras's: BinaryAccuracy(threshold=0.5), TopKCategoricalAccuracy(k=5), SparseTopKCategoricalAccuracy(k=5).
 */
START_TEST(defaults_are_those_of_keras)
{
    enum { CLASSES = 8 };
    static const double zeros_and_ones[] = {0, 0, 1, 1}, around[] = {0.49, 0.41, 0.51, 0.45};
    double labels[4], one_hot[4][CLASSES] = {{0}}, predicted[4][CLASSES];
    ck_assert_double_eq(result_of(ISO_METRIC_BINARY_ACCURACY, 1, zeros_and_ones, 1, around), 0.75);
    for (int row = 0; row < 4; row++) { /* the label's prediction is the 4th, 5th, 6th and 7th largest */
        labels[row] = row + 3;
        one_hot[row][row + 3] = 1;
        for (int k = 0; k < CLASSES; k++)
            predicted[row][k] = CLASSES - k;
    }
    ck_assert_double_eq(result_of(ISO_METRIC_SPARSE_TOP_K, CLASSES, labels, 0, predicted[0]), 0.5);
    ck_assert_double_eq(result_of(ISO_METRIC_TOP_K, CLASSES, one_hot[0], CLASSES, predicted[0]), 0.5);
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
    int failed = RUN_TESTS("metrics against Keras", 0, every_metric_has_a_case, defaults_are_those_of_keras,
                           in_float64, in_float32);
    oracle_close(file);
    return iso_finish(ctx, ISO_OK) || failed;
}
