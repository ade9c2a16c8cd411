#include "tests/support/random_net.h"

#include <string.h>

#include "tests/support/dice.h"

typedef struct maker {
    net *n;
    dice d;
    bool towers; /* there are some already */
    bool tied;   /* the input's embedding is read again for the logits */
} maker;

/* The width of an embedding that is tied. */
enum { TIED_WORDS = 11, TIED_WIDTH = 6 };

static int64_t between(maker *m, int64_t low, int64_t high)
{
    return low + throw_dice(&m->d, (int)(high - low + 1));
}

static bool coin(maker *m)
{
    return throw_dice(&m->d, 2);
}

static int rank_of(const iso_tensor *x)
{
    return iso_tensor_shape(x)->rank;
}

/* Negative: from the end. */
static int64_t size_of(const iso_tensor *x, int dim)
{
    return iso_tensor_shape(x)->dim[dim < 0 ? dim + rank_of(x) : dim];
}

/* Of a row. */
static int64_t elements_of(const iso_tensor *x)
{
    int64_t count = 1;
    for (int i = 1; i < rank_of(x); i++)
        count *= size_of(x, i);
    return count;
}

/* A divisor of both numbers. */
static int64_t divisor(maker *m, int64_t a, int64_t b)
{
    int64_t d = between(m, 1, 4);
    while (a % d || b % d)
        d--;
    return d;
}

/* Not those that may overflow, and softmax seldom. */
static iso_activation_kind activation(maker *m)
{
    int kind = throw_dice(&m->d, ISO_LOG_SIGMOID + 1);
    return kind == ISO_EXPONENTIAL || coin(m) ? ISO_LINEAR : (iso_activation_kind)kind;
}

static double penalty(maker *m)
{
    return throw_dice(&m->d, 5) ? 0 : 1e-2;
}

static iso_padding padding(maker *m)
{
    return coin(m) ? ISO_SAME : ISO_VALID;
}

/* ---- layers of any input ---- */

/* A bias that is not zero: before a normalisation its gradient is what rounding leaves, whose sign L1 would
 * follow. Its elements differ: of a row whose features are all dropped, a normalisation would leave the rounding of
 * zero, whose sign a ReLU after it would follow. */
#define UNEQUAL_BIAS .bias_initializer = {.kind = ISO_INIT_RANDOM_UNIFORM, .low = 0.1, .high = 0.3}

static iso_tensor *dense(maker *m, iso_tensor *x)
{
    return iso_dense(x, between(m, 1, 13), .activation = activation(m), .no_bias = coin(m),
                     .kernel_l2 = penalty(m), .bias_l1 = penalty(m), UNEQUAL_BIAS);
}

static iso_tensor *nonlinear(maker *m, iso_tensor *x)
{
    switch (throw_dice(&m->d, 4)) {
    case 0:
        return iso_activation(x, ISO_RELU, .max_value = 1.5, .negative_slope = 0.1, .threshold = 0.1);
    case 1:
        return iso_activation(x, ISO_ELU, .alpha = 0.5);
    case 2:
        return iso_activation(x, ISO_LEAKY_RELU);
    default:
        return iso_activate(x, activation(m));
    }
}

static iso_tensor *slopes(maker *m, iso_tensor *x)
{
    iso_prelu_options options = {
        .x = x, .alpha_l2 = penalty(m), .alpha_initializer = {.kind = ISO_INIT_CONSTANT, .value = 0.2}};
    for (int i = 1; i < rank_of(x); i++)
        if (coin(m))
            options.shared_axes[options.shared_axis_count++] = i;
    return iso_prelu_with(&options, sizeof options);
}

static iso_tensor *random_numbers(maker *m, iso_tensor *x)
{
    return coin(m) ? iso_dropout(x, 0.3) : iso_gaussian_noise(x, 0.2);
}

static iso_tensor *rescaled(maker *m, iso_tensor *x)
{
    return iso_rescaling(x, coin(m) ? 0.5 : -1.5, 0.1);
}

static iso_tensor *batch_norm(maker *m, iso_tensor *x)
{
    return iso_batch_norm(x, .no_scale = coin(m), .no_center = coin(m), .momentum = 0.8,
                          .axis = (int)between(m, 0, rank_of(x) - 1));
}

