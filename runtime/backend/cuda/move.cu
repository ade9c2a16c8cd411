/* Kernels that move elements: transpose, slice, pad, concat, broadcast_to, one_hot, band. Elements are
 * copied by size. The result of slice may be a part of a sum, which is float32 where x is bfloat16. */
#include "runtime/backend/cuda/lines.h"
#include "runtime/backend/cuda/walk.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/network.h"

namespace
{

using namespace iso_cuda;

/* y[to + place] = x[from + place] of each element of a walk */
template <class T> struct copy {
    const T *x;
    T *y;
    int64_t from, to;
    walk<2> over;
    __device__ void operator()(int64_t i) const
    {
        int64_t at[2];
        over.find(i, at);
        y[to + at[1]] = x[from + at[0]];
    }
};

void move(const iso_kernel_call *call, const iso_array &x, int64_t from, int64_t to, const walk<2> &over)
{
    with_size(x.dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_each(
            call->stream, over.count,
            copy<T>{static_cast<const T *>(x.data), static_cast<T *>(call->out[0].data), from, to, over});
    });
}

void run_transpose(const iso_kernel_call *call)
{
    const iso_transpose_attrs *attrs = static_cast<const iso_transpose_attrs *>(call->attrs);
    const iso_array &x = call->in[0], &y = call->out[0];
    int64_t own[ISO_MAX_RANK], to[ISO_MAX_RANK];
    walk<2> over;
    strides_of(x, own);
    strides_of(y, to);
    for (int d = 0; d < y.rank; d++)
        over.add(y.dim[d], {own[attrs->permutation[d]], to[d]});
    move(call, x, 0, 0, over);
}

void run_broadcast_to(const iso_kernel_call *call)
{
    const iso_array *const arrays[] = {&call->in[0], &call->out[0]};
    move(call, call->in[0], 0, 0, walk_of_broadcast(call->out[0], arrays));
}

void run_concat(const iso_kernel_call *call)
{
    const iso_axis_attrs *attrs = static_cast<const iso_axis_attrs *>(call->attrs);
    const iso_array &y = call->out[0];
    int64_t from[ISO_MAX_RANK], to[ISO_MAX_RANK], begin = 0;
    strides_of(y, to);
    for (int n = 0; n < call->n_inputs; n++) {
        const iso_array &x = call->in[n];
        walk<2> over;
        strides_of(x, from);
        for (int d = 0; d < x.rank; d++)
            over.add(x.dim[d], {from[d], to[d]});
        move(call, x, 0, begin * to[attrs->axis], over);
        begin += x.dim[attrs->axis];
    }
}

/* ---- slice and pad: x or y is a part of the other, which begins at `begin` in it, in global indices ---- */

template <class T> __device__ T converted(T x)
{
    return x;
}
__device__ float converted(bf16 x)
{
    return wide(x);
}

/* y is 0 where x has no element. Element i of y is at i + shift in x, in each dimension. */
template <class X, class Y> struct shifted_copy {
    const X *x;
    Y *y;
    int rank;
    int64_t y_dim[ISO_MAX_RANK], x_dim[ISO_MAX_RANK], shift[ISO_MAX_RANK];
    __device__ void operator()(int64_t i) const
    {
        int64_t at = 0, step = 1, rest = i;
        bool inside = true;
        for (int d = rank - 1; d >= 0; d--) {
            int64_t index = remainder_of(rest, y_dim[d]) + shift[d];
            inside &= index >= 0 && index < x_dim[d];
            at += index * step;
            step *= x_dim[d];
            rest /= y_dim[d];
        }
        y[i] = inside ? converted(x[at]) : Y(0);
    }
};

template <bool PADS, class X, class Y> void shift(const iso_kernel_call *call)
{
    const iso_slice_attrs *attrs = static_cast<const iso_slice_attrs *>(call->attrs);
    const iso_array &x = call->in[0], &y = call->out[0];
    shifted_copy<X, Y> f = {static_cast<const X *>(x.data), static_cast<Y *>(y.data), y.rank, {}, {}, {}};
    for (int d = 0; d < y.rank; d++) {
        f.y_dim[d] = y.dim[d];
        f.x_dim[d] = x.dim[d];
        f.shift[d] = y.offset[d] - x.offset[d] + (PADS ? -attrs->begin[d] : attrs->begin[d]);
    }
    for_each(call->stream, iso_array_count(&y), f);
}

template <bool PADS> void run_shifted(const iso_kernel_call *call)
{
    if (call->in[0].dtype == ISO_BF16 && call->out[0].dtype == ISO_F32)
        shift<PADS, bf16, float>(call);
    else
        with_size(call->in[0].dtype, [=](auto zero) { shift<PADS, decltype(zero), decltype(zero)>(call); });
}

/* ---- one_hot: the array may have only some of the classes, its offset is the first one ---- */

struct one_hot {
    iso_array labels;
    int64_t classes, count, first; /* count: of this part */
    reals y;
    __device__ void operator()(int64_t i) const
    {
        int64_t row = i / count;
        y.put(i, iso_index_read(&labels, row, classes) - first == i - row * count ? 1.0f : 0.0f);
    }
};

void run_one_hot(const iso_kernel_call *call)
{
    const iso_one_hot_attrs *attrs = static_cast<const iso_one_hot_attrs *>(call->attrs);
    const iso_array &y = call->out[0];
    for_each(call->stream, iso_array_count(&y),
             one_hot{call->in[0], attrs->classes, last_dim(y), y.offset[y.rank - 1], reals_of(y)});
}

/* ---- band: x inside a band of a matrix, else a number ---- */

struct band {
    reals x, y;
    iso_band_attrs attrs;
    int64_t rows, columns, first_row, first_column; /* of this part */
    __device__ void operator()(int64_t i) const
    {
        int64_t begin, end, column = remainder_of(i, columns), row = i / columns % rows;
        iso_band_columns(&attrs, first_row + row - first_column, columns, &begin, &end);
        y.put(i, column >= begin && column < end ? x.get<double>(i) : attrs.fill);
    }
};

void run_band(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0];
    for_each(call->stream, iso_array_count(&x),
             band{reals_of(x), reals_of(call->out[0]), *static_cast<const iso_band_attrs *>(call->attrs),
                  x.dim[x.rank - 2], last_dim(x), x.offset[x.rank - 2], x.offset[x.rank - 1]});
}

} // namespace

ISO_CUDA_KERNEL(transpose, run_transpose, false)
ISO_CUDA_KERNEL(slice, run_shifted<false>, false)
ISO_CUDA_KERNEL(pad, run_shifted<true>, false)
ISO_CUDA_KERNEL(concat, run_concat, false)
ISO_CUDA_KERNEL(broadcast_to, run_broadcast_to, false)
ISO_CUDA_KERNEL(one_hot, run_one_hot, false)
ISO_CUDA_KERNEL(band, run_band, true)
