/* Counts, ranks, numbers of enums, names and functions that are out of range are refused with the value; the
 * program goes on. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static iso_graph *graph;
static iso_tensor *x, *y;
static iso_model *model;
static const iso_shape rank_99 = {99, {1}};

static void set_up(void)
{
    graph = iso_graph_create(ctx);
    x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4));
    y = iso_dense(x, 1);
    model = NULL;
}

static void tear_down(void)
{
    if (model)
        iso_model_destroy(model);
    else
        iso_graph_destroy(graph);
}

static void with_model(void)
{
    model = iso_model_create(graph, x, y);
}

static bool last_rank(void)
{
    return iso_rank(ctx) == iso_ranks(ctx) - 1;
}

static iso_dataset *rows(void)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_random(ctx, 16, &data, .shape = ISO_SHAPE(4), .targets = ISO_SHAPE(1)));
    check_ok(iso_dataset_batch(data, 8));
    return data;
}

/* ---- graphs ---- */

START_TEST(sources_of_gradients)
{
    iso_graph *other = iso_graph_create(ctx), *third = iso_graph_create(ctx);
    iso_tensor *a = iso_input(other, "a", ISO_F32, ISO_SHAPE(4)),
               *b = iso_input(third, "b", ISO_F32, ISO_SHAPE(4));
    iso_tensor *of[2] = {x, NULL}, *gradients[2] = {x, x};
    iso_gradients(iso_mean(y), of, 2, gradients);
    check_refused(iso_graph_error(graph), "of[1] is NULL");
    ck_assert(!gradients[0] && !gradients[1]);
    of[0] = a;
    iso_gradients(iso_mean(a), of, -1, gradients);
    check_refused(iso_graph_error(other), "count is -1");
    of[0] = a;
    iso_gradients(iso_mean(b), of, 1, gradients);
    check_refused(iso_graph_error(third), "of[0] belongs to another graph");
    iso_graph_destroy(other);
    iso_graph_destroy(third);
}
END_TEST

START_TEST(concatenated_inputs)
{
    iso_tensor *inputs[] = {x, x}, *first_missing[] = {NULL, x};
    for (int count = -1; count <= 0; count++) {
        ck_assert_ptr_null(iso_concat(inputs, count, 1));
        ck_assert_ptr_nonnull(strstr(iso_error_message(), count ? "concat: -1 inputs" : "concat: 0 inputs"));
    }
    check_ok(iso_graph_error(graph));
    iso_concat(first_missing, 2, 1);
    check_refused(iso_graph_error(graph), "x[0] is NULL");
}
END_TEST

START_TEST(reduced_axes)
{
    iso_reduce_sum(x, (int[]){1}, -2, false);
    check_refused(iso_graph_error(graph), "-2 axes");
}
END_TEST

START_TEST(ranks_of_shapes)
{
    int64_t count;
    char text[40];
    iso_box box = iso_box_whole(&rank_99);
    ck_assert_int_eq(iso_box_count(&box), 0);
    check_refused(iso_shape_count(&rank_99, &count), "rank 99");
    check_refused(iso_shape_count(&(iso_shape){-1, {0}}, &count), "rank -1");
    ck_assert_str_eq(iso_shape_text(&rank_99, text, sizeof text), "[rank 99]");
    ck_assert(!iso_shape_equal(&rank_99, &rank_99));
    iso_variable_create(graph, "v", ISO_F32, rank_99, (iso_initializer){0}, true);
    check_refused_naming(iso_graph_error(graph), "'v'", "a shape of rank 99, 0 to 8 are possible");
    iso_graph *other = iso_graph_create(ctx);
    iso_constant(other, ISO_F32, (iso_shape){ISO_MAX_RANK + 1, {1}}, (double[]){1});
    check_refused(iso_graph_error(other), "constant: a shape of rank 9,");
    iso_graph_destroy(other);
}
END_TEST

