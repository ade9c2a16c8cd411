/* Meshes of every shape compute what one slot computes: the guides' networks, with sharded kernels, biases
 * and outputs. In float64 losses and weights after several steps; in float32 the first step's loss and
 * gradients. Ranks: 1, 2 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { ROWS = 13, STEPS = 5, MOST_VARIABLES = 32 };

/* ---- networks ---- */

static void build(net *n, const char *name)
{
    const iso_builtin_model *model;
    check_ok(iso_builtin_model_find(name, &model));
    n->input[0] = iso_input(n->graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    n->input[1] = iso_input(n->graph, "label", ISO_I32, (iso_shape){0});
    n->classes[1] = 10;
    n->inputs = 2;
    iso_tensor *logits = model->build(iso_affine(n->input[0], 255, 0), 10, NULL);
    n->loss = iso_reduce_loss(iso_sparse_crossentropy(n->input[1], logits, .from_logits = true), NULL);
}

static void convnet(net *n)
{
    build(n, "convnet");
}

static void mlp(net *n)
{
    build(n, "mlp");
}

static const net_kind kinds[] = {{"convnet", convnet}, {"mlp", mlp}};

static const char *const convnet_layouts[] = {"conv2d/kernel",     "-, -, -, model", "conv2d_1/kernel",
                                              "-, -, model, -",    "large_k/kernel", "-, -, -, model",
                                              "large_k/bias",      "model",          "large_k/output",
                                              "data, -, -, model", "dense/kernel",   "-, model",
                                              "dense/bias",        "model",          "dense/output",
                                              "data, model",       "dense_1/kernel", "model, -",
                                              "dropout/output",    "-, model",       NULL};
static const char *const mlp_layouts[] = {
    "dense/kernel",   "-, model",       "dense/bias", "model",          "dense/output",
    "data, model",    "dense_1/kernel", "model, -",   "dense_1/output", "data, -",
    "dense_2/kernel", "data, model",    NULL};
static const char *const *const layouts[] = {convnet_layouts, mlp_layouts};
static const char *const meshes[] = {"data=8,model=1", "data=4,model=2", "data=2,model=4", "data=1,model=8",
                                     "data=3,model=2"};
enum { MESHES = 5 };

/* mesh NULL: one slot. */
static void begin(trial *t, int kind, const char *mesh, iso_dtype precision)
{
    const int alone[1] = {0};
    iso_optimizer adam = iso_adam(1e-3);
    trial_begin(t, ctx, &kinds[kind], precision, ROWS);
    trial_mesh(t, mesh ? mesh : "data=1", mesh ? NULL : alone);
    for (int i = 0; mesh && layouts[kind][i]; i += 2)
        trial_layout(t, layouts[kind][i], layouts[kind][i + 1]);
    trial_make(t, mesh ? "data" : NULL, &adam);
}

/* ---- float64 ---- */

static void compare(const trial *t, const char *what, const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(a[i] - b[i]) <= 1e-10 * fmax(1, fabs(b[i])),
                      "%s: %s %lld is %.17g, on one slot %.17g", t->what, what, (long long)i, a[i], b[i]);
}

static double *train(trial *t, double *losses, int64_t *count)
{
    for (int i = 0; i < STEPS; i++)
        losses[i] = trial_step(t, i);
    return trial_weights(t, count);
}

static void check_float64(int kind)
{
    trial one, many;
    double loss[STEPS], losses[STEPS];
    int64_t count;
    begin(&one, kind, NULL, ISO_F64);
    double *weights = train(&one, loss, &count);
    for (int m = 0; m < MESHES; m++) {
        begin(&many, kind, meshes[m], ISO_F64);
        double *others = train(&many, losses, &count);
        compare(&many, "loss", losses, loss, STEPS);
        compare(&many, "weight", others, weights, count);
        free(others);
        trial_end(&many);
    }
    free(weights);
    trial_end(&one);
}

START_TEST(convnet_in_float64)
{
    check_float64(0);
}
END_TEST

START_TEST(mlp_in_float64)
{
    check_float64(1);
}
END_TEST

/* ---- float32 ---- */

/* Loss and gradients of the first step; outputs[0] is the loss. Returns how many gradients there are. */
static int gradients(trial *t, double **outputs)
{
    iso_tensor *of[MOST_VARIABLES];
    iso_function_options options = {.outputs = {t->net.loss}, .training = true};
    iso_function *function;
    int count = 0;
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++)
        if (iso_variable_trainable(iso_graph_variable(t->net.graph, v)))
            of[count++] = iso_variable_value(iso_graph_variable(t->net.graph, v));
    iso_gradients(t->net.loss, of, count, options.outputs + 1);
    outputs[0] = malloc(sizeof(double));
    for (int i = 0; i < count; i++)
        outputs[i + 1] = malloc((size_t)count_elements(of[i], 0) * sizeof(double));
    memcpy(options.inputs, t->net.input, sizeof t->net.input);
    check_ok(iso_function_create_with(t->net.graph, &function, &options, sizeof options));
    trial_run(t, function, 0, outputs);
    iso_function_destroy(function);
    return count;
}

static void compare_gradient(const trial *t, int number, const double *a, const double *b)
{
    iso_variable *variable = NULL;
    for (int v = 0, n = 0; n < number; v++)
        if (iso_variable_trainable(variable = iso_graph_variable(t->net.graph, v)))
            n++;
    int64_t count = count_elements(iso_variable_value(variable), 0);
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(b[i]));
    /* a bias before a batch normalisation has the gradient zero, but for roundings */
    most = strcmp(iso_variable_path(variable), "large_k/bias") == 0 ? 1 : most;
    ck_assert(most > 0);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(a[i] - b[i]) <= 1e-5 * most,
                      "%s: gradient of %s at %lld is %.9g, on one slot %.9g (of %g)", t->what,
                      iso_variable_path(variable), (long long)i, a[i], b[i], most);
}

static void check_float32(int kind)
{
    trial one, many;
    double *first[MOST_VARIABLES + 1], *other[MOST_VARIABLES + 1];
    begin(&one, kind, NULL, ISO_F32);
    int count = gradients(&one, first);
    for (int m = 0; m < MESHES; m++) {
        begin(&many, kind, meshes[m], ISO_F32);
        ck_assert_int_eq(gradients(&many, other), count);
        ck_assert_msg(fabs(other[0][0] - first[0][0]) <= 1e-6 * first[0][0],
                      "%s: the loss is %.9g, on one slot %.9g", many.what, other[0][0], first[0][0]);
        for (int i = 1; i <= count; i++)
            compare_gradient(&many, i, other[i], first[i]);
        for (int i = 0; i <= count; i++)
            free(other[i]);
        trial_end(&many);
    }
    for (int i = 0; i <= count; i++)
        free(first[i]);
    trial_end(&one);
}

START_TEST(convnet_in_float32)
{
    check_float32(0);
}
END_TEST

START_TEST(mlp_in_float32)
{
    check_float32(1);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS("meshes", 0, convnet_in_float64, mlp_in_float64, convnet_in_float32, mlp_in_float32))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
