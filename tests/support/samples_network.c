/* Samples of the network ops. Those of gradient ops are made by differentiating: iso_gradients makes the op.
 */
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"
#include "runtime/graph/ops/ops_impl.h"
#include "tests/support/samples.h"

#define SAMPLE(NAME) static void NAME(sample_graph *s)

/* Gradients of y to every leaf, with a gradient of y that is none of the simple ones. */
static void differentiate(sample_graph *s, iso_tensor *y)
{
    iso_tensor *gradient[SAMPLE_LEAVES];
    iso_gradients(iso_sum(iso_square(y)), s->leaf, s->leaves, gradient);
}

/* x: [batch, 5, 4, c] */
static iso_tensor *image(sample_graph *s, int64_t channels)
{
    return sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 5, 4, channels));
}

static iso_tensor *convolve(sample_graph *s, int64_t stride, int64_t dilation, int64_t pad, int64_t groups)
{
    iso_conv_geometry geometry = {{stride, stride}, {dilation, dilation}, {pad, pad}, {0, pad}, groups};
    iso_tensor *x = image(s, 4);
    return iso_conv2d_op(x, sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(3, 2, 4 / groups, 6)), &geometry);
}

SAMPLE(conv)
{
    convolve(s, 1, 1, 0, 1);
}
SAMPLE(conv_stride)
{
    convolve(s, 2, 1, 1, 1);
}
SAMPLE(conv_dilation)
{
    convolve(s, 1, 2, 1, 1);
}
/* A window that leaves elements out, and one whose taps lie far apart, some places on padding alone. */
static iso_tensor *leave_out(sample_graph *s)
{
    iso_conv_geometry geometry = {{3, 2}, {1, 1}, {0, 0}, {0, 0}, 1};
    iso_tensor *x = image(s, 4);
    return iso_conv2d_op(x, sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(1, 1, 4, 3)), &geometry);
}

static iso_tensor *reach_far(sample_graph *s)
{
    iso_conv_geometry geometry = {{1, 1}, {2, 3}, {8, 3}, {4, 5}, 1};
    iso_tensor *x = image(s, 2);
    return iso_conv2d_op(x, sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(4, 2, 2, 3)), &geometry);
}

/* Zeros in front of rows of which the windows leave as much out at the end. */
static iso_tensor *shift(sample_graph *s)
{
    iso_conv_geometry geometry = {{2, 2}, {1, 1}, {1, 1}, {1, 0}, 1};
    iso_tensor *x = image(s, 4);
    return iso_conv2d_op(x, sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(3, 2, 4, 6)), &geometry);
}

SAMPLE(conv_shift)
{
    shift(s);
}
SAMPLE(conv_shift_gradient)
{
    differentiate(s, shift(s));
}
SAMPLE(conv_gaps)
{
    leave_out(s);
}
SAMPLE(conv_far)
{
    reach_far(s);
}
SAMPLE(conv_gaps_gradient)
{
    differentiate(s, leave_out(s));
}
SAMPLE(conv_far_gradient)
{
    differentiate(s, reach_far(s));
}
SAMPLE(conv_groups)
{
    convolve(s, 1, 1, 1, 2);
}
/* As many groups as channels, one filter each, or three; and three channels for each filter. */
static iso_tensor *channelwise(sample_graph *s, int64_t channels, int64_t groups, int64_t filters)
{
    iso_conv_geometry geometry = {{1, 2}, {1, 1}, {1, 0}, {1, 1}, groups};
    iso_tensor *x = image(s, channels);
    return iso_conv2d_op(x, sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(3, 2, channels / groups, filters)),
                         &geometry);
}

SAMPLE(conv_channelwise)
{
    channelwise(s, 5, 5, 5);
}
SAMPLE(conv_channelwise_times3)
{
    channelwise(s, 3, 3, 9);
}
SAMPLE(conv_few_groups)
{
    channelwise(s, 6, 2, 2);
}
SAMPLE(conv_blocks)
{
    channelwise(s, 6, 3, 6);
}
SAMPLE(conv_channelwise_gradient)
{
    differentiate(s, channelwise(s, 5, 5, 5));
}
SAMPLE(conv_channelwise_times3_gradient)
{
    differentiate(s, channelwise(s, 3, 3, 9));
}
SAMPLE(conv_few_groups_gradient)
{
    differentiate(s, channelwise(s, 6, 2, 2));
}
SAMPLE(conv_blocks_gradient)
{
    differentiate(s, channelwise(s, 6, 3, 6));
}
SAMPLE(conv_gradient)
{
    differentiate(s, convolve(s, 1, 1, 1, 1));
}
SAMPLE(conv_stride_gradient)
{
    differentiate(s, convolve(s, 2, 1, 1, 1));
}
SAMPLE(conv_groups_gradient)
{
    differentiate(s, convolve(s, 1, 1, 0, 2));
}

static iso_tensor *upsample(sample_graph *s, int64_t high, int64_t wide)
{
    return iso_upsample_linear_op(image(s, 3), (const int64_t[]){high, wide});
}

