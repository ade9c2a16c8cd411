/* Models that Keras saved whose layers have policies of their own (tests/keras/policies): what they predict, and
 * how they go on training, against what Keras has (policies.h5). Keras's predictions in float32, and with
 * mixed_bfloat16 in all layers, are 50 times as far away; its losses twice, because gradients are rounded
 * elsewhere. A file of such a model has the policies too, and in float64 all of it is computed in float64.
 * Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/graph/layer.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

enum { ROWS = 24, OUTPUTS = 3, MOST_STEPS = 8, COUNT = ROWS * OUTPUTS };

static iso_context *ctx;
static oracle *file;
static char folder[64];

typedef struct policy_case {
    const char *name;
    iso_model *model;
    iso_dataset *data;
} policy_case;

static double distance(const double *a, const double *b, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* ours is as Keras's dataset: those of other policies are `times` as far away. */
static void check_policies(const char *name, const char *dataset, const double *ours, int count, double times)
{
    static const char *const others[] = {"_f32", "_mixed"};
    const double *expected = oracle_data(file, name, dataset, NULL);
    double gap = distance(ours, expected, count);
    for (int i = 0; i < 2; i++) {
        char other[32];
        snprintf(other, sizeof other, "%s%s", dataset, others[i]);
        double apart = distance(oracle_data(file, name, other, NULL), expected, count);
        ck_assert_msg(gap < apart / times, "%s, %s: %g from Keras, of which %s is %g away", name, dataset,
                      gap, others[i], apart);
    }
}

static void open_case(policy_case *c, const char *name, const char *path, iso_dtype precision)
{
    iso_shape x, t;
    iso_compile_options compile;
    c->name = name;
    check_ok(iso_keras_load(ctx, path, &c->model, .precision = precision, .compile = &compile));
    check_ok(iso_compile_with(c->model, &compile, sizeof compile));
    check_ok(iso_keras_load_weights(c->model, path));
    double *inputs = oracle_data(file, name, "x0", &x), *targets = oracle_data(file, name, "t0", &t);
    check_ok(iso_dataset_arrays(ctx, &c->data, .x = {.data = inputs, .shape = x, .dtype = ISO_F64},
                                .y = {.data = targets, .shape = t, .dtype = ISO_F64}));
    check_ok(iso_dataset_batch(c->data, ROWS));
}

static void close_case(policy_case *c)
{
    iso_model_destroy(c->model);
    iso_dataset_destroy(c->data);
}

static void predict(policy_case *c, iso_dtype type, double *values)
{
    double y[COUNT];
    check_ok(iso_predict(c->model, c->data, .outputs = {y}, .verbose = ISO_ZERO));
    for (int i = 0; i < COUNT; i++)
        values[i] = iso_element_get(y, type, i);
}

static void train(policy_case *c, double *losses)
{
    iso_history *history = NULL;
    int steps = (int)oracle_number(file, c->name, "steps", 0);
    check_ok(iso_fit(c->model, c->data, .epochs = steps, .verbose = ISO_ZERO, .history = &history));
    for (int i = 0; i < steps; i++) {
        iso_logs logs = iso_history_logs(history, i);
        losses[i] = iso_logs_get(&logs, "loss");
    }
    iso_history_destroy(history);
}

