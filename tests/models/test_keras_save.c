/* Networks built in C as files of Keras's: bare ops, blocks, shared blocks; what cannot be saved, and that
 * then nothing is written. (Whether real Keras reads such files: test_keras_table_python.) Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "models/keras/writer_impl.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "runtime/train/loss.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 5 };

static iso_context *ctx;
static char folder[64], path[300];

static iso_tensor *block(iso_graph *g, iso_tensor *x, iso_tensor *z)
{
    iso_name_scope_begin(g, "block");
    x = iso_relu(iso_dense(x, 4)); /* an op within a block, and an input from outside in the middle */
    iso_tensor *both[] = {x, z};
    return iso_name_scope_end(g, iso_dense(iso_concatenate(both, 2), 3));
}

/* Every op that stands for a layer; a block that is called twice, with several inputs. */
static iso_model *mixed(void)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "in/put", ISO_F32, ISO_SHAPE(6));
    iso_tensor *z = iso_sigmoid(iso_dense(x, 2, .name = "re_lu")), *w = iso_affine(iso_tanh(x), 0.5, -0.25);
    iso_tensor *y = block(g, w, z);
    iso_share_begin(g);
    iso_tensor *u = block(g, iso_multiply(iso_leaky_relu(x, 0.1), iso_elu(w, 0.7)), z);
    iso_share_end(g);
    iso_tensor *parts[] = {iso_silu(y), iso_softmax(iso_add(u, y), -1), iso_softplus(u)};
    y = iso_concat(parts, 3, 1); /* [batch, 9] */
    y = iso_transpose(iso_reshape_to(y, ISO_SHAPE(ISO_BATCH, 3, 3)), (const int[]){0, 2, 1});
    y = iso_gelu(iso_dense(iso_flatten(y), 4), false);
    y = iso_minimum(iso_maximum(y, iso_gelu(iso_dense(z, 4), true)), iso_subtract(y, iso_dense(x, 4)));
    return iso_model_create(g, x, iso_activation(y, ISO_LINEAR, .name = "same"));
}

