#include "tests/support/nets.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "models/models.h"

/* ---- inputs and losses ---- */

static iso_tensor *add_input(net *n, const char *name, iso_dtype dtype, iso_shape shape, int64_t classes)
{
    n->classes[n->inputs] = classes;
    return n->input[n->inputs++] = iso_input(n->graph, name, dtype, shape);
}

static iso_tensor *numbers(net *n, const char *name, iso_shape shape)
{
    return add_input(n, name, ISO_F32, shape, 0);
}

static iso_tensor *classes(net *n, const char *name, iso_shape shape, int64_t count)
{
    return add_input(n, name, ISO_I32, shape, count);
}

/* The loss of logits, with weights (or NULL) and what layers have added. */
static void classify(net *n, iso_tensor *logits, iso_tensor *weights)
{
    const iso_shape *shape = iso_tensor_shape(logits);
    iso_tensor *label = classes(n, "label", (iso_shape){0}, shape->dim[shape->rank - 1]);
    n->loss = iso_reduce_loss(iso_sparse_crossentropy(label, logits, .from_logits = true), weights);
    iso_tensor *more = iso_graph_losses(n->graph);
    if (more)
        n->loss = iso_add(n->loss, iso_cast(more, iso_tensor_dtype(n->loss)));
}

/* ---- networks ---- */

static void mlp(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(7)), *weight = numbers(n, "weight", (iso_shape){0});
    x = iso_dense(x, 13, .activation = ISO_RELU, .kernel_l2 = 1e-3, .name = "a");
    x = iso_dropout(x, 0.3, .name = "drop");
    x = iso_dense(x, 9, .activation = ISO_TANH, .name = "b");
    x = iso_dense(x, 6, .no_bias = true, .activation = ISO_ELU, .name = "c");
    classify(n, iso_dense(x, 5, .bias_l2 = 1e-2, .name = "d"), iso_square(weight));
}

static void convnet(net *n)
{
    iso_tensor *x = iso_rescaling(numbers(n, "x", ISO_SHAPE(9, 8, 3)), 0.5, 0.1, .name = "scale");
    x = iso_conv2d(x, 6, 3, .padding = ISO_SAME, .no_bias = true, .name = "c1");
    x = iso_relu(iso_batch_norm(x, .name = "n1"));
    x = iso_conv2d(x, 10, .kernel_size_hw = {4, 3}, .strides = 2, .name = "c2");
    x = iso_activation(iso_batch_norm(x, .no_scale = true, .name = "n2"), ISO_SILU, .name = "act");
    x = iso_conv2d(x, 8, 3, .padding = ISO_SAME, .strides_hw = {1, 2}, .groups = 2, .name = "c3");
    x = iso_activate(iso_batch_norm(x, .no_center = true, .name = "n3"), ISO_SILU);
    x = iso_global_average_pooling2d(x, .name = "gap");
    x = iso_dropout(iso_dense(x, 11, .activation = ISO_RELU, .name = "d1"), 0.5, .name = "drop");
    classify(n, iso_dense(x, 4, .name = "d2"), NULL);
}

static void pools(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(10, 7, 4));
    x = iso_conv2d(x, 8, 3, .groups = 4, .activation = ISO_GELU, .name = "depthwise");
    x = iso_max_pooling2d(x, 3, .strides = 2, .padding = ISO_SAME, .name = "max");
    x = iso_conv2d(x, 5, 2, .dilation = 2, .padding = ISO_SAME, .activation = ISO_SOFTPLUS, .name = "wide");
    iso_tensor *a =
        iso_flatten(iso_average_pooling2d(x, 2, .padding = ISO_SAME, .name = "mean"), .name = "flat");
    iso_tensor *b = iso_global_max_pooling2d(x, .name = "top");
    x = iso_concatenate(((iso_tensor *const[]){a, b}), 2, .name = "both");
    classify(n, iso_dense(x, 3, .name = "d"), NULL);
}

