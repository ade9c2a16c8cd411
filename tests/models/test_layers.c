/* Layers as graphs: names, paths, what the summary lists, and errors that name the layer and the shapes.
 * Ranks: 1 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/layers/config.h"
#include "runtime/graph/ops/network.h"
#include "runtime/isogrid.h"
#include "runtime/isogrid_extend.h"
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

static iso_tensor *volume(void)
{
    return iso_input(graph, "volume", ISO_F32, ISO_SHAPE(4, 8, 6, 3));
}

static iso_tensor *steps(void)
{
    return iso_input(graph, "steps", ISO_F32, ISO_SHAPE(4, 6));
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

/* A sequence with a mask: [batch, 4, 3] */
static iso_tensor *words(void)
{
    return iso_embedding(iso_input(graph, "words", ISO_I32, ISO_SHAPE(4)), 5, 3, .mask_zero = true);
}

static int warnings;
static void count_warning(void *user, const char *text)
{
    (void)user;
    ck_assert_msg(strstr(text, "does not pass on the mask"), "%s", text);
    warnings++;
}

/* Which layers pass a mask on, which take it away, and that a warning says who loses it. */
START_TEST(masks)
{
    begin();
    iso_tensor *x = words(), *mask = iso_tensor_mask(x), *both[] = {x, NULL};
    ck_assert_ptr_nonnull(mask);
    ck_assert(iso_tensor_dtype(mask) == ISO_BOOL && iso_tensor_shape(mask)->rank == 2);
    ck_assert_ptr_eq(iso_tensor_mask(iso_dropout(iso_dense(x, 3), 0.5)), mask);
    ck_assert_ptr_eq(iso_tensor_mask(iso_lstm(x, 2, .return_sequences = true)), mask);
    ck_assert_ptr_null(iso_tensor_mask(iso_lstm(x, 2)));
    ck_assert_ptr_null(iso_tensor_mask(iso_add(x, x)));
    both[1] = iso_dense(x, 3);
    ck_assert_ptr_eq(iso_tensor_mask(iso_merge_add(both, 2)), mask);
    both[1] = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3));
    ck_assert_ptr_null(iso_tensor_mask(iso_merge_add(both, 2)));
    ck_assert_ptr_nonnull(iso_tensor_mask(iso_concatenate(both, 2)));
    ck_assert_ptr_eq(iso_tensor_mask(iso_dot_attention(x, both[1])), mask);
    ck_assert_ptr_null(iso_tensor_mask(iso_additive_attention(both[1], x)));
    iso_tensor *y = iso_multi_head_attention(x, x, 1, 2);
    ck_assert(iso_tensor_masks(y).run == mask && !iso_tensor_masks(x).run);
    ck_assert_ptr_eq(iso_tensor_mask(x), mask);
    iso_set_warning_handler(count_warning, NULL);
    ck_assert_ptr_null(iso_tensor_mask(iso_flatten(x)));
    ck_assert_int_eq(warnings, 1);
    iso_set_warning_handler(NULL, NULL);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    end();
}
END_TEST

/* Variables of attention: Keras's names in Keras's order, and where a file of Keras has them. */
START_TEST(attention_is_keras)
{
    static const char *const products[] = {"query", "key", "gate", "value", "attention_output"};
    begin();
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(5, 6));
    iso_tensor *y = iso_multi_head_attention(x, x, 2, 3, .use_gate = true, .causal = true);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    ck_assert_str_eq(iso_tensor_name(y), "multi_head_attention/output");
    ck_assert_int_eq(iso_graph_variable_count(graph), 10);
    for (int i = 0; i < 10; i++) {
        char path[80];
        iso_variable *variable = iso_graph_variable(graph, i);
        snprintf(path, sizeof path, "multi_head_attention/%s/%s", products[i / 2], i % 2 ? "bias" : "kernel");
        ck_assert_str_eq(iso_variable_path(variable), path);
    }
    const iso_layer_record *record = iso_graph_layer(graph, 0);
    ck_assert_str_eq(record->type, "MultiHeadAttention");
    iso_text text = {0};
    iso_attribute_print(record->call, &text);
    ck_assert_str_eq(iso_text_get(&text), "{\"use_causal_mask\": true}");
    iso_attribute_print(record->config, &text);
    ck_assert_ptr_nonnull(strstr(iso_text_get(&text), "{\"num_heads\": 2, \"key_dim\": 3, \"value_dim\": 3"));
    iso_text_free(&text);
    end();
}
END_TEST

static void check_config(int layer, const char *want)
{
    iso_text text = {0};
    iso_attribute_print(iso_graph_layer(graph, layer)->config, &text);
    ck_assert_str_eq(iso_text_get(&text), want);
    iso_text_free(&text);
}

/* Checkpoints have a hash of these texts: get_config() of Keras, with reals of 17 digits. */
START_TEST(arguments_are_noted)
{
    begin();
    iso_tensor *x = iso_zero_padding2d(image(), .sides = {{1, 2}, {ISO_ZERO, 3}});
    iso_dense(x, 10, .activation = ISO_LEAKY_RELU, .activation_with = {.negative_slope = 0.1},
              .kernel_initializer = {ISO_INIT_VARIANCE_SCALING, .scale = 2, .mode = ISO_FAN_OUT},
              .kernel_l2 = 1e-7);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    check_config(0, "{\"padding\": [[1, 2], [0, 3]], \"data_format\": \"channels_last\"}");
    check_config(
        1, "{\"units\": 10, \"activation\": {\"module\": \"keras.layers\", \"class_name\": \"LeakyReLU\", "
           "\"config\": {\"negative_slope\": 0.10000000000000001}, \"registered_name\": null}, \"use_bias\": "
           "true, \"kernel_initializer\": {\"module\": \"keras.initializers\", \"class_name\": "
           "\"VarianceScaling\", \"config\": {\"scale\": 2, \"mode\": \"fan_out\", \"distribution\": "
           "\"truncated_normal\", \"seed\": null}, \"registered_name\": null}, \"kernel_regularizer\": "
           "{\"module\": \"keras.regularizers\", \"class_name\": \"L2\", \"config\": {\"l2\": "
           "9.9999999999999995e-08}, \"registered_name\": null}, \"bias_initializer\": {\"module\": "
           "\"keras.initializers\", \"class_name\": \"Zeros\", \"config\": {}, \"registered_name\": null}, "
           "\"bias_regularizer\": null}");
    end();
}
END_TEST