static void predict(iso_model *model, float *y)
{
    static double rows[ROWS * 6];
    iso_dataset *data;
    for (int i = 0; i < ROWS * 6; i++)
        rows[i] = (i * 7 % 11 - 5) / 4.0;
    check_ok(
        iso_dataset_arrays(ctx, &data, .x = {.data = rows, .shape = ISO_SHAPE(ROWS, 6), .dtype = ISO_F64}));
    check_ok(iso_predict(model, data, .outputs = {y}, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
}

static bool exists(const char *name)
{
    struct stat about;
    char file[600];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    return stat(file, &about) == 0;
}

/* Of what was saved and what was read: both, and the file, when no rank reads any more. */
static void end(iso_model *saved, iso_model *again)
{
    iso_model_destroy(saved);
    iso_model_destroy(again);
    check_ok(iso_agree(ctx, ISO_OK));
    if (iso_is_chief(ctx))
        unlink(path);
}

START_TEST(ops_and_blocks)
{
    float a[ROWS * 4], b[ROWS * 4];
    char stale[600];
    iso_model *model = mixed(), *again;
    iso_compile_options compile;
    check_ok(iso_compile(model, iso_adam(0.01), ISO_LOSS_MSE));
    predict(model, a);
    /* what a killed job left is cleared away */
    snprintf(stale, sizeof stale, "%s/.net.keras.saving", folder);
    if (iso_is_chief(ctx)) {
        ck_assert_int_eq(mkdir(stale, 0777), 0);
        strcat(stale, "/model.weights.h5");
        FILE *file = fopen(stale, "w");
        fprintf(file, "half");
        fclose(file);
    }
    check_ok(iso_keras_save(model, path));
    ck_assert(exists("net.keras"));
    ck_assert(!exists(".net.keras.saving"));
    check_ok(iso_keras_load(ctx, path, &again, .compile = &compile));
    check_ok(iso_compile_with(again, &compile, sizeof compile));
    check_ok(iso_keras_load_weights(again, path));
    predict(again, b);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_str_eq(iso_model_optimizer(again)->rule, "adam");
    end(model, again);
}
END_TEST

/* Layers would pass the mask on, so ops on a tensor with one are saved as functions of keras.ops. */
START_TEST(ops_take_masks_off)
{
    float a[ROWS * 2], b[ROWS * 2];
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *m = iso_masking(iso_reshape(x, ISO_SHAPE(6, 1)), .mask_value = ISO_ZERO);
    iso_tensor *of[] = {iso_affine(m, 2.5, 0),
                        iso_affine(m, 1, -0.5),
                        iso_affine(m, -1, 0.5),
                        iso_gelu(m, false),
                        iso_gelu(m, true),
                        iso_relu(m),
                        iso_sigmoid(m),
                        iso_tanh(m),
                        iso_silu(m),
                        iso_softplus(m),
                        iso_add(m, m),
                        iso_multiply(m, m),
                        iso_maximum(m, m),
                        iso_subtract(m, m),
                        iso_minimum(m, m),
                        iso_reshape(m, ISO_SHAPE(6, 1))};
    iso_tensor *y = iso_gru(m, 2); /* which has the mask */
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ck_assert_msg(!iso_tensor_mask(of[i]), "op %zu has a mask", i);
        y = iso_add(y, iso_gru(of[i], 2));
    }
    iso_model *model = iso_model_create(g, x, y), *again;
    check_ok(iso_compile(model, iso_sgd(), ISO_LOSS_MSE));
    predict(model, a);
    check_ok(iso_keras_save(model, path));
    check_ok(iso_keras_load(ctx, path, &again));
    check_ok(iso_compile(again, iso_sgd(), ISO_LOSS_MSE));
    check_ok(iso_keras_load_weights(again, path));
    predict(again, b);
    ck_assert_mem_eq(a, b, sizeof a);
    end(model, again);
}
END_TEST

/* What no layer of Keras does is saved as a function of keras.ops with its settings. */
START_TEST(ops_as_functions)
{
    float a[ROWS * 2], b[ROWS * 2];
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *in = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *x = iso_reshape(in, ISO_SHAPE(2, 3)), *z = iso_dense(x, 3), *zero = iso_number(g, ISO_F32, 0);
    iso_tensor *of[] = {
        iso_slice(x, (const int64_t[]){0, 1}, (const int64_t[]){2, 2}),
        iso_pad(x, (const int64_t[]){1, 0}, (const int64_t[]){0, 2}),
        iso_flip(z, 1),
        iso_reduce_sum(x, (const int[]){2}, 1, true),
        iso_reduce_mean(z, (const int[]){1, 2}, 2, true),
        iso_reduce_max(z, (const int[]){1}, 1, true),
        iso_reduce_min(x, (const int[]){2}, 1, true),
        iso_where(iso_logical_and(iso_greater(x, zero), iso_logical_not(iso_less_equal(z, x))), x, z),
        iso_cast(iso_logical_or(iso_equal(x, zero), iso_not_equal(x, z)), ISO_F32),
        iso_matmul(z, iso_transpose(x, (const int[]){0, 2, 1})),
        iso_matmul_with(z, x, false, true),
        iso_matmul_with(x, z, true, false),
        iso_rsqrt(iso_affine(iso_sigmoid(z), 1, 1)),
        iso_sign(z),
        iso_log_softmax(z, 1),
        iso_one_hot(iso_argmax(z, 2), 3, ISO_F32),
        iso_stop_gradient(z)};
    iso_tensor *y = iso_dense(in, 2);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        y = iso_add(y, iso_dense(iso_flatten(of[i]), 2));
    iso_model *model = iso_model_create(g, in, y), *again;
    check_ok(iso_compile(model, iso_sgd(), ISO_LOSS_MSE));
    predict(model, a);
    check_ok(iso_keras_save(model, path));
    check_ok(iso_keras_load(ctx, path, &again));
    check_ok(iso_compile(again, iso_sgd(), ISO_LOSS_MSE));
    check_ok(iso_keras_load_weights(again, path));
    predict(again, b);
    ck_assert_mem_eq(a, b, sizeof a);
    end(model, again);
}
END_TEST

/* A model that is not compiled has no optimizer in its file. */
START_TEST(not_compiled)
{
    float a[ROWS * 4], b[ROWS * 4];
    iso_model *model = mixed(), *again;
    predict(model, a);
    check_ok(iso_keras_save(model, path));
    check_ok(iso_keras_load(ctx, path, &again));
    check_ok(iso_keras_load_weights(again, path));
    predict(again, b);
    ck_assert_mem_eq(a, b, sizeof a);
    end(model, again);
}
END_TEST

/* Another value than the default. */
static double changed(const iso_setting *s)
{
    switch (s->kind) {
    case ISO_SETTING_FLAG:
    case ISO_SETTING_NOT:
        return !s->fallback;
    case ISO_SETTING_CHOICE:
        return 1;
    case ISO_SETTING_BITS:
        return 1 << 1;
    case ISO_SETTING_INDEX:
        return ISO_ZERO;
    case ISO_SETTING_INT:
        return s->fallback + 2;
    default:
        return 0.25 + s->fallback / 8;
    }
}

/* Targets are one-hot; and Keras's files cannot hold what its classes do not have. */
static bool stays(const iso_setting *s)
{
    return s->not_keras || (strcmp(s->name, "sparse_y_pred") == 0 && s->kind == ISO_SETTING_FLAG);
}

/* The settings of a row, no one at its default. */
static void change_settings(const iso_descriptor *row, void *values)
{
    for (const iso_setting *s = row->setting; s && s->name; s++)
        if (!stays(s))
            iso_setting_set(s, values, strcmp(s->name, "top_k") == 0 ? 3 : changed(s));
}

static void same_settings(const iso_descriptor *row, const void *a, const void *b)
{
    for (const iso_setting *s = row->setting; s && s->name; s++)
        ck_assert_msg(iso_setting_option(s, a) == iso_setting_option(s, b), "%s: %s is %g, it was %g",
                      row->name, s->name, iso_setting_option(s, b), iso_setting_option(s, a));
}

/* A model with one output that is trained for a loss and measured by a metric, as a file and back. */
static void check_comes_back(iso_loss loss, iso_metric metric)
{
    const iso_descriptor *rows[] = {&iso_loss_type_of(loss)->row, &iso_metric_type_of(metric)->row};
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_model *model = iso_model_create(g, x, iso_dense(x, 8)), *again;
    iso_compile_options compile = {.loss = loss, .metrics = {metric}}, read;
    iso_output_options common = iso_compile_common(&compile);
    change_settings(rows[0], &common);
    change_settings(rows[1], &common.metric_settings[0]);
    iso_compile_set_common(&compile, &common);
    check_ok(iso_compile_with(model, &compile, sizeof compile));
    check_ok(iso_keras_save(model, path));
    check_ok(iso_keras_load(ctx, path, &again, .compile = &read));
    ck_assert_msg(read.loss == loss, "%s came back as %s", rows[0]->name, iso_loss_name(read.loss));
    ck_assert_msg(read.metrics[0] == metric, "%s came back as %s", rows[1]->name,
                  iso_metric_name(read.metrics[0]));
    const iso_output_options have = iso_compile_common(&read);
    same_settings(rows[0], &common, &have);
    same_settings(rows[1], &common.metric_settings[0], &have.metric_settings[0]);
    end(model, again);
}

START_TEST(every_loss_and_metric_comes_back)
{
    for (int i = 1; i < ISO_LOSS_COUNT; i++)
        check_comes_back((iso_loss)i, ISO_METRIC_ACCURACY);
    for (int i = 1; i < ISO_METRIC_COUNT; i++) {
        const char *class_name = iso_metric_type_of((iso_metric)i)->row.keras;
        bool sparse = class_name && strncmp(class_name, "Sparse", 6) == 0;
        check_comes_back(sparse ? ISO_LOSS_SPARSE_CROSSENTROPY : ISO_LOSS_MSE, (iso_metric)i);
    }
}
END_TEST

/* Outputs that have names are those of a dictionary, with losses and metrics by its keys; metrics have
 * theirs. */
START_TEST(named_outputs)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_tensor *both[] = {iso_dense(x, 2), iso_dense(x, 3)};
    iso_model *model = iso_model_create_several(g, &x, 1, both, 2), *again;
    iso_compile_options compile;
    char *text = NULL;
    size_t bytes;
    iso_model_set_output_name(model, 0, "first");
    iso_model_set_output_name(model, 1, "second");
    check_ok(iso_compile(model, iso_sgd(),
                         .outputs = {{.loss = ISO_LOSS_MSE, .loss_weight = 0.5},
                                     {.loss = ISO_LOSS_MAE,
                                      .metrics = {ISO_METRIC_MSE, ISO_METRIC_TOP_K},
                                      .metric_names = {"square", NULL},
                                      .metric_settings = {{0}, {.top_k = 2}}}}));
    check_ok(iso_keras_save(model, path));
    check_ok(iso_keras_load(ctx, path, &again, .compile = &compile));
    check_ok(iso_keras_read_member(path, "config.json", &text, &bytes));
    ck_assert_ptr_nonnull(
        strstr(text, "\"output_layers\": {\"first\": [\"dense\", 0, 0], \"second\": [\"dense_1\", 0, 0]}"));
    ck_assert_ptr_nonnull(strstr(text, "\"loss_weights\": {\"first\": 0.5, \"second\": 1.0}"));
    ck_assert_str_eq(iso_model_output_name(again, 0), "first");
    ck_assert_str_eq(iso_model_output_name(again, 1), "second");
    ck_assert_int_eq(compile.outputs[0].loss, ISO_LOSS_MSE);
    ck_assert_int_eq(compile.outputs[1].loss, ISO_LOSS_MAE);
    ck_assert(compile.outputs[0].loss_weight == 0.5);
    ck_assert_str_eq(compile.outputs[1].metric_names[0], "square");
    ck_assert_str_eq(compile.outputs[1].metric_names[1], "top_k_categorical_accuracy");
    iso_free(text);
    end(model, again);
}
END_TEST