static void words(net *n)
{
    iso_tensor *x = classes(n, "words", ISO_SHAPE(6), 11);
    x = iso_embedding(x, 11, 8, .name = "embedding");
    x = iso_layer_norm(x, .name = "norm");
    x = iso_dense(x, 6, .activation = ISO_GELU_TANH, .name = "each");
    x = iso_reshape(x, ISO_SHAPE(4, -1), .name = "folded");
    x = iso_layer_norm(iso_dense(x, 7, .name = "again"), .axes = 2, .name = "norm2");
    classify(n, iso_dense(iso_flatten(x, .name = "flat"), 5, .name = "d"), NULL);
}

/* A table whose rows are read, and multiplied for the logits; residual sums before normalisations. */
static void tied(net *n)
{
    iso_tensor *x = classes(n, "words", ISO_SHAPE(6), 11);
    x = iso_embedding(x, 11, 8, .name = "table");
    iso_tensor *table = iso_variable_value(iso_graph_find_variable(n->graph, "table/embeddings"));
    iso_tensor *y = iso_dense(x, 8, .activation = ISO_TANH, .name = "each");
    x = iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum");
    x = iso_merge_add(((iso_tensor *const[]){x, iso_layer_norm(x, .name = "norm")}), 2, .name = "sum2");
    x = iso_layer_norm(x, .name = "norm2");
    x = iso_matmul_with(x, table, false, true);
    classify(n, iso_reduce_mean(x, (const int[]){1}, 1, false), NULL);
}

static void attention(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 6));
    iso_tensor *q = iso_dense(x, 8, .name = "q"), *k = iso_dense(x, 8, .name = "k"),
               *v = iso_dense(x, 10, .name = "v");
    iso_tensor *score = iso_softmax(iso_affine(iso_matmul_with(q, k, false, true), 1 / sqrt(8.0), 0), -1);
    x = iso_dense(iso_matmul(score, v), 6, .activation = ISO_LEAKY_RELU, .name = "o");
    x = iso_layer_norm(x, .no_center = true, .name = "norm");
    x = iso_reduce_mean(iso_transpose(x, (const int[]){0, 2, 1}), (const int[]){2}, 1, false);
    classify(n, iso_dense(x, 4, .name = "d"), NULL);
}

static void merges(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(9)), *target = numbers(n, "target", ISO_SHAPE(3));
    iso_tensor *a = iso_dense(x, 7, .activation = ISO_SIGMOID, .name = "a");
    iso_tensor *b = iso_dense(x, 7, .name = "b");
    iso_tensor *parts[] = {iso_merge_add(((iso_tensor *const[]){a, b}), 2, .name = "sum"),
                           iso_merge_multiply(((iso_tensor *const[]){a, b}), 2, .name = "product"),
                           iso_slice(b, (const int64_t[]){2}, (const int64_t[]){4})};
    x = iso_concatenate(parts, 3, .name = "all");
    x = iso_dense(x, 3, .activation = ISO_SOFTMAX, .name = "d");
    n->loss = iso_reduce_loss(iso_mean_squared_error(target, x), NULL);
}

/* Ops outside layers, reductions in all directions, losses of the whole batch, and tensors with one element in a
 * dimension. */
static void ops(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(4, 3)), *target = numbers(n, "target", ISO_SHAPE(1));
    iso_tensor *a = iso_dense(x, 5, .name = "a");
    iso_tensor *high = iso_reduce_max(a, (const int[]){1}, 1, true),
               *low = iso_reduce_min(a, (const int[]){-1}, 1, true);
    iso_tensor *b = iso_where(iso_greater(a, low), iso_subtract(a, high),
                              iso_divide(low, iso_affine(iso_abs(high), 1, 2)));
    iso_tensor *c =
        iso_multiply(iso_sqrt(iso_affine(iso_square(b), 1, 1)), iso_log(iso_affine(iso_exp(b), 1, 1)));
    iso_tensor *hot = iso_one_hot(iso_argmax(c, 2), 5, iso_graph_precision(n->graph));
    c = iso_add(c, iso_maximum(hot, iso_minimum(b, iso_negate(a))));
    c = iso_multiply(
        c, iso_rsqrt(iso_affine(iso_reduce_sum(iso_square(c), (const int[]){1, 2}, 2, true), 1, 1)));
    iso_tensor *y =
        iso_dense(iso_reshape(c, ISO_SHAPE(20), .name = "row"), 1, .activation = ISO_SIGMOID, .name = "d");
    iso_tensor *centre = iso_reduce_mean(a, (const int[]){0, 1}, 2, false); /* [5], over the batch */
    n->loss = iso_add(iso_mean(iso_huber(target, y, 0)), iso_mean(iso_square(iso_affine(centre, 1, -1))));
    n->loss = iso_add(n->loss, iso_add(iso_dice(iso_sigmoid(target), y, 0), iso_mean(iso_hinge(hot, c))));
}

