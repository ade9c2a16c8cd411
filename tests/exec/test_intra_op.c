/* Threads that divide the work of a slot give the bits of one thread: weights after some steps, of
 * networks whose tensors are large enough to be divided, with each optimizer. Ranks: 1 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers.h"
#include "runtime/exec/function/function.h"
#include "runtime/session/session_impl.h"
#include "runtime/train/losses.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

enum { STEPS = 3 };

static iso_context *ctx;

/* ---- networks ---- */

static iso_tensor *add_input(net *n, const char *name, iso_dtype dtype, iso_shape shape, int64_t classes)
{
    n->classes[n->inputs] = classes;
    return n->input[n->inputs++] = iso_input(n->graph, name, dtype, shape);
}

static void classify(net *n, iso_tensor *logits)
{
    const iso_shape *shape = iso_tensor_shape(logits);
    iso_tensor *label = add_input(n, "label", ISO_I32, (iso_shape){0}, shape->dim[shape->rank - 1]);
    n->loss = iso_reduce_loss(iso_sparse_crossentropy(label, logits, .from_logits = true), NULL);
}

/* Of few rows: the optimizer computes the gradients of kernels part by part. */
static void perceptron(net *n)
{
    iso_tensor *x = add_input(n, "x", ISO_F32, ISO_SHAPE(310), 0);
    x = iso_dense(x, 1030, .activation = ISO_RELU, .name = "a");
    x = iso_dense(x, 300, .activation = ISO_TANH, .name = "b");
    classify(n, iso_dense(x, 10, .name = "c"));
}

static void convnet(net *n)
{
    iso_tensor *x = add_input(n, "x", ISO_F32, ISO_SHAPE(20, 20, 3), 0);
    x = iso_conv2d(x, 64, 3, .padding = ISO_SAME, .no_bias = true, .name = "c1");
    x = iso_relu(iso_batch_norm(x, .name = "n1"));
    x = iso_conv2d(x, 96, 3, .strides = 2, .activation = ISO_RELU, .name = "c2");
    x = iso_conv2d(x, 160, 3, .padding = ISO_SAME, .no_bias = true, .name = "c3");
    x = iso_relu(iso_batch_norm(x, .name = "n2"));
    classify(n, iso_dense(iso_global_average_pooling2d(x, .name = "all"), 10, .name = "d"));
}

/* A table that also gives the logits of all positions. */
static void transformer(net *n)
{
    enum { CONTEXT = 70, WORDS = 1500, WIDTH = 128 };
    iso_tensor *x = add_input(n, "x", ISO_I32, ISO_SHAPE(CONTEXT), WORDS);
    x = iso_embedding(x, WORDS, WIDTH, .name = "table");
    iso_tensor *y = iso_layer_norm(x, .name = "norm");
    y = iso_multi_head_attention(y, y, 4, WIDTH / 4, .causal = true, .name = "self");
    x = iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum");
    y = iso_dense(iso_layer_norm(x, .name = "norm2"), 4 * WIDTH, .activation = ISO_GELU, .name = "up");
    y = iso_dense(y, WIDTH, .name = "down");
    x = iso_layer_norm(iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum2"), .name = "norm3");
    classify(n, iso_dense(iso_global_average_pooling1d(x, .name = "mean"), WORDS, .name = "d"));
}

/* ---- the same training with other threads ---- */

typedef struct training {
    net_kind kind;
    int64_t rows;
    const char *mesh;
    iso_optimizer optimizer;
} training;

static double *train(const training *of, int threads, int64_t *count)
{
    trial t;
    ctx->n_threads = threads;
    trial_begin(&t, ctx, &of->kind, ISO_F32, of->rows);
    trial_mesh(&t, of->mesh, NULL);
    trial_make(&t, NULL, &of->optimizer);
    for (int step = 0; step < STEPS; step++)
        trial_step(&t, step);
    double *weights = trial_weights(&t, count);
    trial_end(&t);
    return weights;
}

static void check_threads(const training *of)
{
    int64_t count, others;
    double *one = train(of, 1, &count);
    for (int threads = 3; threads <= 5; threads += 2) {
        double *weights = train(of, threads, &others);
        ck_assert_int_eq(count, others);
        for (int64_t i = 0; i < count; i++)
            if (memcmp(&one[i], &weights[i], sizeof one[i]) != 0)
                ck_abort_msg("%s, mesh %s, %s, %d threads: weight %lld is %.17g, not %.17g", of->kind.name,
                             of->mesh, of->optimizer.rule, threads, (long long)i, weights[i], one[i]);
        free(weights);
    }
    free(one);
}

static const char *const meshes[] = {"data=1", "data=2"};
enum { MESHES = sizeof meshes / sizeof *meshes };

START_TEST(convnets)
{
    for (int m = 0; m < MESHES; m++)
        check_threads(&(training){{"convnet", convnet}, 10, meshes[m], iso_sgd(0.01, .momentum = 0.9)});
}
END_TEST

START_TEST(transformers)
{
    for (int m = 0; m < MESHES; m++)
        check_threads(&(training){{"transformer", transformer}, 9, meshes[m], iso_adam(0.01)});
}
END_TEST

START_TEST(every_optimizer)
{
    training of = {.kind = {"perceptron", perceptron}, .rows = 17};
    for (int i = 0; i < iso_optimizer_count(); i++) {
        of.mesh = meshes[i % MESHES];
        check_ok(iso_optimizer_find(iso_optimizer_name(i), &of.optimizer));
        check_threads(&of);
    }
}
END_TEST

/* With averages of weights, in steps that only accumulate gradients too; of many rows, whose gradients are stored. */
START_TEST(averages_and_stored_gradients)
{
    training of = {.kind = {"perceptron", perceptron}};
    of.optimizer = iso_adamw(0.01, .use_ema = true, .ema_momentum = 0.9, .ema_overwrite_frequency = 1);
    for (int m = 0; m < MESHES; m++)
        for (of.rows = 17; of.rows < 500; of.rows += 280) {
            of.mesh = meshes[m];
            of.optimizer.accumulation = of.rows == 17 ? 2 : 1;
            check_threads(&of);
        }
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed =
        RUN_TESTS("intra_op", 120, convnets, transformers, every_optimizer, averages_and_stored_gradients);
    return iso_finish(ctx, ISO_OK) || failed;
}
