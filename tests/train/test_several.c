/* Models with two inputs and two outputs: five steps, evaluate and predict against Keras, on any mesh; the
 * same bits wherever the slots live; data and options that do not fit. Ranks: 1, 3, 8 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "runtime/train/state_impl.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"
#include "tests/support/two_ends.h"

enum { BATCH = 8, TEST_BATCH = 10, STEPS = 5, MOST = 16 };
enum { ROWS = TWO_ENDS_ROWS, KINDS = TWO_ENDS_KINDS, PLACES = TWO_ENDS_PLACES };

static iso_context *ctx;
static oracle *file;

/* ---- a case of the file ---- */

static iso_compile_options options_of(const char *name)
{
    iso_compile_options o = {.optimizer = iso_adam(0.01)};
    o.outputs[0].loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS;
    o.outputs[1].loss = ISO_LOSS_MSE;
    if (!strcmp(name, "loss_weights")) {
        o.outputs[0].metrics[0] = ISO_METRIC_ACCURACY;
        o.outputs[1] = (iso_output_options){
            .loss = ISO_LOSS_MSE, .loss_weight = 0.3, .metrics = {ISO_METRIC_MAE, ISO_METRIC_MSE}};
    } else if (!strcmp(name, "one_loss")) {
        o.loss = ISO_LOSS_MAE;
        o.outputs[0] = (iso_output_options){.loss = ISO_LOSS_NONE};
        o.outputs[1] = (iso_output_options){.metrics = {ISO_METRIC_MSE}};
    } else if (!strcmp(name, "weights_each")) {
        o.sample_weights = true;
        o.outputs[0] = (iso_output_options){.loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                                            .loss_weight = 0.5,
                                            .metrics = {ISO_METRIC_ACCURACY},
                                            .weighted_metrics = {ISO_METRIC_ACCURACY}};
        o.outputs[1] = (iso_output_options){.loss = ISO_LOSS_MSE,
                                            .loss_weight = 2,
                                            .metrics = {ISO_METRIC_MAE},
                                            .weighted_metrics = {ISO_METRIC_MSE}};
    } else if (!strcmp(name, "weights_one")) {
        o.sample_weights = true;
        o.outputs[0].weighted_metrics[0] = ISO_METRIC_ACCURACY;
        o.outputs[1] = (iso_output_options){.loss = ISO_LOSS_MAE, .weighted_metrics = {ISO_METRIC_MSE}};
    } else {
        ck_assert_str_eq(name, "no_loss");
        o.outputs[0].metrics[0] = ISO_METRIC_ACCURACY;
        o.outputs[1] = (iso_output_options){.metrics = {ISO_METRIC_MAE}};
    }
    return o;
}

static void set_weights(iso_model *model, const char *name)
{
    char dataset[16], path[64];
    const char *at = oracle_text(file, name, "variables");
    for (int v = 0; *at; v++, at += *at == ',') {
        iso_shape shape;
        size_t length = strcspn(at, ",");
        snprintf(path, sizeof path, "%.*s", (int)length, at);
        snprintf(dataset, sizeof dataset, "v%d", v);
        const double *values = oracle_data(file, name, dataset, &shape);
        check_ok(iso_variable_assign(iso_model_variable(model, path), values, oracle_elements(&shape)));
        at += length;
    }
}

/* ---- what a case gives ---- */

typedef struct result {
    int steps;
    double step[STEPS][MOST], evaluated[MOST];
    double kind[ROWS * KINDS], place[ROWS * PLACES];
    iso_fingerprint weights;
} result;

static iso_status note_step(void *user, iso_fit_state *state)
{
    result *r = user;
    ck_assert_int_lt(r->steps, STEPS);
    memcpy(r->step[r->steps++], state->logs.value, (size_t)state->logs.count * sizeof(double));
    return ISO_OK;
}

static void widen(const void *from, iso_dtype dtype, double *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = iso_element_get(from, dtype, i);
}

static void predict(iso_model *model, iso_dataset *data, iso_dtype precision, result *r)
{
    static double kind[ROWS * KINDS], place[ROWS * PLACES]; /* room for either precision */
    memset(kind, 0xff, sizeof kind);
    memset(place, 0xff, sizeof place);
    check_ok(iso_predict(model, data, .outputs = {kind, place}, .verbose = ISO_ZERO));
    widen(kind, precision, r->kind, ROWS * KINDS);
    widen(place, precision, r->place, ROWS * PLACES);
}

