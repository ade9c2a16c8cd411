/* Every layer against Keras: outputs, gradients of inputs and weights, moving statistics, in float64 and
 * float32, for all cases of tests/keras/layers*.h5; activations against finite differences. Ranks: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/layers/config.h"
#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/probe.h"
#include "tests/support/run_tests.h"

enum { MAX_INPUTS = 5, MAX_WEIGHTS = 10, MAX_NUMBERS = 16 };

static iso_context *ctx;
static oracle *file;

/* ---- a case's attributes as a layer's configuration ---- */

/* A part is a layer of which the layer of the case is made; its attributes have a prefix. */
typedef struct case_config {
    const char *name;
    char prefix[32];
    iso_layer_config part[2];
    struct case_config *of_part[2];
    int parts;
} case_config;

static const char *attribute_of(const iso_layer_config *config, const char *key, char room[80])
{
    snprintf(room, 80, "%s%s", ((const case_config *)config->impl)->prefix, key);
    return room;
}

/* Whether a case states no more than Keras's default: then the layer is not told, so that its own default is
 * tested. */
static bool is_default(const char *key, const double *values, int count)
{
    static const struct {
        const char *key;
        double value;
    } defaults[] = {{"epsilon", 1e-3}, {"momentum", 0.99}, {"strides", 1}, {"dilation_rate", 1},
                    {"groups", 1},     {"pool_size", 2},   {"alpha", 1},   {"use_bias", 1},
                    {"scale", 1},      {"center", 1},      {"offset", 0},  {"keepdims", 0},
                    {"axis", -1}};
    size_t i = 0;
    while (i < sizeof defaults / sizeof defaults[0] && strcmp(key, defaults[i].key) != 0)
        i++;
    bool same = i < sizeof defaults / sizeof defaults[0];
    for (int k = 0; same && k < count; k++)
        same = values[k] == defaults[i].value;
    return same;
}

static int case_numbers(const iso_layer_config *config, const char *key, double *values, int capacity)
{
    double found[MAX_NUMBERS];
    char room[80];
    const char *name = ((const case_config *)config->impl)->name;
    int count = oracle_numbers(file, name, attribute_of(config, key, room), found, MAX_NUMBERS);
    bool other = (strcmp(key, "strides") == 0 && strstr(name, "pooling")) || /* has another default */
                 (strcmp(key, "groups") == 0 && strstr(name, "group_norm")) ||
                 (strcmp(key, "scale") == 0 && strstr(name, "erasing"));
    if (count == 0 || (is_default(key, found, count) && !other))
        return 0;
    memcpy(values, found, (size_t)(count < capacity ? count : capacity) * sizeof *values);
    return count;
}

static bool case_shape(const iso_layer_config *config, const char *key, iso_shape *shape)
{
    double value;
    char room[80];
    bool found = oracle_attribute_shape(file, ((const case_config *)config->impl)->name,
                                        attribute_of(config, key, room), shape);
    return found && (oracle_elements(shape) == 0 || case_numbers(config, key, &value, 1) > 0);
}

static const char *case_text(const iso_layer_config *config, const char *key)
{
    char room[80];
    return oracle_text(file, ((const case_config *)config->impl)->name, attribute_of(config, key, room));
}

/* The layer of the case has its class under "layer", so that a part of this name is stored as "part". */
static const iso_layer_config *case_layer(const iso_layer_config *config, const char *key)
{
    case_config *outer = config->impl;
    const char *stored = strcmp(key, "layer") == 0 ? "part" : key, *type = case_text(config, stored);
    if (!type)
        return NULL;
    ck_assert_int_lt(outer->parts, 2);
    case_config *part = calloc(1, sizeof *part);
    *part = (case_config){.name = outer->name};
    snprintf(part->prefix, sizeof part->prefix, "%.20s.", stored);
    iso_layer_config *out = &outer->part[outer->parts];
    *out = *config;
    out->type = type;
    out->impl = outer->of_part[outer->parts++] = part;
    return out;
}

/* ---- one case ---- */

typedef struct layer_case {
    const char *name;
    double tolerance;
    bool training;
    int inputs, weights, trainable;
    iso_graph *graph;
    memory_batch batch;
    iso_tensor *x[MAX_INPUTS], *dy, *y;
    iso_tensor *gradient[MAX_INPUTS + MAX_WEIGHTS];
    iso_function *function;
} layer_case;

static iso_shape row_of(iso_shape shape)
{
    iso_shape row = {.rank = shape.rank - 1};
    memcpy(row.dim, shape.dim + 1, (size_t)row.rank * sizeof row.dim[0]);
    return row;
}

