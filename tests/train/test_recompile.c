/* Models that are compiled again: layers frozen and trained again, another optimizer, loss and metrics,
 * against Keras, on any mesh, with the same bits wherever the slots live; checkpoints; compiling that fails
 * leaves the model as it was; what it needs of memory. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "runtime/train/compile.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

enum { ROWS = 20, BATCH = 8, EPOCHS = 2, WIDTH = 6, OUTPUTS = 3, MOST = 64, VARIABLES = 10 };

static iso_context *ctx;
static oracle *file;

/* ---- the network of make_recompile.py ---- */

static iso_model *build(iso_dtype precision)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, precision);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_tensor *h = iso_dense(x, 8, .activation = ISO_RELU, .kernel_l2 = 0.01, .name = "d1");
    h = iso_dense(iso_batch_norm(h, .name = "bn"), 5, .activation = ISO_TANH, .kernel_l2 = 0.01,
                  .name = "d2");
    return iso_model_create(graph, x, iso_dense(h, OUTPUTS, .name = "d3"));
}

/* Variable v's path of a case. */
static const char *path_of(const char *name, int v)
{
    static char path[64];
    const char *at = oracle_text(file, name, "variables");
    for (; v > 0 && at; v--)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    if (!at)
        return NULL;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, ","), at);
    return path;
}

static void set_weights(iso_model *model, const char *name)
{
    for (int v = 0; path_of(name, v); v++) {
        iso_shape shape;
        char dataset[16];
        snprintf(dataset, sizeof dataset, "v%d", v);
        const double *values = oracle_data(file, name, dataset, &shape);
        check_ok(iso_variable_assign(iso_model_variable(model, path_of(name, v)), values,
                                     oracle_elements(&shape)));
    }
}

static iso_dataset *data_of(const char *name)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_arrays(
        ctx, &data, .x = {oracle_data(file, name, "x", NULL), ISO_F64, ISO_SHAPE(ROWS, WIDTH)},
        .y = {oracle_data(file, name, "y", NULL), ISO_F64, ISO_SHAPE(ROWS, OUTPUTS)}));
    check_ok(iso_dataset_batch(data, BATCH));
    return data;
}

/* ---- cases ---- */

static iso_optimizer optimizer_of(const char *name, int phase)
{
    if (!strcmp(name, "other_rule"))
        return phase ? iso_adam(0.01) : iso_sgd(0.05, .momentum = 0.9);
    if (!strcmp(name, "freeze"))
        return iso_adam(phase ? 0.02 : 0.01);
    if (!strcmp(name, "new_slot"))
        return iso_adam(0.01, .amsgrad = phase == 1);
    if (!strcmp(name, "schedule"))
        return phase ? iso_sgd(.schedule = iso_exponential_decay(0.1, 3, 0.5), .momentum = 0.9)
                     : iso_sgd(0.1, .momentum = 0.8);
    ck_assert(!strcmp(name, "same_rule") || !strcmp(name, "reset"));
    return iso_adam(phase ? 0.003 : 0.01);
}

static void freeze(iso_model *model, const char *name, int phase)
{
    static const char *const layers[] = {"d1", "bn", "d2", "d3"};
    const char *frozen = oracle_text(file, name, phase ? "frozen1" : "frozen0");
    for (int i = 0; i < 4; i++)
        check_ok(iso_model_set_trainable(model, layers[i], !strstr(frozen, layers[i])));
}

static iso_status compile_phase(iso_model *model, const char *name, int phase, iso_distribution *distribution)
{
    freeze(model, name, phase);
    return iso_compile(model, .optimizer = optimizer_of(name, phase),
                       .loss = phase ? ISO_LOSS_MAE : ISO_LOSS_MSE,
                       .metrics = {phase ? ISO_METRIC_MSE : ISO_METRIC_MAE}, .distribution = distribution,
                       .reset_optimizer = phase && !strcmp(name, "reset"));
}

typedef struct result {
    double logs[2][EPOCHS * 2];
    double weights[2][VARIABLES][MOST];
    iso_fingerprint print;
} result;

