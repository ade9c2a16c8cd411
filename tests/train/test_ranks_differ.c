/* Ranks that do not compile the same model, or hold other data or another order of it, are told which layer,
 * setting, array or stage differs, on all ranks alike. Ranks: 1, 3, 8   More: 2 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "models/models.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* What rank `odd` has otherwise. */
typedef struct variation {
    int64_t units;
    double rate, learning_rate, beta_1;
    iso_activation_kind activation;
    const char *name;
    bool loss, metric, more, no_bias;
} variation;

/* An op that is no layer. */
static iso_status make_function(bool odd)
{
    iso_function *f = NULL;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_status status = iso_function_create(g, &f, .inputs = {x},
                                            .outputs = {odd ? iso_tanh(iso_exp(x)) : iso_tanh(iso_sqrt(x))});
    iso_function_destroy(f);
    iso_graph_destroy(g);
    return status;
}

static iso_status compile(const variation *v)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_tensor *h = iso_dense(x, v->units ? v->units : 6, .name = v->name ? v->name : "d1",
                              .activation = v->activation, .no_bias = v->no_bias);
    h = iso_dropout(h, v->rate ? v->rate : 0.5);
    if (v->more)
        h = iso_flatten(h);
    iso_model *m = iso_model_create(g, x, iso_dense(h, 1, .name = "d2"));
    iso_status status = iso_compile(m, .optimizer = iso_adam(v->learning_rate, .beta_1 = v->beta_1),
                                    .loss = v->loss ? ISO_LOSS_MAE : ISO_LOSS_MSE,
                                    .metrics = {v->metric ? ISO_METRIC_MAE : 0});
    iso_model_destroy(m);
    return status;
}

/* Rank `odd` has a model of its own. */
static void expect(const variation *v, const char *rank_0, const char *other)
{
    int ranks = iso_ranks(ctx), odd = ranks - 1;
    static const variation usual;
    char wanted[400];
    iso_status status = compile(iso_rank(ctx) == odd ? v : &usual);
    if (ranks == 1) {
        check_ok(status);
        return;
    }
    snprintf(
        wanted, sizeof wanted,
        "rank %d differs from rank 0 in the model and what it is compiled with: rank 0 has '%s', rank %d "
        "has '%s'",
        odd, rank_0, odd, other);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_str_eq(iso_error_message(), wanted);
}

START_TEST(test_models_that_differ)
{
    expect(&(variation){.units = 7}, "layer 'd1' (Dense): units = 6", "layer 'd1' (Dense): units = 7");
    expect(&(variation){.rate = 0.25}, "layer 'dropout' (Dropout): rate = 0.5",
           "layer 'dropout' (Dropout): rate = 0.25");
    expect(&(variation){.name = "e1"}, "layer 'd1' (Dense)", "layer 'e1' (Dense)");
    expect(&(variation){.activation = ISO_TANH}, "layer 'd1' (Dense): activation = \"linear\"",
           "layer 'd1' (Dense): activation = \"tanh\"");
    expect(&(variation){.no_bias = true}, "layer 'd1' (Dense): use_bias = true",
           "layer 'd1' (Dense): use_bias = false");
    expect(&(variation){.more = true}, "layer 'd2' (Dense)", "layer 'flatten' (Flatten)");
}
END_TEST

START_TEST(test_settings_that_differ)
{
    expect(&(variation){.learning_rate = 0.5}, "optimizer adam: learning_rate = 0.001",
           "optimizer adam: learning_rate = 0.5");
    expect(&(variation){.beta_1 = 0.5}, "optimizer adam: beta_1 = 0.90000000000000002",
           "optimizer adam: beta_1 = 0.5");
    expect(&(variation){.loss = true}, "output 'd2': loss = mse", "output 'd2': loss = mae");
    expect(&(variation){.metric = true}, "losses and metrics: loss", "losses and metrics: loss mae");
}
END_TEST

START_TEST(test_programs_that_differ)
{
    int ranks = iso_ranks(ctx);
    check_ok(make_function(false));
    if (ranks > 1)
        check_refused_naming(make_function(iso_rank(ctx) == ranks - 1), ": sqrt to float32[",
                             ": exp to float32[");
}
END_TEST

/* ---- ops that are no layers ---- */

enum { CONSTANT, NUMBER, AFFINE, LEAKY_RELU, ELU, DROPOUT_RATE, DROPOUT_PATH, NOISE, SLICE, AXIS, BARE_OPS };

