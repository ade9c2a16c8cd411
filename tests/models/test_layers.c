/* Layers as graphs: names, paths, what the summary lists, and errors that name the layer and the shapes.
 * Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/isogrid.h"
#include "tests/support/run_tests.h"

static iso_graph *graph;

static void begin(void)
{
    graph = iso_graph_create(NULL);
}

static void end(void)
{
    iso_graph_destroy(graph);
}

static iso_tensor *image(void)
{
    return iso_input(graph, "image", ISO_F32, ISO_SHAPE(8, 6, 3));
}

static void check_shape(iso_tensor *x, iso_shape want)
{
    char a[160], b[160];
    ck_assert_msg(iso_graph_error(graph) == ISO_OK, "%s", iso_error_message());
    const iso_shape *have = iso_tensor_shape(x);
    ck_assert_msg(iso_shape_equal(have, &want), "%s, not %s", iso_shape_text(have, a, sizeof a),
                  iso_shape_text(&want, b, sizeof b));
}

/* The graph's error holds all of these; a new graph for the next. */
static void check_refused(const char *first, const char *second)
{
    ck_assert_int_eq(iso_graph_error(graph), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), first) && strstr(iso_error_message(), second),
                  "'%s' lacks '%s' or '%s'", iso_error_message(), first, second);
    end();
    begin();
}

START_TEST(names_are_keras)
{
    begin();
    iso_tensor *x = iso_conv2d(image(), 4, 3);
    ck_assert_str_eq(iso_tensor_name(x), "conv2d/output");
    x = iso_batch_norm(iso_conv2d(x, 4, 3));
    ck_assert_str_eq(iso_tensor_name(x), "batch_normalization/output");
    x = iso_dense(iso_dense(iso_flatten(x), 5, .name = "d1"), 2);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    static const char *const paths[] = {"conv2d/kernel",
                                        "conv2d/bias",
                                        "conv2d_1/kernel",
                                        "conv2d_1/bias",
                                        "batch_normalization/gamma",
                                        "batch_normalization/beta",
                                        "batch_normalization/moving_mean",
                                        "batch_normalization/moving_variance",
                                        "d1/kernel",
                                        "d1/bias",
                                        "dense/kernel",
                                        "dense/bias"};
    ck_assert_int_eq(iso_graph_variable_count(graph), 12);
    for (int i = 0; i < 12; i++)
        ck_assert_str_eq(iso_variable_path(iso_graph_variable(graph, i)), paths[i]);
    ck_assert(!iso_variable_trainable(iso_graph_variable(graph, 6)));
    ck_assert_int_eq(iso_graph_layer_count(graph), 6);
    ck_assert_str_eq(iso_graph_layer(graph, 3)->type, "Flatten");
    end();
}
END_TEST