/* The input of a dataset, of its type; "x" where there is one input, else "x0", "x1", ... */
static iso_tensor *add_input(layer_case *c, const char *dataset)
{
    iso_shape shape;
    double *values = oracle_data(file, c->name, dataset, &shape);
    ck_assert_ptr_nonnull(values);
    if (c->batch.batch.n_components == 0)
        memory_batch_begin(&c->batch, shape.dim[0]);
    iso_shape row = row_of(shape);
    memory_batch_add(&c->batch, row, values);
    iso_dtype dtype = oracle_is_integer(file, c->name, dataset) ? ISO_I32 : ISO_F32;
    return iso_input(c->graph, dataset, dtype, row);
}

static void build(layer_case *c)
{
    char name[16];
    const char *type = oracle_text(file, c->name, "layer");
    const iso_layer_type *layer = iso_layer_type_find(type);
    ck_assert_msg(layer, "no layer type '%s'", type);
    for (int i = 0; i < c->inputs; i++) {
        snprintf(name, sizeof name, c->inputs > 1 ? "x%d" : "x", i);
        c->x[i] = add_input(c, name);
    }
    case_config data = {.name = c->name};
    iso_layer_config config = {
        .numbers = case_numbers, .shape = case_shape, .text = case_text, .layer = case_layer, .impl = &data};
    c->y = layer->build(&config, c->x, c->inputs);
    for (int i = 0; i < data.parts; i++)
        free(data.of_part[i]);
    c->dy = add_input(c, "dy");
    check_ok(iso_graph_error(c->graph));
    iso_shape shape;
    char have[160], want[160];
    oracle_data(file, c->name, "y", &shape);
    iso_shape mine = iso_shape_with_rows(iso_tensor_shape(c->y), shape.dim[0]);
    ck_assert_msg(iso_shape_equal(&mine, &shape), "shape %s, Keras has %s",
                  iso_shape_text(&mine, have, sizeof have), iso_shape_text(&shape, want, sizeof want));
}

/* Gradients of sum(y * dy) for inputs of float type, then for the trainable weights. */
static void differentiate(layer_case *c)
{
    iso_tensor *of[MAX_INPUTS + MAX_WEIGHTS];
    ck_assert_int_eq(iso_graph_variable_count(c->graph), c->weights);
    for (int i = 0; i < c->inputs; i++)
        of[i] = c->x[i];
    for (int i = 0; i < c->trainable; i++) {
        ck_assert(iso_variable_trainable(iso_graph_variable(c->graph, i)));
        of[c->inputs + i] = iso_variable_value(iso_graph_variable(c->graph, i));
    }
    iso_gradients(iso_sum(iso_multiply(c->y, c->dy)), of, c->inputs + c->trainable, c->gradient);
    check_ok(iso_graph_error(c->graph));
}

static void make_function(layer_case *c)
{
    iso_function_options options = {.training = c->training, .outputs = {c->y}};
    if (c->training) { /* layers' own updates are made in functions that update something */
        iso_variable *steps = iso_variable_create(c->graph, "steps", ISO_F32, ISO_SCALAR,
                                                  (iso_initializer){.kind = ISO_INIT_ZEROS}, false);
        options.updates[0] = iso_assign(steps, iso_affine(iso_variable_value(steps), 1, 1));
    }
    for (int i = 0; i < c->inputs; i++)
        options.inputs[i] = c->x[i];
    options.inputs[c->inputs] = c->dy;
    for (int i = 0, n = 1; i < c->inputs + c->trainable; i++)
        if (c->gradient[i])
            options.outputs[n++] = c->gradient[i];
    check_ok(iso_function_create_with(c->graph, &c->function, &options, sizeof options));
    for (int i = 0; i < c->weights; i++) {
        char name[16];
        iso_shape shape;
        snprintf(name, sizeof name, "w%d", i);
        double *values = oracle_data(file, c->name, name, &shape);
        check_ok(iso_variable_assign(iso_graph_variable(c->graph, i), values, oracle_elements(&shape)));
    }
}

static void compare(layer_case *c, const char *dataset, const double *values)
{
    char what[200];
    iso_shape shape;
    double *expected = oracle_data(file, c->name, dataset, &shape);
    ck_assert_msg(expected, "%s: no %s", c->name, dataset);
    snprintf(what, sizeof what, "%s, %s", c->name, dataset);
    check_near(what, values, expected, oracle_elements(&shape), c->tolerance);
}