SAMPLE(upsample_2x3)
{
    upsample(s, 2, 3);
}
SAMPLE(upsample_1x4)
{
    upsample(s, 1, 4);
}
SAMPLE(upsample_2x3_gradient)
{
    differentiate(s, upsample(s, 2, 3));
}
SAMPLE(upsample_5x1_gradient)
{
    differentiate(s, upsample(s, 5, 1));
}

/* A turned and enlarged image, of which all sides are outside; linear in x, which is the only leaf. */
static iso_tensor *warp(sample_graph *s, const iso_warp_form *form)
{
    static const double map[] = {0.9, -0.4, -0.73, 0.35, 1.2, -1.13};
    iso_tensor *x = image(s, 3);
    iso_tensor *maps = iso_constant(s->graph, iso_graph_precision(s->graph) == ISO_F64 ? ISO_F64 : ISO_F32,
                                    ISO_SHAPE(1, 6), map);
    return iso_warp_op(x, iso_broadcast_to(maps, ISO_SHAPE(ISO_BATCH, 6)), form);
}
static const iso_warp_form reflected = {.height = 7}, wrapped = {.width = 3, .fill_mode = ISO_FILL_WRAP},
                           filled = {.fill_mode = ISO_FILL_CONSTANT, .fill_value = 0.5},
                           pixels = {.fill_mode = ISO_FILL_NEAREST, .nearest = true};
#define WARPS(NAME)                                                                                          \
    SAMPLE(warp_##NAME)                                                                                      \
    {                                                                                                        \
        warp(s, &NAME);                                                                                      \
    }                                                                                                        \
    SAMPLE(warp_##NAME##_gradient)                                                                           \
    {                                                                                                        \
        differentiate(s, warp(s, &NAME));                                                                    \
    }
WARPS(reflected)
WARPS(wrapped)
WARPS(filled)
WARPS(pixels)

/* x: [batch, 2, 5, 6] */
static iso_tensor *band(sample_graph *s, bool causal, int64_t window, double fill)
{
    return iso_band_op(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 5, 6)), causal, window, fill);
}

SAMPLE(band_causal)
{
    band(s, true, 0, -9);
}
SAMPLE(band_window)
{
    band(s, false, 2, 0);
}
SAMPLE(band_both)
{
    band(s, true, 3, 1);
}
SAMPLE(band_gradient)
{
    differentiate(s, band(s, true, 3, -9));
}
/* x: [batch, 4, 3, 6] */
static iso_tensor *turn(sample_graph *s, int axis, double wavelength, double scaling)
{
    return iso_rotary_op(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 3, 6)), axis, wavelength,
                         scaling);
}

SAMPLE(rotary)
{
    turn(s, 1, 10000, 1);
}
SAMPLE(rotary_inner)
{
    turn(s, -2, 50, 0.5);
}
SAMPLE(rotary_gradient)
{
    differentiate(s, turn(s, 1, 20, 2));
}
/* q: [batch, 4, 2, 3], k: [batch, 5, 2, 3], v: [batch, 5, 2, 2]; mask, query_mask: their shapes, rank 0: none */
static iso_tensor *attend_masked(sample_graph *s, iso_shape mask, iso_shape query_mask,
                                 iso_attention_form form)
{
    iso_tensor *q = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 2, 3));
    iso_tensor *k = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 5, 2, 3));
    iso_tensor *v = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, 5, 2, 2));
    iso_tensor *keys = mask.rank ? sample_leaf(s, ISO_BOOL, 0, 1, mask) : NULL;
    form.query_mask = query_mask.rank ? sample_leaf(s, ISO_BOOL, 0, 1, query_mask) : NULL;
    return iso_attention_op(q, k, v, keys, &form);
}

static iso_tensor *attend(sample_graph *s, int64_t mask_heads, const iso_attention_form *form)
{
    const iso_shape none = {0};
    return attend_masked(s, mask_heads ? ISO_SHAPE(ISO_BATCH, mask_heads, 4, 5) : none, none, *form);
}
static const iso_attention_form plain_attention = {.scale = 0.6, .masked = -1e9},
                                causal_attention = {.scale = 0.6, .masked = -1e9, .causal = true},
                                window_attention = {.scale = 1, .masked = -1e9, .causal = true, .window = 2},
                                far_attention = {.scale = 1, .masked = -1e9, .window = 1},
                                dropped_attention = {.scale = 0.6,
                                                     .masked = -1e9,
                                                     .window = 3,
                                                     .zero_masked = true,
                                                     .dropout = 0.4,
                                                     .path = "attention"},
                                added_attention = {.scale = 1, .masked = -2, .causal = true, .adds = true},
                                capped_attention = {.scale = 1, .masked = -1e9, .causal = true, .cap = 0.8};

