/* A table of models that real Keras made (tests/keras/table, make_table.py): Isogrid's predictions from the
 * .keras file, five training steps (losses, weights and optimizer state against a file that Keras saved
 * behind them), and the file that Isogrid saves, read back. On several meshes. So with what older releases of
 * Keras wrote (versions, make_versions.py). Ranks: 1, 3
 *
 * What was saved stays in the folder ISOGRID_TEST_KEEP where that is set: test_keras_table_python goes on. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/json.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 12, STEPS = 5 };

static iso_context *ctx;
static json_t *table, *versions;
static char folder[200]; /* for what is saved */

/* ---- data: the hash of make_training.py ---- */

static double hashed(int v, int64_t i)
{
    uint32_t h = (uint32_t)i * 2654435761u + (uint32_t)(v + 1) * 2246822519u;
    h ^= h >> 16;
    h *= 2146121005u;
    h ^= h >> 15;
    h *= 2221713035u;
    h ^= h >> 16;
    return (double)(float)((2.0 * h + 1.0 - 4294967296.0) / 4294967296.0);
}

/* below 0: real numbers; else whole ones below it. */
static double *values_of(int v, int64_t count, int below)
{
    double *values = calloc((size_t)count, sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        double value = hashed(v, i);
        values[i] = below > 0 ? fmin(floor((value + 1) / 2 * below), below - 1) : value;
    }
    return values;
}

static iso_shape without_last(iso_shape shape)
{
    shape.rank--;
    return shape;
}

static iso_shape rows_of(iso_tensor *tensor)
{
    return iso_shape_with_rows(iso_tensor_shape(tensor), ROWS);
}

static void add(iso_data_array *array, int v, iso_shape shape, int below)
{
    int64_t count;
    check_ok(iso_shape_count(&shape, &count));
    *array = (iso_data_array){.data = values_of(v, count, below), .shape = shape, .dtype = ISO_F64};
}

static iso_dataset *make_data(iso_model *model, const json_t *entry)
{
    iso_dataset *data;
    iso_dataset_arrays_options options = {.dataset = &data};
    int tokens = (int)json_integer_value(json_object_get(entry, "tokens"));
    int classes = (int)json_integer_value(json_object_get(entry, "classes"));
    for (int i = 0; i < iso_model_input_count(model); i++) {
        iso_tensor *input = iso_model_input_at(model, i);
        add(&options.inputs[i], 1000 + i, rows_of(input), iso_tensor_dtype(input) == ISO_BOOL ? 2 : tokens);
    }
    for (int i = 0; i < iso_model_output_count(model); i++) {
        iso_shape shape = rows_of(iso_model_output_at(model, i));
        add(&options.targets[i], 2000 + i, classes ? without_last(shape) : shape, classes);
    }
    check_ok(iso_dataset_arrays_with(ctx, &options, sizeof options));
    check_ok(iso_dataset_batch(data, ROWS));
    for (int i = 0; i < ISO_MAX_MODEL_INPUTS; i++)
        free((void *)options.inputs[i].data);
    for (int i = 0; i < ISO_MAX_MODEL_OUTPUTS; i++)
        free((void *)options.targets[i].data);
    return data;
}

/* ---- one model ---- */

typedef struct net_case {
    const char *folder, *name, *mesh_text; /* folder: below tests/keras */
    const json_t *entry;
    iso_dtype precision;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_model *model;
    iso_dataset *data;
    iso_compile_options options;
} net_case;

/* Kernels lie over the axis `model` where the mesh has one. */
static iso_status shard_kernels(void *arg, const char *path, const iso_shape *shape, char *layout,
                                size_t size)
{
    (void)arg;
    if (shape->rank == 2 && strstr(path, "kernel"))
        snprintf(layout, size, "-, model");
    return ISO_OK;
}

static iso_status split_rows(void *arg, const char *path, const iso_shape *shape, char *layout, size_t size)
{
    (void)arg;
    (void)path;
    size_t at = (size_t)snprintf(layout, size, "data");
    for (int i = 1; i < shape->rank; i++)
        at += (size_t)snprintf(layout + at, size - at, ", -");
    return ISO_OK;
}