/* Two elements become 1 and -1, whatever they were: then the largest of several such is a matter of rounding. */
static bool too_few(int64_t elements)
{
    return elements == 2;
}

static iso_tensor *layer_norm(maker *m, iso_tensor *x)
{
    int64_t elements = 1;
    iso_layer_norm_options options = {
        .x = x, .no_scale = coin(m), .no_center = coin(m), .gamma_l2 = penalty(m)};
    for (int i = 1; i < rank_of(x); i++)
        if (coin(m)) {
            options.axis[options.axis_count++] = i;
            elements *= size_of(x, i);
        }
    if (options.axis_count == 0)
        elements = size_of(x, -1);
    return too_few(elements) ? x : iso_layer_norm_with(&options, sizeof options);
}

/* One element would become 1 or -1. */
static iso_tensor *rms_norm(maker *m, iso_tensor *x)
{
    int axes = (int)between(m, 1, rank_of(x) - 1);
    int64_t elements = 1;
    for (int i = 1; i <= axes; i++)
        elements *= size_of(x, -i);
    return elements == 1 ? x : iso_rms_norm(x, .axes = axes, .epsilon = coin(m) ? 0 : 1e-2);
}

static iso_tensor *group_norm(maker *m, iso_tensor *x)
{
    int axis = (int)between(m, 1, rank_of(x) - 1);
    int64_t channels = size_of(x, axis), groups = coin(m) ? channels : divisor(m, channels, channels);
    if (too_few(elements_of(x) / groups))
        return x;
    return iso_group_norm(x, groups, .axis = axis, .no_scale = coin(m), .no_center = coin(m));
}

/* One of the merges; both of shapes that broadcast. */
static iso_tensor *merge(maker *m, iso_tensor *a, iso_tensor *b)
{
    iso_tensor *both[] = {a, b};
    switch (throw_dice(&m->d, 9)) {
    case 0:
        return iso_merge_multiply(both, 2);
    case 1:
        return iso_merge_subtract(both, 2);
    case 2:
        return iso_merge_average(both, 2);
    case 3:
        return iso_merge_maximum(both, 2);
    case 4:
        return iso_merge_minimum(both, 2);
    default:
        return iso_merge_add(both, 2);
    }
}

static iso_tensor *residual(maker *m, iso_tensor *x)
{
    return merge(m, x, iso_dense(x, size_of(x, -1), .activation = activation(m)));
}

static iso_tensor *joined(maker *m, iso_tensor *x)
{
    iso_tensor *parts[] = {x, iso_dense(x, between(m, 1, 5)), iso_relu(x)};
    return iso_concatenate(parts, (int)between(m, 2, 3));
}

/* Without some elements at both ends of the dimensions, and zeros instead of others. */
static iso_tensor *shifted(maker *m, iso_tensor *x)
{
    int64_t begin[ISO_MAX_RANK], size[ISO_MAX_RANK], before[ISO_MAX_RANK], after[ISO_MAX_RANK];
    for (int i = 1; i < rank_of(x); i++) {
        int64_t all = size_of(x, i);
        begin[i - 1] = throw_dice(&m->d, 3) ? 0 : between(m, 0, all - 1);
        size[i - 1] = coin(m) ? -1 : between(m, 1, all - begin[i - 1]);
        before[i - 1] = throw_dice(&m->d, 3) ? 0 : between(m, 0, 2);
        after[i - 1] = throw_dice(&m->d, 3) ? 0 : between(m, 0, 2);
    }
    x = iso_slice(x, begin, size);
    return coin(m) ? iso_pad(x, before, after) : x;
}

/* By integers or truth values, and continuous: it goes up and down between them. */
static iso_tensor *rounded(maker *m, iso_tensor *x)
{
    static const iso_dtype types[] = {ISO_I32, ISO_I64, ISO_BOOL};
    iso_tensor *y = iso_affine(x, 3, 0.25);
    iso_tensor *whole = iso_cast(iso_cast(y, types[throw_dice(&m->d, 3)]), iso_tensor_dtype(x));
    iso_tensor *rest = iso_abs(iso_subtract(y, whole));
    return iso_add(x, iso_multiply(rest, iso_affine(rest, -1, 1)));
}