SAMPLE(attention)
{
    attend(s, 0, &plain_attention);
}
SAMPLE(attention_causal)
{
    attend(s, 0, &causal_attention);
}
SAMPLE(attention_window)
{
    attend(s, 0, &window_attention);
}
SAMPLE(attention_mask)
{
    attend(s, 1, &far_attention);
}
SAMPLE(attention_dropout)
{
    attend(s, 2, &dropped_attention);
}
SAMPLE(attention_cap)
{
    attend(s, 1, &capped_attention);
}
SAMPLE(attention_cap_gradient)
{
    differentiate(s, attend(s, 2, &capped_attention));
}
SAMPLE(attention_gradient)
{
    differentiate(s, attend(s, 0, &plain_attention));
}
SAMPLE(attention_causal_gradient)
{
    differentiate(s, attend(s, 2, &causal_attention));
}
SAMPLE(attention_window_gradient)
{
    differentiate(s, attend(s, 0, &window_attention));
}
SAMPLE(attention_mask_gradient)
{
    differentiate(s, attend(s, 1, &far_attention));
}
SAMPLE(attention_dropout_gradient)
{
    differentiate(s, attend(s, 1, &dropped_attention));
}
SAMPLE(attention_key_mask)
{
    attend_masked(s, ISO_SHAPE(ISO_BATCH, 1, 1, 5), (iso_shape){0}, causal_attention);
}
SAMPLE(attention_key_mask_gradient)
{
    differentiate(s, attend_masked(s, ISO_SHAPE(1, 2, 1, 5), (iso_shape){0}, plain_attention));
}
SAMPLE(attention_query_mask)
{
    attend_masked(s, (iso_shape){0}, ISO_SHAPE(ISO_BATCH, 1, 4, 1), far_attention);
}
SAMPLE(attention_query_mask_gradient)
{
    differentiate(
        s, attend_masked(s, ISO_SHAPE(ISO_BATCH, 1, 1, 5), ISO_SHAPE(ISO_BATCH, 1, 4, 1), dropped_attention));
}
SAMPLE(attention_row_mask_gradient)
{
    differentiate(s, attend_masked(s, ISO_SHAPE(1, 1, 4, 5), ISO_SHAPE(1, 2, 1, 1), plain_attention));
}
SAMPLE(attention_added_mask)
{
    attend_masked(s, ISO_SHAPE(ISO_BATCH, 1, 1, 5), (iso_shape){0}, added_attention);
}
SAMPLE(attention_added_mask_gradient)
{
    differentiate(s, attend_masked(s, ISO_SHAPE(ISO_BATCH, 1, 4, 1), (iso_shape){0}, added_attention));
}

/* What a sample has besides x and the kernel: a state before the first step and the bias of r; these and a mask. */
typedef enum further { NONE, MORE, MASKED } further;

/* Units: 3. */
static iso_tensor *recur(sample_graph *s, const iso_recurrence_form *form, int64_t steps, further more,
                         iso_tensor **c)
{
    const int64_t units = 3, columns = iso_cell_gates(form->cell) * units;
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, steps, columns));
    iso_tensor *kernel = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(units, columns));
    if (more == NONE)
        return iso_recurrence_op(x, kernel, NULL, NULL, NULL, NULL, form, c);
    iso_tensor *bias = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(columns));
    iso_tensor *h0 = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, units));
    iso_tensor *c0 =
        form->cell == ISO_CELL_LSTM ? sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, units)) : NULL;
    iso_tensor *mask = more == MASKED ? sample_leaf(s, ISO_BOOL, 0, 1, ISO_SHAPE(ISO_BATCH, steps)) : NULL;
    return iso_recurrence_op(x, kernel, bias, h0, c0, mask, form, c);
}

/* The gradient of h, and of LSTM also of c. */
static void differentiate_recurrence(sample_graph *s, const iso_recurrence_form *form, int64_t steps,
                                     further more)
{
    iso_tensor *c = NULL, *h = recur(s, form, steps, more, form->cell == ISO_CELL_LSTM ? &c : NULL);
    differentiate(s, c ? iso_add(h, c) : h);
}

static const iso_recurrence_form lstm_form = {.cell = ISO_CELL_LSTM}, gru_form = {.cell = ISO_CELL_GRU},
                                 simple_form = {.cell = ISO_CELL_SIMPLE},
                                 lstm_other_form = {ISO_CELL_LSTM, ISO_CELL_SIGMOID, ISO_CELL_HARD_SIGMOID,
                                                    true},
                                 gru_other_form = {ISO_CELL_GRU, ISO_CELL_LINEAR, ISO_CELL_TANH, true},
                                 simple_other_form = {ISO_CELL_SIMPLE, ISO_CELL_RELU, ISO_CELL_DEFAULT, true};
