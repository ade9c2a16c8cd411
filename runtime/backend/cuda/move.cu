/* Kernels that move elements: transpose, flip, slice, pad, concat, broadcast_to, one_hot, band. Elements are
 * copied by size. The result of slice may be a part of a sum, which is float32 where x is bfloat16. */
#include "runtime/backend/cuda/lines.h"
#include "runtime/backend/cuda/packs.h"
#include "runtime/backend/cuda/transpose.h"
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
    void *y = call->out[0].data;
    with_units(x.dtype, over.extents() | from | to, {x.data, y}, [=](auto unit, int64_t of_unit) {
        typedef decltype(unit) T;
        const walk<2> units = over.in_units(of_unit);
        for_each(call->stream, units.count,
                 copy<T>{static_cast<const T *>(x.data), static_cast<T *>(y), from / of_unit, to / of_unit,
                         units});
    });
}

/* Whether a transpose moves the last dimension of x, as matrices of that one and the last of y. */
bool is_of_matrices(const walk<2> &over, matrices *m)
{
    const int64_t enough = 8; /* of a tile; fewer elements are read well enough where they are */
    const int last = over.rank - 1;
    int of_x = last;
    while (of_x >= 0 && over.stride[0][of_x] != 1)
        of_x--;
    if (of_x < 0 || of_x == last || over.dim[last] < enough || over.dim[of_x] < enough)
        return false;
    *m = {over.dim[last], over.dim[of_x], over.stride[0][last], over.stride[1][of_x], {}};
    for (int d = 0; d < last; d++)
        if (d != of_x)
            m->each.add(over.dim[d], {over.stride[0][d], over.stride[1][d]});
    return true;
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
    matrices m;
    if (is_of_matrices(over, &m))
        transpose_matrices(x.dtype, m, x.data, call->out[0].data, call->stream);
    else
        move(call, x, 0, 0, over);
}

void run_flip(const iso_kernel_call *call)
{
    const int axis = static_cast<const iso_axis_attrs *>(call->attrs)->axis;
    const iso_array &x = call->in[0], &y = call->out[0];
    int64_t from[ISO_MAX_RANK], to[ISO_MAX_RANK];
    walk<2> over;
    strides_of(x, from);
    strides_of(y, to);
    for (int d = 0; d < y.rank; d++)
        over.add(y.dim[d], {d == axis ? -from[d] : from[d], to[d]});
    move(call, x, (x.dim[axis] - 1) * from[axis], 0, over);
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
struct shifts {
    int64_t count = 1; /* of y */
    int rank = 1;
    int64_t y_dim[ISO_MAX_RANK] = {1}, x_dim[ISO_MAX_RANK] = {1}, shift[ISO_MAX_RANK] = {0};

    /* The dimension inside those that were added before. It is joined with the one around it if x has all of it. */
    void add(int64_t of_y, int64_t of_x, int64_t by)
    {
        const bool joined = of_y == of_x && by == 0;
        const bool first = y_dim[rank - 1] == 1 && x_dim[rank - 1] == 1 && shift[rank - 1] == 0;
        count *= of_y;
        rank += !joined && !first;
        y_dim[rank - 1] = joined ? y_dim[rank - 1] * of_y : of_y;
        x_dim[rank - 1] = joined ? x_dim[rank - 1] * of_x : of_x;
        shift[rank - 1] = joined ? shift[rank - 1] * of_x : by;
    }
    int64_t extents() const
    {
        return y_dim[rank - 1] | x_dim[rank - 1] | shift[rank - 1];
    }
    shifts in_units(int64_t of_unit) const
    {
        shifts s = *this;
        s.count /= of_unit;
        s.y_dim[rank - 1] /= of_unit;
        s.x_dim[rank - 1] /= of_unit;
        s.shift[rank - 1] /= of_unit;
        return s;
    }

    template <class index> __device__ __forceinline__ int64_t split(index i) const
    {
        int64_t at = 0, step = 1;
        bool inside = true;
        ISO_UNROLL(1)
        for (int d = rank - 1; d >= 0; d--) {
            const index extent = static_cast<index>(y_dim[d]), outer = d > 0 ? i / extent : 0;
            const int64_t place = static_cast<int64_t>(i - outer * extent) + shift[d];
            inside &= place >= 0 && place < x_dim[d];
            at += place * step;
            step *= x_dim[d];
            i = outer;
        }
        return inside ? at : -1;
    }
    /* The place of element i of y in x; -1: none. */
    __device__ __forceinline__ int64_t find(int64_t i) const
    {
        return count <= INT32_MAX ? split(static_cast<uint32_t>(i)) : split(i);
    }
};

template <class X, class Y> struct shifted_copy {
    const X *x;
    Y *y;
    shifts by;
    __device__ void operator()(int64_t i) const
    {
        const int64_t at = by.find(i);
        y[i] = at >= 0 ? converted(x[at]) : Y();
    }
};

template <bool PADS> void run_shifted(const iso_kernel_call *call)
{
    const iso_slice_attrs *attrs = static_cast<const iso_slice_attrs *>(call->attrs);
    const iso_array &x = call->in[0], &y = call->out[0];
    shifts by;
    for (int d = 0; d < y.rank; d++)
        by.add(y.dim[d], x.dim[d], y.offset[d] - x.offset[d] + (PADS ? -attrs->begin[d] : attrs->begin[d]));
    if (x.dtype == ISO_BF16 && y.dtype == ISO_F32)
        for_each(
            call->stream, by.count,
            shifted_copy<bf16, float>{static_cast<const bf16 *>(x.data), static_cast<float *>(y.data), by});
    else
        with_units(x.dtype, by.extents(), {x.data, y.data}, [&](auto unit, int64_t of_unit) {
            typedef decltype(unit) T;
            const shifts units = by.in_units(of_unit);
            for_each(call->stream, units.count,
                     shifted_copy<T, T>{static_cast<const T *>(x.data), static_cast<T *>(y.data), units});
        });
}

/* ---- one_hot: the array may have only some of the classes, its offset is the first one ---- */

struct one_hot {
    iso_array labels;
    int64_t classes, count, first; /* count: of this part */
    reals y;
    __device__ void operator()(int64_t i) const
    {
        int64_t row = quotient_of(i, count);
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
        const int64_t line = quotient_of(i, columns), column = i - line * columns,
                      row = remainder_of(line, rows);
        int64_t begin, end;
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
ISO_CUDA_KERNEL(flip, run_flip, false)
ISO_CUDA_KERNEL(slice, run_shifted<false>, false)
ISO_CUDA_KERNEL(pad, run_shifted<true>, false)
ISO_CUDA_KERNEL(concat, run_concat, false)
ISO_CUDA_KERNEL(broadcast_to, run_broadcast_to, false)
ISO_CUDA_KERNEL(one_hot, run_one_hot, false)
ISO_CUDA_KERNEL(band, run_band, true)