static void compare_gradients(layer_case *c, double *const *outputs)
{
    char name[16];
    for (int i = 0, n = 1; i < c->inputs + c->trainable; i++) {
        snprintf(name, sizeof name,
                 i >= c->inputs  ? "dw%d"
                 : c->inputs > 1 ? "dx%d"
                                 : "dx",
                 i >= c->inputs ? i - c->inputs : i);
        if (c->gradient[i])
            compare(c, name, outputs[n++]);
        else
            ck_assert_msg(!oracle_data(file, c->name, name, NULL), "%s: no gradient %s", c->name, name);
    }
}

/* The moving statistics after the step, which are the last two weights. */
static void compare_statistics(layer_case *c)
{
    static const char *const names[] = {"moving_mean", "moving_variance"};
    char after[40];
    for (int i = 0; i < 2; i++) {
        snprintf(after, sizeof after, "%s_after", names[i]);
        if (!oracle_data(file, c->name, after, NULL))
            continue;
        iso_variable *variable = iso_graph_variable(c->graph, c->weights - 2 + i);
        ck_assert_str_eq(strrchr(iso_variable_path(variable), '/') + 1, names[i]);
        int64_t count = iso_variable_shape(variable)->dim[0];
        double *values = calloc((size_t)count, sizeof *values);
        check_ok(iso_variable_read(variable, values, count));
        compare(c, after, values);
        free(values);
    }
}

static void run(layer_case *c)
{
    double *outputs[1 + MAX_INPUTS + MAX_WEIGHTS] = {NULL};
    int64_t rows = c->batch.batch.rows;
    int count = 0;
    outputs[count++] = calloc((size_t)count_elements(c->y, rows), sizeof(double));
    for (int i = 0; i < c->inputs + c->trainable; i++)
        if (c->gradient[i])
            outputs[count++] = calloc((size_t)count_elements(c->gradient[i], rows), sizeof(double));
    check_ok(iso_function_evaluate(c->function, &c->batch.batch, outputs));
    compare(c, "y", outputs[0]);
    compare_gradients(c, outputs);
    compare_statistics(c);
    for (int i = 0; i < count; i++)
        free(outputs[i]);
}

static void check_case(const char *name, iso_dtype precision, double tolerance)
{
    layer_case c = {.name = name, .tolerance = fmax(tolerance, oracle_number(file, name, "tolerance", 0))};
    c.training = oracle_number(file, name, "training", 0) != 0;
    c.inputs = (int)oracle_number(file, name, "inputs", 1);
    c.weights = (int)oracle_number(file, name, "weights", 0);
    c.trainable = (int)oracle_number(file, name, "trainable", 0);
    ck_assert(c.inputs <= MAX_INPUTS && c.weights <= MAX_WEIGHTS);
    c.graph = iso_graph_create(ctx);
    iso_graph_set_precision(c.graph, precision);
    build(&c);
    differentiate(&c);
    make_function(&c);
    run(&c);
    iso_function_destroy(c.function);
    iso_graph_destroy(c.graph);
}

/* ---- all cases of all files ---- */

static const char *const files[] = {"layers.h5",
                                    "layers_more.h5",
                                    "layers_attention.h5",
                                    "layers_activations.h5",
                                    "layers_embeddings.h5",
                                    "layers_language.h5",
                                    "layers_recurrent.h5",
                                    "layers_images.h5",
                                    "layers_transpose.h5",
                                    "layers_volumes.h5",
                                    "layers_further.h5",
                                    "layers_applications.h5"};
enum { FILES = sizeof files / sizeof files[0] };

static void check_file(const char *name, iso_dtype precision, double tolerance)
{
    file = oracle_open(name);
    ck_assert_int_gt(oracle_cases(file), 0);
    for (int i = 0; i < oracle_cases(file); i++)
        check_case(oracle_case(file, i), precision, tolerance);
    oracle_close(file);
}

/* On several ranks the last one is enough: ranks and meshes have their own tests. */
static int first_file(void)
{
    return iso_ranks(ctx) > 1 ? FILES - 1 : 0;
}

START_TEST(in_float64)
{
    for (int f = first_file(); f < FILES; f++)
        check_file(files[f], ISO_F64, 1e-10);
}
END_TEST

START_TEST(in_float32)
{
    for (int f = first_file(); f < FILES; f++)
        check_file(files[f], ISO_F32, 5e-5);
}
END_TEST