#define RECURRENCES(CELL)                                                                                    \
    SAMPLE(CELL##_recurrence)                                                                                \
    {                                                                                                        \
        recur(s, &CELL##_form, 4, NONE, NULL);                                                               \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_more)                                                                           \
    {                                                                                                        \
        recur(s, &CELL##_other_form, 4, MORE, NULL);                                                         \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_masked)                                                                         \
    {                                                                                                        \
        recur(s, &CELL##_other_form, 4, MASKED, NULL);                                                       \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_once)                                                                           \
    {                                                                                                        \
        recur(s, &CELL##_form, 1, NONE, NULL);                                                               \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_once_more)                                                                      \
    {                                                                                                        \
        recur(s, &CELL##_form, 1, MORE, NULL);                                                               \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_gradient)                                                                       \
    {                                                                                                        \
        differentiate_recurrence(s, &CELL##_form, 4, NONE);                                                  \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_gradient_more)                                                                  \
    {                                                                                                        \
        differentiate_recurrence(s, &CELL##_other_form, 3, MORE);                                            \
    }                                                                                                        \
    SAMPLE(CELL##_recurrence_gradient_masked)                                                                \
    {                                                                                                        \
        differentiate_recurrence(s, &CELL##_form, 4, MASKED);                                                \
    }
RECURRENCES(lstm)
RECURRENCES(gru)
RECURRENCES(simple)

/* Images of which a state is a part, with windows that have more pixels behind than before. */
static iso_tensor *recur_images(sample_graph *s, iso_cell cell, bool more, iso_tensor **c)
{
    const iso_recurrence_form form = {.cell = cell, .backwards = more};
    const int64_t units = 2, columns = iso_cell_gates(cell) * units;
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 3, 3, 4, columns));
    iso_tensor *kernel = sample_leaf(s, ISO_F32, -0.5, 0.5, ISO_SHAPE(3, 2, units, columns));
    if (!more)
        return iso_recurrence_op(x, kernel, NULL, NULL, NULL, NULL, &form, c);
    iso_tensor *bias = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(columns));
    iso_tensor *h0 = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, 3, 4, units));
    iso_tensor *c0 =
        cell == ISO_CELL_LSTM ? sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(ISO_BATCH, 3, 4, units)) : NULL;
    iso_tensor *mask = sample_leaf(s, ISO_BOOL, 0, 1, ISO_SHAPE(ISO_BATCH, 3));
    return iso_recurrence_op(x, kernel, bias, h0, c0, mask, &form, c);
}

SAMPLE(lstm_images)
{
    recur_images(s, ISO_CELL_LSTM, false, NULL);
}
SAMPLE(gru_images_more)
{
    recur_images(s, ISO_CELL_GRU, true, NULL);
}
SAMPLE(lstm_images_gradient)
{
    iso_tensor *c, *h = recur_images(s, ISO_CELL_LSTM, true, &c);
    differentiate(s, iso_add(h, c));
}
SAMPLE(gru_images_gradient)
{
    differentiate(s, recur_images(s, ISO_CELL_GRU, true, NULL));
}
SAMPLE(simple_images_gradient)
{
    differentiate(s, recur_images(s, ISO_CELL_SIMPLE, false, NULL));
}

static iso_tensor *draw(sample_graph *s, iso_uniform_function function)
{
    return iso_uniform_op(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 3)), -0.5, 2, function,
                          "uniform");
}
SAMPLE(uniform)
{
    draw(s, ISO_UNIFORM_VALUE);
}
SAMPLE(uniform_cosine)
{
    draw(s, ISO_UNIFORM_COSINE);
}
SAMPLE(uniform_sine)
{
    draw(s, ISO_UNIFORM_SINE);
}

SAMPLE(noise)
{
    iso_gaussian_noise_op(image(s, 3), 0.4, "noise");
}
SAMPLE(noise_gradient)
{
    differentiate(s, iso_gaussian_noise_op(image(s, 3), 0.4, "noise"));
}

static const iso_pool_geometry windows = {{2, 3}, {2, 1}, {1, 0}, {0, 1}};
/* Side by side, and with an element between them. */
static const iso_pool_geometry tiles = {{2, 2}, {2, 2}, {0, 0}, {0, 0}},
                               gaps = {{1, 2}, {2, 3}, {0, 0}, {0, 1}};
#define POOLS(NAME, OP)                                                                                      \
    SAMPLE(NAME)                                                                                             \
    {                                                                                                        \
        OP(image(s, 3), &windows);                                                                           \
    }                                                                                                        \
    SAMPLE(NAME##_tiles)                                                                                     \
    {                                                                                                        \
        OP(image(s, 3), &tiles);                                                                             \
    }                                                                                                        \
    SAMPLE(NAME##_gaps)                                                                                      \
    {                                                                                                        \
        OP(image(s, 3), &gaps);                                                                              \
    }                                                                                                        \
    SAMPLE(NAME##_gradient)                                                                                  \
    {                                                                                                        \
        differentiate(s, OP(image(s, 3), &windows));                                                         \
    }                                                                                                        \
    SAMPLE(NAME##_tiles_gradient)                                                                            \
    {                                                                                                        \
        differentiate(s, OP(image(s, 3), &tiles));                                                           \
    }                                                                                                        \
    SAMPLE(NAME##_gaps_gradient)                                                                             \
    {                                                                                                        \
        differentiate(s, OP(image(s, 3), &gaps));                                                            \
    }
POOLS(max_pool, iso_max_pool2d_op)
POOLS(average_pool, iso_average_pool2d_op)

/* ---- volumes: [batch, 5, 4, 3, c] ---- */
static iso_tensor *volume(sample_graph *s, int64_t channels)
{
    return sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 5, 4, 3, channels));
}

static iso_tensor *convolve_slices(sample_graph *s, int64_t stride, int64_t groups)
{
    iso_conv_geometry geometry = {{stride, 1}, {1, 1}, {1, 0}, {0, 1}, groups};
    iso_tensor *x = volume(s, 4);
    return iso_conv2d_op(x, sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(3, 2, 4 / groups, 6)), &geometry);
}

SAMPLE(conv_slices)
{
    convolve_slices(s, 2, 1);
}
SAMPLE(conv_slices_gradient)
{
    differentiate(s, convolve_slices(s, 1, 1));
}
SAMPLE(conv_slices_groups_gradient)
{
    differentiate(s, convolve_slices(s, 2, 2));
}

static const iso_pool_geometry along_one = {{2, 1}, {1, 1}, {0, 0}, {1, 0}},
                               along_both = {{2, 3}, {2, 1}, {1, 0}, {0, 1}};

SAMPLE(max_pool_slices)
{
    iso_max_pool2d_op(volume(s, 2), &along_both);
}
SAMPLE(max_pool_depth)
{
    iso_max_pool2d_along(volume(s, 2), 1, &along_one);
}
SAMPLE(max_pool_depth_gradient)
{
    differentiate(s, iso_max_pool2d_along(volume(s, 2), 1, &along_both));
}
SAMPLE(average_pool_slices)
{
    iso_average_pool2d_op(volume(s, 2), &along_both);
}
SAMPLE(average_pool_depth)
{
    iso_average_pool2d_along(volume(s, 2), 1, &along_both);
}
SAMPLE(average_pool_depth_gradient)
{
    differentiate(s, iso_average_pool2d_along(volume(s, 2), 1, &along_one));
}

static iso_tensor *unfold(sample_graph *s, int axis, int64_t size, int64_t stride, int64_t dilation,
                          int64_t pad)
{
    return iso_unfold_op(volume(s, 2), axis, &(iso_unfold_geometry){size, stride, dilation, pad, 1});
}

SAMPLE(unfold_same)
{
    unfold(s, 1, 3, 1, 1, 1);
}
SAMPLE(unfold_stride)
{
    unfold(s, 1, 2, 2, 1, 0);
}
SAMPLE(unfold_gaps)
{
    unfold(s, 1, 1, 3, 1, 0);
}
SAMPLE(unfold_dilation)
{
    unfold(s, 2, 2, 1, 3, 2);
}
SAMPLE(unfold_same_gradient)
{
    differentiate(s, unfold(s, 1, 3, 1, 1, 1));
}
SAMPLE(unfold_gaps_gradient)
{
    differentiate(s, unfold(s, 1, 1, 3, 1, 0));
}
SAMPLE(unfold_dilation_gradient)
{
    differentiate(s, unfold(s, -2, 2, 1, 2, 2));
}

/* y: [batch, 3, 4, 3, 2] -> [batch, 7, 4, 2] */
static iso_tensor *fold(sample_graph *s)
{
    iso_tensor *y = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 3, 4, 3, 2));
    return iso_fold_op(y, 1, &(iso_unfold_geometry){3, 2, 1, 0, 0}, 7);
}

SAMPLE(fold_overlap)
{
    fold(s);
}
SAMPLE(fold_gradient)
{
    differentiate(s, fold(s));
}

SAMPLE(softmax)
{
    iso_softmax(image(s, 3), -1);
}
SAMPLE(softmax_middle)
{
    iso_softmax(image(s, 3), 1);
}
SAMPLE(log_softmax)
{
    iso_log_softmax(image(s, 3), 2);
}
SAMPLE(softmax_gradient)
{
    differentiate(s, iso_softmax(image(s, 3), -1));
}
SAMPLE(log_softmax_gradient)
{
    differentiate(s, iso_log_softmax(image(s, 3), 2));
}

SAMPLE(argmax_last)
{
    iso_argmax(image(s, 3), -1);
}
SAMPLE(argmax_middle)
{
    iso_argmax(image(s, 3), 1);
}

static iso_tensor *largest(sample_graph *s, iso_shape shape, int k)
{
    return iso_top_k(sample_leaf(s, ISO_F32, -2, 2, shape), k, NULL);
}

SAMPLE(top_k)
{
    largest(s, ISO_SHAPE(ISO_BATCH, 6), 2);
}
SAMPLE(top_k_all)
{
    largest(s, ISO_SHAPE(ISO_BATCH, 4, 5), 5);
}
SAMPLE(top_k_gradient)
{
    differentiate(s, largest(s, ISO_SHAPE(ISO_BATCH, 4, 5), 3));
}

/* x: [batch, 3, 4] or [batch, 4]; experts of 6 hidden features, of which each row takes k. */
static iso_tensor *mix(sample_graph *s, bool sequence, int64_t experts, int64_t k, bool gated,
                       iso_experts_activation activation)
{
    const iso_shape x = sequence ? ISO_SHAPE(ISO_BATCH, 3, 4) : ISO_SHAPE(ISO_BATCH, 4);
    iso_shape choice = x;
    choice.dim[x.rank - 1] = k;
    iso_tensor *rows = sample_leaf(s, ISO_F32, -1, 1, x),
               *index = sample_leaf(s, ISO_I32, 0, (double)experts - 1, choice),
               *share = sample_leaf(s, ISO_F32, 0, 1, choice);
    iso_experts_form form = {.activation = activation};
    if (gated)
        form.gate = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(experts, 4, 6));
    form.up = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(experts, 4, 6));
    form.down = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(experts, 6, 4));
    return iso_experts_op(rows, index, share, &form);
}

SAMPLE(experts)
{
    mix(s, true, 5, 2, true, ISO_EXPERTS_SILU);
}
SAMPLE(experts_plain)
{
    mix(s, false, 3, 1, false, ISO_EXPERTS_GELU);
}
SAMPLE(experts_gradient)
{
    differentiate(s, mix(s, true, 5, 2, true, ISO_EXPERTS_SILU));
}
SAMPLE(experts_gradient_tanh)
{
    differentiate(s, mix(s, false, 9, 3, true, ISO_EXPERTS_GELU_TANH));
}
SAMPLE(experts_plain_gradient)
{
    differentiate(s, mix(s, false, 3, 1, false, ISO_EXPERTS_GELU));
}
SAMPLE(experts_relu_gradient)
{
    differentiate(s, mix(s, true, 4, 2, false, ISO_EXPERTS_RELU));
}

SAMPLE(in_top_k)
{
    iso_tensor *predictions = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 6));
    iso_in_top_k(predictions, sample_leaf(s, ISO_I32, 0, 5, ISO_SHAPE(ISO_BATCH)), 3);
}
SAMPLE(in_top_k_rows)
{
    iso_tensor *predictions = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 6));
    iso_in_top_k(predictions, sample_leaf(s, ISO_I32, 0, 5, ISO_SHAPE(ISO_BATCH, 2)), 2);
}

static iso_tensor *sparse(sample_graph *s)
{
    iso_tensor *labels = sample_leaf(s, ISO_I32, 0, 5, ISO_SHAPE(ISO_BATCH, 2));
    return iso_sparse_crossentropy_op(labels, sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 6)));
}

