/* Models that Keras saved (tests/keras/models): what they predict, and five steps of the training that goes
 * on from the file's weights, optimizer state and compile settings, against what Keras has (models.h5), in
 * float32 and float64. Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static oracle *file;

typedef struct file_case {
    const char *name;
    iso_dtype precision;
    int inputs, outputs, steps;
    char path[300];
    iso_model *model;
    iso_compile_options options;
    iso_dataset *data;
    int64_t rows;
} file_case;

/* Numbered datasets as arrays of a data set. */
static void add_arrays(const file_case *c, const char *prefix, int count, iso_data_array *arrays)
{
    for (int i = 0; i < count; i++) {
        char name[16];
        iso_shape shape;
        snprintf(name, sizeof name, "%s%d", prefix, i);
        double *values = oracle_data(file, c->name, name, &shape);
        if (!values)
            continue;
        arrays[i] = (iso_data_array){.data = values, .dtype = ISO_F64};
        arrays[i].shape = shape;
    }
}

static void open_data(file_case *c)
{
    iso_shape shape;
    iso_dataset_arrays_options options = {.dataset = &c->data};
    oracle_data(file, c->name, "x0", &shape);
    c->rows = shape.dim[0];
    add_arrays(c, "x", c->inputs, options.inputs);
    add_arrays(c, "t", c->outputs, options.targets);
    check_ok(iso_dataset_arrays_with(ctx, &options, sizeof options));
    check_ok(iso_dataset_batch(c->data, c->rows));
}

/* Predictions against the datasets "y0", "y1", ... */
static void compare_predictions(file_case *c, const char *prefix, double tolerance)
{
    iso_predict_options options = {.verbose = ISO_ZERO};
    for (int i = 0; i < c->outputs; i++) {
        int64_t count = count_elements(iso_model_output_at(c->model, i), c->rows);
        options.outputs[i] = calloc((size_t)count, sizeof(double));
    }
    check_ok(iso_predict_with(c->model, c->data, &options, sizeof options));
    for (int i = 0; i < c->outputs; i++) {
        char name[16], what[200];
        iso_shape shape;
        snprintf(name, sizeof name, "%s%d", prefix, i);
        snprintf(what, sizeof what, "%s, %s", c->name, name);
        double *expected = oracle_data(file, c->name, name, &shape);
        int64_t count = count_elements(iso_model_output_at(c->model, i), c->rows);
        ck_assert_int_eq(oracle_elements(&shape), count);
        double *values = calloc((size_t)count, sizeof *values);
        for (int64_t k = 0; k < count; k++)
            values[k] = iso_element_get(options.outputs[i], c->precision, k);
        check_near(what, values, expected, count, tolerance);
        free(values);
        free(options.outputs[i]);
    }
}

static void train(file_case *c)
{
    char what[200];
    iso_history *history = NULL;
    double losses[64], *expected = oracle_data(file, c->name, "losses", NULL);
    ck_assert(c->steps <= 64);
    check_ok(iso_fit(c->model, c->data, .epochs = c->steps, .verbose = ISO_ZERO, .history = &history));
    for (int i = 0; i < c->steps; i++) {
        iso_logs logs = iso_history_logs(history, i);
        losses[i] = iso_logs_get(&logs, "loss");
    }
    snprintf(what, sizeof what, "%s, losses", c->name);
    check_near(what, losses, expected, c->steps, 1e-4);
    iso_history_destroy(history);
    compare_predictions(c, "after", 1e-4);
}

static void check_case(const char *name, iso_dtype precision)
{
    file_case c = {.name = name, .precision = precision};
    c.inputs = (int)oracle_number(file, name, "inputs", 1);
    c.outputs = (int)oracle_number(file, name, "outputs", 1);
    c.steps = (int)oracle_number(file, name, "steps", 0);
    snprintf(c.path, sizeof c.path, "tests/keras/models/%s.keras", name);
    check_ok(iso_keras_load(ctx, c.path, &c.model, .precision = precision, .compile = &c.options));
    open_data(&c);
    if (c.steps == 0) /* weights are read into a compiled model */
        c.options.loss = ISO_LOSS_MSE;
    check_ok(iso_compile_with(c.model, &c.options, sizeof c.options));
    check_ok(iso_keras_load_weights(c.model, c.path));
    compare_predictions(&c, "y", 1e-5);
    if (c.steps)
        train(&c);
    iso_model_destroy(c.model);
    iso_dataset_destroy(c.data);
}

START_TEST(in_float32)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F32);
}
END_TEST

START_TEST(in_float64)
{
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), ISO_F64);
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    file = oracle_open("models.h5");
    int failed = RUN_TESTS("files of Keras", 0, in_float32, in_float64);
    oracle_close(file);
    return iso_finish(ctx, ISO_OK) || failed;
}