/* By a condition, and continuous. */
static iso_tensor *chosen(maker *m, iso_tensor *x)
{
    iso_tensor *limit = iso_reduce_max(x, (const int[]){(int)between(m, 1, rank_of(x) - 1)}, 1, true);
    iso_tensor *twice = iso_affine(x, 2, 0), *above = iso_subtract(twice, limit);
    iso_tensor *upper = iso_greater_equal(twice, limit);
    return coin(m) ? iso_where(upper, twice, limit) : iso_where(upper, above, iso_square(above));
}

/* The last dimensions in another order, or all in another shape. */
static iso_tensor *turned(maker *m, iso_tensor *x)
{
    iso_shape dims = {.rank = rank_of(x) - 1};
    int64_t first = between(m, 0, dims.rank - 1);
    for (int i = 0; i < dims.rank; i++)
        dims.dim[i] = (first + i) % dims.rank + 1;
    return iso_permute(x, dims);
}

static iso_tensor *reshaped(maker *m, iso_tensor *x)
{
    int64_t count = elements_of(x);
    int64_t a = divisor(m, count, count), b = divisor(m, count / a, count / a);
    switch (throw_dice(&m->d, 3)) {
    case 0:
        return count > 60 ? x : iso_flatten(x);
    case 1:
        return iso_reshape(x, ISO_SHAPE(a, -1));
    default:
        return iso_reshape(x, ISO_SHAPE(a, b, -1));
    }
}

/* ---- layers of sequences ---- */

static iso_tensor *conv1d(maker *m, iso_tensor *x)
{
    int64_t filters = between(m, 1, 9), kernel = between(m, 1, 4),
            groups = divisor(m, filters, size_of(x, -1));
    bool causal = throw_dice(&m->d, 3) == 0;
    return iso_conv1d(x, filters, kernel, .groups = groups, .causal = causal, .strides = between(m, 1, 2),
                      .padding = size_of(x, 1) < kernel ? ISO_SAME : padding(m), .activation = activation(m));
}

static iso_tensor *pool1d(maker *m, iso_tensor *x)
{
    int64_t size = between(m, 1, 3), stride = between(m, 1, 3);
    iso_padding around = size_of(x, 1) < size ? ISO_SAME : padding(m);
    return coin(m) ? iso_max_pooling1d(x, size, .strides = stride, .padding = around)
                   : iso_average_pooling1d(x, size, .strides = stride, .padding = around);
}

static iso_tensor *mean_of_steps(maker *m, iso_tensor *x)
{
    iso_tensor *mean = coin(m) ? iso_global_average_pooling1d(x, .keep_dims = true)
                               : iso_global_max_pooling1d(x, .keep_dims = true);
    return merge(m, x, mean);
}

static iso_tensor *positions(maker *m, iso_tensor *x)
{
    if (size_of(x, -1) % 2 == 0 && coin(m))
        return iso_rotary_embedding(x, .max_wavelength = between(m, 2, 100),
                                    .sequence_axis = (int)between(m, 1, rank_of(x) - 2));
    iso_tensor *both[] = {x, iso_position_embedding(x, size_of(x, -2) + between(m, 0, 2))};
    return iso_merge_add(both, 2);
}

/* Further inputs: one that attention reads, or its mask. */
static iso_tensor *further_input(maker *m, const char *name, iso_dtype dtype, iso_shape shape,
                                 int64_t classes)
{
    net *n = m->n;
    n->classes[n->inputs] = classes;
    return n->input[n->inputs++] = iso_input(n->graph, name, dtype, shape);
}

static bool has_input(const maker *m, const char *name)
{
    for (int i = 0; i < m->n->inputs; i++)
        if (strcmp(iso_tensor_name(m->n->input[i]), name) == 0)
            return true;
    return false;
}