static void read_weights(iso_model *model, const char *name, double weights[VARIABLES][MOST])
{
    for (int v = 0; path_of(name, v); v++) {
        int64_t count = 0;
        iso_variable *variable = iso_model_variable(model, path_of(name, v));
        check_ok(iso_shape_count(iso_variable_shape(variable), &count));
        ck_assert_int_le(count, MOST);
        check_ok(iso_variable_read(variable, weights[v], count));
    }
}

static void fit_phase(iso_model *model, iso_dataset *data, double *logs)
{
    iso_history *history = NULL;
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .history = &history, .verbose = ISO_ZERO));
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < 2; i++) {
            iso_logs epoch = iso_history_logs(history, e);
            logs[2 * e + i] = iso_logs_get(&epoch, iso_model_value_name(model, i));
        }
    iso_history_destroy(history);
}

static iso_distribution *distribute(const char *spec, const int *ranks, iso_mesh **mesh, iso_layout_map **map)
{
    iso_distribution *distribution = NULL;
    check_ok(ranks ? iso_mesh_create_on(ctx, spec, ranks, 8, mesh) : iso_mesh_create(ctx, spec, mesh));
    if (!strstr(spec, "model")) {
        check_ok(iso_data_parallel_create(*mesh, &distribution));
        return distribution;
    }
    check_ok(iso_layout_map_create(*mesh, map));
    check_ok(iso_layout_map_set(*map, "d1/kernel", "-, model"));
    check_ok(iso_layout_map_set(*map, "d1/output", "data, model"));
    check_ok(iso_layout_map_set(*map, "d2/kernel", "model, -"));
    check_ok(iso_layout_map_set(*map, "d3/kernel", "-, model"));
    check_ok(iso_model_parallel_create(*map, &distribution));
    return distribution;
}

static void run_case(const char *name, iso_dtype precision, const char *spec, const int *ranks, result *r)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = distribute(spec, ranks, &mesh, &map);
    iso_model *model = build(precision);
    iso_dataset *data = data_of(name);
    memset(r, 0, sizeof *r);
    check_ok(compile_phase(model, name, 0, distribution));
    set_weights(model, name);
    for (int phase = 0; phase < 2; phase++) {
        if (phase)
            check_ok(compile_phase(model, name, phase, NULL));
        fit_phase(model, data, r->logs[phase]);
        read_weights(model, name, r->weights[phase]);
    }
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &r->print));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

static void compare(const char *name, const char *spec, result *r, double tolerance)
{
    char what[128], dataset[16];
    iso_shape shape;
    for (int phase = 0; phase < 2; phase++) {
        snprintf(dataset, sizeof dataset, "logs%d", phase);
        snprintf(what, sizeof what, "%s on %s: %s", name, spec, dataset);
        check_near(what, r->logs[phase], oracle_data(file, name, dataset, NULL), 2 * EPOCHS, tolerance);
        for (int v = 0; path_of(name, v); v++) {
            snprintf(dataset, sizeof dataset, "w%d_%d", phase, v);
            snprintf(what, sizeof what, "%s on %s: %s of phase %d", name, spec, path_of(name, v), phase);
            const double *expected = oracle_data(file, name, dataset, &shape);
            check_near(what, r->weights[phase][v], expected, oracle_elements(&shape), tolerance);
        }
    }
}

START_TEST(trains_on_as_keras)
{
    static const char *const specs[] = {"data=8", "data=2,model=4"};
    static result r;
    for (int c = 0; c < oracle_cases(file); c++)
        for (int s = 0; s < 2; s++) {
            run_case(oracle_case(file, c), ISO_F64, specs[s], NULL, &r);
            compare(oracle_case(file, c), specs[s], &r, 1e-9);
        }
    run_case("same_rule", ISO_F32, "data=8", NULL, &r);
    compare("same_rule", "data=8 in float32", &r, 2e-5);
}
END_TEST

START_TEST(placements_give_the_same_bits)
{
    static const char *const specs[] = {"data=8", "data=2,model=4"};
    static const int on_one[8] = {0};
    static result spread, together;
    for (int s = 0; s < 2; s++) {
        run_case("same_rule", ISO_F32, specs[s], NULL, &spread);
        run_case("same_rule", ISO_F32, specs[s], on_one, &together);
        ck_assert_msg(memcmp(&spread, &together, sizeof spread) == 0, "other bits on %s", specs[s]);
    }
}
END_TEST

