// clang-format off
/* The ops of networks: names, inputs, outputs and attributes, for those who write their kernels.
 *
 * Sizes come from the arrays of a call, never from the attributes: a slot may hold a part of the rows and, if the
 * rule allows it, of the channels. Types: F32 or F64, one for all arrays of a call, unless stated otherwise.
 * "c*" marks a dimension that every slot holds whole.
 * A slot may hold a part of height and width: some window positions, and of x at least what these read. Its
 * gradient of x then has what these positions add to it.
 *
 * ---- convolutions (iso_conv_attrs) ----
 * Tap (i, j) of position (p, q) reads row p * stride - pad_before + i * dilation of x, and likewise the columns;
 * outside x are zeros. Group g maps channels [g c/G, (g+1) c/G) to filters [g f/G, (g+1) f/G); a slot may have
 * some of the groups. Tensors may have more dimensions between n and h; kernels see them as part of n.
 *   conv2d              x [n, h, w, c], kernel [r, s, c/G, f] -> y [n, h', w', f]
 *   conv2d_grad_input   kernel [r, s, c/G, f], dy [n, h', w', f] -> dx [n, h, w, c]
 *   conv2d_grad_kernel  x [n, h, w, c], dy [n, h', w', f] -> dkernel [r, s, c/G, f], summed over n
 *
 * ---- pools (iso_pool_attrs) ----
 * over dimensions `axis` and `axis` + 1 of tensors of any rank; kernels see what is before them as n, and what is
 * after them as c.
 *   max_pool2d          x [n, h, w, c] -> y [n, h', w', c], the largest element of the window inside x; NaN if
 *                       one is NaN
 *   max_pool2d_grad     x, y, dy -> dx. dy goes to the first element of its window, row by row, that is not less
 *                       than y (XLA's select-and-scatter with GE); overlapping windows add up
 *   average_pool2d      x -> y, the mean of the window's elements inside x
 *   average_pool2d_grad dy [n, h', w', c] -> dx [n, h, w, c]
 *
 * ---- windows along a dimension (iso_unfold_attrs)
 *   unfold              x [..., d, ..., c] -> y [..., d', ..., k, c], d and d' at `axis`: element i of window p is
 *                       element p * stride - pad_before + i * dilation of x along the axis; outside x are zeros
 *   fold                dy [..., d', ..., k, c] -> dx [..., d, ..., c]: each element of the windows added to that of
 *                       dx from which unfold takes it, in the order of i
 *
 * ---- enlarged images (iso_upsample_attrs): s, t times; a reshape joins the last dimensions of y
 *   upsample_linear      x [n, h, w, c] -> y [n, h, s*, w, t*, c]. Along the height, element (i, j) is at i + (j +
 *                        0.5) / s - 0.5 in units of x's rows: it is interpolated between the centres of two rows, and
 *                        beyond the first or last centre equals that row; likewise along the width
 *   upsample_linear_grad dy [n, h, s*, w, t*, c] -> dx [n, h, w, c]
 *
 * ---- images moved by maps (iso_warp_attrs); graph.h says what a map is
 *   warp                x [n, h*, w*, c], maps [n, 6*] (F32 if x is BF16) -> y [n, h'*, w'*, c]: the sum of the
 *                       pixels of iso_warp_taps_of by their shares; one whose share is 0 is not read
 *   warp_grad           maps [n, 6*], dy [n, h'*, w'*, c] -> dx [n, h*, w*, c]
 *
 * ---- a band of a matrix (iso_band_attrs)
 *   band                x [..., t, s] -> y = x at s <= t if causal, and |t - s| < window if window > 0, in global
 *                       indices; fill elsewhere
 *
 * ---- positions (iso_rotary_attrs)
 *   rotary              x [..., t, ..., c*] -> y: at global position p of dimension `axis`, elements i and i + c / 2
 *                       of the last dimension are turned by the angle p iso_rotary_frequency(i), computed in double;
 *                       a negative `scaling` turns the other way
 *
 * ---- attention (iso_attention_attrs): scores are scale q k', with a cap cap tanh(scale q k' / cap), and `band.fill`
 * (if adds: more by it) outside the band and where a mask is 0; weights are their softmax over s, then 0 where a mask
 * is 0 if zero_masked, then dropout of a tensor [..., heads, t, s]. Masks are ISO_BOOL; each dimension of theirs may
 * be 1, which stands for all ----
 *   attention           q [..., t, heads, k*], k [..., s*, heads, k*], v [..., s*, heads, v], a mask
 *                       [batch, heads, t, s*] if has_mask, one [batch, heads, t, 1] if has_query_mask ->
 *                       y [..., t, heads, v], the sums of v by the weights
 *   attention_grad      q, k, v, the masks, dy -> dq, dk, dv
 *
 * ---- experts (iso_experts_attrs): a slot may hold some of the experts e, of which it computes the rows that chose
 * them, and some of the hidden features h. A choice c that is not an integer in 0..e-1, e global, is
 * iso_index_fault(.., e) and counts as none ----
 *   experts             x [..., d*], choice [..., k*] (I32, I64, U8, F32, F64), share [..., k*], gate [e, d*, h] if
 *                       gated, up [e, d*, h], down [e, h, d*] -> y [..., d*], the sum over i of share[i] a
 *                       down[c[i]], where a = activation(x gate[c[i]]) * (x up[c[i]]), or activation(x up[c[i]])
 *   experts_grad        the inputs, dy -> dx, dshare, dgate if gated, dup, ddown
 *
 * ---- the largest elements (iso_top_k_attrs): iso_top_k_before is the order
 *   top_k               x [..., c*] -> values [..., k*], I32 indices [..., k*]
 *   top_k_grad          index [..., k*], dvalues [..., k*] -> dx [..., c*]: at each index its element of dvalues, and
 *                       0 elsewhere. An index that is not an integer in 0..c-1 is iso_index_fault(.., c), and adds
 *                       nothing
 *
 * ---- recurrent layers (iso_recurrence_attrs): graph.h has the formulas. g gates: 4 of LSTM, 3 of GRU, else 1 ----
 * A state that is carried from step to step is of the type of the computation, and rounded only where it is stored.
 *   recurrence          x [batch, t*, g u*], kernel [u*, g u*], bias [g u*] if has_bias, h0 [batch, u*] if
 *                       has_state, and c0 of LSTM, a mask of ISO_BOOL [batch, t*] if has_mask -> h [batch, t*, u*];
 *                       then gates [batch, t*, 4 u*], of LSTM s(i), s(f), a(g), s(o), of GRU z, q, n, rn; then of
 *                       LSTM c, as h. Where the mask is 0, h and c are those of the step before, and the gates 0
 *   recurrence_grad     kernel, h0 if has_state, and c0, the mask if has_mask; the outputs above; dh, dc of LSTM if
 *                       has_dc -> dx [batch, t*, g u*]; GRU: dr, as dx; dh0 if has_state, and dc0. dr is the gradient
 *                       of r = h' kernel + bias, which is dx in the other cells: the gradients of kernel and bias
 *                       follow from it. Where the mask is 0, dx and dr are 0
 *   both                with a kernel [r, s, u*, g u*], convolutions (iso_recurrence_geometry) in place of the
 *                       products, and dimensions h*, w* before the last one of all arrays but kernel, bias and mask
 *
 * ---- softmax (iso_softmax_attrs), along an axis that is whole ----
 *   softmax             x -> y
 *   log_softmax         x -> y = x - max - log(sum(exp(x - max)))
 *   softmax_grad        y, dy -> dx = y (dy - sum(y dy))
 *   log_softmax_grad    y, dy -> dx = dy - exp(y) sum(dy)
 *
 * ---- cross-entropy from logits (no attributes) ----
 * A label that is not an integer in 0..c-1 is iso_index_fault(.., c), loss 0 and gradient 0.
 *   sparse_crossentropy       labels [...] (I32, I64, U8, F32, F64), logits [..., c*] ->
 *                             loss [...] = log(sum(exp(x - max))) + max - x[label]
 *   sparse_crossentropy_grad  labels, logits, dloss [...] -> dlogits = (softmax(x) - onehot(label)) dloss
 *   crossentropy              labels t [..., c*], logits [..., c*] -> loss [...] = -sum(t log_softmax(x)); terms
 *                             with t = 0 are 0
 *   crossentropy_grad         labels, logits, dloss -> dlogits = (softmax(x) sum(t) - t) dloss
 *
 * ---- the same over sharded classes (iso_class_attrs): the ops by which the partitioner replaces the ops above,
 * argmax and in_top_k if their axis is sharded (iso_op_type.decompose). Along the axis, x has the classes of
 * the slot's part, possibly none, and a "row" has one element: x [.., c, ..], row [.., 1, ..]. Sums and maxima
 * over the classes are taken over those of the part, and then over slots.
 *   class_max           x (any type) -> row, the largest element that is not NaN; if there is none, the
 *                       least of the type (of floats -inf)
 *   class_first         x, max -> row I32, minus the first class, counted from 0 over all parts, at which x is
 *                       max; INT32_MIN if the part has none; 0 if class 0 is NaN (as in argmax)
 *   class_above         x, value -> row F64, the number of elements above the value; inf if an element or the
 *                       value is not finite
 *   class_pick          labels [...] (I32, I64, U8, F32, F64), x [..., c] -> row, x[label] if the label is in the
 *                       part, else 0. A label that is not a class is iso_index_fault and 0,
 *                       or with `lenient` NaN
 *   class_sum_exp       x, max -> row, sum(exp(x - max))
 *   class_softmax       x, max, sum -> y = exp(x - max) / sum
 *   class_log_softmax   x, max, sum -> y = x - max - log(sum)
 *   class_loss          labels t [..., c], x [..., c], max, sum -> row, -sum(t (x - max - log(sum))); terms with
 *                       t = 0 are 0
 *   class_grad          labels t, x, max, sum, sum(t) as a row, dloss [...] -> (exp(x - max) / sum sum(t) - t) dloss
 *   class_sparse_grad   labels [...], x, max, sum, dloss [...] -> (exp(x - max) / sum - onehot(label)) dloss; a wrong
 *                       label as in sparse_crossentropy_grad
 *
 * ---- normalisation: the last dimension is the channel; rstd = 1 / sqrt(variance + epsilon) ----
 *   batch_moments        x [..., c] -> sum [c], sum of squares [c]: F64, accumulated in double (no attributes)
 *   moments_finish       sum [c], sum of squares [c] -> mean, variance, all F64 (iso_moments_attrs), with
 *                        variance = max(0, squares / count - mean^2), count = iso_moments_count()
 *   moments_finish_grad  mean, dmean, dvariance -> dsum, dsquares, all F64 [c] (iso_moments_attrs)
 *   batch_norm           x [..., c], mean [c], variance [c] (both F32 or both F64), gamma [c] if has_gamma,
 *                        beta [c] if has_beta -> y = (x - mean) rstd gamma + beta, then the activation
 *                        (iso_batch_norm_attrs, as the next two)
 *   batch_norm_grad_sums x, dy, mean, variance -> sum(dy) [c], sum(dy xhat) [c]: F64; xhat = (x - mean) rstd.
 *                        With an activation: then gamma if has_gamma, beta if has_beta; dy is the gradient after the
 *                        activation
 *   batch_norm_grad      x, dy, mean, variance, sum(dy), sum(dy xhat), gamma if has_gamma -> dx = gamma rstd (dy
 *                        - sum(dy) / count - xhat sum(dy xhat) / count), count = iso_moments_count(&moments).
 *                        With an activation: then beta if has_beta
 *   layer_norm           x [..., c*], gamma [c*] if has_gamma, beta [c*] if has_beta -> y (iso_layer_norm_attrs,
 *                        as the next two)
 *                        with residual also r: y of x + r, and x + r; with rms x / sqrt(mean(x^2) + epsilon) gamma
 *   layer_norm_grad      x, dy, gamma if has_gamma -> dx; with residual also r: dx + r
 *   layer_norm_grad_sums x, dy -> dgamma [c*], dbeta [c*], of x's type, accumulated in double
 *   The decomposition of layer normalisation for sharded channels (iso_op_type.decompose; iso_layer_norm_attrs,
 *   except the first). x [..., c] has the channels of the slot's part, a row [..., 1] is F64; mean and variance
 *   are computed from the rows' sums over all channels. With rms, the mean and sum(dy gamma) count as 0:
 *   layer_moments        x -> sum, sum of squares: rows
 *   layer_scale          x, sum, squares, gamma [c] if has_gamma, beta [c] if has_beta -> y
 *   layer_grad_sums      x, dy, sum, squares, gamma if has_gamma -> sum(dy gamma), sum(dy gamma xhat): rows
 *   layer_grad           x, dy, sum, squares, the two of layer_grad_sums, gamma if has_gamma -> dx
 *   layer_weight_sums    x, dy, sum, squares -> dgamma [c], dbeta [c], of x's type, accumulated in double
 *
 * ---- indices and random numbers ----
 *   embedding            table [v, d], index [...] (I32, I64, U8, F32, F64) -> y [..., d] (no attributes). A slot
 *                        may hold rows [offset, offset + extent) of the table; other rows give zeros. An index that
 *                        is not an integer in 0..v-1, v global, is iso_index_fault(.., v), and zeros
 *   embedding_grad       index [...], dy [..., d] -> dtable [v, d] (iso_embedding_attrs): only the rows in
 *                        the output's box; a wrong index adds nothing and is the same fault
 *   embedding_grad_add   dtable [v, d], index, dy -> dtable + the sum that embedding_grad makes of these; only made
 *                        by the planner, for float32 and float64
 *   dropout              x -> y (iso_dropout_attrs). Element i, the row-major index in the GLOBAL tensor, is kept
 *                        iff iso_random_word(key, info->step, i) >> 8 >= threshold, and is then x * (type)scale;
 *                        the others are 0. That word is word i % 4 of block i / 4. The gradient is dropout of dy
 *   gaussian_noise       x -> x + stddev * z (iso_noise_attrs); for element i, as above, z is number i % 4 of
 *                        iso_random_normals(key, info->step, i / 4), computed in double
 *   uniform              x -> iso_uniform_number (iso_uniform_attrs) of iso_random_word(key, info->step, i), for
 *                        element i as above */