static iso_tensor *attention(maker *m, iso_tensor *x)
{
    iso_multi_head_attention_options options = {.x = x,
                                                .value = x,
                                                .num_heads = between(m, 1, 4),
                                                .key_dim = between(m, 1, 5),
                                                .value_dim = coin(m) ? 0 : between(m, 1, 5),
                                                .dropout = throw_dice(&m->d, 3) ? 0 : 0.25,
                                                .no_bias = coin(m),
                                                .use_gate = coin(m),
                                                .causal = coin(m),
                                                .sliding_window = coin(m) ? 0 : between(m, 1, 3),
                                                .kernel_l2 = penalty(m)};
    if (coin(m))
        options.output_shape =
            coin(m) || rank_of(x) > 3 ? ISO_SHAPE(between(m, 1, 7)) : ISO_SHAPE(2, between(m, 1, 3));
    if (rank_of(x) == 4) {
        options.causal = false;
        options.sliding_window = 0;
        options.attention_axes[0] = 2;
        options.attention_axis_count = coin(m);
    }
    bool further = rank_of(x) == 3 && !has_input(m, "other");
    if (further && throw_dice(&m->d, 3) == 0)
        options.value = further_input(m, "other", ISO_F32, ISO_SHAPE(between(m, 1, 6), between(m, 1, 6)), 0);
    else if (further && coin(m))
        options.attention_mask = further_input(m, "other", coin(m) ? ISO_BOOL : ISO_F32,
                                               ISO_SHAPE(coin(m) ? 1 : size_of(x, 1), size_of(x, 1)), 2);
    return iso_multi_head_attention_with(&options, sizeof options);
}

static iso_tensor *grouped_attention(maker *m, iso_tensor *x)
{
    int64_t groups = between(m, 1, 3), heads = groups * between(m, 1, 3);
    return iso_grouped_query_attention(
        x, x, between(m, 1, 5), heads, groups, .dropout = throw_dice(&m->d, 3) ? 0 : 0.25, .no_bias = coin(m),
        .use_gate = coin(m), .causal = coin(m), .sliding_window = coin(m) ? 0 : between(m, 1, 3),
        .score_cap = coin(m) ? 0 : 0.5, .kernel_l2 = penalty(m));
}

static iso_tensor *recurrent(maker *m, iso_tensor *x)
{
    const int cell = (int)throw_dice(&m->d, 3);
    iso_tensor *h, *c;
    iso_recurrent_options options = {.x = x,
                                     .units = between(m, 1, 7),
                                     .return_sequences = coin(m),
                                     .no_bias = coin(m),
                                     .dropout = throw_dice(&m->d, 3) ? 0 : 0.25,
                                     .recurrent_l2 = penalty(m)};
    options.go_backwards = coin(m);
    if (coin(m))
        return iso_bidirectional(x, (iso_cell)cell, .layer = options,
                                 .merge_mode = (iso_merge_mode)between(m, 0, 3));
    if (cell == 0)
        return iso_simple_rnn_with(&options, sizeof options);
    if (cell == 1)
        return iso_gru_with(&options, sizeof options);
    options.final_h = coin(m) ? &h : NULL;
    options.final_c = options.final_h ? &c : NULL;
    x = iso_lstm_with(&options, sizeof options);
    if (options.final_h)
        x = iso_lstm(options.return_sequences ? x : iso_reshape(x, ISO_SHAPE(1, -1)), options.units,
                     .return_sequences = coin(m), .initial_h = h, .initial_c = c);
    return x;
}

static iso_tensor *shares(maker *m, iso_tensor *x)
{
    iso_activation_options options = {.x = x, .kind = ISO_SOFTMAX};
    for (int i = 1; i < rank_of(x); i++)
        if (coin(m))
            options.axis[options.axis_count++] = i;
    return iso_activation_with(&options, sizeof options);
}

/* ---- layers of images ---- */

static bool holds(const iso_tensor *x, int64_t h, int64_t w)
{
    return size_of(x, 1) >= h && size_of(x, 2) >= w;
}

