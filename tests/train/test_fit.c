/* compile, fit and evaluate: what they compute, what they report, what they refuse, and that a rank that
 * fails alone leaves nobody waiting. Ranks: 1, 3
 * Sanitize: 1, 3 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/data_parallel.h"
#include "tests/support/linear.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = LINEAR_ROWS, FEATURES = LINEAR_FEATURES };

static iso_context *ctx;
static iso_mesh *mesh;
static iso_distribution *distribution;
static const double *inputs, *targets;
static double weights[ROWS], labels[ROWS];

/* ---- small data and models ---- */

static void make_numbers(void)
{
    inputs = linear_inputs();
    targets = linear_targets();
    for (int i = 0; i < ROWS; i++) {
        weights[i] = i % 4;
        labels[i] = i % 3;
    }
}

static iso_dataset *arrays(const double *y, bool weighted, int64_t batch)
{
    return linear_data(ctx, ROWS, y, weighted ? weights : NULL, batch);
}

static iso_model *linear(int64_t units)
{
    return linear_model(ctx, units);
}

static iso_model *compiled(void)
{
    return linear_model_compiled(ctx, iso_sgd(0.1), distribution);
}

/* The model's prediction for row i, from its weights. */
static double prediction(iso_model *model, int i)
{
    double kernel[FEATURES], bias, sum;
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), kernel, FEATURES));
    check_ok(iso_variable_read(iso_model_variable(model, "d/bias"), &bias, 1));
    sum = bias;
    for (int k = 0; k < FEATURES; k++)
        sum += kernel[k] * inputs[i * FEATURES + k];
    return sum;
}

/* ---- numbers ---- */

START_TEST(evaluation_is_exact_for_any_batch)
{
    static const int64_t batches[] = {1, 7, 16, ROWS, 1000};
    iso_model *model = compiled();
    double loss = 0, error = 0;
    for (int i = 0; i < ROWS; i++) {
        double off = prediction(model, i) - targets[i];
        loss += off * off / ROWS;
        error += fabs(off) / ROWS;
    }
    for (int i = 0; i < 5; i++) {
        iso_dataset *data = arrays(targets, false, batches[i]);
        double got[2];
        check_ok(iso_evaluate(model, data, .loss = &got[0], .metrics = &got[1], .verbose = ISO_ZERO));
        check_near("loss", &got[0], &loss, 1, 1e-12);
        check_near("mae", &got[1], &error, 1, 1e-12);
        iso_dataset_destroy(data);
    }
    iso_model_destroy(model);
}
END_TEST

START_TEST(fit_learns_and_remembers)
{
    iso_model *model = compiled();
    iso_dataset *data = arrays(targets, false, 16), *validation = arrays(targets, false, 20);
    iso_history *history = NULL;
    double loss;
    check_ok(iso_fit(model, data, .epochs = 60, .validation = validation, .verbose = ISO_ZERO,
                     .history = &history));
    ck_assert_int_eq(iso_history_epochs(history), 60);
    iso_logs first = iso_history_logs(history, 0), last = iso_history_logs(history, 59);
    ck_assert_int_eq(last.count, 4);
    ck_assert(iso_logs_get(&last, "loss") < 0.01 * iso_logs_get(&first, "loss"));
    ck_assert(isfinite(iso_logs_get(&last, "mae")) && isfinite(iso_logs_get(&last, "val_mae")));
    ck_assert(isnan(iso_logs_get(&last, "accuracy")));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    double reported = iso_logs_get(&last, "val_loss");
    check_near("val_loss of the last epoch", &reported, &loss, 1, 1e-12);
    iso_history_destroy(history);
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* What a training leaves: the loss on its data before fit ends, and after; the weights. */
typedef struct trained {
    double validation, after, kernel[FEATURES];
} trained;

static trained train_with(iso_optimizer optimizer, bool swap)
{
    trained t;
    iso_history *history = NULL;
    iso_model *model = linear_model_compiled(ctx, optimizer, distribution);
    iso_dataset *data = arrays(targets, false, 16), *validation = arrays(targets, false, 20);
    check_ok(iso_fit(model, data, .epochs = 2, .validation = validation, .swap_ema_weights = swap,
                     .verbose = ISO_ZERO, .history = &history));
    iso_logs last = iso_history_logs(history, 1);
    t.validation = iso_logs_get(&last, "val_loss");
    check_ok(iso_evaluate(model, validation, .loss = &t.after, .verbose = ISO_ZERO));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), t.kernel, FEATURES));
    iso_history_destroy(history);
    iso_dataset_destroy(validation);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    return t;
}