static void distribute(net_case *c)
{
    check_ok(iso_mesh_create(ctx, c->mesh_text, &c->mesh));
    if (strstr(c->mesh_text, "model"))
        check_ok(iso_distribution_create(c->mesh, &c->distribution, .data = split_rows,
                                         .variable = shard_kernels));
    else
        check_ok(iso_data_parallel_create(c->mesh, &c->distribution));
}

static void load(net_case *c, const char *path)
{
    check_ok(iso_keras_load(ctx, path, &c->model, .precision = c->precision, .compile = &c->options));
    distribute(c);
    c->options.distribution = c->distribution;
    check_ok(iso_compile_with(c->model, &c->options, sizeof c->options));
    check_ok(iso_keras_load_weights(c->model, path));
    c->data = make_data(c->model, c->entry);
}

static void drop(net_case *c)
{
    iso_model_destroy(c->model);
    iso_dataset_destroy(c->data);
    iso_distribution_destroy(c->distribution);
    iso_mesh_destroy(c->mesh);
}

/* The predictions of all outputs, as doubles. */
static void predict(net_case *c, double **y)
{
    iso_predict_options options = {.verbose = ISO_ZERO};
    int outputs = iso_model_output_count(c->model);
    for (int i = 0; i < outputs; i++)
        options.outputs[i] =
            calloc((size_t)count_elements(iso_model_output_at(c->model, i), ROWS), sizeof(double));
    check_ok(iso_predict_with(c->model, c->data, &options, sizeof options));
    for (int i = 0; i < outputs; i++) {
        int64_t count = count_elements(iso_model_output_at(c->model, i), ROWS);
        y[i] = calloc((size_t)count, sizeof **y);
        for (int64_t k = 0; k < count; k++)
            y[i][k] = iso_element_get(options.outputs[i], c->precision, k);
        free(options.outputs[i]);
    }
}

static void check_list(const net_case *c, const char *what, const double *values, const json_t *list,
                       double tolerance)
{
    char text[200];
    size_t count = json_array_size(list);
    double *wanted = calloc(count + 1, sizeof *wanted);
    for (size_t i = 0; i < count; i++)
        wanted[i] = json_number_value(json_array_get(list, i));
    snprintf(text, sizeof text, "%s, %s, mesh %s", c->name, what, c->mesh_text);
    check_near(text, values, wanted, (int64_t)count, tolerance);
    free(wanted);
}

static void check_predictions(net_case *c, const char *key, double tolerance)
{
    double *y[ISO_MAX_MODEL_OUTPUTS];
    predict(c, y);
    for (int i = 0; i < iso_model_output_count(c->model); i++) {
        const json_t *list = json_array_get(json_object_get(c->entry, key), (size_t)i);
        ck_assert_int_eq(count_elements(iso_model_output_at(c->model, i), ROWS), (int)json_array_size(list));
        check_list(c, key, y[i], list, tolerance);
        free(y[i]);
    }
}

/* Losses and metrics of each step, under Keras's names. */
static void check_logs(const net_case *c, const iso_history *history)
{
    const char *name;
    json_t *list;
    json_object_foreach(json_object_get(c->entry, "logs"), name, list)
    {
        double values[STEPS];
        for (int i = 0; i < STEPS; i++) {
            iso_logs logs = iso_history_logs(history, i);
            values[i] = iso_logs_get(&logs, name);
        }
        check_list(c, name, values, list, 1e-4);
    }
}

static void train(net_case *c)
{
    double losses[STEPS];
    iso_history *history = NULL;
    check_ok(iso_fit(c->model, c->data, .epochs = STEPS, .verbose = ISO_ZERO, .history = &history));
    for (int i = 0; i < STEPS; i++) {
        iso_logs logs = iso_history_logs(history, i);
        losses[i] = iso_logs_get(&logs, "loss");
    }
    check_logs(c, history);
    iso_history_destroy(history);
    ck_assert_int_eq(json_array_size(json_object_get(c->entry, "losses")), STEPS);
    check_list(c, "losses", losses, json_object_get(c->entry, "losses"), 1e-4);
    check_predictions(c, "trained_y", 1e-4);
}