static iso_tensor *conv2d(maker *m, iso_tensor *x)
{
    int64_t filters = between(m, 1, 8), h = between(m, 1, 4), w = between(m, 1, 4),
            dilation = between(m, 1, 2);
    int64_t groups = divisor(m, filters, size_of(x, -1)), stride = dilation > 1 ? 1 : between(m, 1, 3);
    return iso_conv2d(x, filters, .kernel_size_hw = {h, w}, .dilation = dilation,
                      .strides_hw = {stride, dilation > 1 ? 1 : between(m, 1, 2)}, .groups = groups,
                      .padding =
                          holds(x, dilation * (h - 1) + 1, dilation * (w - 1) + 1) ? padding(m) : ISO_SAME,
                      .activation = activation(m), .no_bias = coin(m), .kernel_l1 = penalty(m));
}

static iso_tensor *depthwise(maker *m, iso_tensor *x)
{
    int64_t h = between(m, 1, 3), w = between(m, 1, 3), stride = between(m, 1, 2);
    iso_padding around = holds(x, h, w) ? padding(m) : ISO_SAME;
    if (coin(m))
        return iso_separable_conv2d(x, between(m, 1, 6), .kernel_size_hw = {h, w}, .strides = stride,
                                    .padding = around, .depth_multiplier = between(m, 1, 2));
    return iso_depthwise_conv2d(x, .kernel_size_hw = {h, w}, .strides = stride, .padding = around,
                                .depth_multiplier = between(m, 1, 2), .activation = activation(m));
}

static iso_tensor *transposed(maker *m, iso_tensor *x)
{
    int64_t h = between(m, 1, 2), w = between(m, 1, 3);
    if (size_of(x, 1) * size_of(x, 2) > 60)
        return x;
    iso_conv2d_transpose_options options = {.x = x,
                                            .filters = between(m, 1, 6),
                                            .kernel_size_hw = {between(m, 1, 4), between(m, 1, 4)},
                                            .strides_hw = {h, w},
                                            .padding = padding(m),
                                            .activation = activation(m)};
    if (size_of(x, 1) > 1 && size_of(x, 2) > 1)
        options.output_padding_count = (int)between(m, 0, 2);
    options.output_padding[0] = between(m, 0, (options.output_padding_count == 1 && w < h ? w : h) - 1);
    options.output_padding[1] = between(m, 0, w - 1);
    return iso_conv2d_transpose_with(&options, sizeof options);
}

static iso_tensor *transposed_steps(maker *m, iso_tensor *x)
{
    if (size_of(x, 1) > 20)
        return x;
    return iso_conv1d_transpose(x, between(m, 1, 6), between(m, 1, 4), .strides = between(m, 1, 3),
                                .padding = padding(m), .activation = activation(m));
}

static iso_tensor *pool2d(maker *m, iso_tensor *x)
{
    int64_t h = between(m, 1, 3), w = between(m, 1, 3), stride = between(m, 1, 3);
    iso_padding around = holds(x, h, w) ? padding(m) : ISO_SAME;
    return coin(m) ? iso_max_pooling2d(x, .pool_size_hw = {h, w}, .strides = stride, .padding = around)
                   : iso_average_pooling2d(x, .pool_size_hw = {h, w}, .strides = stride, .padding = around);
}

static iso_tensor *enlarged(maker *m, iso_tensor *x)
{
    if (size_of(x, 1) * size_of(x, 2) > 60)
        return x;
    return iso_up_sampling2d(x, .size_hw = {between(m, 1, 3), between(m, 1, 2)}, .bilinear = coin(m));
}

static iso_tensor *framed(maker *m, iso_tensor *x)
{
    int64_t h = size_of(x, 1) - 1, w = size_of(x, 2) - 1;
    if (coin(m))
        return iso_zero_padding2d(
            x, .sides = {{between(m, 0, 2), between(m, 0, 2)}, {between(m, 0, 2), between(m, 0, 2)}});
    return iso_cropping2d(x, .sides = {{between(m, 0, h / 2), between(m, 0, h - h / 2)},
                                       {between(m, 0, w / 2), between(m, 0, w - w / 2)}});
}

static iso_tensor *mean_of_image(maker *m, iso_tensor *x)
{
    iso_tensor *mean = coin(m) ? iso_global_average_pooling2d(x, .keep_dims = true)
                               : iso_global_max_pooling2d(x, .keep_dims = true);
    return merge(m, x, mean);
}