/* The types in which its layers compute: those that Keras gives for the file. */
static void check_types(const policy_case *c)
{
    iso_text types = {0};
    const iso_graph *graph = iso_model_graph(c->model);
    for (int i = 0; i < iso_graph_layer_count(graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(graph, i);
        if (strcmp(layer->type, "InputLayer") != 0 && !layer->function_of)
            iso_text_add(&types, "%s%s", types.length ? "," : "",
                         layer->compute == ISO_BF16 ? "bfloat16" : iso_dtype_name(layer->compute));
    }
    ck_assert_str_eq(iso_text_get(&types), oracle_text(file, c->name, "computes"));
    iso_text_free(&types);
}

/* The layers of a model compute in the same types in another one, which may have more layers. */
static void check_same_types(const policy_case *c, const policy_case *again)
{
    const iso_graph *a = iso_model_graph(c->model), *b = iso_model_graph(again->model);
    for (int i = 0, k = 0; i < iso_graph_layer_count(a); i++, k++) {
        const iso_layer_record *layer = iso_graph_layer(a, i), *other;
        while ((other = iso_graph_layer(b, k)) && strcmp(other->name, layer->name) != 0)
            k++;
        ck_assert_msg(other && (layer->function_of || other->compute == layer->compute), "%s: layer '%s'",
                      c->name, layer->name);
    }
}

static void path_of(const char *name, char path[300])
{
    snprintf(path, 300, "tests/keras/policies/%s.keras", name);
}

static void as_keras(const char *name)
{
    char path[300];
    policy_case c;
    double y[COUNT], losses[MOST_STEPS];
    path_of(name, path);
    open_case(&c, name, path, ISO_F32);
    check_types(&c);
    predict(&c, ISO_F32, y);
    check_policies(name, "y0", y, COUNT, 50);
    train(&c, losses);
    check_policies(name, "losses", losses, (int)oracle_number(file, name, "steps", 0), 2);
    close_case(&c);
}

START_TEST(borders_as_keras)
{
    for (int i = 0; i < oracle_cases(file); i++)
        as_keras(oracle_case(file, i));
}
END_TEST

/* Its file gives the same bits again; in ISO_BF16 too, because the file says which layers have that policy. */
static void as_saved(const char *name)
{
    char path[300], copy[300];
    policy_case c, again;
    double a[COUNT], b[COUNT];
    path_of(name, path);
    snprintf(copy, sizeof copy, "%s/%s.keras", folder, name);
    open_case(&c, name, path, ISO_F32);
    predict(&c, ISO_F32, a);
    check_ok(iso_keras_save(c.model, copy));
    open_case(&again, name, copy, ISO_BF16);
    check_same_types(&c, &again);
    predict(&again, ISO_F32, b);
    ck_assert_mem_eq(a, b, sizeof a);
    close_case(&again);
    close_case(&c);
    check_ok(iso_agree(ctx, ISO_OK));
    if (iso_is_chief(ctx))
        unlink(copy);
}

START_TEST(saved_with_policies)
{
    for (int i = 0; i < oracle_cases(file); i++)
        as_saved(oracle_case(file, i));
}
END_TEST

START_TEST(in_float64)
{
    for (int i = 0; i < oracle_cases(file); i++) {
        char path[300];
        policy_case c;
        double y[COUNT];
        path_of(oracle_case(file, i), path);
        open_case(&c, oracle_case(file, i), path, ISO_F64);
        predict(&c, ISO_F64, y);
        check_near(c.name, y, oracle_data(file, c.name, "y0_f32", NULL), COUNT, 1e-5);
        close_case(&c);
    }
}
END_TEST

/* Scopes in a program: policies within policies, and what is wrong. */
START_TEST(scopes)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(4));
    iso_policy_begin(g, ISO_BF16);
    iso_tensor *a = iso_dense(x, 3);
    iso_policy_begin(g, ISO_F32);
    iso_tensor *b = iso_dense(a, 3);
    iso_policy_end(g);
    iso_tensor *c = iso_dense(b, 3);
    iso_policy_end(g);
    iso_tensor *d = iso_dense(c, 3);
    ck_assert_int_eq(iso_tensor_dtype(a), ISO_BF16);
    ck_assert_int_eq(iso_tensor_dtype(b), ISO_F32);
    ck_assert_int_eq(iso_tensor_dtype(c), ISO_BF16);
    ck_assert_int_eq(iso_tensor_dtype(d), ISO_F32);
    ck_assert_str_eq(iso_graph_precision_name(g), "policies of layers");
    iso_policy_end(g);
    check_refused(iso_graph_error(g), "iso_policy_end without iso_policy_begin");
    iso_graph_destroy(g);
    g = iso_graph_create(ctx);
    iso_policy_begin(g, ISO_F64);
    check_refused(iso_graph_error(g), "iso_policy_begin: float64 in a graph of precision float32");
    iso_graph_destroy(g);
    g = iso_graph_create(ctx);
    for (int i = 0; i < 33; i++)
        iso_policy_begin(g, ISO_BF16);
    check_refused(iso_graph_error(g), "more than 32 scopes");
    iso_graph_destroy(g);
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    status = make_test_folder(ctx, folder);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    file = oracle_open("policies.h5");
    int failed =
        RUN_TESTS("policies of layers", 0, borders_as_keras, saved_with_policies, in_float64, scopes);
    oracle_close(file);
    return iso_finish(ctx, remove_test_folder(ctx, folder)) || failed;
}