/* Classes in all ways: targets that are distributions, a teacher's logits, how often a label is among the
 * first, labels that are real numbers. */
static void teacher(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5)), *soft = numbers(n, "soft", ISO_SHAPE(10));
    iso_tensor *label = classes(n, "label", (iso_shape){0}, 10),
               *real = add_input(n, "real", ISO_F32, (iso_shape){0}, 10);
    iso_dtype dtype = iso_graph_precision(n->graph);
    x = iso_dense(x, 12, .activation = ISO_TANH, .name = "a");
    iso_tensor *logits = iso_dense(x, 10, .name = "student"),
               *other = iso_dense(x, 10, .no_bias = true, .name = "teacher");
    iso_tensor *hit = iso_cast(iso_in_top_k(logits, label, 3), dtype);
    iso_tensor *loss = iso_categorical_crossentropy(iso_softmax(soft, -1), logits, .from_logits = true,
                                                    .label_smoothing = 0.1);
    loss = iso_add(loss, iso_crossentropy_op(iso_softmax(other, -1), logits)); /* a gradient to both */
    loss = iso_add(loss, iso_multiply(iso_sparse_crossentropy(real, other, .from_logits = true),
                                      iso_affine(hit, 0.5, 1)));
    loss = iso_add(loss, iso_sparse_crossentropy(label, iso_softmax(other, -1)));
    loss = iso_add(loss, iso_binary_crossentropy(iso_sigmoid(soft), logits, .from_logits = true));
    iso_tensor *same = iso_equal(iso_argmax(logits, -1), iso_argmax(soft, -1));
    loss = iso_add(loss, iso_cast(same, dtype));
    iso_tensor *spread = iso_multiply(iso_log_softmax(other, -1), iso_stop_gradient(iso_softmax(logits, -1)));
    n->loss = iso_add(iso_mean(loss), iso_mean(spread));
}

/* Comparisons and logic, powers, statistics of the batch as they are. */
static void logic(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(3, 5)), *target = numbers(n, "target", ISO_SHAPE(7)), *mean,
               *variance;
    iso_tensor *a = iso_dense(x, 4, .name = "a"), *b = iso_dense(x, 4, .name = "b");
    iso_tensor *either = iso_logical_or(
        iso_less(a, b), iso_logical_and(iso_greater(a, iso_sign(b)), iso_less_equal(b, iso_abs(a))));
    iso_tensor *c =
        iso_where(iso_logical_not(either), iso_power(iso_affine(iso_square(a), 1, 0.5), iso_sigmoid(b)),
                  iso_stop_gradient(a));
    c = iso_where(iso_not_equal(iso_argmax(c, 1), iso_argmax(b, 1)),
                  iso_reduce_min(c, (const int[]){1}, 1, false),
                  iso_reduce_max(b, (const int[]){1}, 1, false));
    iso_batch_moments(c, &mean, &variance);
    iso_dtype dtype = iso_graph_precision(n->graph);
    iso_tensor *y = iso_dense(c, 7, .name = "d");
    n->loss = iso_add(iso_mean(iso_mean_absolute_error(target, y)),
                      iso_cast(iso_sum(iso_multiply(mean, iso_affine(variance, 0.1, 0))), dtype));
}

