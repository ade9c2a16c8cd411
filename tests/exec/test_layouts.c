/* Any layout gives the numbers of one slot: small networks on random meshes with random layouts of variables
 * and outputs, in float64, after several steps. ISOGRID_TEST_CASE=n repeats one case, ISOGRID_TEST_CASES=n
 * makes so many. Ranks: 1, 3 Timeout: 900 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { STEPS = 5, FEW_CASES = 30, MANY_CASES = 1500, MOST_SLOTS = 8 };
static const double tolerance = 1e-10;

/* ---- random choices ---- */

typedef struct dice {
    uint64_t key, thrown;
} dice;

/* 0..n-1 */
static int throw_dice(dice *d, int n)
{
    return (int)(iso_random_word(d->key, 0, d->thrown++) % (uint32_t)n);
}

static const char *const axis_names[] = {"data", "model", "x"};

/* Up to three axes, 1 to 8 slots and no fewer than there are ranks. */
static int random_mesh(dice *d, char *text, size_t size)
{
    int axes, slots;
    do {
        axes = 1 + throw_dice(d, 3);
        slots = 1;
        text[0] = 0;
        for (int a = 0; a < axes; a++) {
            int n = 1 + throw_dice(d, MOST_SLOTS);
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s%s=%d", a ? "," : "", axis_names[a], n);
            slots *= n;
        }
    } while (slots > MOST_SLOTS || slots < iso_ranks(ctx));
    return axes;
}

/* Each axis shards some dimension or none, in any order. */
static void random_layout(dice *d, int axes, int rank, char *text, size_t size)
{
    char dims[ISO_MAX_RANK][64] = {""};
    int first = throw_dice(d, axes);
    for (int k = 0; k < axes; k++) {
        int dim = throw_dice(d, rank + 1);
        if (dim == rank)
            continue;
        size_t used = strlen(dims[dim]);
        snprintf(dims[dim] + used, sizeof dims[dim] - used, "%s%s", used ? "+" : "",
                 axis_names[(first + k) % axes]);
    }
    text[0] = 0;
    for (int i = 0; i < rank; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i ? ", " : "", dims[i][0] ? dims[i] : "-");
    }
}

/* Split along the batch or any other dimension, or whole: the reader cuts what each slot needs. */
static void random_input_layouts(dice *d, int axes, trial *t)
{
    char text[256], key[128];
    for (int i = 0; i < t->net.inputs; i++) {
        if (throw_dice(d, 2) == 0)
            continue;
        snprintf(key, sizeof key, "%s/output", iso_tensor_name(t->net.input[i]));
        random_layout(d, axes, iso_tensor_shape(t->net.input[i])->rank, text, sizeof text);
        trial_layout(t, key, text);
    }
}

static void random_layouts(dice *d, int axes, trial *t)
{
    char text[256];
    random_input_layouts(d, axes, t);
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, v);
        if (iso_variable_shape(variable)->rank == 0 || throw_dice(d, 3) == 0)
            continue;
        random_layout(d, axes, iso_variable_shape(variable)->rank, text, sizeof text);
        trial_layout(t, iso_variable_path(variable), text);
    }
    for (int l = 0; l < iso_graph_layer_count(t->net.graph); l++) {
        iso_tensor *output = iso_graph_layer(t->net.graph, l)->output;
        const char *name = iso_tensor_name(output);
        if (throw_dice(d, 2) == 0 || !strstr(name, "/output"))
            continue;
        random_layout(d, axes, iso_tensor_shape(output)->rank, text, sizeof text);
        trial_layout(t, name, text);
    }
}

static iso_optimizer random_optimizer(dice *d)
{
    switch (throw_dice(d, 7)) {
    case 0:
        return iso_sgd(0.1);
    case 1:
        return iso_sgd(0.05, .momentum = 0.9, .nesterov = true, .clip_norm = 0.2);
    case 2:
        return iso_adam(0.01);
    case 3:
        return iso_adamw(0.01, .no_decay = "bias", .global_clip_norm = 0.5);
    case 4:
        return iso_rmsprop(0.01, .centered = true, .momentum = 0.5);
    case 5:
        return iso_adagrad(0.05, .clip_value = 0.1);
    default:
        return iso_adam(0.01, .accumulation = 2, .amsgrad = true);
    }
}

/* ---- one case ---- */

/* Losses of the steps, the weights after them, and the loss in inference. */
typedef struct numbers {
    double loss[STEPS], inference;
    int64_t count;
    double *weights;
} numbers;