static char *saved_config(iso_model *model)
{
    char *text;
    size_t bytes;
    check_ok(iso_keras_save(model, path));
    check_ok(iso_keras_read_member(path, "config.json", &text, &bytes));
    check_ok(iso_agree(ctx, ISO_OK));
    return text;
}

/* Keras calls the mask of the embedding "not_equal" when it loads the file, and wants names that differ. */
START_TEST(names_are_not_those_of_masks)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *t = iso_input(g, "t", ISO_I32, ISO_SHAPE(6)),
               *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6, 3));
    iso_tensor *e = iso_embedding(t, 11, 8, .mask_zero = true);
    iso_tensor *both[] = {iso_lstm(x, 4, .mask = iso_tensor_mask(e)), iso_lstm(e, 4)};
    iso_tensor *inputs[] = {t, x}, *y = iso_concatenate(both, 2);
    iso_model *model = iso_model_create_several(g, inputs, 2, &y, 1);
    check_ok(iso_compile(model, .loss = ISO_LOSS_MSE));
    char *text = saved_config(model);
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"not_equal_op\""));
    ck_assert_ptr_null(strstr(text, "\"name\": \"not_equal\""));
    iso_free(text);
    iso_model_destroy(model);
}
END_TEST

/* Inputs that have keys are those of a dictionary, unless the order of their keys is another. */
START_TEST(keys_of_inputs)
{
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *both[] = {iso_input(g, "b", ISO_F32, ISO_SHAPE(6)), iso_input(g, "a", ISO_F32, ISO_SHAPE(6))};
    iso_tensor *y = iso_dense(iso_add(both[0], both[1]), 2);
    iso_model *model = iso_model_create_several(g, both, 2, &y, 1), *again;
    iso_model_set_input_key(model, 0, "u");
    char *one = saved_config(model);
    iso_model_set_input_key(model, 1, "v");
    char *two = saved_config(model);
    check_ok(iso_keras_load(ctx, path, &again));
    ck_assert_str_eq(iso_model_input_key(again, 0), "u");
    ck_assert_str_eq(iso_model_input_key(again, 1), "v");
    iso_model_set_input_key(model, 1, "t");
    char *reversed = saved_config(model);
    ck_assert_ptr_nonnull(strstr(one, "\"input_layers\": [[\"b\", 0, 0], [\"a\", 0, 0]]"));
    ck_assert_ptr_nonnull(strstr(two, "\"input_layers\": {\"u\": [\"b\", 0, 0], \"v\": [\"a\", 0, 0]}"));
    ck_assert_ptr_nonnull(strstr(reversed, "\"input_layers\": [[\"b\", 0, 0], [\"a\", 0, 0]]"));
    iso_free(one);
    iso_free(two);
    iso_free(reversed);
    end(model, again);
}
END_TEST