/* Training goes on with the weights, which become the averages when fit ends. */
START_TEST(averages_become_the_weights)
{
    iso_optimizer averaging = iso_sgd(0.1, .use_ema = true, .ema_momentum = 0.5);
    trained plain = train_with(iso_sgd(0.1), false);
    trained newest = train_with(iso_sgd(0.1, .use_ema = true, .ema_momentum = ISO_ZERO), false);
    trained averaged = train_with(averaging, false), swapped = train_with(averaging, true);
    ck_assert_mem_eq(plain.kernel, newest.kernel, sizeof plain.kernel);
    ck_assert(plain.validation == plain.after && averaged.validation == plain.validation);
    ck_assert(averaged.after != averaged.validation && swapped.validation == averaged.after);
    ck_assert_mem_eq(averaged.kernel, swapped.kernel, sizeof averaged.kernel);
    iso_model *model = compiled();
    iso_dataset *data = arrays(targets, false, 16);
    check_refused(iso_fit(model, data, .swap_ema_weights = true, .verbose = ISO_ZERO),
                  "swap_ema_weights needs an optimizer with use_ema");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* The loss of an epoch weighs batches by their rows: with a learning rate of nearly 0 it is that of the
 * whole. */
START_TEST(epoch_loss_weighs_by_rows)
{
    iso_model *model = linear(1);
    iso_history *history = NULL;
    double loss;
    check_ok(
        iso_compile(model, .optimizer = iso_sgd(1e-300), .loss = ISO_LOSS_MSE, .distribution = distribution));
    iso_dataset *data = arrays(targets, false, 32);
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO, .history = &history));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    iso_logs logs = iso_history_logs(history, 0);
    check_near("loss", logs.value, &loss, 1, 1e-12);
    iso_history_destroy(history);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

START_TEST(sample_weights_count)
{
    iso_model *model = linear(1);
    double loss = 0, plain = 0, sum = 0, weighted = 0, got[3];
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MSE},
                         .weighted_metrics = {ISO_METRIC_MSE}, .sample_weights = true,
                         .distribution = distribution));
    for (int i = 0; i < ROWS; i++) {
        double off = prediction(model, i) - targets[i];
        loss += weights[i] * off * off / ROWS; /* Keras divides by rows, not by weights */
        plain += off * off / ROWS;
        weighted += weights[i] * off * off;
        sum += weights[i];
    }
    weighted /= sum;
    iso_dataset *data = arrays(targets, true, 16);
    check_ok(iso_evaluate(model, data, .loss = &got[0], .metrics = &got[1], .verbose = ISO_ZERO));
    check_near("loss", &got[0], &loss, 1, 1e-12);
    check_near("mse without weights", &got[1], &plain, 1, 1e-12);
    check_near("mse with weights", &got[2], &weighted, 1, 1e-12);
    ck_assert_str_eq(iso_model_value_name(model, 2), "weighted_mse");
    iso_dataset_destroy(data);
    /* Without weights each is 1, also in training. */
    data = arrays(targets, false, 16);
    check_ok(iso_evaluate(model, data, .loss = &got[0], .metrics = &got[1], .verbose = ISO_ZERO));
    for (int i = 0; i < 3; i++)
        check_near("a value without weights", &got[i], &plain, 1, 1e-12);
    iso_history *history = NULL;
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO, .history = &history));
    iso_logs logs = iso_history_logs(history, 0);
    ck_assert(isfinite(iso_logs_get(&logs, "loss")));
    check_near("the weighted metric of training", &(double){iso_logs_get(&logs, "weighted_mse")},
               &(double){iso_logs_get(&logs, "mse")}, 1, 0);
    iso_history_destroy(history);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* A model that is trained with these weights of classes on labels, from the same weights each time. */