/* Keras's mask: [batch, t, s], or with a dimension of heads. All but the batch may be 1. */
START_TEST(attention_masks)
{
    static const struct {
        iso_shape mask;
        bool fits;
    } cases[] = {{{3, {ISO_BATCH, 5, 4}}, true},     {{4, {ISO_BATCH, 1, 5, 4}}, true},
                 {{4, {ISO_BATCH, 2, 5, 4}}, true},  {{4, {ISO_BATCH, 3, 5, 4}}, false},
                 {{3, {ISO_BATCH, 4, 5}}, false},    {{3, {ISO_BATCH, 5, 5}}, false},
                 {{4, {ISO_BATCH, 1, 5, 3}}, false}, {{3, {ISO_BATCH, 1, 4}}, true},
                 {{3, {ISO_BATCH, 5, 1}}, true},     {{4, {ISO_BATCH, 2, 1, 4}}, true},
                 {{3, {ISO_BATCH, 1, 5}}, false},    {{2, {ISO_BATCH, 4}}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        iso_shape row = {cases[i].mask.rank - 1, {0}};
        memcpy(row.dim, cases[i].mask.dim + 1, (size_t)row.rank * sizeof *row.dim);
        iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(5, 6)),
                   *v = iso_input(graph, "v", ISO_F32, ISO_SHAPE(4, 6)),
                   *mask = iso_input(graph, "mask", ISO_BOOL, row);
        iso_multi_head_attention(x, v, 2, 3, .attention_mask = mask);
        ck_assert_msg((iso_graph_error(graph) == ISO_OK) == cases[i].fits, "mask %zu: %s", i,
                      iso_error_message());
        end();
    }
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
    iso_tensor *steps = iso_input(graph, "steps", ISO_F32, ISO_SHAPE(3, 2)); /* shorter than the windows */
    check_shape(iso_max_pooling1d(steps, 5, .padding = ISO_SAME), ISO_SHAPE(ISO_BATCH, 1, 2));
    check_shape(iso_average_pooling1d(steps, 4, .strides = 1, .padding = ISO_SAME),
                ISO_SHAPE(ISO_BATCH, 3, 2));
    check_shape(iso_max_pooling1d(steps, 3), ISO_SHAPE(ISO_BATCH, 1, 2));
    check_shape(iso_global_max_pooling2d(x), ISO_SHAPE(ISO_BATCH, 3));
    check_shape(iso_global_average_pooling2d(x, .keep_dims = true), ISO_SHAPE(ISO_BATCH, 1, 1, 3));
    check_shape(iso_reshape(x, ISO_SHAPE(-1, 9)), ISO_SHAPE(ISO_BATCH, 16, 9));
    check_shape(iso_flatten(x), ISO_SHAPE(ISO_BATCH, 144));
    check_shape(iso_layer_norm(x, .axes = 2), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    check_shape(iso_rms_norm(x, .axes = 2), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    check_shape(iso_concatenate(((iso_tensor *[]){x, x}), 2, .axis = 1), ISO_SHAPE(ISO_BATCH, 16, 6, 3));
    check_shape(iso_concatenate(((iso_tensor *[]){x, x}), 2), ISO_SHAPE(ISO_BATCH, 8, 6, 6));
    check_shape(iso_zero_padding2d(x), ISO_SHAPE(ISO_BATCH, 10, 8, 3));
    check_shape(iso_zero_padding2d(x, ISO_ZERO), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    check_shape(iso_cropping2d(x, .sides = {{1, 2}, {0, 3}}), ISO_SHAPE(ISO_BATCH, 5, 3, 3));
    check_shape(iso_up_sampling2d(x, .size_hw = {2, 3}), ISO_SHAPE(ISO_BATCH, 16, 18, 3));
    check_shape(iso_depthwise_conv2d(x, 3, .depth_multiplier = 2), ISO_SHAPE(ISO_BATCH, 6, 4, 6));
    check_shape(iso_separable_conv2d(x, 5, 3, .strides = 2), ISO_SHAPE(ISO_BATCH, 3, 2, 5));
    check_shape(iso_conv2d_transpose(x, 5, 3, .strides = 2), ISO_SHAPE(ISO_BATCH, 17, 13, 5));
    check_shape(iso_conv2d_transpose(x, 5, 3, .strides = 2, .padding = ISO_SAME),
                ISO_SHAPE(ISO_BATCH, 16, 12, 5));
    check_shape(iso_conv2d_transpose(x, 5, 3, .strides = 2, .padding = ISO_SAME, .output_padding_count = 1),
                ISO_SHAPE(ISO_BATCH, 15, 11, 5));
    iso_tensor *v = iso_input(graph, "volume", ISO_F32, ISO_SHAPE(4, 8, 6, 3));
    check_shape(iso_conv3d(v, 5, 3), ISO_SHAPE(ISO_BATCH, 2, 6, 4, 5));
    check_shape(iso_conv3d(v, 6, .kernel_size_dhw = {1, 3, 2}, .strides_dhw = {3, 1, 2}, .groups = 3),
                ISO_SHAPE(ISO_BATCH, 2, 6, 3, 6));
    check_shape(iso_conv3d(v, 5, 3, .strides = 2, .padding = ISO_SAME), ISO_SHAPE(ISO_BATCH, 2, 4, 3, 5));
    check_shape(iso_conv3d_transpose(v, 5, 3, .strides = 2), ISO_SHAPE(ISO_BATCH, 9, 17, 13, 5));
    check_shape(iso_conv3d_transpose(v, 5, 3, .strides = 2, .padding = ISO_SAME, .output_padding_count = 1),
                ISO_SHAPE(ISO_BATCH, 7, 15, 11, 5));
    check_shape(iso_max_pooling3d(v), ISO_SHAPE(ISO_BATCH, 2, 4, 3, 3));
    check_shape(iso_average_pooling3d(v, .pool_size_dhw = {1, 3, 2}, .strides = 2),
                ISO_SHAPE(ISO_BATCH, 2, 3, 3, 3));
    check_shape(iso_global_max_pooling3d(v), ISO_SHAPE(ISO_BATCH, 3));
    check_shape(iso_global_average_pooling3d(v, .keep_dims = true), ISO_SHAPE(ISO_BATCH, 1, 1, 1, 3));
    check_shape(iso_zero_padding3d(v), ISO_SHAPE(ISO_BATCH, 6, 10, 8, 3));
    check_shape(iso_cropping3d(v), ISO_SHAPE(ISO_BATCH, 2, 6, 4, 3));
    check_shape(iso_zero_padding1d(steps, .sides = {2, 1}), ISO_SHAPE(ISO_BATCH, 6, 2));
    check_shape(iso_zero_padding1d(steps), ISO_SHAPE(ISO_BATCH, 5, 2));
    check_shape(iso_cropping1d(steps), ISO_SHAPE(ISO_BATCH, 1, 2));
    check_shape(iso_up_sampling1d(steps), ISO_SHAPE(ISO_BATCH, 6, 2));
    check_shape(iso_repeat_vector(iso_flatten(steps), 4), ISO_SHAPE(ISO_BATCH, 4, 6));
    check_shape(iso_depthwise_conv1d(steps, 2, .depth_multiplier = 3), ISO_SHAPE(ISO_BATCH, 2, 6));
    check_shape(iso_separable_conv1d(steps, 5, 2, .padding = ISO_SAME, .strides = 2),
                ISO_SHAPE(ISO_BATCH, 2, 5));
    check_shape(iso_einsum_dense(steps, "abc,cde->abde", ISO_SHAPE(ISO_BATCH, 4, 5)),
                ISO_SHAPE(ISO_BATCH, 3, 4, 5));
    check_shape(iso_dot(steps, iso_input(graph, "other", ISO_F32, ISO_SHAPE(2, 4)), .axes = {2, 1}),
                ISO_SHAPE(ISO_BATCH, 3, 4));
    check_shape(iso_dot(iso_flatten(steps), iso_flatten(steps)), ISO_SHAPE(ISO_BATCH, 1));
    iso_tensor *weights;
    check_shape(iso_dot_attention(steps, steps, .scores = &weights), ISO_SHAPE(ISO_BATCH, 3, 2));
    check_shape(weights, ISO_SHAPE(ISO_BATCH, 3, 3));
    check_shape(iso_additive_attention(steps, iso_dense(steps, 5), .key = steps), ISO_SHAPE(ISO_BATCH, 3, 5));
    check_shape(iso_adaptive_max_pooling1d(steps, 2), ISO_SHAPE(ISO_BATCH, 2, 2));
    check_shape(iso_adaptive_average_pooling2d(x, .output_sizes = {3, 6}), ISO_SHAPE(ISO_BATCH, 3, 6, 3));
    check_shape(iso_adaptive_average_pooling1d(iso_reshape(x, ISO_SHAPE(144, 1)), 101),
                ISO_SHAPE(ISO_BATCH, 101, 1));
    check_shape(iso_center_crop(x, 5, 2), ISO_SHAPE(ISO_BATCH, 5, 2, 3));
    check_shape(iso_cropping3d(v, ISO_ZERO), ISO_SHAPE(ISO_BATCH, 4, 8, 6, 3));
    check_shape(iso_cropping3d(v, .sides = {{0, 1}, {2, 3}, {1, 0}}), ISO_SHAPE(ISO_BATCH, 3, 3, 5, 3));
    check_shape(iso_up_sampling3d(v, .size_dhw = {3, 1, 2}), ISO_SHAPE(ISO_BATCH, 12, 8, 12, 3));
    check_shape(iso_permute(x, ISO_SHAPE(3, 1, 2)), ISO_SHAPE(ISO_BATCH, 3, 8, 6));
    iso_tensor *row = iso_input(graph, "row", ISO_F32, ISO_SHAPE(9, 4));
    check_shape(iso_conv1d(row, 5, 3, .causal = true, .strides = 2), ISO_SHAPE(ISO_BATCH, 5, 5));
    check_shape(iso_conv1d_transpose(row, 5, 2, .strides = 3), ISO_SHAPE(ISO_BATCH, 27, 5));
    check_shape(iso_average_pooling1d(row), ISO_SHAPE(ISO_BATCH, 4, 4));
    check_shape(iso_global_average_pooling1d(row, .keep_dims = true), ISO_SHAPE(ISO_BATCH, 1, 4));
    check_shape(iso_multi_head_attention(row, row, 2, 3, .output_shape = ISO_SHAPE(2, 5)),
                ISO_SHAPE(ISO_BATCH, 9, 2, 5));
    check_shape(iso_grouped_query_attention(row, row, 3, 4, 2), ISO_SHAPE(ISO_BATCH, 9, 4));
    check_shape(iso_rotary_embedding(row), ISO_SHAPE(ISO_BATCH, 9, 4));
    check_shape(iso_mixture_of_experts(row, 3, 2, 5), ISO_SHAPE(ISO_BATCH, 9, 4));
    iso_tensor *h, *c;
    iso_tensor *film = iso_input(graph, "film", ISO_F32, ISO_SHAPE(4, 7, 6, 2));
    check_shape(
        iso_conv_lstm2d(film, 5, 3, .strides_hw = {2, 1}, .padding = ISO_SAME, .return_sequences = true),
        ISO_SHAPE(ISO_BATCH, 4, 4, 6, 5));
    check_shape(
        iso_conv_lstm2d(film, 5, .kernel_size_hw = {3, 1}, .dilation = 2, .final_h = &h, .final_c = &c),
        ISO_SHAPE(ISO_BATCH, 3, 6, 5));
    check_shape(c, ISO_SHAPE(ISO_BATCH, 3, 6, 5));
    check_shape(iso_conv_lstm1d(image(), 5, 2), ISO_SHAPE(ISO_BATCH, 5, 5));
    check_shape(iso_rnn(row, ISO_CELL_GRU, .layer = {.units = 5, .return_sequences = true, .name = "c"}),
                ISO_SHAPE(ISO_BATCH, 9, 5));
    check_shape(iso_random_crop(image(), 5, 2), ISO_SHAPE(ISO_BATCH, 5, 2, 3));
    check_shape(iso_random_rotation(image(), {-0.1, 0.2}), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    check_shape(iso_lstm(row, 5, .final_h = &h, .final_c = &c), ISO_SHAPE(ISO_BATCH, 5));
    check_shape(h, ISO_SHAPE(ISO_BATCH, 5));
    check_shape(c, ISO_SHAPE(ISO_BATCH, 5));
    check_shape(iso_gru(row, 5, .return_sequences = true), ISO_SHAPE(ISO_BATCH, 9, 5));
    check_shape(iso_simple_rnn(row, 1, .go_backwards = true), ISO_SHAPE(ISO_BATCH, 1));
    check_shape(iso_gru(row, 2, .go_backwards = true, .return_sequences = true), ISO_SHAPE(ISO_BATCH, 9, 2));
    iso_tensor *words = iso_input(graph, "words", ISO_I32, ISO_SHAPE(7));
    check_shape(iso_embedding(words, 100, 4), ISO_SHAPE(ISO_BATCH, 7, 4));
    end();
}
END_TEST

/* ---- layers that are made of others ---- */

static iso_tensor *three_wide(iso_tensor *x, void *user)
{
    (void)user;
    return iso_dense(x, 3);
}

static iso_tensor *three_long(iso_tensor *x, void *user)
{
    return iso_conv1d(x, 2, 3, .name = user);
}

static iso_tensor *two_layers(iso_tensor *x, void *user)
{
    return three_wide(three_wide(x, user), user);
}

static iso_tensor *no_layer(iso_tensor *x, void *user)
{
    (void)user;
    return x;
}

static iso_tensor *nothing(iso_tensor *x, void *user)
{
    (void)x;
    (void)user;
    return NULL;
}

static iso_tensor *with_state(iso_tensor *x, void *user)
{
    iso_tensor *h;
    (void)user;
    return iso_gru(x, 2, .final_h = &h);
}

static iso_tensor *half(iso_tensor *x, void *user)
{
    (void)user;
    return iso_dropout(x, 0.5, .name = "half");
}

/* The number of dropouts with random numbers of their own. */
static int count_dropouts(void)
{
    uint64_t keys[16];
    int count = 0;
    for (int i = 0; i < iso_graph_op_count(graph); i++) {
        const iso_op *op = iso_graph_op(graph, i);
        if (strcmp(op->type->name, "dropout") != 0)
            continue;
        const uint64_t key = ((const iso_dropout_attrs *)op->attrs)->key;
        int at = 0;
        while (at < count && keys[at] != key)
            at++;
        ck_assert_int_lt(count, 16);
        keys[count] = key;
        count += at == count;
    }
    return count;
}

static void check_paths(const char *const *paths, int count)
{
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    ck_assert_int_eq(iso_graph_variable_count(graph), count);
    for (int i = 0; i < count; i++)
        ck_assert_str_eq(iso_variable_path(iso_graph_variable(graph, i)), paths[i]);
}

/* Keras's paths. The parts are no layers of the network. */
START_TEST(layers_of_parts)
{
    static const char *const paths[] = {"bidirectional/forward_gru/gru_cell/kernel",
                                        "bidirectional/forward_gru/gru_cell/recurrent_kernel",
                                        "bidirectional/forward_gru/gru_cell/bias",
                                        "bidirectional/backward_gru/gru_cell/kernel",
                                        "bidirectional/backward_gru/gru_cell/recurrent_kernel",
                                        "bidirectional/backward_gru/gru_cell/bias",
                                        "both/forward_r/lstm_cell/kernel",
                                        "both/forward_r/lstm_cell/recurrent_kernel",
                                        "both/back/lstm_cell/kernel",
                                        "both/back/lstm_cell/recurrent_kernel",
                                        "time_distributed/dense/kernel",
                                        "time_distributed/dense/bias",
                                        "t/c/kernel",
                                        "t/c/bias"};
    begin();
    iso_tensor *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(9, 4)), *z, *h, *c;
    iso_tensor *y = iso_bidirectional(x, ISO_CELL_GRU, .layer = {.units = 5, .return_sequences = true});
    check_shape(y, ISO_SHAPE(ISO_BATCH, 9, 10));
    ck_assert_str_eq(iso_tensor_name(y), "bidirectional/output");
    y = iso_bidirectional(x, .layer = {.units = 5, .no_bias = true, .name = "r", .final_h = &h},
                          .backward = {.units = 5, .no_bias = true, .name = "back", .final_c = &c},
                          .merge_mode = ISO_MERGE_NONE, .backward_result = &z, .name = "both");
    check_shape(y, ISO_SHAPE(ISO_BATCH, 5));
    check_shape(z, ISO_SHAPE(ISO_BATCH, 5));
    check_shape(h, ISO_SHAPE(ISO_BATCH, 5));
    check_shape(c, ISO_SHAPE(ISO_BATCH, 5));
    check_shape(iso_time_distributed(x, three_wide), ISO_SHAPE(ISO_BATCH, 9, 3));
    x = iso_input(graph, "images", ISO_F32, ISO_SHAPE(2, 9, 4));
    check_shape(iso_time_distributed(x, three_long, (void *)(uintptr_t) "c", .name = "t"),
                ISO_SHAPE(ISO_BATCH, 2, 7, 2));
    check_paths(paths, sizeof paths / sizeof *paths);
    ck_assert_int_eq(iso_graph_layer_count(graph), 4);
    const iso_layer_record *both = iso_graph_layer(graph, 1);
    ck_assert_int_eq(both->n_others, 1 + 4);
    ck_assert_ptr_eq(both->others[0], z);
    ck_assert_ptr_eq(both->others[1], h);
    ck_assert_ptr_eq(both->others[4], c);
    ck_assert_str_eq(both->parts[1].attribute, "backward_layer");
    ck_assert_str_eq(both->parts[1].record->name, "both/back");
    end();
}
END_TEST

/* Called again, they use their variables again, and dropout drops other elements at each step of each call. */
START_TEST(parts_are_shared)
{
    begin();
    iso_tensor *again, *x = iso_input(graph, "x", ISO_F32, ISO_SHAPE(2, 9, 4));
    for (int call = 0; call < 2; call++) {
        if (call)
            iso_share_begin(graph);
        again = iso_time_distributed(x, three_long, (void *)(uintptr_t) "c", .name = "t");
        again = iso_time_distributed(again, half, .name = "lost");
        again = iso_reshape(again, ISO_SHAPE(2, 14), .name = "r");
        check_shape(iso_bidirectional(again, .layer = {.units = 2}, .name = "b"), ISO_SHAPE(ISO_BATCH, 4));
    }
    iso_share_end(graph);
    ck_assert_int_eq(iso_graph_error(graph), ISO_OK);
    ck_assert_int_eq(iso_graph_variable_count(graph), 2 + 6);
    ck_assert_int_eq(iso_graph_layer_count(graph), 8);
    ck_assert_int_eq(iso_graph_layer(graph, 7)->again, 3);
    ck_assert_int_eq(iso_graph_count_calls(graph, "lost/half"), 4);
    ck_assert_int_eq(count_dropouts(), 4);
    end();
}
END_TEST

/* A part is frozen by its name, the whole layer by that of the layer. */
START_TEST(parts_are_frozen)
{
    begin();
    iso_bidirectional(steps(), ISO_CELL_SIMPLE, .layer = {.units = 2, .no_bias = true}, .name = "b");
    ck_assert_int_eq(iso_graph_set_trainable(graph, "b/backward_simple_rnn", false), ISO_OK);
    const iso_layer_record *layer = iso_graph_layer(graph, 0);
    ck_assert(!layer->frozen && !layer->parts[0].record->frozen && layer->parts[1].record->frozen);
    for (int i = 0; i < 4; i++)
        ck_assert(iso_variable_trainable(iso_graph_variable(graph, i)) == (i < 2));
    ck_assert_int_eq(iso_graph_set_trainable(graph, "b", false), ISO_OK);
    ck_assert(layer->frozen && layer->parts[0].record->frozen);
    ck_assert_int_eq(iso_graph_set_trainable(graph, "b/other", false), ISO_INVALID);
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
    iso_conv1d(image(), 4, 3);
    check_refused("'conv1d'", "[batch, steps, channels]");
    iso_conv1d(iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3)), 4, 5);
    check_refused("reaches over 5", "has 4");
    iso_depthwise_conv2d(image(), 3, .depth_multiplier = -1);
    check_refused("'depthwise_conv2d'", "depth_multiplier is -1");
    iso_separable_conv2d(image(), 0, 3, .name = "s");
    check_refused("'s' (SeparableConv2D)", "filters is 0");
    iso_conv2d_transpose(image(), 0, 3, .name = "t");
    check_refused("'t' (Conv2DTranspose)", "filters is 0");
    iso_conv2d_transpose(image(), 4, 3, .strides = 2, .output_padding = {0, 2}, .output_padding_count = 2);
    check_refused("'conv2d_transpose'", "output_padding is 2; it must be less than strides, 2");
    iso_conv2d_transpose(image(), 4, 3, .strides = 1 << 30);
    check_refused("'conv2d_transpose'", "its output would have 8589934592 elements where its input has 8");
    iso_conv2d_transpose(iso_input(graph, "x", ISO_F32, ISO_SHAPE(1, 1, 3)), 4, 2, .padding = ISO_SAME,
                         .output_padding_count = 1);
    check_refused("'conv2d_transpose'", "its output would have 0 elements where its input has 1");
    iso_conv3d(image(), 4, 3);
    check_refused("'conv3d' (Conv3D)", "[batch, depth, height, width, channels]");
    iso_conv3d(volume(), 4, .kernel_size_dhw = {3, 0, 2});
    check_refused("'conv3d'", "kernel_size is 3 x 0 x 2, all must be positive");
    iso_conv3d(volume(), 4, .kernel_size_dhw = {5, 1, 1});
    check_refused("'conv3d'", "reaches over 5 elements, its input has 4");
    iso_conv3d(volume(), 4, .kernel_size_dhw = {1, 2, 3}, .dilation = 4);
    check_refused("'conv3d'", "reaches over 9 elements, its input has 6");
    iso_conv3d(volume(), 4, 1, .groups = 2);
    check_refused("'conv3d'", "4 filters of 3 channels in 2 groups");
    iso_conv3d_transpose(volume(), -1, 3, .name = "t");
    check_refused("'t' (Conv3DTranspose)", "filters is -1");
    iso_conv3d_transpose(volume(), 4, 3, .strides_dhw = {2, 1, 1}, .output_padding_count = 1,
                         .output_padding = {1});
    check_refused("'conv3d_transpose'", "output_padding is 1; it must be less than strides, 1");
    iso_conv3d_transpose(volume(), 4, 3, .strides_dhw = {1 << 30, 1, 1});
    check_refused("'conv3d_transpose'", "its output would have 4294967296 elements where its input has 4");
    iso_max_pooling3d(volume(), 5);
    check_refused("'max_pooling3d'", "its window reaches over 5 elements, its input has 4");
    iso_average_pooling3d(volume(), .strides_dhw = {1, -2, 1});
    check_refused("'average_pooling3d'", "pool_size 2, strides -2: both must be positive");
    iso_global_max_pooling3d(image());
    check_refused("'global_max_pooling3d'", "[batch, depth, height, width, channels]");
    iso_zero_padding3d(volume(), .sides = {{0, 0}, {1, 0}, {0, -3}});
    check_refused("'zero_padding3d'", "padding of a side is -3");
    iso_cropping3d(volume(), 2);
    check_refused("'cropping3d'", "2 and 2 of 4");
    iso_up_sampling3d(volume(), .size_dhw = {2, 2, -1});
    check_refused("'up_sampling3d'", "2 x 2 x -1");
    iso_einsum_dense(steps(), "abc,cd-abd", ISO_SHAPE(4, 5));
    check_refused("layer 'einsum_dense' (EinsumDense): its equation is \"abc,cd-abd\"", "it must be");
    iso_einsum_dense(steps(), NULL, ISO_SHAPE(4, 5));
    check_refused("its equation is \"\"", "it must be");
    iso_einsum_dense(steps(), "aba,bd->abd", ISO_SHAPE(4, 5));
    check_refused("its equation is \"aba,bd->abd\"", "different letters");
    iso_einsum_dense(steps(), "abc,bcd->abd", ISO_SHAPE(4, 5));
    check_refused("\"abc,bcd->abd\"", "'b' is in input, kernel and result, which is not supported");
    iso_einsum_dense(steps(), "abc,cde->abd", ISO_SHAPE(4, 5));
    check_refused("\"abc,cde->abd\"", "'e' of the kernel is in neither");
    iso_einsum_dense(steps(), "abc,cd->abe", ISO_SHAPE(4, 5));
    check_refused("\"abc,cd->abe\"", "'d' of the kernel is in neither");
    iso_einsum_dense(steps(), "abc,cd->bad", ISO_SHAPE(4, 5));
    check_refused("\"abc,cd->bad\"", "the first dimension of input and result must be the same, the batch");
    iso_einsum_dense(steps(), "abcd,de->abce", ISO_SHAPE(4, 6, 5));
    check_refused("its input has the shape [batch, 4, 6]",
                  "which does not fit its equation \"abcd,de->abce\"");
    iso_einsum_dense(steps(), "abc,cd->abd", ISO_SHAPE(5));
    check_refused("output_shape has 1 dimensions", "has 2 besides the batch");
    iso_einsum_dense(steps(), "abc,cd->abd", ISO_SHAPE(3, 5));
    check_refused("output_shape has 3 for 'b'", "[batch, 4, 6]");
    iso_einsum_dense(steps(), "abc,cd->abd", ISO_SHAPE(4, ISO_BATCH));
    check_refused("output_shape has -1 for 'd'", "einsum_dense");
    iso_einsum_dense(steps(), "abc,cd->abd", ISO_SHAPE(4, 5), .bias_axes = "c");
    check_refused("bias_axes is \"c\": 'c' is the batch, or not of the result", "einsum_dense");
    iso_einsum_dense(steps(), "abc,cd->abd", ISO_SHAPE(4, 5), .bias_layout = "model");
    check_refused("it has a layout for its bias and no such variable", "einsum_dense");
    iso_dot(steps(), iso_flatten(steps()), .axes = {1, 1});
    check_refused("layer 'dot' (Dot): its inputs [batch, 4, 6] and [batch, 24]",
                  "no equal dimensions at axes 1 and 1");
    iso_dot(steps(), NULL);
    check_refused("'dot'", "its second input is NULL");
    iso_dot(steps(), steps(), .axes = {3, 1});
    check_refused("'dot'", "axes 3 and 1");
    iso_depthwise_conv1d(image(), 3);
    check_refused("'depthwise_conv1d'", "[batch, steps, channels]");
    iso_depthwise_conv1d(steps(), 5);
    check_refused("'depthwise_conv1d'", "reaches over 5 elements, its input has 4");
    iso_depthwise_conv1d(steps(), 2, .depth_multiplier = -2);
    check_refused("'depthwise_conv1d'", "depth_multiplier is -2");
    iso_separable_conv1d(steps(), -1, 2);
    check_refused("'separable_conv1d'", "filters is -1");
    iso_dot_attention(steps(), NULL);
    check_refused("'attention' (Attention)", "value is NULL");
    iso_tensor *queries = steps();
    iso_dot_attention(queries, iso_dense(queries, 5));
    check_refused("query [batch, 4, 6], value [batch, 4, 5] and key [batch, 4, 5]", "'attention'");
    queries = steps();
    iso_additive_attention(queries, queries, .dropout = 1);
    check_refused("'additive_attention' (AdditiveAttention)", "dropout is 1; it must be from 0 to below 1");
    iso_adaptive_max_pooling2d(image(), .output_sizes = {2, -1});
    check_refused("layer 'adaptive_max_pooling2d' (AdaptiveMaxPooling2D)",
                  "output_size is -1 for 6 elements");
    iso_adaptive_average_pooling3d(image(), 2);
    check_refused("'adaptive_average_pooling3d'", "[batch, depth, height, width, channels]");
    iso_zero_padding1d(steps(), .sides = {1, -2});
    check_refused("'zero_padding1d'", "padding of a side is -2");
    iso_cropping1d(steps(), 2);
    check_refused("'cropping1d'", "2 and 2 of 4");
    iso_cropping1d(image());
    check_refused("'cropping1d'", "it must be [batch, steps, channels]");
    iso_up_sampling1d(steps(), -1);
    check_refused("'up_sampling1d'", "size is -1");
    iso_repeat_vector(iso_flatten(steps()), 0);
    check_refused("'repeat_vector'", "n is 0");
    iso_repeat_vector(steps(), 2);
    check_refused("'repeat_vector'", "it must be [batch, features]");
    iso_center_crop(image(), 9, 2);
    check_refused("'center_crop'", "8 x 6 elements are smaller than height 9, width 2");
    iso_center_crop(image(), 4, 0);
    check_refused("'center_crop'", "width 0");
    iso_unit_norm(image(), .axis = {0}, .axis_count = 1);
    check_refused("'unit_normalization'", "axis 0 is out of range, is the batch");
    iso_spatial_dropout1d(steps(), 1);
    check_refused("'spatial_dropout1d'", "rate is 1");
    iso_spatial_dropout3d(image(), 0.5);
    check_refused("'spatial_dropout3d'", "[batch, depth, height, width, channels]");
    iso_gaussian_dropout(image(), -0.1);
    check_refused("'gaussian_dropout'", "rate is -0.1");
    iso_alpha_dropout(image(), NAN);
    check_refused("'alpha_dropout'", "rate is nan");
    iso_activity_regularization(image(), -1, .name = "a");
    check_refused("'a' (ActivityRegularization)", "the l1 of its activity is -1");
    iso_regularize_activity(iso_dense(image(), 2), .l2 = -3);
    check_refused("'dense'", "the l2 -3");
    iso_regularize_activity(iso_relu(image()), 1);
    check_refused("iso_regularize_activity: ", "is not the result of a layer");
    iso_conv1d_transpose(image(), 4, 3);
    check_refused("'conv1d_transpose'", "[batch, steps, channels]");
    iso_zero_padding2d(image(), .sides = {{1, -2}, {0, 0}});
    check_refused("'zero_padding2d'", "padding of a side is -2");
    iso_cropping2d(image(), 3);
    check_refused("'cropping2d'", "3 and 3 of 6");
    iso_up_sampling2d(image(), -2);
    check_refused("'up_sampling2d'", "-2 x -2");
    iso_permute(image(), ISO_SHAPE(1, 2));
    check_refused("'permute'", "1 to 3");
    iso_permute(image(), ISO_SHAPE(1, 2, 2));
    check_refused("'permute'", "1 to 3");
    iso_prelu(image(), .shared_axes = {1, 4}, .shared_axis_count = 2);
    check_refused("'p_re_lu'", "axis 4");
    iso_group_norm(image(), 2);
    check_refused("'group_normalization'", "2 groups do not divide 3 channels");
    iso_gaussian_noise(image(), 1.5);
    check_refused("'gaussian_noise'", "stddev is 1.5");
    iso_random_flip(image(), (iso_flip_mode)7);
    check_refused("layer 'random_flip' (RandomFlip)", "there is no mode 7");
    iso_random_rotation(iso_reduce_sum(image(), (const int[]){3}, 1, false), {-0.1, 0.1});
    check_refused("'random_rotation'", "it must be [batch, height, width, channels]");
    iso_random_rotation(image(), {0.5, -0.5});
    check_refused("'random_rotation'", "factor is from 0.5 to -0.5; its limits must be from -1 to 1");
    iso_random_translation(image(), {-0.1, 0.1}, {-1.5, 0});
    check_refused("'random_translation'", "width_factor is from -1.5 to 0; its limits must be from -1 to 1");
    iso_random_translation(image(), {-0.1, 0.1}, {-0.1, 0.1}, .fill_mode = (iso_fill_mode)4);
    check_refused("'random_translation'", "there is no fill_mode 4");
    iso_random_translation(image(), {-0.1, 0.1}, .fill_mode = ISO_FILL_CONSTANT, .fill_value = NAN);
    check_refused("'random_translation'", "fill_value is nan, it must be finite");
    iso_random_zoom(image(), {-1, 0});
    check_refused("'random_zoom'", "height_factor is from -1 and width_factor from 0; both must be above -1");
    iso_random_shear(image(), {-0.1, 0.2});
    check_refused("'random_shear'", "y_factor is from -0.1 to 0.2; its limits must be from 0 to 1");
    iso_random_crop(image(), 3, 7);
    check_refused("'random_crop'", "height is 3 and width 7 of images of 8 x 6");
    iso_random_contrast(image(), {0.1, 2});
    check_refused("'random_contrast'", "factor is from 0.1 to 2");
    iso_random_brightness(image(), {0.1, 0.2}, {1, 0});
    check_refused("'random_brightness'", "value_range is from 1 to 0");
    iso_random_invert(image(), {-0.1, 0.2});
    check_refused("'random_invert'", "factor is from -0.1 to 0.2");
    iso_random_erasing(image(), .scale = {0.1, 1.2});
    check_refused("'random_erasing'", "scale is from 0.1 to 1.2");
    iso_max_pooling1d(iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3)), 5);
    check_refused("'max_pooling1d'", "reaches over 5");
    iso_activation(image(), ISO_RELU, .max_value = -1);
    check_refused("'re_lu' (ReLU)", "max_value -1");
    iso_tensor *three = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3));
    iso_masking(iso_reduce_sum(three, NULL, 0, false));
    check_refused("'masking' (Masking)", "no dimension besides the batch");
    iso_activation(words(), ISO_SOFTMAX, .axis = {1}, .axis_count = 1);
    check_refused("'softmax' (Softmax)", "its mask is [batch, 4], and its input [batch, 4, 3]");
    iso_activation(steps(), ISO_RELU, .mask = steps());
    check_refused("iso_activation", "mask is given, which ISO_SOFTMAX alone takes");
    iso_lstm(steps(), 2, .mask = iso_input(graph, "m", ISO_BOOL, ISO_SHAPE(5)));
    check_refused("'lstm' (LSTM)", "mask has the shape [batch, 5], it must be [batch, 4]");
    iso_global_max_pooling1d(steps(), .mask = iso_input(graph, "m", ISO_BOOL, ISO_SHAPE(4)));
    check_refused("'global_max_pooling1d'", "mask is given, which averages alone take");
    iso_global_average_pooling1d(steps(), .mask = steps());
    check_refused("'global_average_pooling1d'", "mask has the shape [batch, 4, 6], it must be [batch, 4]");
    three = iso_input(graph, "x", ISO_F32, ISO_SHAPE(4, 3));
    iso_merge_subtract(((iso_tensor *const[]){three, three, three}), 3);
    check_refused("'subtract'", "3 inputs");
    iso_tensor *query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_multi_head_attention(query, query, 0, 3);
    check_refused("'multi_head_attention'", "num_heads is 0");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_multi_head_attention(query, query, 2, 3, .dropout = 1);
    check_refused("dropout is 1", "it must be from 0 to below 1");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_multi_head_attention(query, query, 2, 3, .sliding_window = -3);
    check_refused("sliding_window is -3", "multi_head_attention");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_multi_head_attention(query, iso_input(graph, "v", ISO_F32, ISO_SHAPE(4)), 2, 3);
    check_refused("query [batch, 4, 3]", "value [batch, 4]");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_multi_head_attention(query, query, 2, 3, .attention_mask = query);
    check_refused("attention_mask", "it must be [batch, 4, 4]");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(2, 4, 3));
    iso_multi_head_attention(query, query, 2, 3, .attention_axes = {2}, .attention_axis_count = 1,
                             .attention_mask = iso_input(graph, "m", ISO_BOOL, ISO_SHAPE(4, 4)));
    check_refused("attention_mask", "attention_axes leaves out 1");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(2, 4, 3));
    iso_multi_head_attention(query, query, 2, 3, .causal = true);
    check_refused("multi_head_attention", "3 dimensions");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(2, 4, 3));
    iso_multi_head_attention(query, query, 2, 3, .attention_axes = {1}, .attention_axis_count = 1);
    check_refused("multi_head_attention", "attention_axes");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_grouped_query_attention(query, query, 3, 4, 3);
    check_refused("'grouped_query_attention' (GroupQueryAttention)",
                  "num_query_heads is 4, it must be a multiple of num_key_value_heads, 3");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_grouped_query_attention(query, query, 0, 4, 2);
    check_refused("grouped_query_attention", "head_dim is 0");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 3));
    iso_grouped_query_attention(query, query, 3, 4, 0);
    check_refused("grouped_query_attention", "num_key_value_heads is 0");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(2, 4, 3));
    iso_grouped_query_attention(query, query, 3, 4, 2);
    check_refused("grouped_query_attention", "a query of 3 dimensions");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_grouped_query_attention(query, query, 3, 4, 2, .rope_max_wavelength = 100);
    check_refused("grouped_query_attention", "head_dim is 3, it must be even with rope_max_wavelength");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_grouped_query_attention(query, query, 6, 4, 2, .rope_max_wavelength = 100, .rope_features = 3);
    check_refused("grouped_query_attention", "rope_features is 3, it must be even with rope_max_wavelength");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .rope_max_wavelength = 100, .rope_features = 6);
    check_refused("multi_head_attention", "rope_features is 6, it must be from 0, for all, to key_dim, 4");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .rope_features = 2);
    check_refused("multi_head_attention", "rope_features needs rope_max_wavelength");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .rope_max_wavelength = -1);
    check_refused("multi_head_attention", "rope_max_wavelength is -1, rope_scaling_factor 1: both must");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .rope_max_wavelength = 100, .rope_attention_factor = -2);
    check_refused("multi_head_attention", "rope_attention_factor is -2, it must be positive");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .qk_norm = true, .qk_norm_epsilon = ISO_ZERO);
    check_refused("multi_head_attention", "qk_norm_epsilon is 0, it must be positive");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .qk_norm_whole = true);
    check_refused("multi_head_attention", "qk_norm_whole needs qk_norm");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_grouped_query_attention(query, query, 4, 2, 1, .qk_norm_zero_centered = true);
    check_refused("grouped_query_attention", "qk_norm_zero_centered needs qk_norm");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .score_scale = -1);
    check_refused("multi_head_attention", "score_scale is -1, it must be positive");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(4, 6));
    iso_multi_head_attention(query, query, 2, 4, .score_cap = -2);
    check_refused("multi_head_attention", "score_cap is -2, it must be positive (0: none)");
    query = iso_input(graph, "q", ISO_F32, ISO_SHAPE(2, 4, 6));
    iso_multi_head_attention(query, query, 2, 4, .rope_max_wavelength = 100);
    check_refused("multi_head_attention", "rope_max_wavelength needs a query of 3 dimensions");
    iso_mixture_of_experts(image(), 4, 2, 0);
    check_refused("layer 'mixture_of_experts' (MixtureOfExperts)",
                  "experts is 4, hidden 0: both must be positive");
    iso_mixture_of_experts(image(), 4, 5, 3);
    check_refused("'mixture_of_experts'", "per_token is 5; it must be from 1 to 4, the number of experts");
    iso_mixture_of_experts(image(), 4, 2, 3, .balance = -1);
    check_refused("'mixture_of_experts'", "balance is -1; it must be from 0 to 1e6");
    iso_mixture_of_experts(image(), 4, 2, 3, .activation = (iso_experts_activation)9);
    check_refused("experts", "there is no activation 9");
    iso_rotary_embedding(image());
    check_refused("'rotary_embedding' (RotaryEmbedding)", "3 features, it must have an even number");
    iso_rotary_embedding(image(), .sequence_axis = -1);
    check_refused("rotary_embedding", "sequence_axis is -1 of an input of 4 dimensions");
    iso_rotary_embedding(iso_input(graph, "row", ISO_F32, ISO_SHAPE(6)));
    check_refused("rotary_embedding", "sequence_axis is 1 of an input of 2 dimensions");
    iso_rotary_embedding(iso_input(graph, "row", ISO_F32, ISO_SHAPE(4, 6)), .scaling_factor = ISO_ZERO);
    check_refused("rotary_embedding", "max_wavelength is 10000, scaling_factor 0: both must be positive");
    iso_lstm(image(), 4);
    check_refused("layer 'lstm' (LSTM)", "it must be [batch, steps, features]");
    iso_conv_lstm2d(image(), 4, 3);
    check_refused("layer 'conv_lstm2d' (ConvLSTM2D)", "it must be [batch, steps, height, width, channels]");
    iso_conv_lstm1d(image(), 0, 3);
    check_refused("'conv_lstm1d'", "filters is 0, it must be positive");
    iso_conv_lstm1d(image(), 4, 7);
    check_refused("'conv_lstm1d'", "its kernel reaches over 7 elements, its input has 6 (padding is valid)");
    iso_conv_lstm1d(image(), 4, 3, .initial_h = steps(), .initial_c = steps());
    check_refused("'conv_lstm1d'", "it must be [batch, 4, 4]");
    iso_rnn(image(), ISO_CELL_LSTM, .layer = {.units = 4});
    check_refused("layer 'rnn/lstm_cell' (LSTMCell)", "it must be [batch, steps, features]");
    iso_rnn(steps(), (iso_cell)7, .layer = {.units = 4});
    check_refused("layer 'rnn' (RNN)", "there is no such cell");
    iso_gru(steps(), 0, .name = "g");
    check_refused("layer 'g' (GRU)", "units is 0, it must be positive");
    iso_simple_rnn(iso_slice(steps(), (const int64_t[]){1, 0}, (const int64_t[]){0, -1}), 3);
    check_refused("recurrence", "takes at least one step and one unit");
    iso_gru(steps(), 3, .dropout = 1.5);
    check_refused("'gru'", "dropout is 1.5, it must be from 0 to 1");
    iso_simple_rnn(steps(), 3, .recurrent_activation = ISO_CELL_TANH);
    check_refused("'simple_rnn'", "it has no gates, and so no recurrent_activation");
    iso_lstm(steps(), 3, .activation = (iso_cell_activation)99);
    check_refused("'lstm'", "it has no activation 99 with recurrent_activation 0");
    iso_gru(steps(), 3, .no_unit_forget_bias = true);
    check_refused("'gru'", "initial_c, final_c and no_unit_forget_bias are of LSTM");
    iso_lstm(steps(), 3, .initial_h = iso_input(graph, "h", ISO_F32, ISO_SHAPE(3)));
    check_refused("'lstm'", "initial_h and initial_c are given together, or neither");
    iso_gru(steps(), 3, .initial_h = iso_input(graph, "h", ISO_F32, ISO_SHAPE(4)));
    check_refused("'gru'", "initial_h has the shape [batch, 4], it must be [batch, 3]");
    iso_lstm(steps(), 3, .no_bias = true, .bias_layout = "model");
    check_refused("'lstm'", "it has a layout for its lstm_cell/bias and no such variable");
    iso_gru(steps(), 3, .recurrent_l1 = -1);
    check_refused("'gru'", "recurrent_l1 is -1");
    iso_bidirectional(steps(), ISO_CELL_GRU);
    check_refused("layer 'bidirectional/forward_gru' (GRU)", "units is 0, it must be positive");
    iso_bidirectional(image(), .layer = {.units = 3});
    check_refused("layer 'bidirectional/forward_lstm' (LSTM)", "it must be [batch, steps, features]");
    iso_bidirectional(steps(), (iso_cell)7, .layer = {.units = 3}, .name = "b");
    check_refused("layer 'b' (Bidirectional)", "there is no cell 7");
    iso_bidirectional(steps(), .layer = {.units = 3}, .merge_mode = (iso_merge_mode)9);
    check_refused("'bidirectional'", "there is no merge_mode 9");
    iso_bidirectional(steps(), .layer = {.units = 3}, .backward = {.units = 4});
    check_refused("'bidirectional'", "its layers have 3 and 4 units; they must have the same number");
    iso_bidirectional(steps(), ISO_CELL_GRU,
                      .layer = {.units = 3, .initial_h = iso_input(graph, "h", ISO_F32, ISO_SHAPE(3))});
    check_refused("'bidirectional'", "initial_h is given to both layers, or to none");
    iso_tensor *z;
    iso_bidirectional(steps(), ISO_CELL_GRU, .layer = {.units = 3, .final_c = &z});
    check_refused("'bidirectional'", "final_c is of LSTM");
    iso_bidirectional(steps(), .layer = {.units = 3}, .backward_result = &z);
    check_refused("'bidirectional'", "backward_result is of merge_mode ISO_MERGE_NONE");
    iso_bidirectional(steps(), .layer = {.units = 3}, .backward = {.units = 3, .dropout = -1});
    check_refused("layer 'bidirectional/lstm' (LSTM)", "dropout is -1");
    iso_time_distributed(steps());
    check_refused("'time_distributed' (TimeDistributed)", "it has no function that makes a layer");
    iso_time_distributed(iso_input(graph, "row", ISO_F32, ISO_SHAPE(6)), three_wide);
    check_refused("'time_distributed'", "[batch, 6], it must be [batch, steps, ...]");
    iso_time_distributed(image(), two_layers);
    check_refused("'time_distributed'", "its function made 2 layers; it makes one, and returns its result");
    iso_time_distributed(steps(), no_layer);
    check_refused("'time_distributed'", "its function made 0 layers");
    iso_time_distributed(steps(), nothing);
    check_refused("'time_distributed'", "its function made 0 layers");
    iso_time_distributed(image(), with_state, .name = "t");
    check_refused("layer 't' (TimeDistributed)", "its layer 't/gru' (GRU) has 2 results, it must have one");
    iso_time_distributed(steps(), three_long);
    check_refused("layer 'time_distributed/conv1d' (Conv1D)", "it must be [batch, ");
    iso_rms_norm(image(), .axes = 4);
    check_refused("'rms_normalization'", "axes is 4 of 3 dimensions");
    iso_rms_norm(image(), .epsilon = ISO_ZERO);
    check_refused("'rms_normalization'", "epsilon is 0");
    static const double one[] = {1, 2, 3}, bad[] = {1, -2, NAN};
    iso_normalization(image(), .mean = one);
    check_refused("'normalization' (Normalization)", "it has a mean and no variance");
    iso_normalization(image(), .variance = one);
    check_refused("'normalization'", "it has a variance and no mean");
    iso_normalization(image(), .mean = one, .variance = bad, .mean_shape = ISO_SHAPE(3));
    check_refused("'normalization'", "element 1 of its variance is -2, it must be finite and not negative");
    iso_normalization(image(), .mean = bad, .variance = one, .mean_shape = ISO_SHAPE(3));
    check_refused("'normalization'", "element 2 of its mean is nan, it must be finite");
    iso_normalization(image(), .mean = one, .variance = one, .mean_shape = ISO_SHAPE(2));
    check_refused("'normalization'",
                  "its mean has the shape [2], which does not broadcast to that of its axis, [3]");
    iso_normalization(image(), .mean = one, .variance = one, .mean_shape = ISO_SHAPE(1), .no_axis = true);
    check_refused("'normalization'",
                  "its mean has the shape [1], which does not broadcast to that of its axis, []");
    iso_normalization(image(), .axis = {0}, .axis_count = 1);
    check_refused("'normalization'", "axis 0 is out of range, is the batch");
    iso_normalization(image(), .axis = {1}, .axis_count = 1, .no_axis = true);
    check_refused("'normalization'", "axis_count is 1, it must be at most 8, and 0 with no_axis");
    iso_normalization(image(), .mean = one, .variance = one, .mean_layout = "model");
    check_refused("'normalization'", "it has a layout for its mean and no such variable");
    iso_dropout(image(), 0.5, .noise_shape = ISO_SHAPE(ISO_BATCH, 2, 1, 1));
    check_refused("'dropout'",
                  "its noise_shape is [batch, 2, 1, 1], which does not broadcast to the shape of its "
                  "input, [batch, 8, 6, 3]");
    iso_dropout(image(), 0.5, .noise_shape = ISO_SHAPE(ISO_BATCH, 1));
    check_refused("'dropout'", "its noise_shape is [batch, 1], ");
    iso_multi_head_attention(image(), NULL, 2, 3);
    check_refused("multi_head_attention", "value is NULL");
    iso_reshape(image(), ISO_SHAPE(7, 7));
    check_refused("[batch, 8, 6, 3]", "7");
    iso_flatten(image(), .name = "f");
    iso_flatten(image(), .name = "f");
    check_refused("'f'", "two layers");
    end();
}
END_TEST