/* ---- a model that is trained in phases ---- */

static iso_status compile_with(iso_model *model, iso_optimizer optimizer, iso_loss loss)
{
    return iso_compile(model, .optimizer = optimizer, .loss = loss);
}

static iso_model *begin_frozen(iso_dataset **data)
{
    iso_model *model = build(ISO_F32);
    *data = data_of("same_rule");
    check_ok(iso_model_set_trainable(model, "d1", false));
    check_ok(compile_with(model, iso_adam(0.01), ISO_LOSS_MSE));
    check_ok(iso_fit(model, *data, .epochs = 1, .verbose = ISO_ZERO));
    return model;
}

static iso_fingerprint print_of(iso_model *model)
{
    iso_fingerprint print;
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &print));
    return print;
}

static void end(iso_model *model, iso_dataset *data)
{
    iso_model_destroy(model);
    iso_dataset_destroy(data);
}

static void fit_more(iso_model *model, iso_dataset *data)
{
    check_ok(iso_fit(model, data, .epochs = 2, .verbose = ISO_ZERO));
}

static iso_status to_no_loss(iso_model *model)
{
    return iso_compile(model, .optimizer = iso_sgd(0.1));
}
static iso_status to_unknown_loss(iso_model *model)
{
    return compile_with(model, iso_adam(0.1), (iso_loss)99);
}
static iso_status to_bad_rate(iso_model *model)
{
    return compile_with(model, iso_adam(-1), ISO_LOSS_MSE);
}
static iso_tensor *null_loss(iso_tensor *y_true, iso_tensor *y_pred)
{
    iso_tensor_set_name(y_pred, "spoilt");
    iso_dense(iso_subtract(y_true, y_pred), 4, .name = "within_the_loss");
    return NULL;
}
static iso_status to_null_loss(iso_model *model)
{
    return iso_compile(model, .loss_function = null_loss);
}
static iso_status to_two_clips(iso_model *model)
{
    return compile_with(model, iso_sgd(0.1, .clip_norm = 1, .clip_value = 1), ISO_LOSS_MSE);
}
static iso_status to_one_rank(iso_model *model)
{
    return compile_with(model, iso_adam(0.1), iso_rank(ctx) == iso_ranks(ctx) - 1 ? 99 : ISO_LOSS_MSE);
}
static iso_status to_bad_targets(iso_model *model)
{
    return iso_compile(model, .loss = ISO_LOSS_MSE, .target_dtype = ISO_F32, .target_shape = ISO_SHAPE(7));
}
static iso_status to_another_mesh(iso_model *model)
{
    iso_mesh *mesh = NULL;
    iso_distribution *distribution = NULL;
    check_ok(iso_mesh_create(ctx, "other=8", &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_status status = iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = distribution);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return status;
}

static const struct {
    iso_status (*compile)(iso_model *model);
    const char *message;
} wrong[] = {{to_no_loss, "needs a loss"},      {to_unknown_loss, "99"},
             {to_bad_rate, "learning rate -1"}, {to_null_loss, "NULL"},
             {to_two_clips, "only one"},        {to_one_rank, "99"},
             {to_bad_targets, "[batch, 7]"},    {to_another_mesh, "keeps its distribution"}};
enum { WRONG = sizeof wrong / sizeof *wrong };

/* Training, evaluating and what follows go on as if it had not been tried. */
START_TEST(a_failed_compile_leaves_the_model_as_it_was)
{
    iso_dataset *data;
    double loss, again;
    iso_model *model = begin_frozen(&data);
    fit_more(model, data);
    iso_fingerprint expected = print_of(model);
    end(model, data);
    model = begin_frozen(&data);
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    int variables = iso_graph_variable_count(iso_model_graph(model));
    int layers = iso_graph_layer_count(iso_model_graph(model));
    for (int i = 0; i < WRONG; i++) {
        check_refused(wrong[i].compile(model), wrong[i].message);
        ck_assert_int_eq(iso_graph_variable_count(iso_model_graph(model)), variables);
        ck_assert_int_eq(iso_graph_layer_count(iso_model_graph(model)), layers);
        ck_assert_str_eq(iso_model_optimizer(model)->rule, "adam");
        check_ok(iso_evaluate(model, data, .loss = &again, .verbose = ISO_ZERO));
        ck_assert(again == loss);
    }
    fit_more(model, data);
    iso_fingerprint print = print_of(model);
    ck_assert_mem_eq(&print, &expected, sizeof print);
    end(model, data);
}
END_TEST

/* The same of a model that is not compiled yet, and one that has predicted. */
START_TEST(a_failed_first_compile_may_be_followed_by_another)
{
    static float y[ROWS * OUTPUTS];
    iso_dataset *data;
    iso_model *model = begin_frozen(&data);
    iso_fingerprint expected = print_of(model);
    end(model, data);
    for (int predicted = 0; predicted < 2; predicted++) {
        model = build(ISO_F32);
        data = data_of("same_rule");
        if (predicted)
            check_ok(iso_predict(model, data, .outputs = {y}, .verbose = ISO_ZERO));
        for (int i = 0; i < WRONG - 1; i++)
            check_refused(wrong[i].compile(model), wrong[i].message);
        check_refused(iso_fit(model, data, .verbose = ISO_ZERO), "not compiled");
        check_ok(iso_model_set_trainable(model, "d1", false));
        check_ok(compile_with(model, iso_adam(0.01), ISO_LOSS_MSE));
        check_ok(iso_fit(model, data, .epochs = 1, .verbose = ISO_ZERO));
        iso_fingerprint print = print_of(model);
        ck_assert_mem_eq(&print, &expected, sizeof print);
        end(model, data);
    }
}
END_TEST

/* A layout that does not fit shows when functions are made: then another distribution may be given. */
START_TEST(another_distribution_after_a_failed_first_compile)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *bad = NULL, *good = NULL;
    check_ok(iso_mesh_create(ctx, "data=8", &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    check_ok(iso_layout_map_set(map, "d1/kernel", "data"));
    check_ok(iso_model_parallel_create(map, &bad));
    check_ok(iso_data_parallel_create(mesh, &good));
    iso_model *model = build(ISO_F32);
    iso_dataset *data = data_of("same_rule");
    check_refused(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = bad), "d1/kernel");
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .distribution = good));
    fit_more(model, data);
    end(model, data);
    iso_distribution_destroy(bad);
    iso_distribution_destroy(good);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}