/* ---- layers of volumes ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A kernel, or a window, within a volume. */
static void window_within(maker *m, const iso_tensor *x, int64_t most, int64_t window[3])
{
    for (int i = 0; i < 3; i++)
        window[i] = between(m, 1, least(most, size_of(x, i + 1)));
}

static iso_tensor *conv3d(maker *m, iso_tensor *x)
{
    iso_conv3d_options options = {.x = x,
                                  .filters = between(m, 1, 6),
                                  .padding = padding(m),
                                  .activation = activation(m),
                                  .no_bias = coin(m),
                                  .kernel_l2 = penalty(m)};
    const bool dilated = throw_dice(&m->d, 4) == 0;
    options.groups = divisor(m, options.filters, size_of(x, -1));
    window_within(m, x, 3, options.kernel_size_dhw);
    for (int i = 0; i < 3; i++) {
        options.strides_dhw[i] = dilated ? 1 : between(m, 1, 2);
        options.dilation_dhw[i] = dilated ? between(m, 1, 2) : 1;
    }
    if (dilated)
        options.padding = ISO_SAME;
    return iso_conv3d_with(&options, sizeof options);
}

static int64_t volume_of(const iso_tensor *x)
{
    return size_of(x, 1) * size_of(x, 2) * size_of(x, 3);
}

static iso_tensor *transposed_volume(maker *m, iso_tensor *x)
{
    if (volume_of(x) > 60)
        return x;
    return iso_conv3d_transpose(x, between(m, 1, 4),
                                .kernel_size_dhw = {between(m, 1, 3), between(m, 1, 3), between(m, 1, 3)},
                                .strides_dhw = {between(m, 1, 2), between(m, 1, 2), between(m, 1, 2)},
                                .padding = padding(m), .activation = activation(m));
}

static iso_tensor *pool3d(maker *m, iso_tensor *x)
{
    iso_pooling3d_options options = {.x = x, .strides = between(m, 1, 3), .padding = padding(m)};
    window_within(m, x, 3, options.pool_size_dhw);
    return coin(m) ? iso_max_pooling3d_with(&options, sizeof options)
                   : iso_average_pooling3d_with(&options, sizeof options);
}

static iso_tensor *enlarged_volume(maker *m, iso_tensor *x)
{
    return volume_of(x) > 60
               ? x
               : iso_up_sampling3d(x, .size_dhw = {between(m, 1, 2), between(m, 1, 2), between(m, 1, 2)});
}

static iso_tensor *framed_volume(maker *m, iso_tensor *x)
{
    const int64_t depth = size_of(x, 1) - 1, width = size_of(x, 3) - 1;
    if (coin(m))
        return iso_zero_padding3d(
            x, .sides = {{between(m, 0, 2), between(m, 0, 1)}, {0, between(m, 0, 1)}, {between(m, 0, 1), 0}});
    iso_cropping3d_options options = {.x = x};
    options.sides[0][0] = between(m, 0, depth / 2);
    options.sides[0][1] = between(m, 0, depth - depth / 2);
    options.sides[2][1] = between(m, 0, width);
    bool cuts =
        options.sides[0][0] + options.sides[0][1] + options.sides[2][1] > 0; /* 0 alone is the default, 1 */
    return cuts ? iso_cropping3d_with(&options, sizeof options) : x;
}

static iso_tensor *mean_of_volume(maker *m, iso_tensor *x)
{
    iso_tensor *mean = coin(m) ? iso_global_average_pooling3d(x, .keep_dims = true)
                               : iso_global_max_pooling3d(x, .keep_dims = true);
    return merge(m, x, mean);
}

/* ---- networks of them ---- */

typedef struct choice {
    int least, most; /* dimensions of the inputs that it takes, with the batch */
    iso_tensor *(*build)(maker *m, iso_tensor *x);
} choice;