/* ---- two models, tensor by tensor: through files of weights, which hold everything ---- */

static const char *path_of(const char *name, const char *end)
{
    static char path[2][300];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s%s", folder, name, end);
    return path[turn];
}

static double *read_tensor(iso_saved_file *file, int tensor, int64_t *count)
{
    const iso_saved_tensor *saved = iso_saved_file_tensor(file, tensor);
    iso_box box = iso_box_whole(&saved->shape);
    check_ok(iso_shape_count(&saved->shape, count));
    double *values = calloc((size_t)*count + 1, sizeof *values);
    check_ok(iso_saved_file_read(file, tensor, &box, ISO_F64, values));
    return values;
}

static void compare_states(const net_case *c, iso_model *got, iso_model *wanted, double tolerance)
{
    iso_saved_file *a, *b;
    const char *first = path_of(c->name, ".a.weights.h5"), *second = path_of(c->name, ".b.weights.h5");
    check_ok(iso_model_save_weights(got, first));
    check_ok(iso_model_save_weights(wanted, second));
    check_ok(iso_saved_file_open(ctx, first, &a));
    check_ok(iso_saved_file_open(ctx, second, &b));
    ck_assert_int_eq(iso_saved_file_tensors(a), iso_saved_file_tensors(b));
    for (int i = 0; i < iso_saved_file_tensors(a); i++) {
        const iso_saved_tensor *tensor = iso_saved_file_tensor(a, i);
        char what[400];
        int64_t count, other;
        int at = iso_saved_file_at(b, tensor->h5_path);
        ck_assert_int_ge(at, 0);
        double *x = read_tensor(a, i, &count), *y = read_tensor(b, at, &other);
        ck_assert_int_eq(count, other);
        snprintf(what, sizeof what, "%s, %s (%s), mesh %s", c->name, tensor->h5_path,
                 tensor->path ? tensor->path : "", c->mesh_text);
        check_near(what, x, y, count, tolerance);
        free(x);
        free(y);
    }
    iso_saved_file_close(a);
    iso_saved_file_close(b);
    check_ok(iso_agree(ctx, ISO_OK));
    if (iso_is_chief(ctx)) {
        unlink(path_of(c->name, ".a.weights.h5"));
        unlink(path_of(c->name, ".b.weights.h5"));
    }
}

/* What Keras has after the same steps. */
static void compare_with_keras(const net_case *c)
{
    char path[300];
    net_case keras = *c;
    snprintf(path, sizeof path, "tests/keras/%s/%s.trained.keras", c->folder, c->name);
    load(&keras, path);
    compare_states(c, c->model, keras.model, 1e-4);
    drop(&keras);
}

/* For Python: the predictions as text, and the checkpoint. */
static void keep_for_python(net_case *c, double *const *y)
{
    check_ok(iso_model_save_weights(c->model, path_of(c->name, ".weights.h5")));
    FILE *out = iso_is_chief(ctx) ? fopen(path_of(c->name, ".txt"), "w") : NULL;
    ck_assert(out || !iso_is_chief(ctx));
    for (int i = 0; out && i < iso_model_output_count(c->model); i++)
        for (int64_t k = 0; k < count_elements(iso_model_output_at(c->model, i), ROWS); k++)
            fprintf(out, "%.17g\n", y[i][k]);
    if (out)
        fclose(out);
}

static json_t *network_of(const char *path)
{
    char *text;
    size_t bytes;
    json_t *root;
    check_ok(iso_keras_read_member(path, "config.json", &text, &bytes));
    check_ok(iso_json_parse(path, text, bytes, &root));
    json_t *network = json_incref(json_object_get(root, "config"));
    json_decref(root);
    iso_free(text);
    return network;
}

/* Inputs and outputs that Keras has in dictionaries have their keys in the saved file. */
static void compare_keys(const net_case *c, const char *saved)
{
    static const char *const ends[] = {"input_layers", "output_layers"};
    char path[300];
    snprintf(path, sizeof path, "tests/keras/%s/%s.keras", c->folder, c->name);
    json_t *theirs = network_of(path), *ours = network_of(saved);
    for (int i = 0; i < 2; i++) {
        json_t *want = json_object_get(theirs, ends[i]);
        ck_assert_msg(!json_is_object(want) || json_equal(want, json_object_get(ours, ends[i])),
                      "%s: other %s than Keras's", c->name, ends[i]);
    }
    json_decref(theirs);
    json_decref(ours);
}