START_TEST(parts_of_a_cut)
{
    const int64_t bad[][3] = {{5, 0, 0}, {5, -1, 0}, {5, 2, -1}, {-5, 2, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t begin = 7, count = 7;
        iso_part_range(bad[i][0], bad[i][1], bad[i][2], &begin, &count);
        ck_assert(begin == 0 && count == 0);
    }
}
END_TEST

/* ---- batches ---- */

START_TEST(a_batch_without_read)
{
    iso_function *function;
    iso_batch batch = {.rows = 4, .n_components = 1, .shape = {ISO_SHAPE(4)}, .dtype = {ISO_F32}};
    double mean;
    check_ok(iso_function_create(graph, &function, .inputs = {x}, .outputs = {iso_mean(y)}));
    check_refused(iso_function_run(function, &batch, &mean), "`read` is NULL");
    check_refused(iso_function_call(function, .batch = &batch), "`read` is NULL");
    iso_function_destroy(function);
}
END_TEST

/* ---- compiling ---- */

static iso_tensor *no_values(iso_tensor *y_true, iso_tensor *y_pred)
{
    (void)y_true, (void)y_pred;
    return NULL;
}

static iso_tensor *other_values(iso_tensor *y_true, iso_tensor *y_pred)
{
    (void)y_true, (void)y_pred;
    static iso_graph *other;
    if (!other)
        other = iso_graph_create(ctx);
    return iso_input(other, "q", ISO_F32, ISO_SHAPE(1));
}

static iso_tensor *mean_error(iso_tensor *y_true, iso_tensor *y_pred)
{
    return iso_mean(iso_abs(iso_subtract(y_true, y_pred)));
}

static iso_tensor *errors_of_columns(iso_tensor *y_true, iso_tensor *y_pred)
{
    return iso_reduce_mean(iso_abs(iso_subtract(y_true, y_pred)), (int[]){0}, 1, false);
}

static char *long_name(size_t length)
{
    static char name[400];
    memset(name, 'a', length);
    name[length] = 0;
    return name;
}

START_TEST(metrics_of_compile)
{
    with_model();
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {(iso_metric)99}), ".metrics[0]",
                         "is 99");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MAE, ISO_METRIC_COUNT}),
                  ".metrics[1]");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {(iso_metric)-1}), "is -1");
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .sample_weights = true,
                                     .weighted_metrics = {(iso_metric)50}),
                         ".weighted_metrics[0]", "is 50");
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .custom_metrics = {{"a", NULL}}), "'a'",
                         "no function");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE, .custom_metrics = {{"a", no_values}}),
                  "custom metric a returned NULL");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE, .custom_metrics = {{"a", other_values}}),
                  "custom metric a returned a tensor of another graph");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE, .position_weights = true),
                  ".position_weights need .sample_weights");
    check_refused(iso_compile(model, .loss_function = other_values), "a tensor of another graph");
    check_refused(iso_compile(model, .loss_function = mean_error),
                  "the loss function returned a tensor of shape [], not a value for each row");
    check_refused_naming(
        iso_compile(model, .loss = ISO_LOSS_MSE, .custom_metrics = {{"columns", errors_of_columns}}),
        "the custom metric columns returned a tensor of shape [", "], not a value for each row");
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .custom_metrics = {{"m", mean_error}}),
                         "the custom metric m", "shape []");
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
}
END_TEST

/* Each names the metric, the setting and its value. The model has one output. */
START_TEST(settings_of_metrics)
{
    static const struct {
        iso_metric metric;
        iso_metric_settings settings;
        const char *says;
    } cases[] = {
        {ISO_METRIC_AUC, {.num_thresholds = 1}, "the metric auc: num_thresholds is 1"},
        {ISO_METRIC_AUC, {.num_thresholds = -3}, "the metric auc: num_thresholds is -3"},
        {ISO_METRIC_RECALL_AT_PRECISION, {.value = 1.5}, "recall_at_precision: its precision is 1.5"},
        {ISO_METRIC_PRECISION_AT_RECALL, {0}, "precision_at_recall: its recall is 0; it must be given"},
        {ISO_METRIC_PRECISION, {.threshold = 2}, "precision: the threshold is 2"},
        {ISO_METRIC_PRECISION, {.class_id = 1}, "precision: class_id is 1, the predictions have 1 classes"},
        {ISO_METRIC_RECALL, {.top_k = -1}, "recall: top_k is -1"},
        {ISO_METRIC_TRUE_POSITIVES, {.threshold = -0.5}, "true_positives: the threshold is -0.5"},
        {ISO_METRIC_MEAN_IOU, {0}, "mean_iou: num_classes is 0"},
        {ISO_METRIC_IOU, {.num_classes = 3}, "iou: there are no target classes"},
        {ISO_METRIC_IOU, {.num_classes = 3, .target_classes = 1 << 3}, "iou: num_classes is 3"},
        {ISO_METRIC_BINARY_IOU,
         {.target_classes = 4},
         "binary_iou: its target classes must be 0, 1, or both"},
        {ISO_METRIC_F1_SCORE, {.threshold = 1.5}, "f1_score: the threshold is 1.5"},
        {ISO_METRIC_FBETA_SCORE, {.beta = -1}, "fbeta_score: beta is -1"},
        {ISO_METRIC_R2_SCORE, {.num_regressors = -1}, "r2_score: num_regressors is -1"},
    };
    with_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_compile_options compile = {.loss = ISO_LOSS_MSE, .metrics = {cases[i].metric}};
        compile.metric_settings[0] = cases[i].settings;
        check_refused(iso_compile_with(model, &compile, sizeof compile), cases[i].says);
    }
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_AUC}));
    ck_assert(isnan(iso_metric_result(ISO_METRIC_MSE, NULL, (const double[]){1, 2}, 2, 3)));
}
END_TEST

START_TEST(long_names)
{
    with_model();
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE,
                                     .custom_metrics = {{long_name(399), iso_mean_absolute_error}}),
                         "399 characters", "at most 127");
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MAE},
                                     .metric_names = {long_name(128)}),
                         "128 characters", "at most 127");
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MAE},
                         .metric_names = {long_name(127)}));
    ck_assert_uint_eq(strlen(iso_model_value_name(model, 1)), 127);
}
END_TEST