static void run_case(const char *name, iso_dtype precision, const char *spec, const int *rank_of_slot,
                     result *r)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = two_ends_distribute(ctx, spec, rank_of_slot, &mesh, &map);
    iso_model *model = two_ends_network(ctx, oracle_number(file, name, "l2", 0), precision);
    iso_compile_options options = options_of(name);
    iso_dataset *data = two_ends_data(ctx, file, name, BATCH),
                *test = two_ends_data(ctx, file, name, TEST_BATCH);
    iso_callback *callbacks[] = {iso_callback_create(.batch_end = note_step, .user = r), NULL};
    memset(r, 0, sizeof *r);
    options.distribution = distribution;
    check_ok(iso_compile_with(model, &options, sizeof options));
    set_weights(model, name);
    check_ok(iso_fit(model, data, .callbacks = callbacks, .verbose = ISO_ZERO));
    ck_assert_int_eq(r->steps, STEPS);
    check_ok(iso_evaluate(model, test, .loss = &r->evaluated[0], .metrics = &r->evaluated[1],
                          .verbose = ISO_ZERO));
    predict(model, test, precision, r);
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &r->weights));
    iso_dataset_destroy(data);
    iso_dataset_destroy(test);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

/* ---- against Keras ---- */

/* The place of Keras's value among ours. */
static int find_value(iso_model *model, const char *name)
{
    for (int i = 0; i < iso_model_value_count(model); i++)
        if (!strcmp(iso_model_value_name(model, i), name))
            return i;
    ck_abort_msg("there is no value '%s'", name);
    return -1;
}

/* For each of Keras's values the place of ours; their number. */
static int match_names(const char *name, int *place)
{
    char value[64];
    int count = 0;
    iso_model *model = two_ends_network(ctx, 0, ISO_F32);
    iso_compile_options options = options_of(name);
    check_ok(iso_compile_with(model, &options, sizeof options));
    for (const char *at = oracle_text(file, name, "names"); *at; at += *at == ',') {
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, ","), at);
        place[count++] = find_value(model, value);
        at += strcspn(at, ",");
    }
    ck_assert_int_eq(count, iso_model_value_count(model));
    ck_assert_str_eq(iso_model_value_name(model, 0), "loss");
    iso_model_destroy(model);
    return count;
}

static void compare(const char *name, const char *what, const result *r, double tolerance)
{
    int place[MOST], count = match_names(name, place);
    const double *steps = oracle_data(file, name, "steps", NULL),
                 *evaluated = oracle_data(file, name, "evaluate", NULL);
    char text[160];
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < STEPS; s++) {
            snprintf(text, sizeof text, "%s, %s: value %d of step %d", name, what, i, s);
            check_near(text, &r->step[s][place[i]], &steps[s * count + i], 1, tolerance);
        }
        snprintf(text, sizeof text, "%s, %s: value %d of evaluate", name, what, i);
        check_near(text, &r->evaluated[place[i]], &evaluated[i], 1, tolerance);
    }
    snprintf(text, sizeof text, "%s, %s: predictions", name, what);
    check_near(text, r->kind, oracle_data(file, name, "p0", NULL), ROWS * KINDS, tolerance);
    check_near(text, r->place, oracle_data(file, name, "p1", NULL), ROWS * PLACES, tolerance);
}

START_TEST(steps_evaluate_and_predict_as_keras)
{
    static const char *const meshes[] = {"data=1", "data=3", "data=2,model=2", "data=8", "data=2,model=4"};
    static result r;
    for (int c = 0; c < oracle_cases(file); c++)
        for (int m = 0; m < 5; m++) {
            const char *name = oracle_case(file, c);
            int slots = m == 0 ? 1 : m == 1 ? 3 : m == 2 ? 4 : 8;
            if (slots < iso_ranks(ctx))
                continue;
            run_case(name, ISO_F64, meshes[m], NULL, &r);
            compare(name, meshes[m], &r, 1e-11);
            run_case(name, ISO_F32, meshes[m], NULL, &r);
            compare(name, meshes[m], &r, 1e-5);
        }
}
END_TEST

/* ---- where slots live ---- */