// clang-format on
#ifndef ISO_GRAPH_OPS_NETWORK_H
#define ISO_GRAPH_OPS_NETWORK_H

#include <math.h>

#include "runtime/base/host_device.h"
#include "runtime/graph/op.h"
#include "runtime/graph/ops/attrs.h"

typedef struct iso_conv_attrs {
    iso_conv_geometry geometry;
    /* size > 0: x and its gradient are volumes [n, .., d, h, w, c], of which windows along d are taken as by unfold,
     * and added as by fold; the kernel is [r, s, size * c, f]. Only made by the planner, for float32 */
    iso_unfold_geometry depth;
    iso_shape shape; /* conv2d_grad_input: of x; conv2d_grad_kernel: of the kernel; global */
} iso_conv_attrs;

typedef struct iso_pool_attrs {
    iso_pool_geometry geometry;
    int64_t axis;    /* of the first of the two dimensions */
    iso_shape shape; /* average_pool2d_grad: of x; global */
} iso_pool_attrs;

typedef struct iso_unfold_attrs {
    iso_unfold_geometry geometry;
    int64_t axis;
    int64_t extent; /* of x along the axis; global */
} iso_unfold_attrs;

typedef struct iso_upsample_attrs {
    int64_t times[2];
} iso_upsample_attrs;