START_TEST(shapes)
{
    begin();
    iso_tensor *x = image();
    check_shape(iso_conv2d(x, 5, 3, .padding = ISO_SAME, .strides = 2), ISO_SHAPE(ISO_BATCH, 4, 3, 5));
    check_shape(iso_conv2d(x, 5, .kernel_size_hw = {3, 1}, .strides_hw = {1, 2}),
                ISO_SHAPE(ISO_BATCH, 6, 3, 5));
    check_shape(iso_conv2d(x, 5, 3), ISO_SHAPE(ISO_BATCH, 6, 4, 5));
    check_shape(iso_max_pooling2d(x), ISO_SHAPE(ISO_BATCH, 4, 3, 3));
    check_shape(iso_average_pooling2d(x, 3, .strides = 2, .padding = ISO_SAME),
                ISO_SHAPE(ISO_BATCH, 4, 3, 3));
    check_shape(iso_global_max_pooling2d(x), ISO_SHAPE(ISO_BATCH, 3));
    check_shape(iso_global_average_pooling2d(x, .keep_dims = true), ISO_SHAPE(ISO_BATCH, 1, 1, 3));
    check_shape(iso_reshape(x, ISO_SHAPE(-1, 9)), ISO_SHAPE(ISO_BATCH, 16, 9));
    check_shape(iso_flatten(x), ISO_SHAPE(ISO_BATCH, 144));
    check_shape(iso_layer_norm(x, .axes = 2), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    check_shape(iso_concatenate(((iso_tensor *[]){x, x}), 2, .axis = 1), ISO_SHAPE(ISO_BATCH, 16, 6, 3));
    check_shape(iso_concatenate(((iso_tensor *[]){x, x}), 2), ISO_SHAPE(ISO_BATCH, 8, 6, 6));
    iso_tensor *words = iso_input(graph, "words", ISO_I32, ISO_SHAPE(7));
    check_shape(iso_embedding(words, 100, 4), ISO_SHAPE(ISO_BATCH, 7, 4));
    end();
}
END_TEST

START_TEST(errors_name_the_layer)
{
    begin();
    iso_dense(iso_input(graph, "x", ISO_F32, ISO_SCALAR), 3, .name = "d1");
    check_refused("layer 'd1' (Dense)", "batch");
    iso_dense(image(), -4);
    check_refused("'dense'", "-4");
    iso_conv2d(iso_input(graph, "x", ISO_F32, ISO_SHAPE(28, 28)), 3, 3);
    check_refused("'conv2d'", "[batch, 28, 28]");
    iso_conv2d(image(), 4, 9);
    check_refused("reaches over 9", "has 8");
    iso_conv2d(image(), 4, 3, .groups = 2);
    check_refused("4 filters of 3 channels in 2 groups", "conv2d");
    iso_conv2d(image(), 4, 3, .strides = -1);
    check_refused("strides", "-1");
    iso_max_pooling2d(image(), 9);
    check_refused("'max_pooling2d'", "9");
    iso_dropout(image(), 1.0);
    check_refused("'dropout'", "rate is 1");
    iso_dropout(image(), NAN);
    check_refused("'dropout'", "nan");
    iso_embedding(iso_input(graph, "words", ISO_I32, ISO_SHAPE(7)), 0, 4);
    check_refused("'embedding'", "input_dim is 0");
    iso_layer_norm(image(), .axes = 4);
    check_refused("'layer_normalization'", "4");
    iso_layer_norm(image(), .axis = {1, -3}, .axis_count = 2);
    check_refused("'layer_normalization'", "axis -3");
    iso_batch_norm(image(), .axis = 4, .name = "n");
    check_refused("'n' (BatchNormalization)", "axis 4");
    iso_dense(image(), 4, .kernel_l1 = -1);
    check_refused("'dense'", "kernel_l1 is -1");
    iso_dense(image(), 4, .bias_initializer = {.kind = ISO_INIT_ORTHOGONAL});
    check_refused("dense/bias", "orthogonal");
    iso_batch_norm(image(), .momentum = 2);
    check_refused("'batch_normalization'", "momentum 2");
    iso_reshape(image(), ISO_SHAPE(7, 7));
    check_refused("[batch, 8, 6, 3]", "7");
    iso_flatten(image(), .name = "f");
    iso_flatten(image(), .name = "f");
    check_refused("'f'", "two layers");
    end();
}
END_TEST

/* The first error stays; what follows does nothing and does not crash. */
START_TEST(a_broken_graph_goes_on)
{
    begin();
    iso_tensor *x = iso_dense(image(), -1, .name = "first");
    x = iso_relu(iso_batch_norm(iso_conv2d(x, 3, 3)));
    x = iso_dense(iso_dropout(iso_global_average_pooling2d(x), 0.5), -2, .name = "second");
    iso_minimize(iso_mean(iso_sparse_crossentropy(x, x)), iso_adam());
    check_refused("first", "-1");
    end();
}
END_TEST

/* ---- built-in models ---- */

static int64_t trainable(iso_graph *g)
{
    int64_t sum = 0, count;
    for (int i = 0; i < iso_graph_variable_count(g); i++) {
        if (!iso_variable_trainable(iso_graph_variable(g, i)))
            continue;
        ck_assert_int_eq(iso_shape_count(iso_variable_shape(iso_graph_variable(g, i)), &count), ISO_OK);
        sum += count;
    }
    return sum;
}

/* Counts that Keras's summary() gives for the guides' networks. */
START_TEST(builtin_models_have_the_guides_parameters)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } known[] = {{"mlp", 269322}, {"convnet", 49242}, {"dense", 158810}, {"dtensor", 101770}};
    ck_assert_int_eq(iso_builtin_model_count(), 4);
    for (int i = 0; i < 4; i++) {
        const iso_builtin_model *found;
        ck_assert_int_eq(iso_builtin_model_find(known[i].name, &found), ISO_OK);
        iso_model *model = iso_builtin_model_create(NULL, found, ISO_SHAPE(28, 28, 1), ISO_F64);
        ck_assert_msg(iso_graph_error(iso_model_graph(model)) == ISO_OK, "%s", iso_error_message());
        ck_assert_int_eq(trainable(iso_model_graph(model)), known[i].parameters);
        ck_assert_int_eq(iso_tensor_dtype(iso_model_output(model)), ISO_F64);
        iso_model_destroy(model);
    }
    const iso_builtin_model *found;
    ck_assert_int_eq(iso_builtin_model_find("convnets", &found), ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "'convnet'"));
}
END_TEST

START_TEST(summary_is_keras_table)
{
    char text[8192] = "";
    const iso_builtin_model *found;
    ck_assert_int_eq(iso_builtin_model_find("dtensor", &found), ISO_OK);
    iso_model *model = iso_builtin_model_create(NULL, found, ISO_SHAPE(28, 28, 1), ISO_F32);
    FILE *out = fmemopen(text, sizeof text, "w");
    iso_model_summary(model, out);
    fclose(out);
    ck_assert_ptr_nonnull(
        strstr(text, "│ image (InputLayer)              │ (None, 28, 28, 1)      │             0 │"));
    ck_assert_ptr_nonnull(
        strstr(text, "│ d1 (Dense)                      │ (None, 128)            │       100,480 │"));
    ck_assert_ptr_nonnull(strstr(text, " Total params: 101,770 (397.54 KB)\n"));
    ck_assert_ptr_nonnull(strstr(text, " Non-trainable params: 0 (0.00 B)\n"));
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    return RUN_TESTS("layers", 0, names_are_keras, shapes, errors_name_the_layer, a_broken_graph_goes_on,
                     builtin_models_have_the_guides_parameters, summary_is_keras_table);
}