END_TEST

/* ---- checkpoints ---- */

static void unfreeze(iso_model *model)
{
    check_ok(iso_model_set_trainable(model, "d1", true));
    check_ok(compile_with(model, iso_adam(0.02), ISO_LOSS_MAE));
}

/* Saved behind the second compile, and read by a model that was compiled so at once, and by one that has gone
 * through both. */
START_TEST(a_checkpoint_behind_it_is_gone_on_from)
{
    char folder[64], save[128], from[128];
    iso_dataset *data;
    check_ok(make_test_folder(ctx, folder));
    snprintf(save, sizeof save, "%s/c-{epoch}.weights.h5", folder);
    snprintf(from, sizeof from, "%s/c-1.weights.h5", folder);
    iso_model *model = begin_frozen(&data);
    unfreeze(model);
    iso_callback *list[] = {iso_model_checkpoint(save, .stop_on_error = true), NULL};
    check_ok(iso_fit(model, data, .epochs = 3, .callbacks = list, .verbose = ISO_ZERO));
    iso_fingerprint expected = print_of(model);
    end(model, data);
    for (int both = 0; both < 2; both++) {
        model = both ? begin_frozen(&data) : build(ISO_F32);
        if (!both)
            data = data_of("same_rule");
        unfreeze(model);
        check_ok(iso_fit(model, data, .epochs = 3, .resume = from, .verbose = ISO_ZERO));
        iso_fingerprint print = print_of(model);
        ck_assert_mem_eq(&print, &expected, sizeof print);
        end(model, data);
    }
    check_ok(remove_test_folder(ctx, folder));
}
END_TEST

