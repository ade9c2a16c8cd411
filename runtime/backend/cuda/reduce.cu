/* Reductions over any dimensions: sums (in double, or int64 of integers), extremes, argmax and in_top_k. */
#include "runtime/backend/cuda/columns.h"
#include "runtime/backend/cuda/lines.h"
#include "runtime/backend/cuda/walk.h"
#include "runtime/backend/index.h"
#include "runtime/graph/ops/attrs.h"

namespace
{

using namespace iso_cuda;

/* Element r of output o is at the place of o plus that of r. */
struct reduction {
    walk<1> kept, reduced;
    bool inner; /* the innermost dimension is a reduced one */
};

reduction reduction_of(const iso_kernel_call *call)
{
    const iso_reduce_attrs *attrs = static_cast<const iso_reduce_attrs *>(call->attrs);
    const iso_array &x = call->in[0];
    int64_t stride[ISO_MAX_RANK];
    reduction of = {};
    strides_of(x, stride);
    for (int d = 0; d < x.rank; d++) {
        of.inner = x.dim[d] == 1 ? of.inner : attrs->axes >> d & 1;
        (attrs->axes >> d & 1 ? of.reduced : of.kept).add(x.dim[d], {stride[d]});
    }
    return of;
}

/* The place of an element: of several dimensions, or of one, which needs no division, so that a thread can begin many
 * loads together. */
struct many_dimensions {
    enum { AT_ONCE = 1 };
    walk<1> along;
    __device__ int64_t place(int64_t i) const
    {
        int64_t at[1];
        along.find(i, at);
        return at[0];
    }
};
struct one_dimension {
    enum { AT_ONCE = ROWS_AT_ONCE };
    int64_t step;
    __device__ int64_t place(int64_t i) const
    {
        return i * step;
    }
};

one_dimension dimension_of(const walk<1> &along)
{
    return {along.rank > 0 ? along.stride[0][0] : 0};
}

/* Lines are done by a warp or a block each if there are enough of them or they are short; all else by
 * columns, whose rows are divided among blocks. */
bool by_lines(const reduction &of)
{
    return of.inner && (of.kept.count >= 1024 || of.reduced.count <= 4096);
}

/* ---- what is accumulated: double of floating-point elements, int64 of others ---- */

template <class T> struct reals_of_type {
    typedef double A;
    const T *x;
    __device__ double get(int64_t i) const
    {
        return wide(x[i]);
    }
};
template <class T> struct squares_of_type {
    typedef double A;
    const T *x;
    __device__ double get(int64_t i) const
    {
        const double value = wide(x[i]);
        return value * value;
    }
};
struct any_reals {
    typedef double A;
    reals x;
    __device__ double get(int64_t i) const
    {
        return x.get<double>(i);
    }
};
struct integers {
    typedef int64_t A;
    const void *x;
    iso_dtype dtype;
    __device__ int64_t get(int64_t i) const
    {
        switch (dtype) {
        case ISO_I32:
            return static_cast<const int32_t *>(x)[i];
        case ISO_I64:
            return static_cast<const int64_t *>(x)[i];
        default:
            return static_cast<const uint8_t *>(x)[i];
        }
    }
};

/* The larger or smaller one; NaN gives NaN. */
struct extreme {
    bool largest;
    template <class T> __device__ T join(T best, T value) const
    {
        return (largest ? value > best : value < best) || value != value ? value : best;
    }
};

template <class X, class OP, class PLACES> struct accumulation {
    typedef typename X::A state;
    PLACES kept, reduced;
    X x;
    OP op;
    state first;
    void *y;
    iso_dtype dtype; /* of y */
    double scale;

    __device__ state start() const
    {
        return first;
    }
    __device__ void add(state &value, int64_t row, int64_t column) const
    {
        value = op.join(value, x.get(kept.place(column) + reduced.place(row)));
    }
    __device__ void join(state &value, const state &later) const
    {
        value = op.join(value, later);
    }
    __device__ void finish(int64_t column, const state &value) const
    {
        switch (dtype) {
        case ISO_I32:
            static_cast<int32_t *>(y)[column] = static_cast<int32_t>(value);
            break;
        case ISO_I64:
            static_cast<int64_t *>(y)[column] = static_cast<int64_t>(value);
            break;
        case ISO_U8:
        case ISO_BOOL:
            static_cast<uint8_t *>(y)[column] = static_cast<uint8_t>(value);
            break;
        default:
            reals{y, dtype}.put(column, static_cast<double>(value) * scale);
        }
    }
    template <int L> __device__ void run(line at) const
    {
        state value = first;
        const int64_t begin = kept.place(at.row);
        ISO_UNROLL(PLACES::AT_ONCE)
        for (int64_t r = member<L>(); r < at.count; r += L)
            value = op.join(value, x.get(begin + reduced.place(r)));
        value = iso_cuda::join<L>(value, op);
        if (member<L>() == 0)
            finish(at.row, value);
    }
};

size_t reduction_scratch(const iso_kernel_call *call)
{
    reduction of = reduction_of(call);
    return by_lines(of)
               ? 0
               : columns_scratch<double>(of.reduced.count, of.kept.count); /* int64_t has this size */
}

/* A block does a long line, and each of a few. */
template <class F> void reduce_lines(const iso_kernel_call *call, const lines &of, F f)
{
    if (of.count >= LONG_LINE || (of.count >= BLOCK && of.outer <= BLOCKS_OF_COLUMNS))
        launch_lines<BLOCK>(call->stream, of, f);
    else
        launch_lines<WARP>(call->stream, of, f);
}

template <class X, class OP, class PLACES>
void reduce_places(const iso_kernel_call *call, const reduction &of, const accumulation<X, OP, PLACES> &f)
{
    if (by_lines(of))
        reduce_lines(call, {of.kept.count, of.reduced.count, 1}, f);
    else
        for_columns<PLACES::AT_ONCE>(call, of.reduced.count, of.kept.count, f);
}

template <class X, class OP>
void reduce(const iso_kernel_call *call, X x, OP op, typename X::A first, double scale)
{
    const reduction of = reduction_of(call);
    const iso_array &y = call->out[0];
    if (of.kept.rank <= 1 && of.reduced.rank <= 1)
        reduce_places<X, OP, one_dimension>(
            call, of,
            {dimension_of(of.kept), dimension_of(of.reduced), x, op, first, y.data, y.dtype, scale});
    else
        reduce_places<X, OP, many_dimensions>(
            call, of, {{of.kept}, {of.reduced}, x, op, first, y.data, y.dtype, scale});
}

void run_sum(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0];
    if (!iso_dtype_is_float(x.dtype))
        reduce(call, integers{x.data, x.dtype}, sum_of(), 0, 1);
    with_float(x.dtype, [=](auto zero) {
        typedef decltype(zero) T;
        const iso_reduce_attrs *attrs = static_cast<const iso_reduce_attrs *>(call->attrs);
        const T *data = static_cast<const T *>(call->in[0].data);
        if (attrs->square)
            reduce(call, squares_of_type<T>{data}, sum_of(), 0, attrs->scale);
        else
            reduce(call, reals_of_type<T>{data}, sum_of(), 0, attrs->scale);
    });
}