static iso_tensor *dense(sample_graph *s)
{
    iso_tensor *labels = sample_leaf(s, ISO_F32, 0, 1, ISO_SHAPE(ISO_BATCH, 6));
    return iso_crossentropy_op(iso_stop_gradient(labels),
                               sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 6)));
}

SAMPLE(sparse_loss)
{
    sparse(s);
}
SAMPLE(sparse_loss_gradient)
{
    differentiate(s, sparse(s));
}
SAMPLE(dense_loss)
{
    dense(s);
}
SAMPLE(dense_loss_gradient)
{
    differentiate(s, dense(s));
}

/* the statistics of x itself */
static iso_tensor *batch_norm(sample_graph *s, bool scaled)
{
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 3)), *mean, *variance;
    iso_tensor *gamma = scaled ? sample_leaf(s, ISO_F32, 0.5, 2, ISO_SHAPE(3)) : NULL;
    iso_tensor *beta = scaled ? sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(3)) : NULL;
    iso_batch_moments(x, &mean, &variance);
    return iso_batch_norm_op(x, mean, variance, gamma, beta, 1e-3);
}

SAMPLE(norm)
{
    batch_norm(s, true);
}
SAMPLE(norm_plain)
{
    batch_norm(s, false);
}
SAMPLE(norm_gradient)
{
    differentiate(s, batch_norm(s, true));
}
SAMPLE(norm_plain_gradient)
{
    differentiate(s, batch_norm(s, false));
}