/* A position along one dimension of an image, between elements low and high. */
typedef struct iso_between {
    int64_t low, high;
    double share; /* weight of high; 0 if both are the same element */
} iso_between;

/* Where element (i, j) of an enlarged image lies, in global indices, along a dimension of which the image has
 * elements 0 to `last`. */
ISO_HOST_DEVICE static inline iso_between iso_upsample_position(int64_t i, int64_t j, int64_t times,
                                                                int64_t last)
{
    double at = ((double)j + 0.5) / (double)times - 0.5;
    int64_t below = at < 0 ? i - 1 : i;
    iso_between b = {below < 0 ? 0 : below, below < last ? below + 1 : last, at < 0 ? at + 1 : at};
    if (b.low == b.high)
        b.share = 0;
    return b;
}

/* Exactly `low` between equal elements, as in Keras. */
ISO_HOST_DEVICE static inline double iso_interpolate(double low, double high, double share)
{
    return low == high ? low : low + share * (high - low);
}

typedef struct iso_band_attrs {
    double fill;
    int64_t window; /* 0: none */
    int64_t causal; /* 0 or 1 */
} iso_band_attrs;

/* The columns [*begin, *end) of a row of [.., rows, columns] that are in the band; begin = end: none. */
ISO_HOST_DEVICE static inline void iso_band_columns(const iso_band_attrs *band, int64_t row, int64_t columns,
                                                    int64_t *begin, int64_t *end)
{
    int64_t first = band->window > 0 ? row - band->window + 1 : 0;
    int64_t after = band->causal ? row + 1 : band->window > 0 ? row + band->window : columns;
    *begin = first < 0 ? 0 : first < columns ? first : columns;
    *end = after < *begin ? *begin : after < columns ? after : columns;
}

