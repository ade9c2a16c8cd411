/* Losses and metrics of an epoch are those of all its rows: computed here by hand, for batches and slots of uneven
 * length and with sample weights. The last step of a metric (a root) is applied once, to the mean of all rows
 * so far, in what callbacks and the progress bar see after each batch, in the history, and in evaluate.
 * Ranks: 1, 3, 8 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/data_parallel.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 37, COLUMNS = 3, VALUES = 6 };

static iso_context *ctx;
static double x[ROWS][COLUMNS], y[ROWS][COLUMNS], weights[ROWS];
static const char *const names[VALUES] = {
    "loss", "root_mean_squared_error",          "kl_divergence",
    "mse",  "weighted_root_mean_squared_error", "weighted_kl_divergence"};

/* Distributions that differ more from row to row, so that a mean of roots is not the root of a mean; every third
 * weight is 0. */
static void make_rows(void)
{
    for (int row = 0; row < ROWS; row++) {
        double sum_x = 0, sum_y = 0;
        for (int k = 0; k < COLUMNS; k++) {
            sum_x += x[row][k] = exp(3 * sin(row * 1.7 + k));
            sum_y += y[row][k] = exp(row * 0.1 * cos(row + 2.3 * k));
        }
        for (int k = 0; k < COLUMNS; k++) {
            x[row][k] /= sum_x;
            y[row][k] /= sum_y;
        }
        weights[row] = row % 3 ? 0.25 * (row % 5) : 0;
    }
}

/* The values over the first rows; the loss is that of these rows, weighted, as Keras has it. */
static void by_hand(int rows, double *values)
{
    double squares = 0, weighted_squares = 0, divergence = 0, weighted_divergence = 0, weight = 0;
    for (int row = 0; row < rows; row++) {
        double square = 0, kl = 0;
        for (int k = 0; k < COLUMNS; k++) {
            square += (x[row][k] - y[row][k]) * (x[row][k] - y[row][k]) / COLUMNS;
            double t = fmin(fmax(y[row][k], 1e-7), 1), p = fmin(fmax(x[row][k], 1e-7), 1);
            kl += t * log(t / p);
        }
        squares += square;
        divergence += kl;
        weighted_squares += weights[row] * square;
        weighted_divergence += weights[row] * kl;
        weight += weights[row];
    }
    values[0] = weighted_divergence / rows;
    values[1] = sqrt(squares / rows);
    values[2] = divergence / rows;
    values[3] = squares / rows;
    values[4] = sqrt(weighted_squares / weight);
    values[5] = weighted_divergence / weight;
}

static void compare(const char *what, const iso_logs *logs, int rows)
{
    double expected[VALUES], have[VALUES];
    by_hand(rows, expected);
    for (int i = 0; i < VALUES; i++)
        have[i] = iso_logs_get(logs, names[i]);
    check_near(what, have, expected, VALUES, 1e-12);
}

static iso_status batch_end(void *user, iso_fit_state *state)
{
    const int *batch_size = user;
    int rows = (int)(state->batch + 1) * *batch_size;
    compare("after a batch", &state->logs, rows < ROWS ? rows : ROWS);
    return ISO_OK;
}

/* The predictions are x: a kernel that is the identity, and steps that change nothing. */
static iso_model *make_model(iso_distribution *distribution)
{
    static const double identity[COLUMNS * COLUMNS] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, ISO_F64);
    iso_tensor *in = iso_input(graph, "x", ISO_F32, ISO_SHAPE(COLUMNS));
    iso_model *model = iso_model_create(graph, in, iso_dense(in, COLUMNS, .no_bias = true, .name = "d"));
    check_ok(iso_compile(model, .optimizer = iso_sgd(1e-300), .loss = ISO_LOSS_KL_DIVERGENCE,
                         .metrics = {ISO_METRIC_RMSE, ISO_METRIC_KL_DIVERGENCE, ISO_METRIC_MSE},
                         .weighted_metrics = {ISO_METRIC_RMSE, ISO_METRIC_KL_DIVERGENCE},
                         .sample_weights = true, .distribution = distribution));
    check_ok(iso_variable_assign(iso_model_variable(model, "d/kernel"), identity, COLUMNS * COLUMNS));
    return model;
}

static iso_dataset *make_data(int batch_size)
{
    iso_dataset *data;
    check_ok(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F64, ISO_SHAPE(ROWS, COLUMNS)},
                                .y = {y, ISO_F64, ISO_SHAPE(ROWS, COLUMNS)},
                                .sample_weight = {weights, ISO_F64, ISO_SHAPE(ROWS)}));
    check_ok(iso_dataset_batch(data, batch_size));
    return data;
}

static void check_mesh(const char *axes, placing how, int batch_size)
{
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_history *history = NULL;
    double values[VALUES];
    check_ok(data_parallel_place(ctx, axes, how, &mesh, &distribution));
    iso_model *model = make_model(distribution);
    iso_dataset *data = make_data(batch_size);
    iso_callback *watch =
        iso_callback_create(.batch_end = batch_end, .collective = true, .user = &batch_size);
    check_ok(iso_fit(model, data, .epochs = 2, .callbacks = (iso_callback *[]){watch, NULL},
                     .history = &history, .verbose = ISO_ZERO));
    for (int epoch = 0; epoch < 2; epoch++) {
        iso_logs logs = iso_history_logs(history, epoch);
        compare("an epoch", &logs, ROWS);
    }
    iso_history_destroy(history);
    check_ok(iso_evaluate(model, data, .loss = &values[0], .metrics = &values[1], .verbose = ISO_ZERO));
    compare("evaluate", &(iso_logs){VALUES, names, values}, ROWS);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}

START_TEST(on_one_slot)
{
    check_mesh("data=1", ON_THE_LAST_RANK, 8);
    check_mesh("data=1", IN_BLOCKS, 37);
}
END_TEST

START_TEST(on_uneven_slots)
{
    check_mesh("data=3", SCATTERED, 7);
    check_mesh("data=8", IN_BLOCKS, 11);
    check_mesh("data=8", SCATTERED, 5); /* fewer rows than slots */
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    make_rows();
    int failed = status == ISO_OK ? RUN_TESTS("values of an epoch", 0, on_one_slot, on_uneven_slots) : 1;
    return iso_finish(ctx, status) || failed;
}
