/* The three models of the tutorial "Using DTensors with Keras" (a table of layers, a chain, a block with a
 * name) under its layouts, and the three ways to train of "Distributed training with DTensors" (data, model
 * and spatial parallel): each trained on its mesh and on one slot. Ranks: 1, 3, 8 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/data/data.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/graph/optimizer.h"
#include "runtime/session/session.h"
#include "runtime/train/losses.h"
#include "runtime/train/model.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

enum { STEPS = 4, ROWS = 20, MOST_LAYOUTS = 8 };

/* ---- the models: x [batch, ...] to logits ---- */

/* The first of the tutorial: every layer tells where its weights live. */
static const iso_layer_row whole[] = ISO_LAYERS(
    ISO_LAYER(flatten),
    ISO_LAYER(dense, 128, .activation = ISO_RELU, .name = "d1", .kernel_layout = "-, -", .bias_layout = "-"),
    ISO_LAYER(dense, 10, .name = "d2", .kernel_layout = "-, -", .bias_layout = "-"));

static iso_tensor *first(iso_tensor *x)
{
    return iso_sequential_rows(x, whole);
}

static iso_tensor *first_sharded(iso_tensor *x)
{
    return iso_sequential(
        x, ISO_LAYER(flatten),
        ISO_LAYER(dense, 128, .activation = ISO_RELU, .name = "d1", .kernel_layout = "-, batch",
                  .bias_layout = "batch"),
        ISO_LAYER(dense, 10, .name = "d2", .kernel_layout = "batch, -", .bias_layout = "-"));
}

static iso_tensor *sequential(iso_tensor *x)
{
    return iso_sequential(x, ISO_LAYER(dense, 16, .name = "feature"), ISO_LAYER(dropout, 0.1),
                          ISO_LAYER(dense, 32, .name = "feature_2"));
}

static iso_tensor *functional(iso_tensor *x)
{
    x = iso_dense(x, 16, .name = "feature");
    x = iso_dropout(x, 0.1);
    return iso_dense(x, 32, .name = "feature_2");
}

/* A subclassed model: a function that builds a block under a name. */
static iso_tensor *subclassed(iso_tensor *x)
{
    iso_graph *g = iso_tensor_graph(x);
    iso_name_scope_begin(g, "subclassed_model");
    x = iso_dense(x, 16, .name = "feature");
    x = iso_dropout(x, 0.1);
    x = iso_dense(x, 24, .name = "feature_2");
    return iso_name_scope_end(g, x);
}

/* The perceptron of the other tutorial: a layer is a block of a product, a normalisation and an activation.
 */
static iso_tensor *block(iso_tensor *x, const char *name, int64_t units)
{
    iso_graph *g = iso_tensor_graph(x);
    iso_name_scope_begin(g, name);
    x = iso_relu(iso_batch_norm(iso_dense(x, units, .name = "dense"), .name = "norm"));
    return iso_name_scope_end(g, x);
}

static iso_tensor *perceptron(iso_tensor *x)
{
    x = block(x, "mlp_1", 48);
    return iso_dense(block(x, "mlp_2", 12), 2, .name = "logits");
}

/* ---- the cases ---- */

typedef struct layout_row {
    const char *key, *layout;
} layout_row;

typedef struct expected {
    const char *path, *layout;
} expected;

typedef struct model_case {
    const char *name, *mesh;
    iso_tensor *(*build)(iso_tensor *x);
    iso_shape row;
    layout_row layouts[MOST_LAYOUTS];
    expected lies[MOST_LAYOUTS];
} model_case;