START_TEST(placements_give_the_same_bits)
{
    int ranks = iso_ranks(ctx), last[4], dealt[4], backwards[4];
    static result first, other;
    for (int s = 0; s < 4; s++) {
        last[s] = ranks - 1; /* the others have none */
        dealt[s] = s % ranks;
        backwards[s] = ranks - 1 - s * ranks / 4;
    }
    const int *const placements[] = {dealt, backwards};
    run_case("weights_each", ISO_F32, "data=2,model=2", last, &first);
    for (int k = 0; k < 2; k++) {
        run_case("weights_each", ISO_F32, "data=2,model=2", placements[k], &other);
        ck_assert_msg(memcmp(&first, &other, sizeof first) == 0, "placement %d gives other bits", k);
    }
}
END_TEST

/* ---- names ---- */

/* A block is one operation to Keras; a name that comes twice gets a number; a name may be set. */
START_TEST(outputs_are_called_after_their_maker)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2)), *y[4];
    iso_name_scope_begin(graph, "encoder");
    y[0] = iso_name_scope_end(graph, iso_dense(iso_dense(x, 3), 2));
    y[1] = iso_relu(y[2] = iso_dense(x, 2));
    y[3] = y[2];
    iso_model *model = iso_model_create_several(graph, &x, 1, y, 4);
    ck_assert_str_eq(iso_model_output_name(model, 0), "encoder");
    ck_assert_str_eq(iso_model_output_name(model, 2), "dense");
    iso_model_set_output_name(model, 1, "rectified");
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    static const char *const names[] = {"loss", "encoder_loss", "rectified_loss", "dense_loss",
                                        "dense_loss_1"};
    ck_assert_int_eq(iso_model_value_count(model), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(iso_model_value_name(model, i), names[i]);
    iso_model_destroy(model);
}
END_TEST

/* ---- data sets ---- */

static iso_model *second_of(iso_graph *graph, iso_tensor *x, iso_tensor *y, bool several)
{
    return several ? iso_model_create_several(graph, &x, 1, &y, 1) : iso_model_create(graph, x, y);
}

START_TEST(a_graph_has_one_model)
{
    for (int way = 0; way < 4; way++) {
        iso_graph *graph = iso_graph_create(ctx);
        iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2)), *y = iso_dense(x, 3);
        iso_model *first = iso_model_create(graph, x, y), *second = second_of(graph, x, y, way & 1);
        check_refused(iso_compile(second, .loss = ISO_LOSS_MSE), "the graph has a model already");
        check_refused(iso_model_save_weights(second, "/tmp/none.weights.h5"),
                      "the graph has a model already");
        ck_assert_int_eq(iso_model_input_count(second), 0);
        check_ok(iso_compile(first, .loss = ISO_LOSS_MSE));
        iso_model_destroy(way & 2 ? first : second);
        iso_model_destroy(way & 2 ? second : first);
    }
}
END_TEST

START_TEST(random_data_of_several)
{
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    double a[2], b[2];
    check_ok(iso_dataset_random(ctx, 20, &data, .inputs = 2, .outputs = 2,
                                .input = {{ISO_SHAPE(5)}, {ISO_SHAPE(3)}},
                                .output = {{.classes = 3}, {ISO_SHAPE(2)}}));
    ck_assert_int_eq(iso_dataset_components(data), 4);
    ck_assert_int_eq(iso_dataset_inputs(data), 2);
    ck_assert_int_eq(iso_dataset_targets(data), 2);
    ck_assert_int_eq(iso_dataset_dtype(data, 2), ISO_I32);
    check_ok(iso_dataset_batch(data, 20));
    check_ok(iso_dataset_next(data, &batch));
    check_ok(batch->read_part(batch, 0, 0, 2, &(iso_box){1, {0}, {1}}, ISO_F64, a));
    check_ok(batch->read_part(batch, 1, 0, 2, &(iso_box){1, {0}, {1}}, ISO_F64, b));
    ck_assert(a[0] != b[0]);
    iso_dataset_destroy(data);
}
END_TEST

static iso_status join(const iso_element *in, void *const *out, void *user)
{
    (void)user;
    memcpy(out[0], in->data[0], 5 * sizeof(double));
    memcpy(out[1], in->data[1], 3 * sizeof(double));
    memcpy(out[2], in->data[3], 2 * sizeof(double));
    return ISO_OK;
}