/* Metrics are computed in the precision of the graph. */
START_TEST(types_of_metrics)
{
    static const iso_dtype types[] = {ISO_F32, ISO_F64};
    for (int i = 0; i < 2; i++) {
        iso_graph *g = iso_graph_create(ctx);
        iso_graph_set_precision(g, types[i]);
        iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
        iso_model *model = iso_model_create(g, x, iso_dense(x, 2)), *again;
        check_ok(iso_compile(model, .loss = ISO_LOSS_MSE, .metrics = {ISO_METRIC_MAE}, .sample_weights = true,
                             .weighted_metrics = {ISO_METRIC_MSE}));
        char *text = saved_config(model);
        const char *metrics = strstr(text, "\"metrics\": [");
        ck_assert_ptr_nonnull(metrics);
        ck_assert_ptr_nonnull(strstr(metrics, i ? "\"dtype\": \"float64\"" : "\"dtype\": \"float32\""));
        ck_assert_ptr_null(strstr(text, i ? "float32" : "float64"));
        iso_free(text);
        check_ok(iso_keras_load(ctx, path, &again, .precision = types[i]));
        end(model, again);
    }
}
END_TEST

/* What is saved of a network that was loaded is what was saved before. */
START_TEST(initializers_and_activations_come_back)
{
    static const iso_initializer initializers[] = {
        {.kind = ISO_INIT_CONSTANT, .value = 0.3},
        {.kind = ISO_INIT_RANDOM_UNIFORM, .low = ISO_ZERO, .high = 2},
        {.kind = ISO_INIT_RANDOM_NORMAL, .mean = 1, .stddev = ISO_ZERO},
        {.kind = ISO_INIT_VARIANCE_SCALING, .scale = 2, .mode = ISO_FAN_OUT, .distribution = ISO_FAN_UNIFORM},
        {.kind = ISO_INIT_ORTHOGONAL, .scale = 0.5},
        {.kind = ISO_INIT_STFT},
        {.kind = ISO_INIT_STFT, .stft = {ISO_STFT_IMAGINARY, ISO_STFT_HAMMING, ISO_STFT_NO_SCALING, true}},
        {.kind = ISO_INIT_STFT, .stft = {.window = ISO_STFT_NO_WINDOW, .scaling = ISO_STFT_SPECTRUM}}};
    enum { COUNT = sizeof initializers / sizeof *initializers };
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(12, 1)), *y[COUNT];
    iso_model *again;
    for (int i = 0; i < COUNT; i++)
        y[i] = iso_conv1d(x, 5, 4, .kernel_initializer = initializers[i], .activation = ISO_LOG_SIGMOID);
    iso_model *model = iso_model_create(g, x, iso_concatenate(y, COUNT));
    char *first = saved_config(model), *second;
    check_ok(iso_keras_load(ctx, path, &again));
    second = saved_config(again);
    ck_assert_str_eq(first, second);
    ck_assert_ptr_nonnull(strstr(first, "\"side\": \"imag\", \"window\": \"hamming\", \"periodic\": true, "
                                        "\"scaling\": null"));
    ck_assert_ptr_nonnull(strstr(first, "\"window\": null, \"periodic\": false, \"scaling\": \"spectrum\""));
    ck_assert_ptr_nonnull(strstr(first, "\"activation\": \"log_sigmoid\""));
    iso_free(first);
    iso_free(second);
    end(model, again);
}
END_TEST