static const model_case cases[] = {
    {"first",
     "batch=8",
     first,
     ISO_SHAPE(7, 7, 1),
     {{NULL, NULL}},
     {{"d1/kernel", "-, -"}, {"d2/bias", "-"}}},
    {"first, sharded",
     "batch=8",
     first_sharded,
     ISO_SHAPE(7, 7, 1),
     {{"d1/kernel", "-, -"}},
     {{"d1/kernel", "-, batch"}, {"d1/bias", "batch"}, {"d2/kernel", "batch, -"}, {"d2/bias", "-"}}},
    {"sequential",
     "batch=8",
     sequential,
     ISO_SHAPE(16),
     {{"feature.*kernel", "batch, -"}, {"feature.*bias", "batch"}},
     {{"feature/kernel", "batch, -"}, {"feature_2/kernel", "batch, -"}, {"feature_2/bias", "batch"}}},
    {"functional",
     "batch=8",
     functional,
     ISO_SHAPE(16),
     {{"feature.*kernel", "batch, -"}, {"feature.*bias", "batch"}},
     {{"feature/kernel", "batch, -"}, {"feature/bias", "batch"}, {"feature_2/kernel", "batch, -"}}},
    {"subclassed",
     "batch=8",
     subclassed,
     ISO_SHAPE(16),
     {{".*/feature.*kernel", "batch, -"},
      {".*/feature.*bias", "batch"},
      {"subclassed_model/output", "batch, -"}},
     {{"subclassed_model/feature/kernel", "batch, -"}, {"subclassed_model/feature_2/bias", "batch"}}},
    {"subclassed, parts that do not divide",
     "batch=5,model=3",
     subclassed,
     ISO_SHAPE(16),
     {{".*/feature.*kernel", "model, batch"},
      {".*/feature.*bias", "batch"},
      {"subclassed_model/output", "-, model"}},
     {{"subclassed_model/feature/kernel", "model, batch"}, {"subclassed_model/feature_2/bias", "batch"}}},
    {"data parallel", "batch=8", perceptron, ISO_SHAPE(40), {{NULL, NULL}}, {{"mlp_1/dense/kernel", "-, -"}}},
    {"model parallel",
     "batch=4,model=2",
     perceptron,
     ISO_SHAPE(40),
     {{"mlp_1/dense/kernel", "-, model"},
      {"mlp_1/dense/bias", "model"},
      {"mlp_1/norm/(gamma|beta|moving_.*)", "model"},
      {"mlp_1/output", "batch, model"},
      {"mlp_2/dense/kernel", "model, -"}},
     {{"mlp_1/dense/kernel", "-, model"},
      {"mlp_1/norm/gamma", "model"},
      {"mlp_1/norm/moving_variance", "model"},
      {"mlp_2/dense/kernel", "model, -"},
      {"mlp_2/dense/bias", "-"}}},
    {"spatial parallel",
     "batch=2,feature=4",
     perceptron,
     ISO_SHAPE(40),
     {{"x/output", "batch, feature"}, {"mlp_1/dense/kernel", "feature, -"}, {"mlp_1/output", "batch, -"}},
     {{"mlp_1/dense/kernel", "feature, -"}, {"mlp_2/dense/kernel", "-, -"}}},
    {"spatial parallel without a batch",
     "feature=8",
     perceptron,
     ISO_SHAPE(39),
     {{"x/output", "-, feature"}, {"mlp_1/dense/kernel", "feature, -"}},
     {{"mlp_1/dense/kernel", "feature, -"}}},
};

/* ---- training ---- */

static void make_batch(const model_case *c, int number, double *x, double *labels, memory_batch *memory)
{
    int64_t count = ROWS;
    for (int d = 0; d < c->row.rank; d++)
        count *= c->row.dim[d];
    for (int64_t i = 0; i < count; i++)
        x[i] = sin((double)(i * (number + 3)) * 0.37);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (i * 7 + number) % 2;
    memory_batch_begin(memory, ROWS);
    memory_batch_add(memory, c->row, x);
    memory_batch_add(memory, (iso_shape){0}, labels);
}

static const iso_layout *layout_of(iso_program *program, const iso_graph *graph, const char *path)
{
    iso_variable *variable = iso_graph_find_variable(graph, path);
    ck_assert_msg(variable != NULL, "there is no variable '%s'", path);
    return &program->variable_layout[variable->id];
}

static void check_layouts(const model_case *c, iso_function *function, const iso_graph *graph,
                          const iso_mesh *mesh)
{
    char text[ISO_LAYOUT_TEXT];
    for (const expected *e = c->lies; e->path; e++)
        ck_assert_msg(
            strcmp(iso_layout_text(mesh, layout_of(function->program, graph, e->path), text, sizeof text),
                   e->layout) == 0,
            "%s: '%s' lies as '%s', not as '%s'", c->name, e->path, text, e->layout);
}