static void train_by_class(iso_loss loss, const double *y, int64_t units, const double *of_rows,
                           double *kernel, double *loss_now)
{
    static const double of_classes[] = {3, 0};
    iso_model *model = linear(units);
    iso_dataset *data = linear_data(ctx, ROWS, y, of_rows ? of_rows : weights, 16);
    check_ok(iso_compile(model, .optimizer = iso_sgd(0.1), .loss = loss, .sample_weights = true,
                         .class_weights = of_rows ? NULL : of_classes, .n_class_weights = of_rows ? 0 : 2,
                         .distribution = distribution));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), kernel, FEATURES * units));
    iso_dataset_destroy(data);
    data = linear_data(ctx, ROWS, y, weights, 16);
    check_ok(iso_evaluate(model, data, .loss = loss_now, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}

/* They multiply the weights of rows, in training alone; class 2 has none. */
START_TEST(class_weights_count_in_training)
{
    static const struct {
        iso_loss loss;
        int64_t units;
    } cases[] = {{ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, 3}, {ISO_LOSS_MSE, 1}};
    double of_rows[ROWS], by_row[FEATURES * 3], by_class[FEATURES * 3], loss[2];
    for (int i = 0; i < ROWS; i++)
        of_rows[i] = weights[i] * (i % 3 == 0 ? 3 : i % 3 - 1);
    for (int k = 0; k < 2; k++) {
        train_by_class(cases[k].loss, labels, cases[k].units, of_rows, by_row, &loss[0]);
        train_by_class(cases[k].loss, labels, cases[k].units, NULL, by_class, &loss[1]);
        check_near("kernel", by_class, by_row, FEATURES * cases[k].units, 1e-12);
        check_near("loss of an evaluation", &loss[1], &loss[0], 1, 1e-12);
    }
    iso_model *model = linear(3);
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                                     .class_weights = (const double[]){1, 1, 1, 2}, .n_class_weights = 4),
                         "class 3", "0 to 2");
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                                     .class_weights = (const double[]){1, -2}, .n_class_weights = 2),
                         "class 1", "-2");
    iso_model_destroy(model);
    model = linear(1);
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_BINARY_CROSSENTROPY_LOGITS,
                                     .class_weights = (const double[]){1, 1, 2}, .n_class_weights = 3),
                         "class 2", "0 to 1");
    check_ok(iso_compile(model, .loss = ISO_LOSS_BINARY_CROSSENTROPY_LOGITS,
                         .class_weights = (const double[]){1, 2}, .n_class_weights = 2));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .class_weights = (const double[]){1, 1, 2},
                         .n_class_weights = 3));
    iso_model_destroy(model);
}
END_TEST

START_TEST(accuracy_follows_the_loss)
{
    iso_model *model = linear(3);
    iso_dataset *data = arrays(labels, false, 0); /* fit batches by 32 */
    iso_history *history = NULL;
    check_ok(iso_compile(model, .optimizer = iso_adam(0.05), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .metrics = {ISO_METRIC_ACCURACY}, .distribution = distribution));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO, .history = &history));
    ck_assert_int_eq(iso_dataset_batch_size(data), 32);
    iso_logs logs = iso_history_logs(history, 0);
    double accuracy = iso_logs_get(&logs, "accuracy") * ROWS;
    ck_assert(fabs(accuracy - round(accuracy)) < 1e-9 && accuracy > 0 && accuracy < ROWS);
    iso_history_destroy(history);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* Two epochs of two steps see the same batches as one of four. */
START_TEST(steps_per_epoch_goes_on_in_the_data)
{
    double kernel[2][FEATURES];
    for (int way = 0; way < 2; way++) {
        iso_model *model = compiled();
        iso_dataset *data = arrays(targets, false, 15); /* 4 batches an epoch */
        check_ok(
            iso_fit(model, data, .epochs = way ? 3 : 2, .steps_per_epoch = way ? 2 : 3, .verbose = ISO_ZERO));
        check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), kernel[way], FEATURES));
        iso_dataset_destroy(data);
        iso_model_destroy(model);
    }
    check_near("kernel", kernel[0], kernel[1], FEATURES, 0);
}
END_TEST