static iso_tensor *band_of(iso_graph *g, iso_tensor *x)
{
    (void)g;
    return iso_flatten(iso_band_op(iso_reshape(x, ISO_SHAPE(2, 3)), true, 0, 0));
}

/* ---- as Keras connects layers ---- */

static json_t *layer_named(const json_t *network, const char *name)
{
    size_t i;
    json_t *layer;
    json_array_foreach(json_object_get(json_object_get(network, "config"), "layers"), i,
                       layer) if (strcmp(json_string_value(json_object_get(layer, "name")), name) ==
                                  0) return layer;
    return NULL;
}

/* How many arguments a layer's first call has, and of how many tensors the first of them is a list; 0: of
 * none. */
static void shape_of_call(const json_t *layer, size_t *arguments, size_t *list)
{
    const json_t *args = json_object_get(json_array_get(json_object_get(layer, "inbound_nodes"), 0), "args");
    *arguments = json_array_size(args);
    *list = json_is_array(json_array_get(args, 0)) ? json_array_size(json_array_get(args, 0)) : 0;
}

/* What Keras saved is loaded and described again: the ends of the network and how each layer is called are as
 * Keras has them, who opens the file. */
START_TEST(connections_are_those_of_keras)
{
    static const char *const names[] = {"attention", "attention_options", "nested",   "nested_two_ends",
                                        "branches",  "siamese",           "residual", "two_in_two_out"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char file[200], *text = NULL;
        size_t bytes, i;
        iso_model *model = NULL;
        json_t *ours = NULL, *theirs = NULL, *layer;
        snprintf(file, sizeof file, "tests/keras/table/%s.keras", names[n]);
        check_ok(iso_keras_load(ctx, file, &model));
        check_ok(iso_keras_describe(model, &ours));
        check_ok(iso_keras_read_member(file, "config.json", &text, &bytes));
        check_ok(iso_json_parse(file, text, bytes, &theirs));
        json_array_foreach(json_object_get(json_object_get(theirs, "config"), "layers"), i, layer)
        {
            const char *name = json_string_value(json_object_get(layer, "name"));
            const json_t *mine = layer_named(ours, name);
            size_t arguments, list, our_arguments, our_list;
            ck_assert_msg(mine != NULL, "%s: no layer '%s'", names[n], name);
            shape_of_call(layer, &arguments, &list);
            shape_of_call(mine, &our_arguments, &our_list);
            ck_assert_msg(
                arguments == our_arguments && list == our_list,
                "%s: '%s' is called with %zu arguments, a list of %zu first; in Keras's file %zu, %zu",
                names[n], name, our_arguments, our_list, arguments, list);
        }
        ck_assert_msg(json_equal(json_object_get(json_object_get(ours, "config"), "output_layers"),
                                 json_object_get(json_object_get(theirs, "config"), "output_layers")),
                      "%s: other output_layers", names[n]);
        json_decref(ours);
        json_decref(theirs);
        iso_free(text);
        iso_model_destroy(model);
    }
}
END_TEST

