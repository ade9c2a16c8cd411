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

/* The places of AT_ONCE elements, whose loads a thread begins together: of row, row + step and so on. The first
 * `count` exist; the place of another is that of the first. In several dimensions, or in one, without divisions. */
struct many_dimensions {
    enum { AT_ONCE = 4 /* more do not fit into the registers */ };
    walk<1> along;

    struct places {
        int64_t at[AT_ONCE];
        __device__ __forceinline__ int64_t of(int j) const
        {
            return at[j];
        }
    };
    template <class index> __device__ __forceinline__ places split(index row, index step, int count) const
    {
        places p = {};
        index i[AT_ONCE];
        ISO_UNROLL()
        for (int j = 0; j < AT_ONCE; j++)
            i[j] = row + (j < count ? j * step : 0);
        ISO_UNROLL(1)
        for (int d = along.rank - 1; d >= 0; d--) {
            const index extent = static_cast<index>(along.dim[d]);
            ISO_UNROLL()
            for (int j = 0; j < AT_ONCE; j++) {
                const index outer = i[j] / extent;
                p.at[j] += static_cast<int64_t>(i[j] - outer * extent) * along.stride[0][d];
                i[j] = outer;
            }
        }
        return p;
    }
    __device__ __forceinline__ places find(int64_t row, int64_t step, int count) const
    {
        if (along.count <= INT32_MAX) /* as in walk */
            return split(static_cast<uint32_t>(row), static_cast<uint32_t>(step), count);
        return split(row, step, count);
    }
};
struct one_dimension {
    enum { AT_ONCE = 8 };
    int64_t stride;

    struct places {
        int64_t first, step;
        int count;
        __device__ __forceinline__ int64_t of(int j) const
        {
            return first + (j < count ? j * step : 0);
        }
    };
    __device__ __forceinline__ places find(int64_t row, int64_t step, int count) const
    {
        return {row * stride, step * stride, count};
    }
};

/* Lines are done by a warp or a block each if there are enough of them or they are short; all else by
 * columns, whose rows are divided among blocks. */
bool by_lines(const reduction &of)
{
    return of.inner && (of.kept.count >= 1024 || of.reduced.count <= 4096);
}

/* ---- what is accumulated: double of floating-point elements, int64 of others ----
 * The type of the elements is looked at once for the elements that are read together. */

template <class T, class A, int N, class P>
__device__ __forceinline__ void read_as(const void *x, int64_t begin, const P &places, A (&to)[N])
{
    ISO_UNROLL()
    for (int j = 0; j < N; j++)
        to[j] = wide((static_cast<const T *>(x) + begin)[places.of(j)]);
}

struct any_reals {
    typedef double A;
    const void *x;
    iso_dtype dtype;
    bool square;
    template <int N, class P>
    __device__ __forceinline__ void read(int64_t begin, const P &places, double (&to)[N]) const
    {
        if (dtype == ISO_F32)
            read_as<float>(x, begin, places, to);
        else if (dtype == ISO_F64)
            read_as<double>(x, begin, places, to);
        else
            read_as<bf16>(x, begin, places, to);
        if (!square)
            return;
        ISO_UNROLL()
        for (int j = 0; j < N; j++)
            to[j] *= to[j];
    }
};
struct integers {
    typedef int64_t A;
    const void *x;
    iso_dtype dtype;
    template <int N, class P>
    __device__ __forceinline__ void read(int64_t begin, const P &places, int64_t (&to)[N]) const
    {
        if (dtype == ISO_I32)
            read_as<int32_t>(x, begin, places, to);
        else if (dtype == ISO_I64)
            read_as<int64_t>(x, begin, places, to);
        else
            read_as<uint8_t>(x, begin, places, to);
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

/* Results of a reduction, from parts of it. */
template <class A, class OP> struct totals {
    typedef A state;
    OP op;
    A first;
    void *y;
    iso_dtype dtype; /* of y */
    double scale;

    __device__ A start() const
    {
        return first;
    }
    __device__ void join(A &value, const A &later) const
    {
        value = op.join(value, later);
    }
    __device__ void finish(int64_t column, const A &value) const
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
};

template <class X, class OP, class PLACES> struct accumulation : totals<typename X::A, OP> {
    typedef typename X::A state;
    walk<1> kept;
    PLACES reduced;
    X x;

    /* Joins `count` of the elements row, row + step and so on, in order, after all have been read. */
    __device__ __forceinline__ void join_group(state &value, int64_t begin, int64_t row, int64_t step,
                                               int count) const
    {
        state read[PLACES::AT_ONCE];
        x.read(begin, reduced.find(row, step, count), read);
        ISO_UNROLL()
        for (int j = 0; j < PLACES::AT_ONCE; j++)
            if (j < count)
                this->join(value, read[j]);
    }
    __device__ __forceinline__ void add_rows(state &value, int64_t row, int64_t end, int64_t step,
                                             int64_t column) const
    {
        enum { N = PLACES::AT_ONCE };
        int64_t begin[1];
        kept.find(column, begin);
        ISO_UNROLL(1)
        for (; row + (N - 1) * step < end; row += N * step)
            join_group(value, begin[0], row, step, N);
        int left = 0;
        ISO_UNROLL()
        for (int j = 0; j < N - 1; j++)
            left += row + j * step < end;
        if (left > 0)
            join_group(value, begin[0], row, step, left);
    }
    template <int L> __device__ void run(line of) const
    {
        state value = this->first;
        add_rows(value, member<L>(), of.count, L, of.row);
        value = iso_cuda::join<L>(value, this->op);
        if (member<L>() == 0)
            this->finish(of.row, value);
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
        for_columns<OWN_ROWS>(call, of.reduced.count, of.kept.count, f, totals<typename X::A, OP>(f));
}

template <class X, class OP>
void reduce(const iso_kernel_call *call, X x, OP op, typename X::A first, double scale)
{
    const reduction of = reduction_of(call);
    const iso_array &y = call->out[0];
    const totals<typename X::A, OP> all = {op, first, y.data, y.dtype, scale};
    if (of.reduced.rank <= 1)
        reduce_places<X, OP, one_dimension>(
            call, of, {all, of.kept, {of.reduced.rank > 0 ? of.reduced.stride[0][0] : 0}, x});
    else
        reduce_places<X, OP, many_dimensions>(call, of, {all, of.kept, {of.reduced}, x});
}

void run_sum(const iso_kernel_call *call)
{
    const iso_array &x = call->in[0];
    const iso_reduce_attrs *attrs = static_cast<const iso_reduce_attrs *>(call->attrs);
    if (iso_dtype_is_float(x.dtype))
        reduce(call, any_reals{x.data, x.dtype, attrs->square}, sum_of(), 0, attrs->scale);
    else
        reduce(call, integers{x.data, x.dtype}, sum_of(), 0, 1);
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
        reduce(call, any_reals{x.data, x.dtype, false}, extreme{LARGEST}, LARGEST ? -INFINITY : INFINITY, 1);
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