/* The file that is saved gives the same model: to the last bit what was saved. */
static void save_and_load(net_case *c)
{
    net_case again = *c;
    double *a[ISO_MAX_MODEL_OUTPUTS], *b[ISO_MAX_MODEL_OUTPUTS];
    const char *path = path_of(c->name, ".keras");
    check_ok(iso_keras_save(c->model, path));
    compare_keys(c, path);
    load(&again, path);
    compare_states(c, again.model, c->model, 0);
    predict(c, a);
    predict(&again, b);
    if (getenv("ISOGRID_TEST_KEEP"))
        keep_for_python(c, a);
    for (int i = 0; i < iso_model_output_count(c->model); i++) {
        int64_t count = count_elements(iso_model_output_at(c->model, i), ROWS);
        check_near("predictions of the saved file", b[i], a[i], count, 0);
        free(a[i]);
        free(b[i]);
    }
    drop(&again);
    if (iso_is_chief(ctx) && !getenv("ISOGRID_TEST_KEEP"))
        unlink(path_of(c->name, ".keras"));
}

static void check_case(const char *from, const char *name, const json_t *entry, const char *mesh,
                       iso_dtype precision)
{
    char path[300];
    net_case c = {.folder = from, .name = name, .entry = entry, .mesh_text = mesh, .precision = precision};
    snprintf(path, sizeof path, "tests/keras/%s/%s.keras", from, name);
    load(&c, path);
    check_predictions(&c, "y", 1e-5);
    if (json_is_true(json_object_get(entry, "train"))) {
        train(&c);
        if (precision == ISO_F32)
            compare_with_keras(&c);
    }
    if (precision == ISO_F32 && strcmp(mesh, "data=2") != 0 && strcmp(mesh, "data=4") != 0)
        save_and_load(&c);
    drop(&c);
}

/* Several ranks take another third of the models in each round. */
static void check_all(int round, const char *mesh, iso_dtype precision)
{
    const char *name, *only = getenv("ISOGRID_TEST_ONLY");
    json_t *entry;
    int number = 0;
    json_object_foreach(table, name, entry) if (only ? strcmp(only, name) == 0
                                                     : takes_case(iso_ranks(ctx), number++ + round))
        check_case("table", name, entry, mesh, precision);
}

START_TEST(one_axis)
{
    check_all(0, iso_ranks(ctx) == 1 ? "data=1" : "data=3", ISO_F32);
}
END_TEST

START_TEST(two_slots)
{
    check_all(1, iso_ranks(ctx) == 1 ? "data=2" : "data=4", ISO_F32);
}
END_TEST

START_TEST(two_axes)
{
    check_all(2, "data=2,model=2", ISO_F32);
}
END_TEST

START_TEST(in_float64)
{
    check_all(1, iso_ranks(ctx) == 1 ? "data=1" : "data=3", ISO_F64);
}
END_TEST

START_TEST(older_releases)
{
    const char *release;
    json_t *entry;
    json_object_foreach(versions, release, entry)
        check_case("versions", release, entry, iso_ranks(ctx) == 1 ? "data=1" : "data=2,model=2", ISO_F32);
}
END_TEST

int main(void)
{
    json_error_t error;
    iso_status status = iso_init(NULL, NULL, &ctx);
    const char *keep = getenv("ISOGRID_TEST_KEEP");
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    table = json_load_file("tests/keras/table.json", 0, &error);
    versions = json_load_file("tests/keras/versions.json", 0, &error);
    if (keep)
        snprintf(folder, sizeof folder, "%s", keep);
    else
        status = make_test_folder(ctx, folder);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed =
        !table || !versions ||
        RUN_TESTS("table of Keras's models", 0, one_axis, two_slots, two_axes, in_float64, older_releases);
    json_decref(table);
    json_decref(versions);
    if (!keep)
        status = remove_test_folder(ctx, folder);
    return iso_finish(ctx, status) || failed;
}
