/* Test accuracy of `convnet` and `dtensor` on Fashion-MNIST after three epochs, over sixty seeds, against
 * Keras's over 60 and 58 (tests/keras/accuracy.json): means within 2.5 standard errors of their difference
 * and within one point. Single runs of `convnet` lie three points apart, so twenty would tell a mean to about
 * a point only. Ranks: 1 Long: yes Timeout: 3600 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { SEEDS = 60, BATCH = 64, EPOCHS = 3 };

static iso_context *ctx;

/* A number of a network in the file: "mean", "standard_error". */
static double stored(const char *network, const char *key)
{
    static char text[16384];
    char quoted[64];
    FILE *file = fopen("tests/keras/accuracy.json", "r");
    ck_assert_ptr_nonnull(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    snprintf(quoted, sizeof quoted, "\"%s\"", network);
    const char *at = strstr(text, quoted);
    ck_assert_ptr_nonnull(at);
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = strstr(at, quoted);
    ck_assert_ptr_nonnull(at);
    return atof(at + strlen(quoted));
}

static double train(const char *network, uint64_t seed, iso_dataset *test)
{
    const iso_builtin_model *builtin;
    iso_dataset *data = NULL;
    double accuracy;
    check_ok(iso_builtin_model_find(network, &builtin));
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_seed(graph, seed);
    iso_tensor *x = iso_input(graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_model *model = iso_model_create(graph, x, builtin->build(x, 10, NULL));
    check_ok(iso_compile(model, .optimizer = builtin->optimizer(), .loss = builtin->loss,
                         .metrics = {ISO_METRIC_ACCURACY}));
    check_ok(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &data));
    check_ok(iso_dataset_shuffle(data, 0, .seed = seed));
    check_ok(iso_dataset_batch(data, BATCH));
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, test, .metrics = &accuracy, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    return accuracy;
}

static void check_network(const char *network)
{
    double sum = 0, squares = 0;
    iso_dataset *test = NULL;
    check_ok(iso_dataset_open(ctx, "fashion-mnist", ISO_TEST, &test));
    check_ok(iso_dataset_batch(test, 256));
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double accuracy = train(network, seed, test);
        sum += accuracy;
        squares += accuracy * accuracy;
    }
    iso_dataset_destroy(test);
    double mean = sum / SEEDS, variance = (squares - SEEDS * mean * mean) / (SEEDS - 1);
    double theirs = stored(network, "mean"), error = stored(network, "standard_error");
    double both = sqrt(variance / SEEDS + error * error);
    printf("%s: %.5f, Keras %.5f, difference %.2f standard errors\n", network, mean, theirs,
           (mean - theirs) / both);
    ck_assert_msg(fabs(mean - theirs) <= 2.5 * both,
                  "%s: %.5f, Keras %.5f, standard error of the difference %.5f", network, mean, theirs, both);
    ck_assert_msg(fabs(mean - theirs) <= 0.01, "%s: %.5f is more than a point from Keras's %.5f", network,
                  mean, theirs);
}

START_TEST(convnet)
{
    check_network("convnet");
}
END_TEST

START_TEST(dtensor)
{
    check_network("dtensor");
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    int failed = status == ISO_OK ? RUN_TESTS("accuracy", 0, dtensor, convnet) : 1;
    return iso_finish(ctx, status) || failed;
}