static void train(const model_case *c, bool alone, double *losses)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_function *function = NULL;
    iso_graph *g = iso_graph_create(ctx);
    iso_graph_set_precision(g, ISO_F64);
    iso_tensor *x = iso_input(g, "x", ISO_F32, c->row), *y = iso_input(g, "y", ISO_I32, ISO_SCALAR);
    iso_tensor *loss = iso_mean(iso_sparse_crossentropy(y, c->build(x), .from_logits = true));
    check_ok(alone ? iso_mesh_create_on(ctx, strchr(c->mesh, 'b') ? "batch=1,model=1,feature=1" : "feature=1",
                                        (const int[]){0}, 1, &mesh)
                   : iso_mesh_create(ctx, c->mesh, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    iso_layout_map_set_strict(map, true);
    for (const layout_row *row = c->layouts; row->key && !alone; row++)
        check_ok(iso_layout_map_set(map, row->key, row->layout));
    check_ok(iso_model_parallel_create(map, &distribution));
    iso_graph_distribute(g, distribution);
    check_ok(iso_function_create(g, &function, .inputs = {x, y}, .outputs = {loss},
                                 .updates = {iso_minimize(loss, iso_adam(0.01))}, .training = true));
    if (!alone)
        check_layouts(c, function, g, mesh);
    double *rows = malloc(sizeof *rows * ROWS * 64), labels[ROWS];
    for (int i = 0; i < STEPS; i++) {
        memory_batch memory;
        make_batch(c, i, rows, labels, &memory);
        check_ok(iso_function_run(function, &memory.batch, &losses[i]));
    }
    free(rows);
    iso_function_destroy(function);
    iso_graph_destroy(g);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

START_TEST(each_model_trains_as_on_one_slot)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double spread[STEPS], alone[STEPS];
        train(&cases[i], false, spread);
        train(&cases[i], true, alone);
        for (int k = 0; k < STEPS; k++)
            ck_assert_msg(fabs(spread[k] - alone[k]) <= 1e-10 * fmax(1, fabs(alone[k])),
                          "%s: loss %d is %.17g, on one slot %.17g", cases[i].name, k, spread[k], alone[k]);
        ck_assert_msg(alone[STEPS - 1] < alone[0], "%s: the loss goes from %g to %g", cases[i].name, alone[0],
                      alone[STEPS - 1]);
    }
}
END_TEST

/* ---- data sets: each slot reads its part of the rows, also where the data have fewer dimensions of 1 than
 * the input ---- */

static double fit(const char *mesh_spec, const char *layout)
{
    enum { N = 21, H = 6, W = 5 };
    static float x[N * H * W];
    static int32_t y[N];
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    double loss = 0;
    for (int i = 0; i < N * H * W; i++)
        x[i] = (float)sin(i * 0.21);
    for (int i = 0; i < N; i++)
        y[i] = i * 5 % 3;
    iso_graph *g = iso_graph_create(ctx);
    iso_graph_set_precision(g, ISO_F64);
    iso_tensor *image = iso_input(g, "image", ISO_F32, ISO_SHAPE(H, W, 1));
    iso_tensor *t = iso_conv2d(image, 4, 3, .padding = ISO_SAME, .activation = ISO_RELU);
    iso_model *model = iso_model_create(g, image, iso_dense(iso_flatten(t), 3));
    check_ok(layout ? iso_mesh_create(ctx, mesh_spec, &mesh)
                    : iso_mesh_create_on(ctx, mesh_spec, (const int[]){0}, 1, &mesh));
    check_ok(iso_layout_map_create(mesh, &map));
    if (layout)
        check_ok(iso_layout_map_set(map, "image/output", layout));
    check_ok(iso_model_parallel_create(map, &distribution));
    check_ok(iso_dataset_arrays(ctx, &data, .x = {x, ISO_F32, ISO_SHAPE(N, H, W)},
                                .y = {y, ISO_I32, ISO_SHAPE(N)}));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, 8));
    check_ok(iso_compile(model, .optimizer = iso_adam(0.01), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .distribution = distribution));
    check_ok(iso_fit(model, data, .epochs = 2, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, data, .loss = &loss, .verbose = ISO_ZERO));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return loss;
}

START_TEST(data_sets_are_read_in_parts)
{
    static const char *const layouts[] = {"data, -, -, -",     "data, space, -, -",   "-, -, space, -",
                                          "space, -, data, -", "-, data+space, -, -", "-, -, -, space"};
    double alone = fit("data=1,space=1", NULL);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        double loss = fit("data=2,space=4", layouts[i]);
        ck_assert_msg(fabs(loss - alone) <= 1e-10, "'%s': %.17g, on one slot %.17g", layouts[i], loss, alone);
    }
}
END_TEST

/* ---- names ---- */

static void check_graph(iso_graph *g, const char *part)
{
    iso_status status = iso_graph_error(g);
    ck_assert_msg(status == ISO_INVALID && strstr(iso_error_message(), part),
                  "status %d, '%s' instead of '%s'", (int)status, iso_error_message(), part);
    iso_graph_destroy(g);
}

