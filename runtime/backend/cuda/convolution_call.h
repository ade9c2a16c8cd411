/* The arguments of the convolutions' ops. */
#ifndef ISO_BACKEND_CUDA_CONVOLUTION_CALL_H
#define ISO_BACKEND_CUDA_CONVOLUTION_CALL_H

#include "runtime/backend/cuda/cudnn.h"
#include "runtime/backend/window.h"
#include "runtime/graph/ops/network.h"

/* x [n, h, w, c], kernel [r, s, cg, f], y [n, p, q, f], or their gradients; before: rows and columns of zeros before
 * this part of x, negative where it has some that no window reaches. */
typedef struct iso_cuda_conv {
    const iso_array *x, *kernel, *y;
    iso_dtype dtype, to; /* of the operands, and of the result: of bfloat16 it may be float32 */
    const iso_conv_geometry *geometry;
    int64_t before[2];
} iso_cuda_conv;

static inline iso_cuda_conv iso_cuda_conv_of(const iso_kernel_call *call, iso_cuda_convolution_kind kind)
{
    const iso_array *in = call->in, *out = call->out;
    iso_cuda_conv v = {.dtype = in[0].dtype,
                       .to = out[0].dtype,
                       .geometry = &((const iso_conv_attrs *)call->attrs)->geometry};
    v.x = kind == ISO_CUDA_CONVOLVE_INPUT ? &out[0] : &in[0];
    v.kernel = kind == ISO_CUDA_CONVOLVE ? &in[1] : kind == ISO_CUDA_CONVOLVE_INPUT ? &in[0] : &out[0];
    v.y = kind == ISO_CUDA_CONVOLVE ? &out[0] : &in[1];
    for (int d = 0; d < 2; d++)
        v.before[d] = iso_local_padding(v.x, v.y, 1 + d, v.geometry->stride[d], v.geometry->pad_before[d]);
    return v;
}

static inline bool iso_cuda_conv_is_empty(const iso_cuda_conv *v)
{
    return iso_array_count(v->x) == 0 || iso_array_count(v->kernel) == 0 || iso_array_count(v->y) == 0;
}

/* Whether the arrays lie at addresses that the libraries take. */
static inline bool iso_cuda_conv_is_aligned(const iso_cuda_conv *v)
{
    return ((uintptr_t)v->x->data | (uintptr_t)v->kernel->data | (uintptr_t)v->y->data) %
               ISO_CUDA_CONVOLVED_MULTIPLE ==
           0;
}

/* Bytes of scratch memory, in whole units. */
static inline size_t iso_cuda_conv_round(size_t bytes)
{
    const size_t multiple = 256;
    return (bytes + multiple - 1) / multiple * multiple;
}

/* Elements of an array that another one follows, so that both lie at addresses that the libraries take. */
static inline int64_t iso_cuda_conv_stride(int64_t elements)
{
    return (elements + ISO_CUDA_CONVOLVED_MULTIPLE - 1) / ISO_CUDA_CONVOLVED_MULTIPLE *
           ISO_CUDA_CONVOLVED_MULTIPLE;
}

#endif