START_TEST(maps_say_what_is_what)
{
    iso_dataset *data = two_ends_data(ctx, file, "loss_weights", 4);
    iso_model *model = two_ends_network(ctx, 0, ISO_F32);
    iso_compile_options options = {.outputs = {{.loss = ISO_LOSS_NONE}, {.loss = ISO_LOSS_MSE}}};
    iso_dataset_destroy(data);
    check_ok(iso_compile_with(model, &options, sizeof options)); /* the first output has no targets */
    ck_assert_int_eq(iso_model_value_count(model), 1);
    iso_dataset_arrays_options arrays = {.dataset = &data};
    for (int i = 0; i < 2; i++) {
        arrays.inputs[i] = two_ends_array(file, "loss_weights", i ? "x1" : "x0");
        arrays.targets[i] = two_ends_array(file, "loss_weights", i ? "y1" : "y0");
    }
    check_ok(iso_dataset_arrays_with(ctx, &arrays, sizeof arrays));
    check_ok(iso_dataset_map(data, join, .components = 3, .inputs = 2, .targets = 1, .dtype = {[2] = ISO_F64},
                             .shape = {[2] = ISO_SHAPE(2)}));
    check_ok(iso_fit(model, data, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

/* What a checkpoint tells of the loss. */
START_TEST(losses_are_told)
{
    static const char *const told[][2] = {
        {"loss_weights", "sparse_crossentropy_logits of output 0 + 0.3 * mse of output 1"},
        {"one_loss", "mae of output 0 + mae of output 1"},
        {"no_loss", "sparse_crossentropy_logits of output 0"},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        iso_model *model = two_ends_network(ctx, 0, ISO_F32);
        iso_compile_options options = options_of(told[i][0]);
        check_ok(iso_compile_with(model, &options, sizeof options));
        json_t *loss = iso_state_loss(model);
        ck_assert_str_eq(json_string_value(loss), told[i][1]);
        json_decref(loss);
        iso_model_destroy(model);
    }
}
END_TEST

/* ---- what is refused ---- */

static void check_refused_by(iso_status status, const char *first, const char *second)
{
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), first) && strstr(iso_error_message(), second),
                  "'%s' or '%s' is not in '%s'", first, second, iso_error_message());
}

START_TEST(models_that_cannot_be)
{
    iso_tensor *many[ISO_MAX_MODEL_INPUTS + 1] = {0};
    iso_model *model = two_ends_network(ctx, 0, ISO_F32);
    iso_graph *graph = iso_graph_create(ctx);
    check_refused_by(iso_compile(model, .metrics = {ISO_METRIC_MAE}), "compile", "loss");
    check_refused_by(
        iso_compile(model,
                    .outputs = {{.loss = ISO_LOSS_MSE}, {.loss = ISO_LOSS_MSE}, {.loss = ISO_LOSS_MSE}}),
        ".outputs[2]", "2 outputs");
    check_refused_by(
        iso_compile(model, .loss = ISO_LOSS_MSE, .outputs = {{.weighted_metrics = {ISO_METRIC_MSE}}}),
        "'kind'", "sample_weights");
    iso_model_destroy(model);
    for (int i = 0; i <= ISO_MAX_MODEL_INPUTS; i++)
        many[i] = iso_input(graph, "x", ISO_F32, ISO_SHAPE(1));
    model = iso_model_create_several(graph, many, ISO_MAX_MODEL_INPUTS + 1, many, 1);
    check_refused_by(iso_compile(model, .loss = ISO_LOSS_MSE), "65 inputs", "1 to 64");
    iso_model_destroy(model);
    graph = iso_graph_create(ctx);
    many[0] = many[1] = iso_input(graph, "x", ISO_F32, ISO_SHAPE(1));
    model = iso_model_create_several(graph, many, 2, many, 1);
    check_refused_by(iso_compile(model, .loss = ISO_LOSS_MSE), "'x'", "twice");
    iso_model_destroy(model);
    graph = iso_graph_create(ctx);
    for (int i = 0; i < 2; i++)
        many[i] = iso_input(graph, "left", ISO_F32, ISO_SHAPE(1));
    model = iso_model_create_several(graph, many, 2, many, 1);
    check_refused_by(iso_compile(model, .loss = ISO_LOSS_MSE), "'left'", "two inputs of a model are named");
    iso_model_destroy(model);
}
END_TEST

/* Eight outputs with a loss and eight metrics each, and the total. */
static void name_scope(iso_graph *graph)
{
    iso_name_scope_begin(graph, "block");
}

static void policy(iso_graph *graph)
{
    iso_policy_begin(graph, ISO_BF16);
}