/* Images as in small networks for mobile phones. */
static void mobile(net *n)
{
    static const double mean[] = {0.5, -1, 0.25}, variance[] = {2, 0.25, 1};
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(7, 6, 3));
    x = iso_normalization(x, .mean = mean, .variance = variance, .mean_shape = ISO_SHAPE(3), .name = "given");
    x = iso_normalization(x, .axis = {1, -1}, .axis_count = 2, .invert = true, .name = "adapted");
    x = iso_zero_padding2d(x, .sides = {{0, 1}, {2, 1}}, .name = "pad");
    x = iso_conv2d(x, 6, 3, .strides = 2, .no_bias = true, .name = "stem");
    x = iso_activation(iso_batch_norm(x, .name = "norm"), ISO_RELU, .max_value = 6, .name = "act");
    x = iso_depthwise_conv2d(x, 3, .depth_multiplier = 2, .padding = ISO_SAME, .name = "depthwise");
    x = iso_prelu(x, .shared_axes = {1, 2}, .shared_axis_count = 2, .name = "slopes");
    x = iso_dropout(iso_group_norm(x, 3, .name = "groups"), 0.3, .noise_shape = ISO_SHAPE(ISO_BATCH, 1, 1, 1),
                    .name = "rows");
    x = iso_separable_conv2d(x, 5, 3, .padding = ISO_SAME, .activation = ISO_HARD_SILU, .name = "apart");
    iso_tensor *large[] = {iso_up_sampling2d(x, .size_hw = {2, 3}, .name = "blocks"),
                           iso_up_sampling2d(x, .size_hw = {2, 3}, .bilinear = true, .name = "between")};
    x = iso_merge_subtract(large, 2, .name = "difference");
    x = iso_cropping2d(x, .sides = {{1, 0}, {2, 2}}, .name = "cut");
    x = iso_depthwise_conv2d(x, .kernel_size_hw = {2, 3}, .strides = 2, .name = "last");
    classify(n, iso_dense(iso_global_average_pooling2d(x, .name = "gap"), 4, .name = "d"), NULL);
}

/* A small U-Net: images shrink, and grow again by transposed convolutions. */
static void decoder(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(7, 6, 3));
    iso_tensor *wide = iso_conv2d(x, 4, 3, .padding = ISO_SAME, .activation = ISO_TANH, .name = "wide");
    iso_tensor *small = iso_conv2d(wide, 5, 3, .strides = 2, .padding = ISO_SAME, .name = "down");
    iso_tensor *large = iso_conv2d_transpose(small, 4, 2, .strides = 2, .activation = ISO_SILU, .name = "up");
    iso_tensor *parts[] = {iso_cropping2d(large, .sides = {{0, 1}, {0, 0}}, .name = "cut"), wide};
    x = iso_concatenate(parts, 2, .name = "both");
    x = iso_conv2d_transpose(x, 3, .kernel_size_hw = {4, 3}, .strides_hw = {2, 3}, .padding = ISO_SAME,
                             .output_padding = {1, 2}, .output_padding_count = 2, .no_bias = true,
                             .name = "out");
    x = iso_reshape(iso_max_pooling2d(x, 3, .name = "max"), ISO_SHAPE(-1, 3), .name = "row");
    x = iso_conv1d_transpose(x, 4, 3, .dilation = 2, .padding = ISO_SAME, .name = "steps");
    classify(n, iso_dense(iso_global_average_pooling1d(x, .name = "gap"), 4, .name = "d"), NULL);
}

