/* Twenty steps of each guide network against Keras, from the same weights on the same rows without dropout:
 * losses, accuracy, outputs and gradients of the first step, weights after the last; in float64 closely, in
 * float32 within the promised tolerance, in mixed_bfloat16 (a small transformer too) within what roundings of
 * the weights change; on one slot and on several, wherever they are, with equal bits for all places of the slots
 * of one mesh. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/base/bf16.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "runtime/train/train.h"
#include "tests/support/data_parallel.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

enum { STEPS = 20, PIXELS = 28 * 28, MAX_ROWS = STEPS * 64, MAX_VARIABLES = 20 };
enum { TOKENS = 12, WORDS = 17, WIDTH = 16 }; /* of the transformer */

static iso_context *ctx;
static oracle *file;
static double images[MAX_ROWS * PIXELS], labels[MAX_ROWS * 10];

/* ---- the networks of the guides, without dropout ---- */

static iso_tensor *mlp(iso_tensor *x, double l2)
{
    x = iso_flatten(iso_rescaling(x, 1.0 / 255));
    x = iso_dense(x, 256, .activation = ISO_RELU, .kernel_l2 = l2);
    x = iso_dense(x, 256, .activation = ISO_RELU, .kernel_l2 = l2);
    return iso_dense(x, 10, .kernel_l2 = l2);
}

static iso_tensor *convnet(iso_tensor *x)
{
    x = iso_rescaling(x, 1.0 / 255);
    x = iso_conv2d(x, 12, 3, .padding = ISO_SAME, .no_bias = true);
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_conv2d(x, 24, 6, .strides = 2, .no_bias = true);
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_conv2d(x, 32, 6, .padding = ISO_SAME, .strides = 2, .name = "large_k");
    x = iso_relu(iso_batch_norm(x, .no_scale = true));
    x = iso_global_average_pooling2d(x);
    x = iso_dense(x, 256, .activation = ISO_RELU);
    return iso_dense(x, 10);
}

static iso_tensor *dense(iso_tensor *x)
{
    x = iso_dense(iso_flatten(x), 200, .no_bias = true, .activation = ISO_RELU, .name = "d1");
    return iso_dense(x, 10, .activation = ISO_SOFTMAX, .name = "d2");
}

static iso_tensor *dtensor(iso_tensor *x)
{
    x = iso_flatten(iso_rescaling(x, 1.0 / 255));
    x = iso_dense(x, 128, .activation = ISO_RELU, .name = "d1");
    return iso_dense(x, 10, .name = "d2");
}

static iso_tensor *transformer(iso_tensor *x)
{
    x = iso_embedding(x, WORDS, WIDTH, .name = "table");
    iso_tensor *y = iso_layer_norm(x, .name = "before");
    y = iso_multi_head_attention(y, y, 2, 8, .name = "heads");
    x = iso_merge_add(((iso_tensor *[]){x, y}), 2);
    y = iso_dense(iso_layer_norm(x, .name = "between"), 32, .activation = ISO_GELU, .name = "wide");
    y = iso_dense(y, WIDTH, .name = "narrow");
    x = iso_global_average_pooling1d(iso_merge_add(((iso_tensor *[]){x, y}), 2));
    return iso_dense(x, 10, .activation = ISO_SOFTMAX, .name = "classes");
}

static iso_tensor *network(const char *name, iso_tensor *x)
{
    if (strcmp(name, "transformer") == 0)
        return transformer(x);
    if (strcmp(name, "convnet") == 0)
        return convnet(x);
    if (strcmp(name, "dense") == 0)
        return dense(x);
    if (strcmp(name, "dtensor") == 0)
        return dtensor(x);
    return mlp(x, oracle_number(file, name, "l2", 0));
}

/* ---- numbers ---- */

static void read_rows_of_fashion_mnist(int64_t rows)
{
    iso_dataset *data = NULL;
    const iso_batch *batch = NULL;
    check_ok(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &data));
    check_ok(iso_dataset_batch(data, MAX_ROWS));
    check_ok(iso_dataset_next(data, &batch));
    check_ok(batch->read(batch, 0, 0, rows, ISO_F64, images));
    check_ok(batch->read(batch, 1, 0, rows, ISO_F64, labels));
    iso_dataset_destroy(data);
}

