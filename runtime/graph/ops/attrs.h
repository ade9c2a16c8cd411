/* The attributes of the ops in this folder, which a kernel reads from iso_kernel_call.attrs. */
#ifndef ISO_GRAPH_OPS_ATTRS_H
#define ISO_GRAPH_OPS_ATTRS_H

#include "runtime/base/types.h"

typedef enum iso_unary_kind {
#define UNARY(name, KIND, gradient, linear) ISO_UNARY_##KIND,
#define UNARY_KIND(KIND) ISO_UNARY_##KIND,
#include "runtime/graph/ops/unary.h"
} iso_unary_kind;

/* The ops of unary.h: x -> y, and "unary_gradient": (s, dy) -> dx, where s is y for those whose gradient is
 * from_output, else x. */
typedef struct iso_unary_attrs {
    iso_unary_kind kind;
    double alpha;
} iso_unary_attrs;

/* "affine": y = scale * x + shift */
typedef struct iso_affine_attrs {
    double scale, shift;
} iso_affine_attrs;

/* "scale_by_count": y = x / (count * rows); rows: those of the global batch, or 1 if batch is false */
typedef struct iso_count_attrs {
    double count;
    bool batch;
} iso_count_attrs;

/* "reduce_sum", "reduce_max", "reduce_min" over the dimensions whose bit is set in axes. A sum is of the elements, or
 * of their squares (of floating-point elements), and is finally multiplied by `scale` (a mean over fixed dimensions).
 * The output's type is the type of the result: float32 may be summed to float64. */
typedef struct iso_reduce_attrs {
    uint32_t axes;
    bool keep, square;
    double scale;
    iso_dtype dtype;
} iso_reduce_attrs;

/* "argmax", "concat" and "flip" along an axis */
typedef struct iso_axis_attrs {
    int axis;
} iso_axis_attrs;

/* "in_top_k", "top_k" */
typedef struct iso_top_k_attrs {
    int k;
    int64_t classes; /* "top_k_grad": of its output */
} iso_top_k_attrs;

/* "one_hot", "cast" */
typedef struct iso_one_hot_attrs {
    int64_t classes;
    iso_dtype dtype;
} iso_one_hot_attrs;

typedef struct iso_cast_attrs {
    iso_dtype dtype;
} iso_cast_attrs;

/* "reshape", "broadcast_to": the global shape of the output */
typedef struct iso_shape_attrs {
    iso_shape shape;
} iso_shape_attrs;

/* "transpose": dimension i of the output is dimension permutation[i] of the input */
typedef struct iso_transpose_attrs {
    int permutation[ISO_MAX_RANK];
} iso_transpose_attrs;

/* "slice": output [i...] = input [begin + i...]; "pad", its gradient: output [begin + i...] = input [i...],
 * elsewhere 0. begin has one entry for each dimension of the input, the batch's being 0; shape is the
 * output's. */
typedef struct iso_slice_attrs {
    int64_t begin[ISO_MAX_RANK];
    iso_shape shape;
} iso_slice_attrs;

/* "matmul". contract false: a [l..., m, k], b [l..., k, n] or b [k, n] -> [l..., m, n] (a [k] counts as
 * one row); the flags swap the last two dimensions of an operand (of a only if b has as many dimensions).
 * contract true: a [l..., k], b [l..., n] -> [k, n], the sum over all l: the gradient of a weight; the
 * flags are then false. */
typedef struct iso_matmul_attrs {
    bool transpose_a, transpose_b, contract;
} iso_matmul_attrs;

#endif
