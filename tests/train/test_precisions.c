/* Accuracy in mixed_bfloat16 against float32, over twenty seeds: `convnet` on Fashion-MNIST after three epochs, and a
 * small GPT on words that it has not seen in this order. Means within 2.5 standard errors of their difference.
 * Ranks: 1 Long: yes Timeout: 3600 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/models.h"
#include "runtime/isogrid.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { SEEDS = 20, EPOCHS = 3 };
enum { VOCABULARY = 64, CONTEXT = 32, SENTENCES = 2048, GPT_BATCH = 32 };

static iso_context *ctx;

/* ---- words ---- */

/* A text of 40 words of up to seven letters, in random order: within a word the letters before tell the next one. */
static void write_words(uint32_t seed, int32_t *tokens, int count)
{
    uint32_t state = seed;
    for (int written = 0; written < count;) {
        state = (state * 1103515245u + 12345u) & 0x7fffffffu;
        uint32_t word = (state >> 8) % 40, letters = word % 7 + 1;
        for (uint32_t i = 0; i <= letters && written < count; i++, written++)
            tokens[written] =
                i == letters ? 0 : (int32_t)((word * 11 + i * i * 5 + 1) % (VOCABULARY - 1) + 1);
    }
}

/* Rows of CONTEXT tokens, and the tokens that follow each. */
static iso_dataset *words(uint32_t seed)
{
    int count = SENTENCES * CONTEXT;
    iso_dataset *data;
    int32_t *tokens = malloc((size_t)(count + 1) * sizeof *tokens);
    ck_assert_ptr_nonnull(tokens);
    write_words(seed, tokens, count + 1);
    check_ok(iso_dataset_arrays(ctx, &data, .x = {tokens, ISO_I32, ISO_SHAPE(SENTENCES, CONTEXT)},
                                .y = {tokens + 1, ISO_I32, ISO_SHAPE(SENTENCES, CONTEXT)}));
    free(tokens);
    return data;
}

static iso_dataset *gpt_data(iso_part part)
{
    return words(part == ISO_TRAIN ? 1 : 2);
}

static iso_model *gpt_model(iso_dtype precision, uint64_t seed)
{
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, precision);
    iso_graph_set_seed(graph, seed);
    iso_tensor *x = iso_input(graph, "tokens", ISO_I32, ISO_SHAPE(CONTEXT));
    iso_tensor *y =
        iso_gpt(.x = x, .vocabulary = VOCABULARY, .layers = 2, .heads = 4, .width = 64, .context = CONTEXT);
    iso_model *model = iso_model_create(graph, x, y);
    check_ok(iso_compile(model, .optimizer = iso_adamw(1e-3), .loss = ISO_LOSS_SPARSE_CROSSENTROPY_LOGITS,
                         .metrics = {ISO_METRIC_ACCURACY}));
    return model;
}

/* ---- images ---- */

static iso_dataset *image_data(iso_part part)
{
    iso_dataset *data;
    check_ok(iso_dataset_open(ctx, "fashion-mnist", part, &data));
    return data;
}

static iso_model *image_model(iso_dtype precision, uint64_t seed)
{
    const iso_builtin_model *builtin;
    check_ok(iso_builtin_model_find("convnet", &builtin));
    iso_graph *graph = iso_graph_create(ctx);
    iso_graph_set_precision(graph, precision);
    iso_graph_set_seed(graph, seed);
    iso_tensor *x = iso_input(graph, "image", ISO_F32, ISO_SHAPE(28, 28, 1));
    iso_model *model = iso_model_create(graph, x, builtin->build(x, 10, NULL));
    check_ok(iso_compile(model, .optimizer = builtin->optimizer(), .loss = builtin->loss,
                         .metrics = {ISO_METRIC_ACCURACY}));
    return model;
}

/* ---- both ---- */

typedef struct network {
    const char *name;
    iso_dataset *(*data)(iso_part part);
    iso_model *(*model)(iso_dtype precision, uint64_t seed);
    int batch;
} network;

static double accuracy_of(const network *n, iso_dtype precision, uint64_t seed)
{
    double accuracy;
    iso_dataset *data = n->data(ISO_TRAIN), *test = n->data(ISO_TEST);
    iso_model *model = n->model(precision, seed);
    check_ok(iso_dataset_shuffle(data, 0, .seed = seed));
    check_ok(iso_dataset_batch(data, n->batch));
    check_ok(iso_dataset_batch(test, 256));
    check_ok(iso_fit(model, data, .epochs = EPOCHS, .verbose = ISO_ZERO));
    check_ok(iso_evaluate(model, test, .metrics = &accuracy, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_dataset_destroy(test);
    iso_model_destroy(model);
    return accuracy;
}

typedef struct moments {
    double mean, error; /* of the mean */
} moments;

static moments moments_of(const network *n, iso_dtype precision)
{
    double sum = 0, squares = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double accuracy = accuracy_of(n, precision, seed);
        sum += accuracy;
        squares += accuracy * accuracy;
    }
    double mean = sum / SEEDS, variance = (squares - SEEDS * mean * mean) / (SEEDS - 1);
    return (moments){mean, sqrt(variance / SEEDS)};
}

static void check_network(const network *n)
{
    moments narrow = moments_of(n, ISO_BF16), single = moments_of(n, ISO_F32);
    double error = sqrt(narrow.error * narrow.error + single.error * single.error);
    printf("%s: mixed_bfloat16 %.5f, float32 %.5f, difference %.2f standard errors of %.5f\n", n->name,
           narrow.mean, single.mean, (narrow.mean - single.mean) / error, error);
    ck_assert_msg(fabs(narrow.mean - single.mean) <= 2.5 * error,
                  "%s: %.5f in mixed_bfloat16, %.5f in float32, standard error of the difference %.5f",
                  n->name, narrow.mean, single.mean, error);
    ck_assert_msg(single.mean > 0.5, "%s: float32 has learned nothing: %.5f", n->name, single.mean);
}

START_TEST(gpt)
{
    check_network(&(network){"gpt", gpt_data, gpt_model, GPT_BATCH});
}
END_TEST

START_TEST(convnet)
{
    check_network(&(network){"convnet", image_data, image_model, 64});
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    int failed = status == ISO_OK ? RUN_TESTS("precisions", 0, gpt, convnet) : 1;
    return iso_finish(ctx, status) || failed;
}