static void train(trial *t, bool accumulates, numbers *out)
{
    for (int i = 0; i < STEPS; i++)
        out->loss[i] = trial_step(t, i);
    trial_check_counts(t, STEPS, !accumulates);
    out->weights = trial_weights(t, &out->count);
    out->inference = trial_infer(t, STEPS);
}

static void compare(const trial *t, const char *what, const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(a[i] - b[i]) <= tolerance * fmax(1, fabs(b[i])),
                      "%s: %s %lld of %lld is %.17g, on one slot %.17g", t->what, what, (long long)i,
                      (long long)count, a[i], b[i]);
}

/* What one slot computes: on rank 0, where there are several the others stand by. */
static void run_alone(const net_kind *kind, int64_t rows, const iso_optimizer *optimizer, numbers *out)
{
    trial t;
    const int alone[1] = {0};
    trial_begin(&t, ctx, kind, ISO_F64, rows);
    trial_mesh(&t, "data=1", alone);
    trial_make(&t, NULL, optimizer);
    train(&t, optimizer->accumulation > 1, out);
    trial_end(&t);
}

/* A trial on a random mesh with random layouts. */
static void lay_out(dice *d, int number, trial *t, const net_kind *kind, iso_dtype precision, int64_t rows,
                    const iso_optimizer *optimizer)
{
    char mesh[128];
    trial_begin(t, ctx, kind, precision, rows);
    snprintf(t->what, sizeof t->what, "ISOGRID_TEST_CASE=%d: %s, %d rows, %s: ", number, kind->name,
             (int)rows, optimizer->rule);
    int axes = random_mesh(d, mesh, sizeof mesh);
    trial_mesh(t, mesh, NULL);
    random_layouts(d, axes, t);
    trial_make(t, axis_names[throw_dice(d, axes)], optimizer);
}

static void run_case(int number)
{
    dice d = {.key = iso_hash_mix((uint64_t)number + 1)};
    trial t;
    numbers alone, spread;
    const net_kind *kind = &net_kinds[throw_dice(&d, net_kind_count())];
    int64_t rows = 1 + throw_dice(&d, 13);
    iso_optimizer optimizer = random_optimizer(&d);
    run_alone(kind, rows, &optimizer, &alone);
    lay_out(&d, number, &t, kind, ISO_F64, rows, &optimizer);
    train(&t, optimizer.accumulation > 1, &spread);
    ck_assert_int_eq(alone.count, spread.count);
    compare(&t, "loss", spread.loss, alone.loss, STEPS);
    compare(&t, "weight", spread.weights, alone.weights, alone.count);
    compare(&t, "loss in inference", &spread.inference, &alone.inference, 1);
    trial_end(&t);
    free(alone.weights);
    free(spread.weights);
}

/* The same in float32, whose kernels are others: the first losses, by plain descent, which no rounding sends
 * elsewhere. */
static void run_float32(int number)
{
    dice d = {.key = iso_hash_mix((uint64_t)number + 1)};
    const net_kind *kind = &net_kinds[throw_dice(&d, net_kind_count())];
    int64_t rows = 1 + throw_dice(&d, 13);
    iso_optimizer sgd = iso_sgd(0.02);
    const int first[1] = {0};
    trial alone, spread;
    random_optimizer(&d); /* as in float64, so that the same layouts follow */
    trial_begin(&alone, ctx, kind, ISO_F32, rows);
    trial_mesh(&alone, "data=1", first);
    trial_make(&alone, NULL, &sgd);
    lay_out(&d, number, &spread, kind, ISO_F32, rows, &sgd);
    for (int i = 0; i < 2; i++) {
        double a = trial_step(&spread, i), b = trial_step(&alone, i);
        ck_assert_msg(fabs(a - b) <= (i ? 1e-4 : 2e-6) * fmax(1, fabs(b)),
                      "%s: in float32 loss %d is %.9g, on one slot %.9g", spread.what, i, a, b);
    }
    trial_end(&alone);
    trial_end(&spread);
}

static int from_environment(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

START_TEST(random_layouts_give_the_numbers_of_one_slot)
{
    int only = from_environment("ISOGRID_TEST_CASE", -1);
    int cases = from_environment("ISOGRID_TEST_CASES", getenv("ISOGRID_TEST_LONG") ? MANY_CASES : FEW_CASES);
    if (only >= 0) {
        run_case(only);
        run_float32(only);
        return;
    }
    for (int i = 0; i < cases; i++) {
        run_case(i + iso_ranks(ctx) * 100000);
        run_float32(i + iso_ranks(ctx) * 100000);
    }
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(&argc, &argv, &ctx);
    int failed = status == ISO_OK && RUN_TESTS("layouts", 0, random_layouts_give_the_numbers_of_one_slot);
    if (failed)
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