/* A new layer has no case until somebody makes one. */
START_TEST(every_type_has_a_case)
{
    int found[256] = {0};
    ck_assert_int_le(iso_layer_type_count(), 256);
    for (int f = 0; f < FILES; f++) {
        file = oracle_open(files[f]);
        for (int i = 0; i < oracle_cases(file); i++)
            for (int type = 0; type < iso_layer_type_count(); type++)
                found[type] += strcmp(oracle_text(file, oracle_case(file, i), "layer"),
                                      iso_layer_type_at(type)->keras) == 0;
        oracle_close(file);
    }
    for (int type = 0; type < iso_layer_type_count(); type++)
        ck_assert_msg(found[type] > 0, "no file has a case of %s", iso_layer_type_at(type)->keras);
}
END_TEST

START_TEST(every_activation_has_a_case)
{
    for (const iso_descriptor *const *row = iso_activations; *row; row++) {
        bool found = false;
        for (int f = 0; f < FILES; f++) {
            file = oracle_open(files[f]);
            for (int i = 0; i < oracle_cases(file); i++) {
                const char *name = oracle_text(file, oracle_case(file, i), "activation");
                found = found || (name && strcmp(name, (*row)->name) == 0);
            }
            oracle_close(file);
        }
        ck_assert_msg(found, "no file has a case of %s", (*row)->name);
    }
}
END_TEST

START_TEST(gradients_of_activations_are_finite_differences)
{
    for (int kind = 0; iso_activations[kind]; kind++) {
        probe p;
        probe_begin(&p, 7, ISO_F64);
        iso_tensor *x = iso_affine(probe_input(&p, "x", ISO_SHAPE(5)), 4, 0.1);
        probe_check_gradients(&p, iso_activate(x, (iso_activation_kind)kind));
        probe_end(&p);
    }
}
END_TEST

/* ---- parts that are dropped as wholes ---- */

static int rate_alone(const iso_layer_config *config, const char *key, double *values, int capacity)
{
    (void)config;
    if (capacity > 0)
        values[0] = 0.4;
    return strstr(key, "rate") != NULL;
}

enum { ROWS = 60, POINTS = 3, CHANNELS = 2, ELEMENTS = ROWS * POINTS * CHANNELS };

/* y is x with its parts dropped: the random number of element i's part is the one with the index of[i]. */
static void check_dropped(probe *p, iso_tensor *x, iso_tensor *y, const char *path, const int *of)
{
    double *got = probe_evaluate(p, y);
    int kept = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        uint32_t word = iso_random_word(iso_random_key(5, path), 3, (uint64_t)of[i]);
        bool keep = iso_uniform_f32(word) >= 0.4f;
        double expected = keep ? probe_values(p, x)[i] / 0.6 : 0;
        check_near(path, &got[i], &expected, 1, 1e-15);
        kept += keep;
    }
    ck_assert(kept > 0 && kept < ELEMENTS);
}

/* Dropout with a noise_shape, and StochasticDepth, which drops rows: Keras's formula with numbers of our own. */
START_TEST(parts_are_dropped_whole)
{
    int row[ELEMENTS], point[ELEMENTS], channel[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        row[i] = i / (POINTS * CHANNELS);
        point[i] = i / CHANNELS % POINTS;
        channel[i] = row[i] * CHANNELS + i % CHANNELS;
    }
    probe p;
    probe_begin(&p, ROWS, ISO_F64);
    p.in->training = true;
    p.step = 3;
    iso_graph_set_seed(p.graph, 5);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(POINTS, CHANNELS));
    iso_layer_config config = {.name = "rows", .numbers = rate_alone};
    iso_tensor *rows = iso_layer_type_find("StochasticDepth")->build(&config, &x, 1);
    check_dropped(&p, x, rows, "rows", row);
    rows = iso_dropout(x, 0.4, .noise_shape = ISO_SHAPE(ISO_BATCH, 1, 1), .name = "also");
    check_dropped(&p, x, rows, "also", row);
    check_dropped(&p, x, iso_dropout(x, 0.4, .noise_shape = ISO_SHAPE(1, POINTS, 1), .name = "points"),
                  "points", point);
    iso_tensor *channels =
        iso_dropout(x, 0.4, .noise_shape = ISO_SHAPE(ISO_BATCH, 1, ISO_BATCH), .name = "c");
    check_dropped(&p, x, channels, "c", channel);
    probe_check_gradients(&p, channels);
    check_dropped(&p, x, iso_spatial_dropout1d(x, 0.4, .name = "whole"), "whole", channel);
    p.in->training = false;
    interpreter_set(p.in, x, probe_values(&p, x));
    check_near("in inference", probe_evaluate(&p, channels), probe_values(&p, x), ELEMENTS, 0);
    probe_end(&p);
}
END_TEST