static iso_tensor *bare_op(iso_graph *g, iso_tensor *x, int which, bool odd)
{
    static const double same[4] = {1, 2, 3, 4}, other[4] = {1, 2, 3, 5};
    iso_tensor *constant = iso_constant(g, ISO_F32, ISO_SHAPE(4), odd && which == CONSTANT ? other : same);
    switch (which) {
    case NUMBER:
        return iso_multiply(x, iso_number(g, ISO_F32, odd ? 2 : 1));
    case AFFINE:
        return iso_affine(x, 1, odd ? 0.5 : 0);
    case LEAKY_RELU:
        return iso_leaky_relu(x, odd ? 0.3 : 0.1);
    case ELU:
        return iso_elu(x, odd ? 2 : 1);
    case DROPOUT_RATE:
        return iso_dropout_op(x, odd ? 0.5 : 0.1, "p");
    case DROPOUT_PATH:
        return iso_dropout_op(x, 0.5, odd ? "q" : "p");
    case NOISE:
        return iso_gaussian_noise_op(x, odd ? 1 : 0.5, "n");
    case SLICE:
        return iso_slice(x, (int64_t[]){odd}, (int64_t[]){2});
    case AXIS:
        return iso_softmax(iso_reshape(x, ISO_SHAPE(ISO_BATCH, 2, 2)), odd ? 1 : 2);
    default:
        return iso_multiply(x, constant);
    }
}

static iso_status make_bare(int which, bool odd)
{
    iso_function *f = NULL;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_status status =
        iso_function_create(g, &f, .inputs = {x}, .outputs = {bare_op(g, x, which, odd)}, .training = true);
    iso_function_destroy(f);
    iso_graph_destroy(g);
    return status;
}

START_TEST(test_bare_ops_that_differ)
{
    static const char *const wanted[BARE_OPS][2] = {
        [CONSTANT] = {"rank 0 has 'constant: float32[4]", "hash of values"},
        [NUMBER] = {"first value 1,", "first value 2,"},
        [AFFINE] = {"affine to", "shift = 0.5"},
        [LEAKY_RELU] = {"alpha = 0.1", "alpha = 0.29999999999999999"},
        [ELU] = {"elu to", "alpha = 2"},
        [DROPOUT_RATE] = {"dropout to", "scale = 2"},
        [DROPOUT_PATH] = {"dropout to", "key = "},
        [NOISE] = {"stddev = 0.5", "stddev = 1"},
        [SLICE] = {"begin[1] = 0", "begin[1] = 1"},
        [AXIS] = {"axis = 2", "axis = 1"},
    };
    int odd = iso_ranks(ctx) - 1;
    for (int which = 0; which < BARE_OPS; which++) {
        check_ok(make_bare(which, false));
        if (odd)
            check_refused_naming(make_bare(which, iso_rank(ctx) == odd), wanted[which][0], wanted[which][1]);
    }
}
END_TEST

/* The variables without weight decay. */
START_TEST(test_decay_that_differs)
{
    int odd = iso_ranks(ctx) - 1;
    iso_dataset *ds = NULL;
    static float x[32], y[8];
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *in = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_model *m = iso_model_create(g, in, iso_dense(in, 1, .name = "d"));
    check_ok(
        iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(8, 4)}, .y = {y, ISO_F32, ISO_SHAPE(8, 1)}));
    iso_status status = iso_compile(
        m, .loss = ISO_LOSS_MSE,
        .optimizer = iso_sgd(.weight_decay = 0.25, .no_decay = iso_rank(ctx) == odd ? "bias" : "kernel"));
    if (status == ISO_OK)
        status = iso_fit(m, ds, .verbose = ISO_ZERO);
    if (odd)
        check_refused_naming(status, "update of 'd/kernel'", "weight_decay = 0.25");
    else
        check_ok(status);
    iso_model_destroy(m);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_models_that_are_the_same)
{
    variation all = {.units = 3, .rate = 0.1, .learning_rate = 0.1, .metric = true, .more = true};
    check_ok(compile(&all));
}
END_TEST

/* ---- arrays ---- */

static iso_status open_arrays(const float *x, const float *y, const float *weight, int64_t rows)
{
    iso_dataset *ds = NULL;
    iso_status status = iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(rows, 3)},
                                           .y = {y, ISO_F32, ISO_SHAPE(rows)},
                                           .sample_weight = {weight, ISO_F32, ISO_SHAPE(rows)});
    iso_dataset_destroy(ds);
    return status;
}

START_TEST(test_arrays_that_differ)
{
    enum { ROWS = 50 };
    float x[3 * ROWS], y[ROWS], weight[ROWS];
    float *const array[] = {x, y, weight};
    static const char *const name[] = {"x,", "y,", "sample_weight,"};
    int ranks = iso_ranks(ctx), odd = ranks - 1;
    char wanted[100];
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    memset(weight, 0, sizeof weight);
    check_ok(open_arrays(x, y, weight, ROWS));
    for (int i = 0; i < 3 && ranks > 1; i++)
        for (int at = 0; at < ROWS; at += 7) { /* one value of one array of one rank */
            array[i][at] = iso_rank(ctx) == odd;
            ck_assert_int_eq(open_arrays(x, y, weight, ROWS), ISO_INVALID);
            snprintf(wanted, sizeof wanted, "rank %d differs from rank 0 in the contents of %s", odd,
                     name[i]);
            ck_assert_msg(strstr(iso_error_message(), wanted) && strstr(iso_error_message(), ".local"), "%s",
                          iso_error_message());
            array[i][at] = 0;
        }
    if (ranks == 1)
        return;
    ck_assert_int_eq(open_arrays(x, y, weight, iso_rank(ctx) > 0 ? ROWS - 1 : ROWS), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), ".local") && strstr(iso_error_message(), "49 rows of"), "%s",
                  iso_error_message());
}
END_TEST