/* ---- nothing that can be trained ---- */

/* Frozen weights have the loss that they have in a trained model, less regularisation; training is refused
 * until a layer is trained again. */
START_TEST(a_frozen_model_is_evaluated)
{
    const iso_optimizer rules[] = {iso_adam(0.01), iso_nadam(0.01, .global_clip_norm = 1, .accumulation = 2)};
    double error, loss;
    for (int i = 0; i < 2; i++) {
        static float y[ROWS * OUTPUTS], frozen_y[ROWS * OUTPUTS];
        iso_dataset *data;
        iso_model *model = begin_frozen(&data);
        check_ok(
            iso_compile(model, .optimizer = rules[i], .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MSE}));
        check_ok(iso_evaluate(model, data, .metrics = &error, .verbose = ISO_ZERO));
        check_ok(iso_predict(model, data, .outputs = {y}, .verbose = ISO_ZERO));
        check_ok(iso_model_set_trainable(model, NULL, false));
        check_ok(compile_with(model, rules[i], ISO_LOSS_MSE));
        check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
        check_ok(iso_predict(model, data, .outputs = {frozen_y}, .verbose = ISO_ZERO));
        ck_assert_double_eq_tol(loss, error, 1e-6 * error);
        ck_assert_mem_eq(y, frozen_y, sizeof y);
        check_refused(iso_fit(model, data, .verbose = ISO_ZERO), "no variable that its loss depends on");
        unfreeze(model);
        fit_more(model, data);
        end(model, data);
    }
}
END_TEST

/* Compiled for evaluation only, again for training, and with an error in between, which changes nothing. */
START_TEST(compiled_for_evaluation_only)
{
    double before, loss;
    iso_dataset *data;
    iso_model *model = begin_frozen(&data);
    iso_compile_options options = {.optimizer = iso_sgd(0.01), .loss = ISO_LOSS_MSE}, other = options;
    other.loss = (iso_loss)99;
    check_ok(iso_evaluate(model, data, .loss = &before, .verbose = ISO_ZERO));
    ck_assert(iso_compile_evaluation(model, &other, sizeof other) == ISO_INVALID);
    fit_more(model, data);
    check_ok(iso_evaluate(model, data, .loss = &before, .verbose = ISO_ZERO));
    for (int i = 0; i < 2; i++) {
        check_ok(iso_compile_evaluation(model, &options, sizeof options));
        ck_assert_ptr_null(iso_model_training_function(model));
        check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
        ck_assert(loss == before);
        check_refused(iso_fit(model, data, .verbose = ISO_ZERO), "compiled for evaluation only");
    }
    check_ok(compile_with(model, iso_adam(0.01), ISO_LOSS_MSE));
    fit_more(model, data);
    end(model, data);
}
END_TEST

/* x: [ROWS, 2]. Normalising the row (m - d, m + d) gives (-d, d) / sqrt(d * d + epsilon). */
START_TEST(a_model_without_weights_is_evaluated)
{
    static float x[ROWS * 2], y[ROWS * 2];
    double expected = 0, loss, epsilon = 0.25;
    iso_dataset *data;
    for (int r = 0; r < ROWS; r++) {
        double d = 0.25 * r;
        x[2 * r] = (float)(r - d), x[2 * r + 1] = (float)(r + d);
        expected += d * d / (d * d + epsilon) / ROWS;
    }
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *in = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2));
    iso_model *model = iso_model_create(
        graph, in, iso_layer_norm(in, .epsilon = epsilon, .no_scale = true, .no_center = true));
    check_ok(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(ROWS, 2)},
                                .y = {y, ISO_F32, ISO_SHAPE(ROWS, 2)}));
    check_ok(iso_dataset_batch(data, BATCH));
    check_ok(compile_with(model, iso_sgd(0.1), ISO_LOSS_MSE));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    ck_assert_double_eq_tol(loss, expected, 1e-6);
    check_refused(iso_fit(model, data, .verbose = ISO_ZERO), "cannot be trained");
    end(model, data);
}
END_TEST

/* ---- functions and callbacks ---- */