/* Mean and standard deviation of `count` numbers. */
static void check_moments(const char *what, const double *x, int count, double mean, double deviation)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += x[i];
    sum /= count;
    for (int i = 0; i < count; i++)
        squares += (x[i] - sum) * (x[i] - sum);
    squares = sqrt(squares / count);
    check_near(what, &sum, &mean, 1, 0.03);
    check_near(what, &squares, &deviation, 1, 0.03);
}

/* Of ones: Keras's formulas for AlphaDropout and GaussianDropout give numbers of known moments. */
START_TEST(random_layers_have_keras_moments)
{
    enum { MANY = 20000 };
    const double rate = 0.3, low = -1.7580993408473766, a = 1 / sqrt(0.7 * (1 + 0.3 * low * low));
    probe p;
    probe_begin(&p, MANY / 10, ISO_F64);
    p.in->training = true;
    iso_graph_set_seed(p.graph, 5);
    iso_tensor *x = probe_input(&p, "x", ISO_SHAPE(10)), *one = iso_affine(x, 0, 1);
    check_moments("gaussian", probe_evaluate(&p, iso_gaussian_dropout(one, rate)), MANY, 1, sqrt(0.3 / 0.7));
    iso_tensor *y = iso_alpha_dropout(one, rate);
    const double kept = a - a * low * rate, dropped = a * low - a * low * rate,
                 mean = 0.7 * kept + 0.3 * dropped;
    check_moments("alpha", probe_evaluate(&p, y), MANY, mean, sqrt(0.21) * (kept - dropped));
    double *got = probe_evaluate(&p, y);
    for (int i = 0; i < MANY; i++)
        check_near("alpha", &got[i], got[i] > 0 ? &kept : &dropped, 1, 1e-12);
    got = probe_evaluate(&p, iso_alpha_dropout(one, rate, .noise_shape = ISO_SHAPE(ISO_BATCH, 1)));
    for (int i = 0; i < MANY; i++)
        ck_assert(got[i] == got[i / 10 * 10]);
    probe_end(&p);
}
END_TEST

/* The first weights of a variable: uniform with the limit that Keras's GlorotUniform has for these fans. */
static void check_fans(iso_tensor *x, iso_tensor *y, const char *path, double in, double out)
{
    enum { MOST = 4000 };
    static double values[MOST];
    const double limit = sqrt(6 / (in + out));
    iso_graph *graph = iso_tensor_graph(x);
    iso_function_options options = {.outputs = {y}, .inputs = {x}};
    iso_function *function;
    check_ok(iso_function_create_with(graph, &function, &options, sizeof options));
    iso_variable *variable = iso_graph_find_variable(graph, path);
    int64_t count;
    check_ok(iso_shape_count(iso_variable_shape(variable), &count));
    check_ok(iso_variable_read(variable, values, (size_t)count));
    double most = 0;
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs(values[i]));
    ck_assert_msg(most > 0.99 * limit && most <= limit, "%s: the largest is %g, the limit %g", path, most,
                  limit);
    iso_function_destroy(function);
    iso_graph_destroy(graph);
}

/* Keras's EinsumDense, of which its attentions are made, counts what is summed and what is not, whatever the order of
 * dimensions. */
START_TEST(fans_of_equations)
{
    iso_tensor *x = iso_input(iso_graph_create(ctx), "x", ISO_F32, ISO_SHAPE(4));
    check_fans(x, iso_einsum_dense(x, "ab,cbd->acd", ISO_SHAPE(50, 20), .name = "e"), "e/kernel", 4, 50 * 20);
    x = iso_input(iso_graph_create(ctx), "x", ISO_F32, ISO_SHAPE(3, 40));
    check_fans(x, iso_multi_head_attention(x, x, 5, 16, .name = "m"), "m/query/kernel", 40, 5 * 16);
    x = iso_input(iso_graph_create(ctx), "x", ISO_F32, ISO_SHAPE(3, 40));
    check_fans(x, iso_multi_head_attention(x, x, 5, 16, .value_dim = 8, .name = "m"),
               "m/attention_output/kernel", 5 * 8, 40);
    x = iso_input(iso_graph_create(ctx), "x", ISO_F32, ISO_SHAPE(3, 40));
    check_fans(x, iso_grouped_query_attention(x, x, 16, 4, 2, .name = "g"), "g/key/kernel", 40, 2 * 16);
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed = RUN_TESTS("layers against Keras", 0, every_type_has_a_case, every_activation_has_a_case,
                           gradients_of_activations_are_finite_differences, parts_are_dropped_whole,
                           random_layers_have_keras_moments, fans_of_equations, in_float64, in_float32);
    return iso_finish(ctx, ISO_OK) || failed;
}