/* The least or the greatest value of a type of integers: of no elements. */
int64_t limit_of(iso_dtype dtype, bool least)
{
    switch (dtype) {
    case ISO_I32:
        return least ? INT32_MIN : INT32_MAX;
    case ISO_I64:
        return least ? INT64_MIN : INT64_MAX;
    default:
        return least ? 0 : UINT8_MAX;
    }
}

template <bool LARGEST> void run_extreme(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0];
    if (iso_dtype_is_float(x.dtype))
        reduce(call, any_reals{reals_of(x)}, extreme{LARGEST}, LARGEST ? -INFINITY : INFINITY, 1);
    else
        reduce(call, integers{x.data, x.dtype}, extreme{LARGEST}, limit_of(x.dtype, LARGEST), 1);
}

/* ---- argmax: the first of equals; 0 if element 0 is NaN, and other NaNs are never the largest ---- */

template <class T> struct first_largest {
    const T *x;
    int32_t *y;
    template <int L> __device__ void run(line at) const
    {
        auto best = wide(x[at.begin]);
        ISO_CUDA_ALONG(L, at)
        best = wide(x[i]) > best ? wide(x[i]) : best;
        best = join<L, max_of>(best);
        int64_t found = wide(x[at.begin]) != wide(x[at.begin]) ? 0 : at.count;
        ISO_CUDA_ALONG(L, at)
        found = wide(x[i]) == best && k < found ? k : found;
        found = join<L, min_of>(found);
        if (member<L>() == 0)
            y[at.row] = static_cast<int32_t>(found);
    }
};

void run_argmax(const iso_kernel_call *call)
{
    int axis = static_cast<const iso_axis_attrs *>(call->attrs)->axis;
    with_number(call->in[0].dtype, [=](auto zero) {
        typedef decltype(zero) T;
        for_lines(call->stream, lines_along(call->in[0], axis),
                  first_largest<T>{static_cast<const T *>(call->in[0].data),
                                   static_cast<int32_t *>(call->out[0].data)});
    });
}

/* ---- in_top_k ----
 * Fewer than k classes are above the target's; what is not finite, or no class, is a miss. */

struct top_k {
    reals x;
    iso_array targets;
    uint8_t *y;
    int64_t k_of;
    template <int L> __device__ void run(line at) const
    {
        int64_t target = iso_index_read(&targets, at.row, at.count), above = 0;
        double mine = target < 0 ? NAN : x.get<double>(at.begin + target);
        ISO_CUDA_ALONG(L, at)
        {
            double other = x.get<double>(i);
            above += is_finite(other) ? other > mine : at.count + k_of;
        }
        above = join<L, sum_of>(above);
        if (member<L>() == 0)
            y[at.row] = target >= 0 && above < k_of;
    }
};

void run_top_k(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0];
    for_lines(call->stream, lines_along(x, x.rank - 1),
              top_k{reals_of(x), call->in[1], static_cast<uint8_t *>(call->out[0].data),
                    static_cast<const iso_top_k_attrs *>(call->attrs)->k});
}

} // namespace

ISO_CUDA_KERNEL_WITH(reduce_sum, run_sum, false, reduction_scratch)
ISO_CUDA_KERNEL_WITH(reduce_max, run_extreme<true>, false, reduction_scratch)
ISO_CUDA_KERNEL_WITH(reduce_min, run_extreme<false>, false, reduction_scratch)
ISO_CUDA_KERNEL(argmax, run_argmax, false)
ISO_CUDA_KERNEL(in_top_k, run_top_k, false)