static iso_status compile_within(void *user, iso_fit_state *state)
{
    (void)user;
    check_refused(compile_with(state->model, iso_adam(0.1), ISO_LOSS_MSE), "while it is trained");
    return ISO_OK;
}

START_TEST(not_in_a_callback)
{
    iso_dataset *data;
    iso_model *model = begin_frozen(&data);
    iso_callback *list[] = {iso_callback_create(.epoch_end = compile_within, .batch_end = compile_within),
                            NULL};
    check_ok(iso_fit(model, data, .callbacks = list, .verbose = ISO_ZERO));
    unfreeze(model);
    fit_more(model, data);
    end(model, data);
}
END_TEST

static iso_tensor *kept_target;

static iso_tensor *note_target(iso_tensor *y_true, iso_tensor *y_pred)
{
    kept_target = y_true;
    return iso_reduce_mean(iso_square(iso_subtract(y_true, y_pred)), (int[]){-1}, 1, false);
}

/* Functions of the network stay; those of the targets are in the way; ops that were added later are too. */
START_TEST(functions_made_before)
{
    iso_dataset *data = data_of("same_rule");
    iso_model *model = build(ISO_F32);
    iso_graph *graph = iso_model_graph(model);
    iso_function *output = NULL, *targets = NULL;
    static double before[ROWS * OUTPUTS], after[ROWS * OUTPUTS];
    double *to_before[] = {before}, *to_after[] = {after};
    char *text = NULL;
    const iso_batch *batch = NULL;
    check_ok(iso_compile(model, .optimizer = iso_adam(0.01), .loss_function = note_target));
    check_ok(iso_function_create(graph, &output, .inputs = {iso_model_input(model)},
                                 .outputs = {iso_model_output(model)}));
    check_ok(iso_function_create(graph, &targets, .inputs = {kept_target}, .outputs = {kept_target},
                                 .name = "targets"));
    check_refused_naming(compile_with(model, iso_sgd(0.1), ISO_LOSS_MAE), "'targets'", "destroy it first");
    iso_function_destroy(targets);
    check_ok(iso_dataset_next(data, &batch));
    check_ok(iso_function_evaluate(output, batch, to_before));
    unfreeze(model);
    check_ok(iso_function_evaluate(output, batch, to_after));
    ck_assert_mem_eq(before, after, sizeof before);
    check_ok(iso_function_print(output, 5, &text)); /* a plan that is made now */
    iso_free(text);
    fit_more(model, data);
    iso_mean(iso_model_output(model));
    check_refused(compile_with(model, iso_sgd(0.1), ISO_LOSS_MAE), "were added after it was compiled");
    fit_more(model, data);
    iso_function_destroy(output);
    end(model, data);
}
END_TEST

/* ---- memory, names ---- */

START_TEST(places_are_used_again)
{
    iso_dataset *data;
    iso_model *model = begin_frozen(&data);
    int64_t bytes = 0;
    for (int i = 0; i < 12; i++) {
        iso_plan_facts facts;
        check_ok(iso_model_set_trainable(model, "d1", i % 2 == 0));
        check_ok(
            compile_with(model, i % 3 == 0 ? iso_sgd(0.1, .accumulation = 2) : iso_adam(0.1), ISO_LOSS_MSE));
        check_ok(iso_function_facts(iso_model_training_function(model), BATCH, &facts));
        if (i == 6)
            bytes = facts.variables_bytes;
        ck_assert(i <= 6 || facts.variables_bytes == bytes);
    }
    fit_more(model, data);
    end(model, data);
}
END_TEST

static iso_tensor *scaled_loss(iso_tensor *y_true, iso_tensor *y_pred)
{
    iso_graph *graph = iso_tensor_graph(y_pred);
    iso_variable *scale = iso_variable_create(graph, "loss/scale", ISO_F32, ISO_SCALAR,
                                              (iso_initializer){.kind = ISO_INIT_ONES}, true);
    iso_tensor *error = iso_reduce_mean(iso_square(iso_subtract(y_true, y_pred)), (int[]){-1}, 1, false);
    return iso_add(iso_multiply(error, iso_variable_value(scale)), iso_square(iso_variable_value(scale)));
}