/* A U-Net of volumes, with groups, pools of overlapping windows and a mean beside a maximum. */
static void volumes(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 7, 6, 2));
    iso_tensor *wide = iso_conv3d(x, 4, 3, .padding = ISO_SAME, .activation = ISO_TANH, .name = "wide");
    iso_tensor *small = iso_max_pooling3d(wide, .padding = ISO_SAME, .name = "max");
    small =
        iso_conv3d(small, 6, .kernel_size_dhw = {3, 2, 2}, .groups = 2, .padding = ISO_SAME, .name = "deep");
    iso_tensor *large = iso_conv3d_transpose(small, 4, 2, .strides = 2, .activation = ISO_SILU,
                                             .no_bias = true, .name = "up");
    iso_tensor *parts[] = {iso_cropping3d(large, .sides = {{0, 1}, {1, 0}, {0, 0}}, .name = "cut"), wide};
    x = iso_concatenate(parts, 2, .name = "both");
    x = iso_conv3d(x, 5, .kernel_size_dhw = {2, 3, 1}, .strides_dhw = {2, 1, 2}, .name = "steps");
    x = iso_zero_padding3d(x, .sides = {{1, 0}, {0, 0}, {1, 1}}, .name = "pad");
    iso_tensor *pools[] = {iso_max_pooling3d(x, 3, .strides = 1, .padding = ISO_SAME, .name = "most"),
                           iso_average_pooling3d(x, .pool_size_dhw = {2, 3, 2}, .strides = 1,
                                                 .padding = ISO_SAME, .name = "mean")};
    x = iso_merge_add(pools, 2, .name = "sum");
    x = iso_up_sampling3d(x, .size_dhw = {2, 1, 2}, .name = "blocks");
    x = iso_conv3d(x, 4, .kernel_size_dhw = {3, 1, 2}, .dilation_dhw = {2, 1, 1}, .name = "far");
    iso_tensor *ends[] = {iso_global_average_pooling3d(x, .name = "all"),
                          iso_global_max_pooling3d(x, .name = "top")};
    classify(n, iso_dense(iso_concatenate(ends, 2, .name = "ends"), 4, .name = "d"), NULL);
}

/* Sequences: causal convolutions, pools, noise. */
static void sequence(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(9, 4));
    x = iso_gaussian_noise(x, 0.3, .name = "noise");
    x = iso_conv1d(x, 6, 3, .causal = true, .dilation = 2, .activation = ISO_SOFTSIGN, .name = "past");
    x = iso_conv1d(x, 8, 4, .strides = 2, .groups = 2, .padding = ISO_SAME, .name = "both");
    iso_tensor *parts[] = {iso_max_pooling1d(x, 2, .padding = ISO_SAME, .name = "max"),
                           iso_average_pooling1d(x, 3, .strides = 2, .padding = ISO_SAME, .name = "mean"),
                           iso_max_pooling1d(x, 3, .strides = 2, .padding = ISO_SAME, .name = "wide")};
    x = iso_merge_average(parts, 3, .name = "average");
    x = iso_group_norm(iso_permute(x, ISO_SHAPE(2, 1), .name = "turned"), 4, .axis = 1, .name = "groups");
    x = iso_activation(x, ISO_SOFTMAX, .axis = {1, 2}, .axis_count = 2, .name = "share");
    iso_tensor *ends[] = {iso_global_average_pooling1d(x, .name = "all"),
                          iso_global_max_pooling1d(x, .name = "top")};
    x = iso_batch_norm(iso_concatenate(ends, 2, .name = "ends"), .name = "norm");
    classify(n, iso_dense(x, 3, .kernel_l1 = 1e-3, .name = "d"), NULL);
}

/* Attention in heads: of a sequence to itself, backwards alone, and to another. */
static void heads(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 6)), *memory = numbers(n, "memory", ISO_SHAPE(4, 7));
    iso_tensor *mask = add_input(n, "mask", ISO_F32, ISO_SHAPE(5, 4), 2);
    iso_tensor *y = iso_multi_head_attention(x, x, 4, 3, .causal = true, .dropout = 0.2, .name = "self");
    x = iso_layer_norm(iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum"), .name = "norm");
    y = iso_multi_head_attention(x, memory, 3, 2, .value_dim = 4, .attention_mask = mask, .use_gate = true,
                                 .output_shape = ISO_SHAPE(8), .name = "cross");
    x = iso_multi_head_attention(y, y, 2, 4, .sliding_window = 2, .no_bias = true, .name = "near");
    x = iso_layer_norm(x, .axis = {1}, .axis_count = 1, .name = "along");
    classify(n, iso_dense(iso_global_average_pooling1d(x, .name = "all"), 4, .name = "d"), NULL);
}

/* Mixtures of experts: of rows of sequences, with a gate and a loss for their balance, and of whole rows, without. */
static void experts(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 6));
    iso_tensor *y = iso_mixture_of_experts(x, 5, 2, 7, .balance = 0.1, .name = "experts");
    x = iso_rms_norm(iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum"), .name = "norm");
    x = iso_global_average_pooling1d(x, .name = "all");
    x = iso_mixture_of_experts(x, 3, 1, 10, .no_gate = true, .no_norm = true,
                               .activation = ISO_EXPERTS_GELU_TANH, .name = "switch");
    classify(n, iso_dense(x, 4, .name = "d"), NULL);
}