typedef struct iso_rotary_attrs {
    double wavelength; /* times 2 pi it is nearly the longest wave, in positions */
    double scaling;    /* of positions, which are divided by it; the gradient has the negative number */
    int64_t axis;      /* of the positions */
    iso_rotary_stretch stretch;
} iso_rotary_attrs;

#define ISO_TWO_PI 6.28318530717958647693

/* The share of a frequency, the angle of a position further, that is as it was. */
static inline double iso_rotary_kept(const iso_rotary_stretch *s, double frequency)
{
    const double waves = s->context * frequency / ISO_TWO_PI; /* in the context */
    return fmin(fmax((waves - s->low) / (s->high - s->low), 0), 1);
}

/* The pair, as a real number, that has `waves` waves in the context. */
static inline double iso_rotary_pair_of(const iso_rotary_attrs *attrs, double waves, int64_t features)
{
    return (double)features * log(attrs->stretch.context / (waves * ISO_TWO_PI)) /
           (2 * log(attrs->wavelength));
}

/* The same of YaRN; the least distance of the two ends is that of transformers. */
static inline double iso_rotary_kept_by_yarn(const iso_rotary_attrs *attrs, int64_t pair, int64_t features)
{
    const double first = fmax(floor(iso_rotary_pair_of(attrs, attrs->stretch.high, features)), 0);
    const double last =
        fmin(ceil(iso_rotary_pair_of(attrs, attrs->stretch.low, features)), (double)(features - 1));
    const double distance = last == first ? 0.001 : last - first;
    return 1 - fmin(fmax(((double)pair - first) / distance, 0), 1);
}