/* A program reaches the means as the others of its layers. */
START_TEST(normalization_has_variables)
{
    static const double five[] = {5};
    begin();
    iso_tensor *x = iso_normalization(image(), .axis = {-1, 1}, .axis_count = 2, .mean_layout = "-, model");
    check_shape(iso_normalization(x, .no_axis = true), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    iso_normalization(x, .mean = five, .variance = five);
    static const char *const paths[] = {"normalization/mean",       "normalization/variance",
                                        "normalization/count",      "normalization_1/mean",
                                        "normalization_1/variance", "normalization_1/count"};
    ck_assert_int_eq(iso_graph_variable_count(graph), 6);
    for (int i = 0; i < 6; i++) {
        const iso_variable *variable = iso_graph_variable(graph, i);
        ck_assert_str_eq(iso_variable_path(variable), paths[i]);
        ck_assert(!iso_variable_trainable(variable));
        ck_assert_int_eq(iso_variable_shape(variable)->rank, i < 2 ? 2 : 0);
    }
    end();
}
END_TEST

static int count_ops(const char *type)
{
    int count = 0;
    for (int i = 0; i < iso_graph_op_count(graph); i++)
        count += strcmp(iso_graph_op(graph, i)->type->name, type) == 0;
    return count;
}

/* The equations of attention are one product: nothing is moved but a kernel that has its heads first. */
START_TEST(equations_are_products)
{
    static const struct {
        const char *equation;
        iso_shape x, out;
        int moved;
    } cases[] = {{"abc,cde->abde", {2, {4, 6}}, {3, {-1, 2, 3}}, 0},
                 {"abcd,cde->abe", {3, {4, 2, 3}}, {2, {-1, 6}}, 0},
                 {"bqm,muh->bquh", {2, {4, 6}}, {3, {-1, 2, 3}}, 0},
                 {"bquh,uhm->bqm", {3, {4, 2, 3}}, {2, {-1, 6}}, 0},
                 {"...x,xy->...y", {3, {4, 2, 3}}, {1, {5}}, 0},
                 {"abc,dc->abd", {2, {4, 6}}, {2, {4, 5}}, 0},
                 {"btd,ndh->btnh", {2, {4, 6}}, {3, {-1, 2, 3}}, 1},
                 {"btnh,nhd->btd", {3, {4, 2, 3}}, {2, {-1, 6}}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        iso_einsum_dense(iso_input(graph, "x", ISO_F32, cases[i].x), cases[i].equation, cases[i].out);
        ck_assert_msg(iso_graph_error(graph) == ISO_OK, "%s", iso_error_message());
        ck_assert_int_eq(count_ops("matmul"), 1);
        ck_assert_msg(count_ops("transpose") == cases[i].moved, "%s", cases[i].equation);
        end();
    }
}
END_TEST

/* What layers with random numbers give is of the type of their inputs. */
START_TEST(random_numbers_in_mixed_bfloat16)
{
    begin();
    iso_graph_set_precision(graph, ISO_BF16);
    iso_tensor *x = iso_dropout(image(), 0.5, .noise_shape = ISO_SHAPE(ISO_BATCH, 1, 1, 1));
    x = iso_gaussian_dropout(iso_spatial_dropout2d(x, 0.5), 0.5);
    x = iso_alpha_dropout(x, 0.5, .noise_shape = ISO_SHAPE(ISO_BATCH, 8, 6, 1));
    check_shape(iso_regularize_activity(x, 0.1, 0.1), ISO_SHAPE(ISO_BATCH, 8, 6, 3));
    ck_assert_int_eq(iso_tensor_dtype(x), ISO_BF16);
    ck_assert_int_eq(iso_tensor_dtype(iso_graph_losses(graph)), ISO_F32);
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

/* The page on layers has them all. */
START_TEST(every_type_is_documented)
{
    static char text[1 << 16];
    FILE *file = fopen("docs/layers.md", "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (int i = 0; i < iso_layer_type_count(); i++) {
        char name[64];
        snprintf(name, sizeof name, "`%s`", iso_layer_type_at(i)->keras);
        ck_assert_msg(strstr(text, name), "docs/layers.md lacks %s", name);
    }
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
    ck_assert_int_eq(iso_builtin_model_count(),
                     8); /* and gpt, llama: test_gpt.c; bert, vit: test_encoders.c */
    for (int i = 0; i < 4; i++) {
        const iso_builtin_model *found;
        ck_assert_int_eq(iso_builtin_model_find(known[i].name, &found), ISO_OK);
        iso_model *model = iso_builtin_model_create(NULL, found, ISO_SHAPE(28, 28, 1), 10, ISO_F64, NULL);
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
    iso_model *model = iso_builtin_model_create(NULL, found, ISO_SHAPE(28, 28, 1), 10, ISO_F32, NULL);
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

/* Keras's counts of this network: the batch statistics of a layer are not trained, nor is what is frozen. */
START_TEST(summary_tells_what_is_trained)
{
    char text[8192] = "";
    iso_graph *g = iso_graph_create(NULL);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(5));
    iso_model *model = iso_model_create(g, x, iso_dense(iso_batch_norm(iso_dense(x, 3)), 2));
    FILE *out = fmemopen(text, sizeof text, "w");
    iso_model_summary(model, out);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, " Total params: 38 (152.00 B)\n"));
    ck_assert_ptr_nonnull(strstr(text, " Trainable params: 32 (128.00 B)\n"));
    ck_assert_ptr_nonnull(strstr(text, " Non-trainable params: 6 (24.00 B)\n"));
    iso_model_destroy(model);
}
END_TEST

/* As Keras 3.15 prints it: a shared layer once, with all that it is connected to. */
START_TEST(summary_of_several_inputs_tells_connections)
{
    static const char *const rows[] = {
        "│ a (InputLayer)                  │ (None, 5)              │             0 │ -                      "
        "      │\n",
        "│ both (Dense)                    │ (None, 3)              │            18 │ a[0][0], b[0][0]       "
        "      │\n",
        "│ product (Multiply)              │ (None, 3)              │             0 │ both[0][0], both[1][0] "
        "      │\n",
        "│ kind (Dense)                    │ (None, 2)              │             8 │ product[0][0]          "
        "      │\n",
        /* a cell of two lines */
        "│ all (Concatenate)               │ (None, 11)             │             0 │ both[0][0], "
        "both[1][0],      │\n"
        "│                                 │                        │               │ product[0][0], "
        "kind[0][0]    │\n",
    };
    char text[16384] = "";
    iso_graph *g = iso_graph_create(NULL);
    iso_tensor *x[] = {iso_input(g, "a", ISO_F32, ISO_SHAPE(5)), iso_input(g, "b", ISO_F32, ISO_SHAPE(5))};
    iso_tensor *h[2], *y[2];
    h[0] = iso_dense(x[0], 3, .name = "both");
    iso_share_begin(g);
    h[1] = iso_dense(x[1], 3, .name = "both");
    iso_share_end(g);
    iso_tensor *product = iso_merge_multiply(h, 2, .name = "product");
    y[0] = iso_dense(product, 2, .name = "kind");
    y[1] = iso_concatenate((iso_tensor *[]){h[0], h[1], product, y[0]}, 4, .name = "all");
    iso_model *model = iso_model_create_several(g, x, 2, y, 2);
    FILE *out = fmemopen(text, sizeof text, "w");
    iso_model_summary(model, out);
    fclose(out);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(strstr(text, rows[i]), "the summary lacks\n%sit is\n%s", rows[i], text);
    ck_assert_ptr_nonnull(strstr(text, " Total params: 26 (104.00 B)\n"));
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    return RUN_TESTS("layers", 0, names_are_keras, normalization_has_variables, attention_is_keras,
                     arguments_are_noted, attention_masks, masks, shapes, layers_of_parts, parts_are_shared,
                     parts_are_frozen, errors_name_the_layer, equations_are_products,
                     random_numbers_in_mixed_bfloat16, a_broken_graph_goes_on, every_type_is_documented,
                     builtin_models_have_the_guides_parameters, summary_is_keras_table,
                     summary_tells_what_is_trained, summary_of_several_inputs_tells_connections);
}