/* A weight that a loss function has keeps its value while the loss is the same. */
START_TEST(weights_of_a_loss_function)
{
    double before, after;
    iso_dataset *data = data_of("same_rule");
    iso_model *model = build(ISO_F32);
    check_ok(iso_compile(model, .optimizer = iso_adam(0.01), .loss_function = scaled_loss));
    fit_more(model, data);
    check_ok(iso_variable_read(iso_model_variable(model, "loss/scale"), &before, 1));
    ck_assert(before != 1);
    check_ok(iso_compile(model, .optimizer = iso_sgd(0.01), .loss_function = scaled_loss));
    check_ok(iso_variable_read(iso_model_variable(model, "loss/scale"), &after, 1));
    ck_assert(before == after);
    fit_more(model, data);
    check_ok(compile_with(model, iso_sgd(0.01), ISO_LOSS_MSE));
    ck_assert_ptr_null(iso_model_variable(model, "loss/scale"));
    fit_more(model, data);
    end(model, data);
}
END_TEST

START_TEST(values_and_layers_by_name)
{
    double rate;
    iso_dataset *data;
    iso_model *model = begin_frozen(&data);
    ck_assert(!iso_variable_trainable(iso_model_variable(model, "d1/kernel")));
    ck_assert_int_eq(iso_model_value_count(model), 1);
    check_ok(iso_compile(model, .optimizer = iso_sgd(0.25), .loss = ISO_LOSS_MAE,
                         .metrics = {ISO_METRIC_MSE, ISO_METRIC_MAE}, .sample_weights = true));
    ck_assert_int_eq(iso_model_value_count(model), 3);
    ck_assert_str_eq(iso_model_value_name(model, 2), "mae");
    ck_assert_str_eq(iso_model_optimizer(model)->rule, "sgd");
    check_ok(iso_model_learning_rate(model, &rate));
    ck_assert(rate == 0.25);
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO)); /* without weights each is 1 */
    check_refused_naming(iso_model_set_trainable(model, "dd1", true), "'dd1'", "d1");
    check_ok(compile_with(model, iso_sgd(0.25), ISO_LOSS_MAE));
    fit_more(model, data);
    end(model, data);
}
END_TEST

/* A prediction adds nothing to the graph that compiling again would have to keep, also where outputs are cast. */
START_TEST(after_a_prediction)
{
    static const iso_dtype precisions[] = {ISO_F32, ISO_BF16, ISO_F64};
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
        iso_model *model = build(precisions[i]);
        float y[2][ROWS * OUTPUTS];
        iso_dataset *data;
        check_ok(
            iso_dataset_random(ctx, ROWS, &data, .shape = ISO_SHAPE(WIDTH), .targets = ISO_SHAPE(OUTPUTS)));
        check_ok(iso_dataset_batch(data, BATCH));
        check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_sgd(0.1)));
        check_ok(iso_predict(model, data, .outputs = {y[0]}, .verbose = ISO_ZERO));
        check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .optimizer = iso_sgd(0.01)));
        check_ok(iso_predict(model, data, .outputs = {y[1]}, .verbose = ISO_ZERO));
        ck_assert(memcmp(y[0], y[1], sizeof y[0]) == 0);
        check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
        iso_dataset_destroy(data);
        iso_model_destroy(model);
    }
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    file = oracle_open("recompile.h5");
    if (status == ISO_OK)
        failed = RUN_TESTS(
            "recompile", 120, trains_on_as_keras, placements_give_the_same_bits,
            a_failed_compile_leaves_the_model_as_it_was, a_failed_first_compile_may_be_followed_by_another,
            another_distribution_after_a_failed_first_compile, a_checkpoint_behind_it_is_gone_on_from,
            a_frozen_model_is_evaluated, compiled_for_evaluation_only, a_model_without_weights_is_evaluated,
            not_in_a_callback, functions_made_before, places_are_used_again, weights_of_a_loss_function,
            values_and_layers_by_name, after_a_prediction);
    oracle_close(file);
    return iso_finish(ctx, status) || failed;
}