static const choice choices[] = {
    {2, 4, dense},          {2, 4, nonlinear},        {2, 4, slopes},
    {2, 4, random_numbers}, {2, 4, rescaled},         {2, 4, batch_norm},
    {2, 4, layer_norm},     {2, 4, group_norm},       {2, 4, residual},
    {2, 4, joined},         {2, 4, shifted},          {2, 4, rounded},
    {2, 4, chosen},         {3, 4, turned},           {2, 4, reshaped},
    {3, 3, conv1d},         {3, 3, pool1d},           {3, 3, mean_of_steps},
    {3, 4, positions},      {3, 4, attention},        {3, 3, attention},
    {3, 4, shares},         {4, 4, conv2d},           {4, 4, conv2d},
    {4, 4, depthwise},      {2, 4, rms_norm},         {3, 3, grouped_attention},
    {3, 3, recurrent},      {3, 3, recurrent},        {4, 4, pool2d},
    {4, 4, enlarged},       {4, 4, framed},           {4, 4, mean_of_image},
    {4, 4, transposed},     {3, 3, transposed_steps}, {5, 5, conv3d},
    {5, 5, conv3d},         {5, 5, conv3d},           {5, 5, transposed_volume},
    {5, 5, pool3d},         {5, 5, pool3d},           {5, 5, enlarged_volume},
    {5, 5, framed_volume},  {5, 5, mean_of_volume},   {5, 5, batch_norm},
    {5, 5, dense},          {5, 5, nonlinear},        {5, 5, residual},
};

static iso_tensor *one_layer(maker *m, iso_tensor *x)
{
    int count = (int)(sizeof choices / sizeof choices[0]);
    const choice *c;
    do
        c = &choices[throw_dice(&m->d, count)];
    while (rank_of(x) < c->least || rank_of(x) > c->most);
    return c->build(m, x);
}

/* A block whose layers are applied to two tensors. */
static iso_tensor *towers(maker *m, iso_tensor *x)
{
    iso_graph *graph = m->n->graph;
    dice before = m->d;
    iso_tensor *y[2];
    m->towers = true;
    for (int i = 0; i < 2; i++) {
        m->d = before;
        if (i)
            iso_share_begin(graph);
        iso_name_scope_begin(graph, "tower");
        y[i] = iso_dense(i ? iso_affine(x, -0.5, 0.1) : x, between(m, 3, 7), .activation = activation(m),
                         UNEQUAL_BIAS);
        y[i] = iso_name_scope_end(graph, layer_norm(m, y[i]));
        if (i)
            iso_share_end(graph);
    }
    return merge(m, y[0], y[1]);
}

static iso_tensor *layers(maker *m, iso_tensor *x)
{
    iso_graph *graph = m->n->graph;
    int count = (int)between(m, 1, 5);
    bool again = throw_dice(&m->d, 3) == 0, frozen = throw_dice(&m->d, 8) == 0;
    bool own_policy = throw_dice(&m->d, 4) == 0; /* where the others compute in bfloat16 */
    if (throw_dice(&m->d, 5) == 0 && !m->towers)
        x = towers(m, x);
    if (frozen)
        iso_freeze_begin(graph);
    if (own_policy)
        iso_policy_begin(graph, ISO_F32);
    if (again)
        iso_recompute_begin(graph);
    for (int i = 0; i < count && iso_graph_error(graph) == ISO_OK; i++)
        x = one_layer(m, x);
    if (again)
        iso_recompute_end(graph);
    if (own_policy)
        iso_policy_end(graph);
    if (frozen)
        iso_freeze_end(graph);
    return x;
}

static iso_dtype whole_type(maker *m)
{
    static const iso_dtype types[] = {ISO_I32, ISO_I64, ISO_U8, ISO_F32};
    return types[throw_dice(&m->d, 4)];
}

static iso_tensor *words(maker *m)
{
    iso_tensor *x =
        further_input(m, "x", coin(m) ? ISO_I32 : ISO_U8, ISO_SHAPE(between(m, 1, 7)), TIED_WORDS);
    m->tied = coin(m);
    return m->tied ? iso_reversible_embedding(x, TIED_WORDS, TIED_WIDTH, .name = "tied")
                   : iso_embedding(x, TIED_WORDS, between(m, 1, 8), .embeddings_l2 = penalty(m));
}

