/* The ops of networks: names, inputs, outputs and attributes, for those who write their kernels. Not for
 * users.
 *
 * Sizes come from the arrays of a call, never from the attributes: a slot may hold a part of the rows and,
 * where a rule leaves them free, of the channels. Types: F32 or F64, one for all arrays of a call, unless a
 * line says otherwise. "c*" marks a dimension that every slot holds whole; height and width always are.
 *
 * name                     inputs -> outputs (attributes)
 *
 * convolutions (iso_conv_attrs), out_y * stride - pad_before + r * dilation being the row that tap r meets;
 * taps outside x meet zeros; group g maps channels [g c/G, (g+1) c/G) to filters [g f/G, (g+1) f/G); with G >
 * 1 c and f are whole conv2d                 x [n, h, w, c], kernel [r, s, c/G, f] -> y [n, h', w', f]
 *   conv2d_grad_input      kernel [r, s, c/G, f], dy [n, h', w', f] -> dx [n, h, w, c]
 *   conv2d_grad_kernel     x [n, h, w, c], dy [n, h', w', f] -> dkernel [r, s, c/G, f], summed over n
 *
 * pools (iso_pool_attrs)
 *   max_pool2d             x [n, h, w, c] -> y [n, h', w', c]: the largest of the window's elements inside x;
 * NaN if any is max_pool2d_grad        x, y, dy -> dx: dy goes to the first element of its window (row by
 * row) that is not less than y, as XLA's select-and-scatter with GE has it; windows that overlap add up
 *   average_pool2d         x -> y: the mean of the window's elements inside x
 *   average_pool2d_grad    dy [n, h', w', c] -> dx [n, h, w, c]
 *
 * softmax (iso_softmax_attrs), along attrs->axis, which is whole
 *   softmax                x -> y
 *   log_softmax            x -> y = x - max - log(sum(exp(x - max)))
 *   softmax_grad           y, dy -> dx = y (dy - sum(y dy))
 *   log_softmax_grad       y, dy -> dx = dy - exp(y) sum(dy)
 *
 * cross-entropy from logits (no attributes)
 *   sparse_crossentropy       labels [...] (I32, I64, U8, F32 or F64), logits [..., c*] -> loss [...] =
 * log(sum(exp(x))) - x[label]. A label that is no integer of 0..c-1: iso_index_fault() (backend/index.h), loss 0
 *   sparse_crossentropy_grad  labels, logits, dloss [...] -> dlogits = (softmax(x) - onehot) dloss; a bad
 * label: as above, a row of 0 crossentropy              labels [..., c*], logits [..., c*] -> loss [...] =
 * sum(t (log(sum(exp(x))) - x)), terms with t = 0 being 0 crossentropy_grad         labels, logits, dloss ->
 * dlogits = (softmax(x) sum(t) - t) dloss
 *
 * normalisation; the last dimension is the channel
 *   batch_moments          x [..., c] -> sum [c], sum of squares [c], both F64 whatever x is, accumulated in
 * double (no attributes) moments_finish         sum [c], square sum [c] -> mean, variance, all F64
 * (iso_moments_attrs): variance = max(0, squares / count - mean^2), count = iso_moments_count()
 *   moments_finish_grad    mean, dmean, dvariance -> dsum, dsquare sum, all F64 [c] (iso_moments_attrs)
 *   batch_norm             x [..., c], mean [c], variance [c], then gamma [c] and beta [c] where the
 * attributes say so -> y (iso_batch_norm_attrs). mean and variance are F32 or F64, both of one type; gamma
 * and beta as x. y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, then the activation
 *   batch_norm_grad_sums   x, dy, mean, variance -> sum(dy) [c], sum(dy xhat) [c], both F64
 * (iso_batch_norm_attrs: epsilon) batch_norm_grad        x, dy, mean, variance, sum(dy), sum(dy xhat), then
 * gamma where has_gamma -> dx, the paths through mean and variance included: dx = gamma rstd (dy -
 * sum(dy)/count - xhat sum(dy xhat)/count) layer_norm             x [..., c*], gamma [c*], beta [c*] where
 * the attributes say so -> y (iso_layer_norm_attrs) layer_norm_grad        x, dy, then gamma where has_gamma
 * -> dx layer_norm_grad_sums   x, dy -> dgamma [c], dbeta [c], of x's type, accumulated in double
 *
 * indices
 *   embedding              table [v, d], index [...] (I32, I64, U8, F32, F64) -> y [..., d]. A slot may hold
 * rows [offset, offset + extent) of the table: other rows give zeros. No integer of 0..v-1 (global):
 * iso_index_fault() (backend/index.h), zeros embedding_grad         index [...], dy [..., d] -> dtable [v, d]
 * (iso_embedding_attrs); of v those rows that the output's box has; bad indices add nothing one_hot index
 * [...] -> [..., classes] (iso_one_hot_attrs); classes may be split; a bad index: zeros, no fault
 *
 *   dropout                x -> y (iso_dropout_attrs): element i, the row-major index in the GLOBAL tensor,
 * is kept iff (iso_random_word(key, info->step, i) >> 8) >= threshold; kept ones are x * (type)scale, others
 * 0. Element i's word is word i % 4 of block i / 4. Its gradient is the same op on dy. */
#ifndef ISO_GRAPH_OPS_NETWORK_H
#define ISO_GRAPH_OPS_NETWORK_H

#include "runtime/graph/op.h"

typedef struct iso_conv_attrs {
    iso_conv_geometry geometry;
    iso_shape shape; /* conv2d_grad_input: of x; conv2d_grad_kernel: of the kernel; global */
} iso_conv_attrs;

typedef struct iso_pool_attrs {
    iso_pool_geometry geometry;
    iso_shape shape; /* average_pool2d_grad: of x; global */
} iso_pool_attrs;

typedef struct iso_softmax_attrs {
    int axis; /* not negative */
} iso_softmax_attrs;

/* How many elements a channel has in the global batch: per_row times the rows, or per_row alone. */
typedef struct iso_moments_attrs {
    int64_t per_row;
    bool times_rows; /* x has a batch dimension */
} iso_moments_attrs;

static inline double iso_moments_count(const iso_moments_attrs *attrs, int64_t rows)
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
    iso_fused_activation
        activation; /* batch_norm alone; set by a pass that follows autodiff, never by the builder */
    iso_moments_attrs moments; /* batch_norm_grad alone: the count behind mean and variance */
} iso_batch_norm_attrs;

typedef struct iso_layer_norm_attrs {
    double epsilon;
    bool has_gamma, has_beta;
} iso_layer_norm_attrs;

typedef struct iso_embedding_attrs {
    int64_t rows; /* v, global */
} iso_embedding_attrs;

typedef struct iso_one_hot_attrs {
    int64_t classes; /* global */
    iso_dtype dtype;
} iso_one_hot_attrs;

typedef struct iso_dropout_attrs {
    uint64_t key;       /* iso_random_key(seed of the graph, path) */
    uint32_t threshold; /* ceil(rate * 2^24) */
    double scale;       /* 1 / (1 - rate); 0 where rate is 1 */
} iso_dropout_attrs;

#endif