START_TEST(initial_epoch_goes_on)
{
    double kernel[2][FEATURES];
    for (int way = 0; way < 2; way++) {
        iso_model *model = compiled();
        iso_dataset *data = arrays(targets, false, 0);
        check_ok(iso_dataset_shuffle(data, 0));
        check_ok(iso_dataset_batch(data, 15));
        check_ok(iso_fit(model, data, .epochs = way ? 2 : 5, .verbose = ISO_ZERO));
        if (way)
            check_ok(iso_fit(model, data, .epochs = 5, .initial_epoch = 2, .verbose = ISO_ZERO));
        check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), kernel[way], FEATURES));
        iso_dataset_destroy(data);
        iso_model_destroy(model);
    }
    check_near("kernel", kernel[0], kernel[1], FEATURES, 0);
}
END_TEST

static iso_tensor *cubed_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    iso_tensor *off = iso_abs(iso_subtract(y_pred, iso_reshape_to(y_true, ISO_SHAPE(ISO_BATCH, 1))));
    return iso_multiply(off, iso_square(off));
}

START_TEST(ones_own_loss_and_metric)
{
    iso_model *model = linear(1);
    double expected = 0, got[2];
    check_ok(iso_compile(model, .loss_function = cubed_error, .target_dtype = ISO_F32,
                         .custom_metrics = {{"cubed", cubed_error}}, .distribution = distribution));
    for (int i = 0; i < ROWS; i++)
        expected += pow(fabs(prediction(model, i) - targets[i]), 3) / ROWS;
    iso_dataset *data = arrays(targets, false, 16);
    check_ok(iso_evaluate(model, data, .loss = &got[0], .metrics = &got[1], .verbose = ISO_ZERO));
    check_near("loss", &got[0], &expected, 1, 1e-12);
    check_near("metric", &got[1], &expected, 1, 1e-12);
    ck_assert_str_eq(iso_model_value_name(model, 1), "cubed");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(models_that_cannot_be_compiled)
{
    iso_model *model = linear(1);
    check_refused_naming(iso_compile(model, .label_smoothing = 0.1), "loss", "compile");
    check_refused_naming(iso_compile(model, .loss = (iso_loss)99), "99", "loss");
    iso_model_destroy(model);
    model = linear(0);
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE), "'d'", "units is 0");
    iso_model_destroy(model);
    model = linear(1);
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_adam(-1.0)),
                         "learning rate", "-1");
    iso_model_destroy(model);
}
END_TEST

START_TEST(data_that_does_not_fit)
{
    iso_model *model = compiled();
    iso_dataset *data = NULL;
    check_ok(iso_dataset_random(ctx, 20, &data, .shape = ISO_SHAPE(5), .targets = ISO_SHAPE(1)));
    check_refused_naming(iso_fit(model, data, .verbose = ISO_ZERO), "[5]", "[3]");
    iso_dataset_destroy(data);
    check_ok(iso_dataset_random(ctx, 20, &data, .shape = ISO_SHAPE(3), .targets = ISO_SHAPE(4)));
    check_refused_naming(iso_evaluate(model, data, .verbose = ISO_ZERO), "[4]", "[1]");
    iso_dataset_destroy(data);
    check_ok(iso_dataset_random(ctx, 20, &data, .shape = ISO_SHAPE(3), .no_targets = true));
    check_refused_naming(iso_fit(model, data, .verbose = ISO_ZERO), "no targets", "random");
    iso_dataset_destroy(data);
    data = arrays(targets, true, 8);
    check_refused_naming(iso_fit(model, data, .verbose = ISO_ZERO), "1 sample weight;", "sample_weights");
    iso_dataset_destroy(data);
    data = arrays(targets, false, 8);
    check_refused_naming(iso_fit(model, data, .epochs = -2, .verbose = ISO_ZERO), "epochs", "-2");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    model = linear(1);
    data = arrays(targets, false, 8);
    check_refused_naming(iso_fit(model, data, .verbose = ISO_ZERO), "not compiled", "fit");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

START_TEST(a_label_outside_the_classes)
{
    iso_model *model = linear(3);
    double before[FEATURES * 3], after[FEATURES * 3];
    check_ok(iso_compile(model, .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS, .distribution = distribution));
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), before, FEATURES * 3));
    labels[3] = 7;
    iso_dataset *data = arrays(labels, false, 16);
    labels[3] = 0;
    check_refused_naming(iso_fit(model, data, .verbose = ISO_ZERO), "7", "3");
    check_ok(iso_variable_read(iso_model_variable(model, "d/kernel"), after, FEATURES * 3));
    check_near("kernel after the refused step", after, before, FEATURES * 3, 0);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