/* Given statistics are in the file as they were given. Numbers above those of int32 are real ones: Keras on JAX
 * refuses integers so large. */
START_TEST(statistics_as_they_were_given)
{
    static const double mean[] = {1, 2147483647, 2147483648, -4e9, 0.5, -0.125},
                        squares[6] = {1, 2, 3, 4, 5, 0.25}, five[] = {5};
    static const struct {
        const char *name, *axis, *mean, *variance;
    } expected[] = {{"lists", "[1,-1]", "[[1,2147483647],[2147483648.0,-4000000000.0],[0.5,-0.125]]",
                     "[[1,2],[3,4],[5,0.25]]"},
                    {"number", "[]", "5", "5"},
                    {"list", "-1", "[5]", "[5]"},
                    {"none", "1", "null", "null"}};
    json_t *config = NULL;
    iso_graph *graph = iso_graph_create(ctx);
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(3, 2));
    iso_tensor *y = iso_normalization(x, .axis = {-1, 1}, .axis_count = 2, .mean = mean, .variance = squares,
                                      .mean_shape = ISO_SHAPE(3, 2), .name = "lists");
    y = iso_normalization(y, .no_axis = true, .mean = five, .variance = five, .name = "number");
    y = iso_normalization(y, .mean = five, .variance = five, .mean_shape = ISO_SHAPE(1), .name = "list");
    y = iso_normalization(y, .axis = {1}, .axis_count = 1, .invert = true, .name = "none");
    iso_model *model = iso_model_create(graph, x, y);
    check_ok(iso_keras_describe(model, &config));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const json_t *layer = json_object_get(layer_named(config, expected[i].name), "config");
        const char *const keys[] = {"axis", "mean", "variance"}, *const wanted[] = {expected[i].axis,
                                                                                    expected[i].mean,
                                                                                    expected[i].variance};
        for (int k = 0; k < 3; k++) {
            char *have = json_dumps(json_object_get(layer, keys[k]), JSON_COMPACT | JSON_ENCODE_ANY);
            ck_assert_str_eq(have, wanted[k]);
            free(have);
        }
        ck_assert(json_is_boolean(json_object_get(layer, "invert")));
    }
    json_decref(config);
    iso_model_destroy(model);
}
END_TEST

