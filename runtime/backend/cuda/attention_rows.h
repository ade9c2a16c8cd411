/* What lies between the products of attention: the weights of queries from their scores, and the gradients of these.
 * Functions are local; one thread at a time uses a stream. */
#ifndef ISO_BACKEND_CUDA_ATTENTION_ROWS_H
#define ISO_BACKEND_CUDA_ATTENTION_ROWS_H

#include "runtime/backend/attention.h"

namespace iso_cuda
{

/* Some heads of some groups, in two loops: `batch` of the inner one, whose matrices one product has, for each of
 * `loops` of the outer one; of these the queries [row, row + rows) and the keys [begin, begin + columns). */
struct attention_block {
    bool over_heads; /* the inner loop is over the heads, the outer one over the groups; or the reverse */
    int64_t first_loop, loops, first_batch, batch, row, rows, begin, columns;
};

/* Matrices [loops, batch, rows, stride] of a block in scratch memory; `stride` is a multiple of 8. Numbers of the
 * compute type are stored in bfloat16 as the sum of two parts, the second `part_step` elements after the first. */
struct attention_matrices {
    const void *scores, *dweights; /* in the compute type: products of q and k, and of dy and v */
    void *weights,
        *dscores; /* in the type of the inputs; may be `scores` and `dweights`, if that is theirs */
    int64_t stride, part_step;
};

/* Computes the weights, after dropout, and if dweights is not NULL the gradients of the products of q and k. */
void attention_weigh(const iso_kernel_call *call, const attention_block &block, const attention_matrices &of);

/* to = from, float32 [loops, batch, rows, features], in the type `of.to`: bfloat16, or float32 where sums are not
 * complete. Steps of `to` in elements. */
struct attention_sums {
    int64_t loops, batch, rows, features, loop_step, batch_step, row_step;
    iso_dtype to;
};
void attention_round(const attention_sums &of, const void *from, void *to, const iso_stream *stream);

} // namespace iso_cuda

#endif