/* A network that a forgotten end has cut in two, and the scopes around it that have ended. */
START_TEST(models_in_an_open_scope)
{
    static const struct {
        void (*begin)(iso_graph *graph);
        const char *end;
    } scopes[] = {{name_scope, "iso_name_scope_end is missing"},
                  {iso_share_begin, "iso_share_end is missing"},
                  {iso_freeze_begin, "iso_freeze_end is missing"},
                  {iso_recompute_begin, "iso_recompute_end is missing"},
                  {policy, "iso_policy_end is missing"}};
    iso_graph *graph = iso_graph_create(ctx);
    iso_freeze_begin(graph);
    iso_recompute_begin(graph);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3)), *y = iso_dense(x, 2);
    iso_recompute_end(graph);
    iso_freeze_end(graph);
    iso_model *model = iso_model_create(graph, x, iso_dense(y, 2));
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    iso_model_destroy(model);
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
        graph = iso_graph_create(ctx);
        x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3)), y = iso_dense(x, 2);
        scopes[i].begin(graph);
        model = iso_model_create(graph, x, y);
        check_refused_by(iso_compile(model, .loss = ISO_LOSS_MSE), "a model is made while a scope of",
                         scopes[i].end);
        iso_model_destroy(model);
    }
}
END_TEST

START_TEST(more_values_than_there_is_room_for)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2)), *y[ISO_MAX_MODEL_OUTPUTS];
    iso_compile_options options = {.loss = ISO_LOSS_MSE, .sample_weights = true};
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++)
        y[i] = iso_dense(x, 1);
    for (int i = 0; i < ISO_MAX_METRICS; i++)
        options.weighted_metrics[i] = ISO_METRIC_MAE;
    iso_model *model = iso_model_create_several(graph, &x, 1, y, ISO_MAX_MODEL_OUTPUTS);
    check_refused_by(iso_compile_with(model, &options, sizeof options), "compile",
                     "73 losses and metrics of all outputs, at most 64 are possible");
    iso_model_destroy(model);
}
END_TEST

START_TEST(data_that_does_not_fit)
{
    iso_model *model = two_ends_network(ctx, 0, ISO_F32);
    iso_dataset *data = NULL;
    float y[8 * 3];
    iso_compile_options options = options_of("loss_weights");
    check_ok(iso_compile_with(model, &options, sizeof options));
    check_ok(iso_dataset_random(ctx, 8, &data, .shape = ISO_SHAPE(5), .targets = ISO_SHAPE(1)));
    check_refused_by(iso_fit(model, data, .verbose = ISO_ZERO), "1 input, 1 target", "2 inputs (a, b)");
    check_refused_by(iso_predict(model, data, .outputs = {y}, .verbose = ISO_ZERO), "1 input",
                     "2 inputs (a, b)");
    iso_dataset_destroy(data);
    check_ok(iso_dataset_random(ctx, 8, &data, .inputs = 2, .outputs = 2,
                                .input = {{ISO_SHAPE(5)}, {ISO_SHAPE(4)}},
                                .output = {{.classes = 3}, {ISO_SHAPE(2)}}));
    check_refused_by(iso_fit(model, data, .verbose = ISO_ZERO), "inputs 'b' have the shape [4]", "[3]");
    check_refused_by(iso_predict(model, data, .outputs = {y}, .verbose = ISO_ZERO), "inputs 'b'", "[4]");
    iso_dataset_destroy(data);
    check_ok(iso_dataset_random(ctx, 8, &data, .inputs = 2, .outputs = 2,
                                .input = {{ISO_SHAPE(5)}, {ISO_SHAPE(3)}},
                                .output = {{.classes = 3}, {ISO_SHAPE(7)}}));
    check_refused_by(iso_evaluate(model, data, .verbose = ISO_ZERO), "targets 'place_target'", "[7]");
    check_refused_by(iso_predict(model, data, .verbose = ISO_ZERO), "predict", ".outputs");
    if (iso_ranks(ctx) > 1)
        check_refused_by(
            iso_predict(model, iso_rank(ctx) == 1 ? NULL : data, .outputs = {y}, .verbose = ISO_ZERO),
            "rank 1", "NULL");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    int failed = 1;
    iso_status status = iso_init(NULL, NULL, &ctx);
    file = oracle_open("several.h5");
    if (status == ISO_OK)
        failed =
            RUN_TESTS("several", 0, steps_evaluate_and_predict_as_keras, placements_give_the_same_bits,
                      outputs_are_called_after_their_maker, a_graph_has_one_model, random_data_of_several,
                      maps_say_what_is_what, losses_are_told, models_that_cannot_be, models_in_an_open_scope,
                      more_values_than_there_is_room_for, data_that_does_not_fit);
    oracle_close(file);
    return iso_finish(ctx, status) || failed;
}