START_TEST(names_are_counted_within_their_block)
{
    static const char *const paths[] = {
        "dense/kernel",     "a/dense/kernel", "a/dense_1/kernel", "a/b/dense/kernel",
        "a/dense_2/kernel", "dense_1/kernel", "a/b/own",          "own"};
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_dense(iso_input(g, "x", ISO_F32, ISO_SHAPE(3)), 3, .no_bias = true);
    iso_name_scope_begin(g, "a");
    x = iso_dense(iso_dense(x, 3, .no_bias = true), 3, .no_bias = true);
    iso_name_scope_begin(g, "b");
    x = iso_dense(x, 3, .no_bias = true);
    iso_variable *own =
        iso_variable_create(g, "own", ISO_F32, ISO_SHAPE(3), (iso_initializer){.kind = ISO_INIT_ONES}, true);
    x = iso_name_scope_end(g, iso_multiply(x, iso_variable_value(own)));
    x = iso_name_scope_end(g, iso_dense(x, 3, .no_bias = true));
    iso_dense(x, 3, .no_bias = true);
    iso_variable_create(g, "own", ISO_F32, ISO_SHAPE(3), (iso_initializer){.kind = ISO_INIT_ONES}, true);
    check_ok(iso_graph_error(g));
    ck_assert_int_eq(iso_graph_variable_count(g), sizeof paths / sizeof *paths);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        ck_assert_msg(iso_graph_find_variable(g, paths[i]) != NULL, "there is no '%s'", paths[i]);
    iso_graph_destroy(g);
}
END_TEST

START_TEST(wrong_names_and_blocks_are_refused)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_name_scope_end(g, NULL);
    check_graph(g, "iso_name_scope_end without iso_name_scope_begin");
    g = iso_graph_create(ctx);
    iso_name_scope_begin(g, "a/b");
    check_graph(g, "'a/b': a name must have characters, and no '/'");
    g = iso_graph_create(ctx);
    iso_dense(iso_input(g, "x", ISO_F32, ISO_SHAPE(3)), 3, .name = "");
    check_graph(g, "named ''");
    g = iso_graph_create(ctx);
    iso_name_scope_begin(g, "a");
    iso_name_scope_end(g, NULL);
    iso_name_scope_begin(g, "a");
    check_graph(g, "two layers are named 'a'");
    g = iso_graph_create(ctx);
    for (int i = 0; i < 40; i++)
        iso_name_scope_begin(g, "deep");
    check_graph(g, "33 blocks within each other, at most 32 are possible");
    g = iso_graph_create(ctx);
    iso_dense(iso_input(g, "x", ISO_F32, ISO_SHAPE(3)), 3, .no_bias = true, .bias_layout = "model",
              .name = "d");
    check_graph(g, "layer 'd' (Dense): it has a layout for its bias and no such variable");
}
END_TEST

START_TEST(a_layer_s_own_layout_must_fit)
{
    static const char *const wrong[][2] = {
        {"model", "'d/kernel': layout 'model' has 1 entry, its shape is [3, 4]"},
        {"-, modle", "'d/kernel': layout '-, modle', position 4: the mesh batch=1,model=8 has no axis "
                     "'modle'; did you mean 'model'?"},
        {"-, model; -", "'d/kernel': layout '-, model; -': neither ',' nor the end at position 9"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        iso_mesh *mesh;
        iso_distribution *distribution;
        iso_function *function = NULL;
        iso_graph *g = iso_graph_create(ctx);
        iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(3));
        iso_tensor *y = iso_sum(iso_dense(x, 4, .kernel_layout = wrong[i][0], .name = "d"));
        check_ok(iso_mesh_create(ctx, "batch=1,model=8", &mesh));
        check_ok(iso_data_parallel_create(mesh, &distribution));
        iso_graph_distribute(g, distribution);
        iso_status status = iso_function_create(g, &function, .inputs = {x}, .outputs = {y});
        ck_assert_int_eq(status, ISO_INVALID);
        ck_assert_msg(strstr(iso_error_message(), wrong[i][1]), "'%s' instead of '%s'", iso_error_message(),
                      wrong[i][1]);
        iso_graph_destroy(g);
        iso_distribution_destroy(distribution);
        iso_mesh_destroy(mesh);
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "3", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("tutorial", 120, each_model_trains_as_on_one_slot,
                                      data_sets_are_read_in_parts, names_are_counted_within_their_block,
                                      wrong_names_and_blocks_are_refused, a_layer_s_own_layout_must_fit))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