/* statistics that are kept: no gradient runs through them */
SAMPLE(norm_kept)
{
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 3));
    iso_tensor *mean = sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(3)),
               *variance = sample_leaf(s, ISO_F32, 0.5, 2, ISO_SHAPE(3));
    iso_batch_norm_op(x, iso_stop_gradient(mean), iso_stop_gradient(variance), NULL, NULL, 1e-3);
}

SAMPLE(moments)
{
    iso_tensor *mean, *variance;
    iso_batch_moments(image(s, 3), &mean, &variance);
}

SAMPLE(moments_gradient)
{
    iso_tensor *mean, *variance;
    iso_batch_moments(image(s, 3), &mean, &variance);
    differentiate(s, iso_multiply(mean, variance));
}

static iso_tensor *layer_norm(sample_graph *s, bool scaled)
{
    iso_tensor *x = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 4));
    iso_tensor *gamma = scaled ? sample_leaf(s, ISO_F32, 0.5, 2, ISO_SHAPE(4)) : NULL;
    iso_tensor *beta = scaled ? sample_leaf(s, ISO_F32, -1, 1, ISO_SHAPE(4)) : NULL;
    return iso_layer_norm_op(x, gamma, beta, 1e-3);
}

SAMPLE(layer)
{
    layer_norm(s, true);
}
SAMPLE(layer_plain)
{
    layer_norm(s, false);
}
SAMPLE(layer_gradient)
{
    differentiate(s, layer_norm(s, true));
}
SAMPLE(rms_gradient)
{
    iso_tensor *gamma = sample_leaf(s, ISO_F32, 0.5, 2, ISO_SHAPE(4));
    differentiate(s,
                  iso_rms_norm_op(sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 2, 4)), gamma, 1e-3));
}