static iso_tensor *first_input(maker *m)
{
    switch (throw_dice(&m->d, 5)) {
    case 0:
        return words(m);
    case 1:
        return further_input(m, "x", ISO_F32, ISO_SHAPE(between(m, 1, 13)), 0);
    case 2:
        return further_input(m, "x", ISO_F32, ISO_SHAPE(between(m, 2, 9), between(m, 1, 8)), 0);
    case 3:
        return further_input(
            m, "x", ISO_F32,
            ISO_SHAPE(between(m, 2, 6), between(m, 2, 6), between(m, 2, 6), between(m, 1, 4)), 0);
    default:
        return further_input(m, "x", ISO_F32,
                             ISO_SHAPE(between(m, 3, 10), between(m, 3, 10), between(m, 1, 5)), 0);
    }
}

/* Predictions of each row, or of each position. */
static iso_tensor *predictions(maker *m, iso_tensor *x)
{
    bool rows = coin(m) && rank_of(x) > 2;
    if (rows && coin(m))
        x = iso_reshape(x, ISO_SHAPE(-1, size_of(x, -1)));
    if (rows)
        x = rank_of(x) == 3   ? iso_global_average_pooling1d(x)
            : rank_of(x) == 4 ? iso_global_average_pooling2d(x)
                              : iso_global_average_pooling3d(x);
    if (!m->tied)
        return iso_dense(x, between(m, 2, 11));
    x = iso_dense(x, TIED_WIDTH, .name = "width");
    iso_share_begin(m->n->graph);
    x = iso_reversible_embedding(x, TIED_WORDS, TIED_WIDTH, .reverse = true,
                                 .logit_soft_cap = coin(m) ? 0 : 2, .name = "tied");
    iso_share_end(m->n->graph);
    return x;
}

static iso_tensor *loss_of_classes(maker *m, iso_tensor *y)
{
    iso_shape shape = {.rank = rank_of(y) - 2};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = size_of(y, i + 1);
    iso_tensor *label = further_input(m, "label", whole_type(m), shape, size_of(y, -1));
    return coin(m) ? iso_sparse_crossentropy(label, y, .from_logits = true)
                   : iso_sparse_crossentropy(label, iso_softmax(y, -1));
}

static iso_tensor *loss_of_numbers(maker *m, iso_tensor *y)
{
    iso_shape shape = {.rank = rank_of(y) - 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = size_of(y, i + 1);
    iso_tensor *target = further_input(m, "target", ISO_F32, shape, 0);
    switch (throw_dice(&m->d, 9)) {
    case 0:
        return iso_mean_squared_error(target, y);
    case 1:
        return iso_mean_absolute_error(target, y);
    case 2:
        return iso_huber(target, y, 0.3);
    case 3:
        return iso_binary_crossentropy(iso_sigmoid(target), y, .from_logits = true);
    case 4:
        return iso_kl_divergence(iso_softmax(target, -1), iso_softmax(y, -1));
    case 5:
        return iso_tversky(iso_sigmoid(target), iso_sigmoid(y), 0.3, 0.8,
                           coin(m) ? 0 : 1u << (rank_of(y) - 1));
    case 6:
        return iso_squared_hinge(target, y);
    case 7:
        return iso_categorical_focal_crossentropy(iso_softmax(target, -1), y, .from_logits = true);
    default:
        return iso_categorical_crossentropy(iso_softmax(target, -1), y, .from_logits = true,
                                            .label_smoothing = coin(m) ? 0 : 0.2);
    }
}

static int chosen_number;

static void build(net *n)
{
    maker m = {.n = n, .d = dice_for(chosen_number)};
    iso_tensor *y = predictions(&m, layers(&m, layers(&m, first_input(&m))));
    iso_tensor *values = coin(&m) ? loss_of_classes(&m, y) : loss_of_numbers(&m, y);
    iso_tensor *weights =
        coin(&m) ? NULL : iso_square(further_input(&m, "weight", ISO_F32, (iso_shape){0}, 0));
    n->loss = iso_reduce_loss(values, weights);
    iso_tensor *penalties = iso_graph_losses(n->graph);
    if (penalties)
        n->loss = iso_add(n->loss, iso_cast(penalties, iso_tensor_dtype(n->loss)));
}

net_kind random_net_kind(int number)
{
    chosen_number = number;
    return (net_kind){"random", build};
}