/* A block of a language model: query heads that share keys and values, rotary positions, division by the root of the
 * mean square. */
static void language(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 8));
    iso_tensor *y = iso_rms_norm(x, .name = "norm");
    y = iso_grouped_query_attention(y, y, 4, 6, 2, .causal = true, .no_bias = true,
                                    .rope_max_wavelength = 100, .name = "attention");
    x = iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum");
    y = iso_rms_norm(x, .epsilon = 1e-5, .name = "norm2");
    iso_tensor *gate = iso_dense(y, 12, .activation = ISO_SILU, .no_bias = true, .name = "gate");
    iso_tensor *up = iso_dense(y, 12, .no_bias = true, .name = "up");
    y = iso_dense(iso_merge_multiply(((iso_tensor *const[]){gate, up}), 2, .name = "gated"), 8,
                  .no_bias = true, .name = "down");
    x = iso_merge_add(((iso_tensor *const[]){x, y}), 2, .name = "sum2");
    x = iso_rotary_embedding(x, .max_wavelength = 20, .name = "turned");
    y = iso_grouped_query_attention(x, x, 2, 4, 1, .dropout = 0.2, .use_gate = true, .name = "one_key");
    x = iso_rms_norm(y, .axes = 2, .name = "norm3");
    classify(n, iso_dense(iso_flatten(x, .name = "flat"), 4, .name = "d"), NULL);
}

/* Layers without weights, penalties for what layers put out, random numbers of every kind. */
static void further(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(7, 6, 3));
    x = iso_center_crop(iso_conv2d(x, 5, 2, .name = "c"), 5, 4, .name = "middle");
    x = iso_adaptive_average_pooling2d(x, .output_sizes = {5, 3}, .name = "means");
    x = iso_adaptive_max_pooling2d(x, .output_sizes = {5, 4}, .name = "most");
    x = iso_spatial_dropout2d(iso_identity(x, .name = "same"), 0.2, .name = "channels");
    x = iso_regularize_activity(iso_dense(x, 4, .name = "narrow"), .l1 = 1e-2, .l2 = 2e-2);
    x = iso_affine(iso_reshape(x, ISO_SHAPE(10, 8), .name = "rows"), 1,
                   1); /* not of zeros, near which norms are steep */
    x = iso_unit_norm(x, .axis = {1}, .axis_count = 1, .name = "unit");
    x = iso_up_sampling1d(iso_cropping1d(x, .name = "less"), 2, .name = "more");
    x = iso_conv1d(iso_zero_padding1d(x, .sides = {1, 2}, .name = "zeros"), 3, 3, .strides = 2,
                   .name = "steps");
    x = iso_spatial_dropout1d(iso_gaussian_dropout(x, 0.1, .name = "factors"), 0.2, .name = "whole");
    x = iso_alpha_dropout(iso_activity_regularization(x, 1e-2, 1e-2, .name = "all"), 0.2, .name = "low");
    x = iso_depthwise_conv1d(x, 2, .depth_multiplier = 2, .padding = ISO_SAME, .name = "each");
    x = iso_separable_conv1d(x, 6, 2, .name = "mixed");
    iso_tensor *q =
        iso_einsum_dense(x, "abc,cde->abde", ISO_SHAPE(ISO_BATCH, 2, 3), .bias_axes = "de", .name = "heads");
    q = iso_einsum_dense(q, "abde,dec->abc", ISO_SHAPE(ISO_BATCH, 6), .activation = ISO_SOFT_SHRINK,
                         .name = "join");
    x = iso_dot_attention(x, q, .use_scale = true, .dropout = 0.2, .causal = true, .name = "dot");
    x = iso_additive_attention(x, q, .dropout = 0.2, .name = "sum");
    q = iso_dot_attention(x, q, .concat = true, .name = "concat");
    x = iso_dot(iso_affine(q, 1, 2), iso_affine(x, 1, 2), .axes = {1, 1}, .normalize = true,
                .name = "cosines");
    x = iso_repeat_vector(iso_dense(iso_flatten(x, .name = "flat"), 5, .name = "row"), 3, .name = "three");
    classify(n, iso_dense(iso_flatten(x, .name = "again"), 4, .name = "d"), NULL);
}