static iso_tensor *embed(sample_graph *s)
{
    iso_tensor *table = sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(7, 3));
    return iso_embedding_op(table, sample_leaf(s, ISO_I32, 0, 6, ISO_SHAPE(ISO_BATCH, 4)));
}

SAMPLE(embedding)
{
    embed(s);
}
SAMPLE(embedding_gradient)
{
    differentiate(s, embed(s));
}
SAMPLE(embedding_gradient_added)
{
    iso_embedding_attrs attrs = {.rows = 7};
    iso_op_3(&iso_op_embedding_grad_add, sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(7, 3)),
             sample_leaf(s, ISO_I32, 0, 6, ISO_SHAPE(ISO_BATCH, 4)),
             sample_leaf(s, ISO_F32, -2, 2, ISO_SHAPE(ISO_BATCH, 4, 3)), &attrs);
}
SAMPLE(dropout)
{
    iso_dropout_op(image(s, 3), 0.4, "dropout");
}

const sample network_samples[] = {
    {"conv2d", conv},
    {"conv2d", conv_stride},
    {"conv2d", conv_dilation},
    {"conv2d", conv_groups},
    {"conv2d", conv_gaps},
    {"conv2d", conv_channelwise},
    {"conv2d", conv_channelwise_times3},
    {"conv2d", conv_few_groups},
    {"conv2d", conv_blocks},
    {"conv2d", conv_shift},
    {"conv2d", conv_far},
    {"conv2d_grad_input", conv_gradient},
    {"conv2d_grad_input", conv_stride_gradient},
    {"conv2d_grad_input", conv_groups_gradient},
    {"conv2d_grad_input", conv_gaps_gradient},
    {"conv2d_grad_input", conv_channelwise_gradient},
    {"conv2d_grad_input", conv_channelwise_times3_gradient},
    {"conv2d_grad_input", conv_few_groups_gradient},
    {"conv2d_grad_input", conv_blocks_gradient},
    {"conv2d_grad_input", conv_shift_gradient},
    {"conv2d_grad_input", conv_far_gradient},
    {"conv2d_grad_kernel", conv_gradient},
    {"conv2d_grad_kernel", conv_stride_gradient},
    {"conv2d_grad_kernel", conv_groups_gradient},
    {"conv2d_grad_kernel", conv_gaps_gradient},
    {"conv2d_grad_kernel", conv_channelwise_gradient},
    {"conv2d_grad_kernel", conv_channelwise_times3_gradient},
    {"conv2d_grad_kernel", conv_few_groups_gradient},
    {"conv2d_grad_kernel", conv_blocks_gradient},
    {"conv2d_grad_kernel", conv_shift_gradient},
    {"conv2d_grad_kernel", conv_far_gradient},
    {"conv2d", conv_slices},
    {"conv2d_grad_input", conv_slices_gradient},
    {"conv2d_grad_input", conv_slices_groups_gradient},
    {"conv2d_grad_kernel", conv_slices_gradient},
    {"conv2d_grad_kernel", conv_slices_groups_gradient},
    {"unfold", unfold_same},
    {"unfold", unfold_stride},
    {"unfold", unfold_gaps},
    {"unfold", unfold_dilation},
    {"unfold", fold_gradient},
    {"fold", fold_overlap},
    {"fold", unfold_same_gradient},
    {"fold", unfold_gaps_gradient},
    {"fold", unfold_dilation_gradient},
    {"max_pool2d", max_pool_slices},
    {"max_pool2d", max_pool_depth},
    {"max_pool2d_grad", max_pool_depth_gradient},
    {"average_pool2d", average_pool_slices},
    {"average_pool2d", average_pool_depth},
    {"average_pool2d_grad", average_pool_depth_gradient},
    {"max_pool2d", max_pool},
    {"max_pool2d", max_pool_tiles},
    {"max_pool2d", max_pool_gaps},
    {"max_pool2d_grad", max_pool_gradient},
    {"max_pool2d_grad", max_pool_tiles_gradient},
    {"max_pool2d_grad", max_pool_gaps_gradient},
    {"average_pool2d", average_pool},
    {"average_pool2d", average_pool_tiles},
    {"average_pool2d", average_pool_gaps},
    {"average_pool2d_grad", average_pool_gradient},
    {"average_pool2d_grad", average_pool_tiles_gradient},
    {"average_pool2d_grad", average_pool_gaps_gradient},
    {"upsample_linear", upsample_2x3},
    {"upsample_linear", upsample_1x4},
    {"upsample_linear_grad", upsample_2x3_gradient},
    {"upsample_linear_grad", upsample_5x1_gradient},
    {"band", band_causal},
    {"band", band_window},
    {"band", band_both},
    {"band", band_gradient},
    {"rotary", rotary},
    {"rotary", rotary_inner},
    {"rotary", rotary_gradient},
    {"recurrence", lstm_recurrence},
    {"recurrence", lstm_recurrence_more},
    {"recurrence", lstm_recurrence_masked},
    {"recurrence", lstm_recurrence_once},
    {"recurrence", lstm_recurrence_once_more},
    {"recurrence_grad", lstm_recurrence_gradient},
    {"recurrence_grad", lstm_recurrence_gradient_more},
    {"recurrence_grad", lstm_recurrence_gradient_masked},
    {"recurrence", lstm_images},
    {"recurrence", gru_images_more},
    {"recurrence_grad", lstm_images_gradient},
    {"recurrence_grad", gru_images_gradient},
    {"recurrence_grad", simple_images_gradient},
    {"recurrence", gru_recurrence},
    {"recurrence", gru_recurrence_more},
    {"recurrence", gru_recurrence_masked},
    {"recurrence", gru_recurrence_once},
    {"recurrence", gru_recurrence_once_more},
    {"recurrence_grad", gru_recurrence_gradient},
    {"recurrence_grad", gru_recurrence_gradient_more},
    {"recurrence_grad", gru_recurrence_gradient_masked},
    {"recurrence", simple_recurrence},
    {"recurrence", simple_recurrence_more},
    {"recurrence", simple_recurrence_masked},
    {"recurrence", simple_recurrence_once},
    {"recurrence", simple_recurrence_once_more},
    {"recurrence_grad", simple_recurrence_gradient},
    {"recurrence_grad", simple_recurrence_gradient_more},
    {"recurrence_grad", simple_recurrence_gradient_masked},
    {"warp", warp_reflected},
    {"warp", warp_wrapped},
    {"warp", warp_filled},
    {"warp", warp_pixels},
    {"warp_grad", warp_reflected_gradient},
    {"warp_grad", warp_wrapped_gradient},
    {"warp_grad", warp_filled_gradient},
    {"warp_grad", warp_pixels_gradient},
    {"uniform", uniform},
    {"uniform", uniform_cosine},
    {"uniform", uniform_sine},
    {"gaussian_noise", noise},
    {"gaussian_noise", noise_gradient},
    {"top_k", top_k},
    {"top_k", top_k_all},
    {"top_k_grad", top_k_gradient},
    {"experts", experts},
    {"experts", experts_plain},
    {"experts_grad", experts_gradient},
    {"experts_grad", experts_gradient_tanh},
    {"experts_grad", experts_plain_gradient},
    {"experts_grad", experts_relu_gradient},
    {"attention", attention},
    {"attention", attention_causal},
    {"attention", attention_window},
    {"attention", attention_mask},
    {"attention", attention_cap},
    {"attention", attention_key_mask},
    {"attention", attention_query_mask},
    {"attention", attention_added_mask},
    {"attention", attention_dropout},
    {"attention_grad", attention_gradient},
    {"attention_grad", attention_causal_gradient},
    {"attention_grad", attention_window_gradient},
    {"attention_grad", attention_mask_gradient},
    {"attention_grad", attention_cap_gradient},
    {"attention_grad", attention_dropout_gradient},
    {"attention_grad", attention_key_mask_gradient},
    {"attention_grad", attention_query_mask_gradient},
    {"attention_grad", attention_row_mask_gradient},
    {"attention_grad", attention_added_mask_gradient},
    {"softmax", softmax},
    {"softmax", softmax_middle},
    {"log_softmax", log_softmax},
    {"softmax_grad", softmax_gradient},
    {"log_softmax_grad", log_softmax_gradient},
    {"argmax", argmax_last},
    {"argmax", argmax_middle},
    {"in_top_k", in_top_k},
    {"in_top_k", in_top_k_rows},
    {"sparse_crossentropy", sparse_loss},
    {"sparse_crossentropy_grad", sparse_loss_gradient},
    {"crossentropy", dense_loss},
    {"crossentropy_grad", dense_loss_gradient},
    {"batch_moments", moments},
    {"moments_finish", moments},
    {"moments_finish_grad", moments_gradient},
    {"batch_norm", norm},
    {"batch_norm", norm_plain},
    {"batch_norm", norm_kept},
    {"batch_norm_grad_sums", norm_gradient},
    {"batch_norm_grad_sums", norm_plain_gradient},
    {"batch_norm_grad", norm_gradient},
    {"batch_norm_grad", norm_plain_gradient},
    {"layer_norm", layer},
    {"layer_norm", layer_plain},
    {"layer_norm_grad", layer_gradient},
    {"layer_norm_grad_sums", layer_gradient},
    {"layer_norm", rms_gradient},
    {"layer_norm_grad", rms_gradient},
    {"layer_norm_grad_sums", rms_gradient},
    {"embedding", embedding},
    {"embedding_grad", embedding_gradient},
    {"embedding_grad_add", embedding_gradient_added},
    {"dropout", dropout},
    {NULL, NULL},
};