START_TEST(a_long_output_name)
{
    with_model();
    iso_model_set_output_name(model, 0, long_name(200));
    check_refused_naming(iso_compile(model, .loss = ISO_LOSS_MSE), "output 0 has 200", "at most 127");
}
END_TEST

/* ---- schedules ---- */

static iso_status compile_with(iso_schedule schedule)
{
    return iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_sgd(.schedule = schedule));
}

START_TEST(schedules)
{
    with_model();
    check_refused(compile_with((iso_schedule){.kind = (iso_schedule_kind)44}), "kind 44");
    check_refused(compile_with(iso_piecewise_constant(-4, NULL, NULL)), "-4 boundaries");
    check_refused(compile_with(iso_cosine_decay(0.1, 10, .warmup_target = -2)), "warmup_target is -2");
    check_refused(compile_with(iso_cosine_decay(0.1, ISO_ZERO)), "decay_steps is 0");
    check_ok(compile_with(iso_exponential_decay(ISO_ZERO, 10, 0.9)));
}
END_TEST

/* ISO_ZERO is the number zero in every option. */
START_TEST(zeros)
{
    iso_optimizer cosine =
        iso_sgd(.schedule = iso_cosine_decay(0.1, 10, .warmup_target = ISO_ZERO, .warmup_steps = ISO_ZERO));
    iso_optimizer plain = iso_sgd(.schedule = iso_cosine_decay(0.1, 10));
    iso_optimizer zero = iso_sgd(.schedule = iso_exponential_decay(ISO_ZERO, 10, 0.9));
    iso_optimizer clip = iso_adam(.clip_norm = ISO_ZERO, .global_clip_norm = ISO_ZERO, .clip_value = ISO_ZERO,
                                  .accumulation = ISO_ZERO);
    for (int i = 0; i < 12; i++) {
        ck_assert_double_eq(iso_schedule_rate(&cosine, i, 1), iso_schedule_rate(&plain, i, 1));
        ck_assert_double_eq(iso_schedule_rate(&zero, i, 1), 0);
    }
    check_ok(iso_optimizer_check(&cosine));
    check_ok(iso_optimizer_check(&zero));
    check_ok(iso_optimizer_check(&clip));
    ck_assert_int_eq(clip.accumulation, 0);
}
END_TEST

/* ---- callbacks and data ---- */

static int destroyed;

static void count_destroyed(void *user)
{
    (void)user;
    destroyed++;
}

START_TEST(a_callback_twice)
{
    with_model();
    iso_dataset *data = rows();
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    iso_callback *twice = iso_callback_create(.destroy = count_destroyed),
                 *once = iso_callback_create(.destroy = count_destroyed);
    iso_callback *list[] = {twice, once, last_rank() ? twice : NULL, NULL};
    destroyed = 0;
    check_refused(iso_fit(model, data, .callbacks = list, .verbose = ISO_ZERO), "callbacks 0 and 2");
    ck_assert_int_eq(destroyed, 2);
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}
END_TEST

START_TEST(not_a_number)
{
    iso_dataset *data = NULL;
    float values[4 * 2] = {0, 0, 0, -NAN, 0, 0, 0, 0};
    check_ok(iso_dataset_arrays(ctx, &data, .x = {values, ISO_F32, ISO_SHAPE(4, 2)}));
    check_ok(iso_dataset_batch(data, 2));
    check_refused(iso_dataset_check(data), "row 1, element [1]: nan");
    iso_dataset_destroy(data);
}
END_TEST

/* Labels of 0 and 1, as a binary cross-entropy has them. */
START_TEST(not_from_0_to_1)
{
    static const float wrong[] = {2, -100, -0.5f};
    for (int i = 0; i < 3; i++) {
        iso_dataset *data = NULL;
        float values[4 * 2] = {0, 1, 0.5f, 0, 1, 0, 0, 1};
        check_ok(iso_dataset_arrays(ctx, &data, .x = {values, ISO_F32, ISO_SHAPE(4, 2)}));
        check_ok(iso_dataset_batch(data, 2));
        check_ok(iso_dataset_check(data, .fraction = {true}));
        iso_dataset_destroy(data);
        values[5] = wrong[i];
        check_ok(iso_dataset_arrays(ctx, &data, .x = {values, ISO_F32, ISO_SHAPE(4, 2)}));
        check_ok(iso_dataset_batch(data, 2));
        check_ok(iso_dataset_check(data));
        check_refused(iso_dataset_check(data, .fraction = {true}), "row 2, element [1]: ");
        check_refused(iso_dataset_check(data, .fraction = {true}), " is not from 0 to 1");
        iso_dataset_destroy(data);
    }
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH("bad values", 0, set_up, tear_down, sources_of_gradients, concatenated_inputs,
                                reduced_axes, ranks_of_shapes, parts_of_a_cut, a_batch_without_read,
                                metrics_of_compile, settings_of_metrics, long_names, a_long_output_name,
                                schedules, zeros, a_callback_twice, not_a_number, not_from_0_to_1);
    return iso_finish(ctx, status) || failed;
}