/* The rows of tests/keras/make_mixed.py. */
static void make_tokens(int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < TOKENS; i++) {
            int64_t token = (r * 7 + i * (r % 5 + 3)) % WORDS;
            images[r * TOKENS + i] = (double)token;
            sum += token;
        }
        labels[r] = (double)(sum % 10);
    }
}

static void make_rows(const char *name, int64_t rows)
{
    if (strcmp(name, "transformer") == 0) {
        make_tokens(rows);
        return;
    }
    if (strcmp(name, "dense") != 0) {
        read_rows_of_fashion_mnist(rows);
        return;
    }
    for (int64_t i = 0; i < rows * PIXELS; i++)
        images[i] = oracle_weight(1000, (uint32_t)i, 1);
    for (int64_t i = 0; i < rows * 10; i++)
        labels[i] = oracle_weight(1001, (uint32_t)i, 1);
}

/* ---- a run ---- */

typedef struct run {
    const char *name;
    bool is_dense;
    bool is_transformer;   /* takes tokens, and ends with a softmax */
    double tolerance;      /* relative, of losses */
    const char *precision; /* "_f32" or "_f64": Keras's own run in it (in float32 it rounds Adam's powers of
                              beta, and so do we); "": the run of the file */
    int64_t batch;
    iso_graph *graph;
    iso_tensor *x, *y, *output, *loss;
    iso_function *train, *inspect;
    int trainable;
    iso_tensor *gradient[MAX_VARIABLES];
    const char *trainable_path[MAX_VARIABLES];
    int variables; /* of the network, not the optimizer's */
    iso_variable *variable[MAX_VARIABLES];
} run;

/* What must be equal to the last bit wherever the slots of a mesh are. */
typedef struct bits {
    double loss[STEPS];
    iso_fingerprint weights;
} bits;

static void list_variables(run *r)
{
    iso_tensor *of[MAX_VARIABLES];
    for (int i = 0; i < iso_graph_variable_count(r->graph); i++) {
        iso_variable *variable = iso_graph_variable(r->graph, i);
        ck_assert_int_lt(r->variables, MAX_VARIABLES);
        r->variable[r->variables++] = variable;
        if (!iso_variable_trainable(variable))
            continue;
        r->trainable_path[r->trainable] = iso_variable_path(variable);
        of[r->trainable++] = iso_variable_value(variable);
    }
    iso_gradients(r->loss, of, r->trainable, r->gradient);
}