/* Recurrences: of a sequence, of what it gave from its last state, backwards, and of one step. */
static void recurrent(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 6)), *h, *c;
    iso_tensor *y = iso_lstm(x, 4, .return_sequences = true, .dropout = 0.2, .final_h = &h, .final_c = &c,
                             .name = "reader");
    y = iso_lstm(y, 4, .return_sequences = true, .initial_h = h, .initial_c = c,
                 .recurrent_activation = ISO_CELL_HARD_SIGMOID, .name = "writer");
    iso_tensor *one = iso_reshape(c, ISO_SHAPE(1, 4), .name = "row");
    iso_tensor *parts[] = {iso_gru(y, 5, .go_backwards = true, .recurrent_l2 = 1e-3, .name = "back"),
                           iso_simple_rnn(y, 3, .no_bias = true, .name = "simple"),
                           iso_gru(one, 4, .initial_h = h, .name = "one")};
    x = iso_concatenate(parts, 3, .name = "parts");
    classify(n, iso_dense(x, 4, .name = "d"), NULL);
}

static iso_tensor *see(iso_tensor *x, void *user)
{
    (void)user;
    return iso_conv1d(x, 3, 2, .kernel_l2 = 1e-3, .name = "see");
}

static iso_tensor *normal(iso_tensor *x, void *user)
{
    (void)user;
    return iso_batch_norm(x, .name = "normal");
}

static iso_tensor *lose(iso_tensor *x, void *user)
{
    (void)user;
    return iso_dropout(x, 0.25, .name = "lose");
}

static iso_tensor *flat(iso_tensor *x, void *user)
{
    (void)user;
    return iso_flatten(x, .name = "flat");
}

static iso_tensor *narrow(iso_tensor *x, void *user)
{
    (void)user;
    return iso_dense(x, 3, .name = "narrow");
}

/* Layers for each step, and recurrent layers in both directions. */
static void wrappers(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(5, 4, 2)), *h, *c, *back_h, *back_c, *z;
    x = iso_time_distributed(x, see, .name = "each");
    x = iso_time_distributed(iso_time_distributed(x, normal, .name = "moments"), lose, .name = "lost");
    x = iso_time_distributed(iso_time_distributed(x, flat, .name = "rows"), narrow, .name = "same");
    x = iso_bidirectional(
        x, .layer = {.units = 3, .return_sequences = true, .dropout = 0.2, .final_h = &h, .final_c = &c},
        .backward = {.final_h = &back_h, .final_c = &back_c}, .merge_mode = ISO_MERGE_AVE, .name = "both");
    x = iso_bidirectional(
        x, .layer = {.units = 3, .return_sequences = true, .initial_h = back_h, .initial_c = back_c},
        .backward = {.initial_h = h, .initial_c = c}, .name = "states");
    x = iso_gru(x, 4, .go_backwards = true, .return_sequences = true, .name = "back");
    iso_tensor *y = iso_bidirectional(x, ISO_CELL_GRU, .layer = {.units = 2},
                                      .backward = {.units = 2, .activation = ISO_CELL_RELU},
                                      .merge_mode = ISO_MERGE_NONE, .backward_result = &z, .name = "ends");
    classify(n, iso_dense(iso_concatenate(((iso_tensor *const[]){y, z}), 2, .name = "all"), 4, .name = "d"),
             NULL);
}