START_TEST(ranks_that_want_different_things)
{
    int rank = iso_rank(ctx);
    if (iso_ranks(ctx) == 1)
        return;
    iso_model *model = linear(1);
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_sgd(0.1 + rank),
                                     .distribution = distribution),
                         "rank", "compiled");
    iso_model_destroy(model);
    model = linear(rank == 1 ? 2 : 1);
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = distribution), "rank",
                         "compiled");
    iso_model_destroy(model);
    model = compiled();
    iso_dataset *data = arrays(targets, false, 16);
    check_refused_naming(iso_fit(model, data, .epochs = 1 + rank, .verbose = ISO_ZERO), "2 epochs", "fit");
    check_refused_naming(iso_fit(model, rank == 1 ? NULL : data, .verbose = ISO_ZERO), "rank 1", "NULL");
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* A map that fails on the last rank alone, at row 40. */
static iso_status failing_map(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    if (in->index == 40 && iso_rank(ctx) == iso_ranks(ctx) - 1)
        return iso_error(ISO_IO, "row 40 cannot be read");
    memcpy(out[0], in->data[0], FEATURES * sizeof(double));
    memcpy(out[1], in->data[1], sizeof(double));
    return ISO_OK;
}

START_TEST(data_that_fails_on_one_rank)
{
    iso_model *model = compiled();
    iso_dataset *data = arrays(targets, false, 0);
    check_ok(iso_dataset_map(data, failing_map));
    check_ok(iso_dataset_batch(data, 10));
    iso_status status = iso_fit(model, data, .verbose = ISO_ZERO);
    /* The last rank may have no slot that needs row 40: then nobody fails. */
    if (status != ISO_OK)
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "row 40 cannot be read"));
    else
        ck_assert_int_gt(iso_ranks(ctx), 1);
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* An error of a stage stays in the data set and comes when it is read: here on the last rank alone. */
START_TEST(a_data_set_that_is_broken_on_one_rank)
{
    iso_model *model = compiled();
    iso_dataset *data = arrays(targets, false, 10), *good = arrays(targets, false, 10);
    check_ok(
        iso_fit(model, good, .verbose = ISO_ZERO)); /* so that the next steps agree on nothing any more */
    check_ok(iso_evaluate(model, good, .verbose = ISO_ZERO));
    iso_dataset_destroy(good);
    if (iso_rank(ctx) == iso_ranks(ctx) - 1)
        ck_assert_int_eq(iso_dataset_shuffle(data, -5), ISO_INVALID);
    check_refused_naming(iso_fit(model, data, .verbose = ISO_ZERO), "-5", "shuffle");
    check_refused_naming(iso_evaluate(model, data, .verbose = ISO_ZERO), "-5", "shuffle");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = data_parallel_begin("data=4", &ctx, &mesh, &distribution);
    make_numbers();
    if (status == ISO_OK)
        failed = RUN_TESTS("fit", 0, evaluation_is_exact_for_any_batch, fit_learns_and_remembers,
                           averages_become_the_weights, epoch_loss_weighs_by_rows, sample_weights_count,
                           class_weights_count_in_training, accuracy_follows_the_loss,
                           steps_per_epoch_goes_on_in_the_data, initial_epoch_goes_on,
                           ones_own_loss_and_metric, models_that_cannot_be_compiled, data_that_does_not_fit,
                           a_label_outside_the_classes, ranks_that_want_different_things,
                           data_that_fails_on_one_rank, a_data_set_that_is_broken_on_one_rank);
    return data_parallel_end(ctx, mesh, distribution, status) || failed;
}