/* ---- the order of rows ---- */

typedef struct order {
    uint64_t seed;
    int64_t buffer;
    bool once, none;
} order;

enum { ORDER_ROWS = 40, FIT = 0, VALIDATE, EVALUATE, PREDICT, USES };

static iso_dataset *open_ordered(const order *o)
{
    static float x[ORDER_ROWS * 4], y[ORDER_ROWS];
    iso_dataset *ds = NULL;
    check_ok(iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(ORDER_ROWS, 4)},
                                .y = {y, ISO_F32, ISO_SHAPE(ORDER_ROWS, 1)}));
    if (!o->none)
        check_ok(iso_dataset_shuffle(ds, o->buffer, .seed = o->seed, .once = o->once));
    check_ok(iso_dataset_batch(ds, 8));
    return ds;
}

static iso_status use(iso_model *m, iso_dataset *ds, int how)
{
    static float out[ORDER_ROWS];
    iso_dataset *same = open_ordered(&(order){.seed = 5});
    iso_status status = how == FIT        ? iso_fit(m, ds, .verbose = ISO_ZERO)
                        : how == VALIDATE ? iso_fit(m, same, .validation = ds, .verbose = ISO_ZERO)
                        : how == EVALUATE ? iso_evaluate(m, ds, .verbose = ISO_ZERO)
                                          : iso_predict(m, ds, .outputs = {out}, .verbose = ISO_ZERO);
    iso_dataset_destroy(same);
    return status;
}

/* The last rank has the rows in another order. */
static void expect_order(iso_model *m, const order *other, const char *text)
{
    int odd = iso_ranks(ctx) - 1;
    static const order usual = {.seed = 5};
    static const char *const what[] = {"fit's data", "fit's validation data", "evaluate's data",
                                       "predict's data"};
    char wanted[300];
    for (int how = 0; how < USES; how++) {
        iso_dataset *ds = open_ordered(iso_rank(ctx) == odd ? other : &usual);
        iso_status status = use(m, ds, how);
        snprintf(wanted, sizeof wanted,
                 "rank %d differs from rank 0 in the order of %s: rank 0 has '40 rows, shuffle with seed 5, "
                 "batches of 8', rank %d has '40 rows, %sbatches of 8'",
                 odd, what[how], odd, text);
        ck_assert_msg(status == (odd ? ISO_INVALID : ISO_OK), "%s: %s%s", what[how], text,
                      iso_error_message());
        if (odd)
            ck_assert_str_eq(iso_error_message(), wanted);
        iso_dataset_destroy(ds);
    }
}

START_TEST(test_orders_that_differ)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_model *m = iso_model_create(g, x, iso_dense(x, 1));
    check_ok(iso_compile(m, .optimizer = iso_sgd(), .loss = ISO_LOSS_MSE));
    expect_order(m, &(order){.seed = 6}, "shuffle with seed 6, ");
    expect_order(m, &(order){.seed = 5, .buffer = 7}, "shuffle with seed 5, a buffer of 7, ");
    expect_order(m, &(order){.seed = 5, .once = true}, "shuffle with seed 5, once, ");
    expect_order(m, &(order){.none = true}, "");
    iso_model_destroy(m);
}
END_TEST

/* One rank resumes. */
START_TEST(test_fits_that_differ)
{
    int odd = iso_ranks(ctx) - 1;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_model *m = iso_model_create(g, x, iso_dense(x, 1));
    iso_dataset *ds = open_ordered(&(order){.seed = 5});
    check_ok(iso_compile(m, .optimizer = iso_sgd(), .loss = ISO_LOSS_MSE));
    if (odd)
        check_refused_naming(
            iso_fit(m, ds, .resume = iso_rank(ctx) == odd ? "some.weights.h5" : NULL, .verbose = ISO_ZERO),
            "from rank 0 in what fit is to do: rank 0 has '1 epochs from 0 of 5 steps, 40 rows in batches of "
            "8', ",
            ", resume 'some.weights.h5''");
    check_ok(iso_fit(m, ds, .verbose = ISO_ZERO));
    iso_dataset_destroy(ds);
    iso_model_destroy(m);
}
END_TEST

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return iso_finish(ctx, ISO_INVALID);
    int code = RUN_TESTS("ranks that differ", 60, test_models_that_differ, test_settings_that_differ,
                         test_programs_that_differ, test_models_that_are_the_same, test_arrays_that_differ,
                         test_orders_that_differ, test_bare_ops_that_differ, test_decay_that_differs,
                         test_fits_that_differ);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