/* Keras counts the calls of a model within from 1 where a network ends: keras.Model(x, inner(x)) has
 * ["inner", 1, 0]. */
START_TEST(a_network_ends_with_a_model)
{
    json_t *config = NULL;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
    iso_name_scope_begin(g, "inner");
    iso_name_scope_note(g, false, &x, 1, -1);
    iso_tensor *y = iso_name_scope_end(g, iso_dense(x, 2, .name = "d"));
    iso_model *model = iso_model_create(g, x, y);
    check_ok(iso_graph_error(g));
    check_ok(iso_keras_describe(model, &config));
    char *ends =
        json_dumps(json_object_get(json_object_get(config, "config"), "output_layers"), JSON_COMPACT);
    ck_assert_str_eq(ends, "[\"inner\",1,0]");
    free(ends);
    json_decref(config);
    iso_model_destroy(model);
}
END_TEST

static iso_tensor *constant_added(iso_graph *g, iso_tensor *x)
{
    static const double values[] = {1, 2, 3, 4, 5, 6};
    return iso_dense(iso_add(x, iso_constant(g, ISO_F32, ISO_SHAPE(6), values)), 2);
}

static iso_tensor *own_variable(iso_graph *g, iso_tensor *x)
{
    iso_variable *scale = iso_variable_create(g, "scale", ISO_F32, ISO_SHAPE(6),
                                              (iso_initializer){.kind = ISO_INIT_ONES}, true);
    return iso_dense(iso_multiply(x, iso_variable_value(scale)), 2);
}

static iso_tensor *gelu_by_tanh(iso_graph *g, iso_tensor *x)
{
    (void)g;
    return iso_dense(x, 2, .activation = ISO_GELU_TANH, .name = "d");
}

static iso_tensor *no_chain(iso_graph *g, iso_tensor *x)
{
    iso_name_scope_note(g, true, NULL, 0, -1);
    iso_tensor *both[] = {iso_dense(x, 2), iso_dense(x, 2)};
    return iso_merge_add(both, 2);
}

static iso_tensor *turned_heads(iso_graph *g, iso_tensor *x)
{
    (void)g;
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, 1, -1));
    return iso_grouped_query_attention(x, x, 2, 2, 1, .rope_max_wavelength = 10, .name = "turned");
}

static iso_tensor *normalised_heads(iso_graph *g, iso_tensor *x)
{
    (void)g;
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, 1, -1));
    return iso_multi_head_attention(x, x, 2, 2, .qk_norm = true, .name = "normalised");
}

static iso_tensor *scaled_scores(iso_graph *g, iso_tensor *x)
{
    (void)g;
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, 1, -1));
    return iso_multi_head_attention(x, x, 2, 2, .score_scale = 0.25, .name = "scaled");
}

static iso_tensor *zero_centered(iso_graph *g, iso_tensor *x)
{
    (void)g;
    return iso_rms_norm(x, .zero_centered = true, .name = "centered");
}

static iso_tensor *partly_biased(iso_graph *g, iso_tensor *x)
{
    (void)g;
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, 1, -1));
    return iso_multi_head_attention(x, x, 2, 2, .no_output_bias = true, .name = "partly");
}

static iso_tensor *wide_strides(iso_graph *g, iso_tensor *x)
{
    (void)g;
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, 6, 1, 1));
    return iso_conv2d_transpose(x, 2, 2, .strides_hw = {2, 1}, .dilation_hw = {1, 2}, .name = "wide");
}

static iso_tensor *wide_volume(iso_graph *g, iso_tensor *x)
{
    (void)g;
    x = iso_reshape_to(x, ISO_SHAPE(ISO_BATCH, 6, 1, 1, 1));
    return iso_conv3d(x, 2, 1, .strides_dhw = {2, 1, 1}, .dilation_dhw = {1, 1, 2}, .name = "volume");
}