/* Images that are changed at random, and then are the steps of recurrent convolutions. */
static void film(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(6, 5, 2)), *h, *c;
    x = iso_conv2d(x, 2, 1, .name = "mixed");
    x = iso_random_rotation(iso_random_flip(x, ISO_FLIP_VERTICAL, .name = "flip"), {-0.1, 0.3},
                            .name = "turn");
    x = iso_random_zoom(x, {-0.3, 0.2}, .fill_mode = ISO_FILL_WRAP, .name = "zoom");
    x = iso_random_contrast(x, {0.5, 0.5}, {-3, 3}, .name = "contrast");
    x = iso_random_erasing(x, .value_range = {-1, 1}, .name = "erase");
    x = iso_reshape(x, ISO_SHAPE(2, 3, 5, 2), .name = "steps");
    x = iso_conv_lstm2d(x, 3, 2, .padding = ISO_SAME, .return_sequences = true, .dropout = 0.2, .final_h = &h,
                        .final_c = &c, .name = "reader");
    x = iso_conv_lstm2d(x, 3, .kernel_size_hw = {3, 1}, .padding = ISO_SAME, .initial_h = h, .initial_c = c,
                        .go_backwards = true, .recurrent_l2 = 1e-3, .name = "writer");
    x = iso_conv_lstm1d(x, 2, 2, .strides = 2, .name = "rows");
    x = iso_rnn(x, ISO_CELL_GRU, .layer = {.units = 3}, .name = "ends");
    classify(n, iso_dense(x, 4, .name = "d"), NULL);
}

/* Attention whose keys may be sharded by an axis that does not shard its queries: it is decomposed. */
static void keys(net *n)
{
    iso_tensor *x = numbers(n, "x", ISO_SHAPE(3, 4)), *memory = numbers(n, "memory", ISO_SHAPE(5, 4));
    iso_tensor *queries = iso_dense(x, 4, .name = "queries"),
               *values = iso_dense(memory, 4, .name = "values");
    x = iso_multi_head_attention(queries, values, 2, 3, .causal = true, .name = "cross");
    classify(n, iso_dense(iso_global_average_pooling1d(x, .name = "all"), 4, .name = "d"), NULL);
}

/* ---- the built-in models, on small images ---- */

static void builtin(net *n, const char *name)
{
    const iso_builtin_model *model;
    ck_assert_int_eq(iso_builtin_model_find(name, &model), ISO_OK);
    iso_tensor *image = numbers(n, "image", ISO_SHAPE(13, 12, 1));
    bool for_bytes = model->loss != ISO_LOSS_MSE; /* it divides by 255 */
    iso_tensor *y = model->build(for_bytes ? iso_affine(image, 255, 0) : image, 10, NULL);
    if (model->loss == ISO_LOSS_MSE)
        n->loss = iso_reduce_loss(iso_mean_squared_error(numbers(n, "target", ISO_SHAPE(10)), y), NULL);
    else
        classify(n, y, NULL);
}

static void builtin_mlp(net *n)
{
    builtin(n, "mlp");
}

static void builtin_convnet(net *n)
{
    builtin(n, "convnet");
}

static void builtin_dense(net *n)
{
    builtin(n, "dense");
}

static void builtin_dtensor(net *n)
{
    builtin(n, "dtensor");
}

const net_kind net_kinds[] = {{"mlp", mlp},
                              {"convnet", convnet},
                              {"pools", pools},
                              {"words", words},
                              {"tied", tied},
                              {"attention", attention},
                              {"merges", merges},
                              {"ops", ops},
                              {"teacher", teacher},
                              {"logic", logic},
                              {"mobile", mobile},
                              {"decoder", decoder},
                              {"volumes", volumes},
                              {"sequence", sequence},
                              {"heads", heads},
                              {"language", language},
                              {"further", further},
                              {"recurrent", recurrent},
                              {"wrappers", wrappers},
                              {"film", film},
                              {"keys", keys},
                              {"built-in mlp", builtin_mlp},
                              {"built-in convnet", builtin_convnet},
                              {"built-in dense", builtin_dense},
                              {"built-in dtensor", builtin_dtensor},
                              {"experts", experts},
                              {NULL, NULL}};

int net_kind_count(void)
{
    int count = 0;
    while (net_kinds[count].name)
        count++;
    return count;
}

const net_kind *net_kind_find(const char *name)
{
    for (const net_kind *kind = net_kinds; kind->name; kind++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    ck_abort_msg("no net is named '%s'", name);
}