static void build(run *r, iso_dtype precision, iso_distribution *distribution)
{
    r->graph = iso_graph_create(ctx);
    iso_graph_set_precision(r->graph, precision);
    iso_graph_distribute(r->graph, distribution);
    r->x = r->is_transformer ? iso_input(r->graph, "tokens", ISO_I32, ISO_SHAPE(TOKENS))
                             : iso_input(r->graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    r->output = network(r->name, r->x);
    iso_tensor *y = iso_cast(r->output, ISO_F32); /* of bfloat16, as iso_compile does */
    r->y = r->is_dense ? iso_input(r->graph, "target", ISO_F32, ISO_SHAPE(10))
                       : iso_input(r->graph, "target", ISO_I32, ISO_SCALAR);
    iso_tensor *values = r->is_dense ? iso_mean_squared_error(r->y, y)
                                     : iso_sparse_crossentropy(r->y, y, .from_logits = !r->is_transformer);
    r->loss = iso_reduce_loss(values, NULL);
    iso_tensor *others = iso_graph_losses(r->graph);
    if (others)
        r->loss = iso_add(r->loss, others);
    list_variables(r);
    double rate = oracle_number(file, r->name, "learning_rate", 0);
    iso_update *update = iso_minimize(r->loss, r->is_dense ? iso_rmsprop(rate) : iso_adam(rate));
    iso_function_options options = {.inputs = {r->x, r->y}, .training = true, .outputs = {r->output}};
    for (int i = 0; i < r->trainable; i++)
        options.outputs[1 + i] = r->gradient[i];
    check_ok(iso_graph_error(r->graph));
    check_ok(iso_function_create_with(r->graph, &r->inspect, &options, sizeof options));
    iso_metric_sums hits = {.sum = r->loss};
    if (!r->is_dense)
        hits = iso_metric_build(ISO_METRIC_SPARSE_ACCURACY, r->y, y);
    check_ok(iso_function_create(r->graph, &r->train, .inputs = {r->x, r->y}, .outputs = {r->loss, hits.sum},
                                 .updates = {update}, .training = true));
}

static double limit_of(const iso_shape *shape)
{
    double field = 1, in = (double)shape->dim[shape->rank - 2], out = (double)shape->dim[shape->rank - 1];
    for (int i = 0; i < shape->rank - 2; i++)
        field *= (double)shape->dim[i];
    return sqrt(6.0 / (field * (in + out)));
}

static void assign_weights(const run *r)
{
    for (int v = 0; v < r->variables; v++) {
        const iso_shape *shape = iso_variable_shape(r->variable[v]);
        int64_t count = oracle_elements(shape);
        double *values = calloc((size_t)count, sizeof *values);
        for (int64_t i = 0; i < count; i++)
            values[i] = shape->rank > 1
                            ? oracle_weight((uint32_t)v, (uint32_t)i, limit_of(shape))
                            : strstr(iso_variable_path(r->variable[v]), "moving_variance") != NULL ||
                                  strstr(iso_variable_path(r->variable[v]), "/gamma") != NULL;
        check_ok(iso_variable_assign(r->variable[v], values, count));
        free(values);
    }
}

static void batch_at(const run *r, int step, memory_batch *batch)
{
    memory_batch_begin(batch, r->batch);
    if (r->is_transformer)
        memory_batch_add(batch, ISO_SHAPE(TOKENS), images + step * r->batch * TOKENS);
    else
        memory_batch_add(batch, ISO_SHAPE(28, 28, 1), images + step * r->batch * PIXELS);
    memory_batch_add(batch, r->is_dense ? ISO_SHAPE(10) : ISO_SCALAR,
                     labels + step * r->batch * (r->is_dense ? 10 : 1));
}

/* A dataset of the run's precision. */
static double *expected_of(const run *r, const char *what)
{
    char dataset[80];
    snprintf(dataset, sizeof dataset, "%s%s", what, r->precision);
    double *values = oracle_data(file, r->name, dataset, NULL);
    ck_assert_msg(values, "%s: no %s", r->name, dataset);
    return values;
}

/* Norm and sum of an array against row `which` of the file. */
static void compare_summary(const run *r, const char *what, int which, const double *values, int64_t count,
                            double tolerance)
{
    char title[64];
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    snprintf(title, sizeof title, "%s_norm", what);
    double norm = expected_of(r, title)[which];
    ck_assert_msg(fabs(sqrt(squares) - norm) <= tolerance * norm, "%s, %s %d: %.17g, Keras has %.17g",
                  r->name, title, which, sqrt(squares), norm);
    snprintf(title, sizeof title, "%s_sum", what);
    double expected = expected_of(r, title)[which];
    ck_assert_msg(fabs(sum - expected) <= tolerance * norm * sqrt((double)count),
                  "%s, %s %d: %.17g, Keras has %.17g", r->name, title, which, sum, expected);
}

/* A bias before a batch normalization, or of all keys of a softmax: its gradient is rounding. */
static bool is_without_influence(const char *path)
{
    return strcmp(path, "large_k/bias") == 0 || strcmp(path, "heads/key/bias") == 0;
}

static void check_first_step(const run *r)
{
    memory_batch batch;
    double *outputs[1 + MAX_VARIABLES] = {NULL};
    batch_at(r, 0, &batch);
    outputs[0] = calloc((size_t)r->batch * 10, sizeof(double));
    for (int i = 0; i < r->trainable; i++)
        outputs[1 + i] = calloc((size_t)count_elements(r->gradient[i], r->batch), sizeof(double));
    check_ok(iso_function_evaluate(r->inspect, &batch.batch, outputs));
    check_near(r->name, outputs[0], expected_of(r, "first_outputs"), r->batch * 10, r->tolerance * 5);
    for (int i = 0; i < r->trainable; i++) {
        if (!is_without_influence(r->trainable_path[i]))
            compare_summary(r, "first_gradient", i, outputs[1 + i], count_elements(r->gradient[i], r->batch),
                            r->tolerance * 10);
        free(outputs[1 + i]);
    }
    free(outputs[0]);
}

static void check_losses(const run *r, bits *b)
{
    double *expected = expected_of(r, "losses"), hits = 0;
    for (int step = 0; step < STEPS; step++) {
        memory_batch batch;
        double results[2];
        batch_at(r, step, &batch);
        check_ok(iso_function_run(r->train, &batch.batch, results));
        hits += results[1];
        b->loss[step] = results[0];
        ck_assert_msg(fabs(results[0] - expected[step]) <= r->tolerance * fabs(expected[step]),
                      "%s, step %d: loss %.9g, Keras has %.9g", r->name, step, results[0], expected[step]);
    }
    if (!r->is_dense) {
        double accuracy = hits / (double)(STEPS * r->batch);
        ck_assert(fabs(accuracy - expected_of(r, "accuracy")[0]) < 1.5 / (double)(STEPS * r->batch));
    }
}

static void check_weights(const run *r)
{
    for (int v = 0; v < r->variables; v++) {
        int64_t count = oracle_elements(iso_variable_shape(r->variable[v]));
        double *values = calloc((size_t)count, sizeof *values);
        check_ok(iso_variable_read(r->variable[v], values, count));
        if (!is_without_influence(iso_variable_path(r->variable[v])))
            compare_summary(r, "final", v, values, count, r->tolerance * 100);
        free(values);
    }
}

static bits check_network(const char *name, iso_dtype precision, double tolerance, const char *axes,
                          placing how)
{
    run r = {.name = name, .is_dense = strcmp(name, "dense") == 0, .tolerance = tolerance};
    bits b;
    iso_mesh *mesh;
    iso_distribution *distribution;
    r.precision = precision == ISO_F64 ? "_f64" : "_f32";
    r.batch = (int64_t)oracle_number(file, name, "batch", 0);
    check_ok(data_parallel_place(ctx, axes, how, &mesh, &distribution));
    make_rows(name, STEPS * r.batch);
    build(&r, precision, distribution);
    assign_weights(&r);
    check_first_step(&r);
    assign_weights(&r); /* moving statistics have moved */
    check_losses(&r, &b);
    if (precision == ISO_F64)
        check_weights(&r);
    check_ok(iso_graph_fingerprint(r.graph, &b.weights));
    iso_function_destroy(r.train);
    iso_function_destroy(r.inspect);
    iso_graph_destroy(r.graph);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return b;
}

/* On one slot in one process, on three wherever there are ranks. */
START_TEST(in_float64)
{
    for (int i = 0; i < oracle_cases(file); i++) {
        if (iso_ranks(ctx) == 1)
            check_network(oracle_case(file, i), ISO_F64, 1e-9, "data=1", IN_BLOCKS);
        check_network(oracle_case(file, i), ISO_F64, 1e-9, "data=3", SCATTERED);
    }
}
END_TEST

/* A batch of 32 or 64 rows on slots that do not divide it. */
START_TEST(in_float32)
{
    static const char *const axes[] = {"data=1", "data=3", "data=7"};
    for (int i = 0; i < oracle_cases(file); i++) {
        const char *name = oracle_case(file, i);
        double tolerance = strcmp(name, "convnet") == 0 ? 1e-4 : 2e-6;
        for (int m = 0; m < 3; m++) {
            bits one = check_network(name, ISO_F32, tolerance, axes[m], ON_THE_LAST_RANK);
            if (iso_ranks(ctx) == 1 || m == 0)
                continue;
            bits other = check_network(name, ISO_F32, tolerance, axes[m], m == 2 ? IN_BLOCKS : SCATTERED);
            ck_assert_msg(memcmp(&one, &other, sizeof one) == 0, "%s on %s: other bits on %d ranks", name,
                          axes[m], iso_ranks(ctx));
        }
    }
}
END_TEST

/* ---- mixed_bfloat16 ---- */

/* The outputs of the first step are bfloat16. Those of mlp are Keras's own, to the bit. In the other networks
 * a float32 sum in another order, before a rounding, moves some by a place or two. Norms of gradients differ no more
 * than Keras's do from its own in float32: XLA adds some of them in bfloat16. */
static void check_first_step_mixed(const run *r)
{
    memory_batch batch;
    double outputs[64 * 10], *gradients[1 + MAX_VARIABLES] = {outputs}, *norm, *single, *expected;
    int64_t count = r->batch * 10, equal = 0;
    batch_at(r, 0, &batch);
    for (int i = 0; i < r->trainable; i++)
        gradients[1 + i] = calloc((size_t)count_elements(r->gradient[i], r->batch), sizeof(double));
    check_ok(iso_function_evaluate(r->inspect, &batch.batch, gradients));
    expected = expected_of(r, "first_outputs");
    for (int64_t i = 0; i < count; i++) {
        ck_assert(iso_bf16_to_float(iso_bf16_of_double(outputs[i])) == outputs[i]);
        equal += outputs[i] == expected[i];
    }
    check_near(r->name, outputs, expected, count, 0x1p-6);
    ck_assert_msg(equal >= (strcmp(r->name, "mlp") == 0 ? count : count / 3),
                  "%s: %lld of %lld outputs are Keras's", r->name, (long long)equal, (long long)count);
    norm = expected_of(r, "first_gradient_norm");
    single = expected_of(r, "first_gradient_norm_f32");
    for (int i = 0; i < r->trainable; i++) {
        double squares = 0, most = 0x1p-6 * norm[i] + 1.5 * fabs(single[i] - norm[i]);
        for (int64_t k = 0; k < count_elements(r->gradient[i], r->batch); k++)
            squares += gradients[1 + i][k] * gradients[1 + i][k];
        ck_assert_msg(is_without_influence(r->trainable_path[i]) || fabs(sqrt(squares) - norm[i]) <= most,
                      "%s: the gradient of %s has the norm %.6g, Keras's %.6g, in float32 %.6g", r->name,
                      r->trainable_path[i], sqrt(squares), norm[i], single[i]);
        free(gradients[1 + i]);
    }
}

/* Losses differ from Keras's at most by 2^-8, or by twice what Keras's own differ after its initial weights were
 * moved by half a place of a bfloat16. */
static void check_losses_mixed(const run *r, bits *b)
{
    double *expected = expected_of(r, "losses"), *moved = expected_of(r, "losses_moved"), carried = 0;
    for (int step = 0; step < STEPS; step++) {
        memory_batch batch;
        double results[2];
        batch_at(r, step, &batch);
        check_ok(iso_function_run(r->train, &batch.batch, results));
        b->loss[step] = results[0];
        carried = fmax(carried, fabs(moved[step] - expected[step]));
        double most = fmax(2 * carried, 0x1p-8 * expected[step]);
        ck_assert_msg(fabs(results[0] - expected[step]) <= most,
                      "%s, step %d: loss %.9g, Keras has %.9g +- %.2g", r->name, step, results[0],
                      expected[step], most);
    }
}

static bits check_mixed(const char *name, const char *axes, placing how)
{
    run r = {.name = name, .is_transformer = strcmp(name, "transformer") == 0, .precision = ""};
    bits b;
    iso_mesh *mesh;
    iso_distribution *distribution;
    r.batch = (int64_t)oracle_number(file, name, "batch", 0);
    check_ok(data_parallel_place(ctx, axes, how, &mesh, &distribution));
    make_rows(name, STEPS * r.batch);
    build(&r, ISO_BF16, distribution);
    assign_weights(&r);
    check_first_step_mixed(&r);
    assign_weights(&r);
    check_losses_mixed(&r, &b);
    check_ok(iso_graph_fingerprint(r.graph, &b.weights));
    iso_function_destroy(r.train);
    iso_function_destroy(r.inspect);
    iso_graph_destroy(r.graph);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
    return b;
}

START_TEST(in_mixed_bfloat16)
{
    static const char *const axes[] = {"data=1", "data=7"};
    oracle *others = file;
    file = oracle_open("mixed.h5");
    for (int i = 0; i < oracle_cases(file); i++)
        for (int m = 0; m < 2; m++) {
            const char *name = oracle_case(file, i);
            bits one = check_mixed(name, axes[m], ON_THE_LAST_RANK);
            bits other = iso_ranks(ctx) > 1 ? check_mixed(name, axes[m], SCATTERED) : one;
            ck_assert_msg(memcmp(&one, &other, sizeof one) == 0, "%s on %s: other bits on %d ranks", name,
                          axes[m], iso_ranks(ctx));
        }
    oracle_close(file);
    file = others;
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    file = oracle_open("training.h5");
    int failed = RUN_TESTS("training against Keras", 0, in_float64, in_float32, in_mixed_bfloat16);
    oracle_close(file);
    return iso_finish(ctx, ISO_OK) || failed;
}