/* The angle of a position further, for pair `pair` of an even number of features. */
static inline double iso_rotary_frequency(const iso_rotary_attrs *attrs, int64_t pair, int64_t features)
{
    const iso_rotary_stretch *s = &attrs->stretch;
    const double frequency = pow(attrs->wavelength, -2.0 * (double)pair / (double)features);
    if (s->factor == 0)
        return frequency / attrs->scaling;
    const double kept =
        s->yarn ? iso_rotary_kept_by_yarn(attrs, pair, features) : iso_rotary_kept(s, frequency);
    return ((1 - kept) / s->factor + kept) * frequency / attrs->scaling;
}

typedef struct iso_recurrence_attrs {
    iso_recurrence_form form;
    bool has_bias, has_state;
    bool has_dc; /* of the gradient */
    bool has_mask;
} iso_recurrence_attrs;

/* The convolution of the state with a kernel [r, s, u, g u]: zeros around the image, the further one after it, so
 * that there is a window for each pixel. */
static inline iso_conv_geometry iso_recurrence_geometry(const int64_t *kernel)
{
    iso_conv_geometry same = {{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1};
    for (int i = 0; i < 2; i++) {
        same.pad_before[i] = (kernel[i] - 1) / 2;
        same.pad_after[i] = kernel[i] - 1 - same.pad_before[i];
    }
    return same;
}

/* Whether element i, x, comes before element j, y, among the largest of a row. */
ISO_HOST_DEVICE static inline bool iso_top_k_before(double x, int64_t i, double y, int64_t j)
{
    const bool x_is_nan = x != x, y_is_nan = y != y;
    if (x_is_nan != y_is_nan)
        return x_is_nan;
    return x > y || (i < j && (x == y || x_is_nan));
}

/* The activation is relu, gelu, gelu by tanh or silu. */
typedef struct iso_experts_attrs {
    iso_unary_kind activation;
    bool gated;
} iso_experts_attrs;

/* The number of gates, g. */
ISO_HOST_DEVICE static inline int64_t iso_cell_gates(iso_cell cell)
{
    return cell == ISO_CELL_LSTM ? 4 : cell == ISO_CELL_GRU ? 3 : 1;
}

typedef struct iso_noise_attrs {
    uint64_t key; /* iso_random_key(seed of the graph, path) */
    double stddev;
} iso_noise_attrs;

typedef struct iso_uniform_attrs {
    uint64_t key; /* iso_random_key(seed of the graph, path) */
    double low, high;
    iso_uniform_function function;
} iso_uniform_attrs;

typedef struct iso_warp_attrs {
    int64_t size[2], from[2]; /* height and width of y and of x */
    iso_fill_mode fill_mode;
    bool nearest;
    double fill_value;
} iso_warp_attrs;

typedef struct iso_softmax_attrs {
    int axis; /* not negative */
} iso_softmax_attrs;

typedef struct iso_class_attrs {
    int axis;    /* of the classes in x; the last for the ops with labels */
    int lenient; /* class_pick, 1: a label outside the classes gives NaN and is no fault */
} iso_class_attrs;

/* The number of elements of a channel in the global batch: per_row times the rows, or only per_row. */
typedef struct iso_moments_attrs {
    int64_t per_row;
    bool times_rows; /* x has a batch dimension */
} iso_moments_attrs;

ISO_HOST_DEVICE static inline double iso_moments_count(const iso_moments_attrs *attrs, int64_t rows)
{
    return (double)attrs->per_row * (attrs->times_rows ? (double)rows : 1.0);
}

typedef enum iso_fused_activation {
    ISO_FUSED_NONE = 0,
    ISO_FUSED_RELU,
} iso_fused_activation;

typedef struct iso_batch_norm_attrs {
    double epsilon;
    bool has_gamma, has_beta;
    iso_fused_activation activation; /* set by a pass that follows autodiff, never by the builder */
    double largest;                  /* of the activation's results; infinity: they have no limit */
    iso_moments_attrs moments;       /* batch_norm_grad alone: the count after mean and variance */
} iso_batch_norm_attrs;

typedef struct iso_layer_norm_attrs {
    double epsilon;
    bool has_gamma, has_beta;
    bool rms;      /* divides by the root of the mean square: nothing is subtracted */
    bool residual; /* set by the planner: the last input is added to x, or to dx */
} iso_layer_norm_attrs;

typedef struct iso_embedding_attrs {
    int64_t rows; /* v, global */
} iso_embedding_attrs;

typedef struct iso_dropout_attrs {
    uint64_t key;       /* iso_random_key(seed of the graph, path) */
    uint32_t threshold; /* ceil(rate * 2^24) */
    double scale;       /* 1 / (1 - rate); 0 if rate is 1 */
} iso_dropout_attrs;

typedef struct iso_attention_attrs {
    double scale;              /* of the products of queries and keys */
    iso_band_attrs band;       /* fill: the score of what is masked */
    iso_dropout_attrs dropout; /* of the weights; threshold 0: none */
    bool has_mask, zero_masked;
    double cap; /* of the scores; 0: none */
    bool has_query_mask, adds;
} iso_attention_attrs;

#endif