/* It is no one function of keras.ops. */
static iso_tensor *maskless_affine(iso_graph *g, iso_tensor *x)
{
    (void)g;
    return iso_affine(iso_embedding(x, 5, 2, .mask_zero = true), 2, 1);
}

/* Keras calls the operation of the mask "concatenate", as the layer. */
static iso_tensor *joined_masks(iso_graph *g, iso_tensor *x)
{
    (void)g;
    iso_tensor *y = iso_embedding(x, 5, 2, .mask_zero = true), *both[] = {y, y};
    return iso_lstm(iso_concatenate(both, 2), 3, .name = "reader");
}

START_TEST(refused)
{
    static const struct {
        iso_tensor *(*build)(iso_graph *g, iso_tensor *x);
        const char *part;
    } cases[] = {
        {constant_added, "which no layer made"},
        {own_variable, "which no layer made"},
        {turned_heads, "layer 'turned' has rope_max_wavelength, which Keras's GroupQueryAttention"},
        {normalised_heads, "layer 'normalised' has qk_norm, which Keras's MultiHeadAttention"},
        {scaled_scores, "layer 'scaled' has score_scale, which Keras's MultiHeadAttention"},
        {zero_centered, "layer 'centered' has zero_centered, which Keras's RMSNormalization"},
        {partly_biased, "layer 'partly' has no_output_bias, which Keras's MultiHeadAttention"},
        {wide_strides, "layer 'wide' has strides and a dilation_rate above 1, which Keras's Conv2DTr"},
        {wide_volume, "layer 'volume' has strides and a dilation_rate above 1, which Keras's Conv3D"},
        {gelu_by_tanh, "layer 'd' has the activation gelu_tanh"},
        {band_of, "the op 'band'"},
        {joined_masks, "layer 'reader' (LSTM) uses the mask of a Concatenate"},
        {maskless_affine, "takes the mask off its input; Keras's Rescaling would pass it on"},
        {no_chain, "is not a chain of layers"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_graph *g = iso_graph_create(ctx);
        iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(6));
        iso_model *model = iso_model_create(g, x, cases[i].build(g, x));
        check_ok(iso_compile(model, iso_sgd(), ISO_LOSS_MSE));
        check_refused(iso_keras_save_check(model, path), cases[i].part);
        check_refused(iso_keras_save(model, path), cases[i].part);
        iso_model_destroy(model);
    }
    ck_assert(!exists("net.keras"));
    ck_assert(!exists(".net.keras.saving"));
}
END_TEST

START_TEST(wrong_names)
{
    char missing[300];
    iso_model *model = mixed();
    check_ok(iso_compile(model, iso_sgd(), ISO_LOSS_MSE));
    check_refused(iso_keras_save(model, "net.h5"), "the name must end in .keras");
    check_refused(iso_keras_save(model, ".keras"), "the name must end in .keras");
    check_refused(iso_keras_save(model, NULL), "iso_keras_save: path is NULL");
    snprintf(missing, sizeof missing, "%s/none/net.keras", folder); /* the folder is made */
    check_ok(iso_keras_save(model, missing));
    ck_assert(exists("none/net.keras"));
    snprintf(missing, sizeof missing, "%s/none/net.keras/net.keras", folder); /* a file is no folder */
    ck_assert_int_eq(iso_keras_save(model, missing), ISO_IO);
    ck_assert_msg(strstr(iso_error_message(), "none/net.keras") != NULL, "%s", iso_error_message());
    iso_model_destroy(model);
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
    snprintf(path, sizeof path, "%s/net.keras", folder);
    int failed = RUN_TESTS(
        "saving files of Keras", 0, ops_and_blocks, ops_take_masks_off, ops_as_functions, not_compiled,
        every_loss_and_metric_comes_back, initializers_and_activations_come_back, named_outputs,
        names_are_not_those_of_masks, keys_of_inputs, types_of_metrics, connections_are_those_of_keras,
        a_network_ends_with_a_model, statistics_as_they_were_given, refused, wrong_names);
    return iso_finish(ctx, remove_test_folder(ctx, folder)) || failed;
}
