/* Kernels that work along lines of an array: a row of classes, of channels, of elements to be reduced. A
 * line is done by one thread, a warp or a block, which depends on shapes only, and so does the order of its
 * sums. */
#ifndef ISO_BACKEND_CUDA_LINES_H
#define ISO_BACKEND_CUDA_LINES_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* The elements begin + k * step, k < count, of line `row`. */
struct line {
    int64_t begin, step, count, row;
};

/* The lines of x [outer, count, inner] along the middle dimension. */
struct lines {
    int64_t outer, count, inner;
};

inline lines lines_along(const iso_array &x, int axis)
{
    lines of = {1, x.dim[axis], 1};
    for (int d = 0; d < x.rank; d++)
        (d < axis ? of.outer : of.inner) *= d == axis ? 1 : x.dim[d];
    return of;
}

inline int64_t last_dim(const iso_array &x)
{
    return x.dim[x.rank - 1];
}

/* ---- the L threads of a line ---- */

template <int L> __device__ __forceinline__ int member()
{
    return static_cast<int>(threadIdx.x % L);
}

struct sum_of {
    template <class T> __device__ static T join(T a, T b)
    {
        return a + b;
    }
};
struct max_of { /* the larger one that is not NaN */
    template <class T> __device__ static T join(T a, T b)
    {
        return b > a || a != a ? b : a;
    }
};
struct min_of {
    template <class T> __device__ static T join(T a, T b)
    {
        return b < a || a != a ? b : a;
    }
};

template <class OP, class T> __device__ T join_in_warp(T value, OP op)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value = op.join(value, static_cast<T>(__shfl_xor_sync(0xffffffffu, value, distance)));
    return value;
}

template <class OP, class T> __device__ T join_in_block(T value, OP op)
{
    __shared__ T part[BLOCK / WARP];
    value = join_in_warp(value, op);
    __syncthreads(); /* `part` of the call before has been read */
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = value;
    __syncthreads();
    value = part[0];
    for (int i = 1; i < BLOCK / WARP; i++)
        value = op.join(value, part[i]);
    return value;
}

/* All members of the line give a value and get the result. op has a function join of two values. */
template <int L, class OP, class T> __device__ T join(T value, OP op = OP())
{
    if (L == 1)
        return value;
    if (L == WARP)
        return join_in_warp(value, op);
    return join_in_block(value, op);
}

/* F has a function template run<L>(line), which all members of the line call. */
template <int L, class F> __global__ void __launch_bounds__(BLOCK) lines_kernel(lines of, F f)
{
    int64_t row = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / L;
    if (row >= of.outer * of.inner)
        return;
    f.template run<L>(line{row / of.inner * of.count * of.inner + row % of.inner, of.inner, of.count, row});
}

template <int L, class F> void launch_lines(const iso_stream *stream, lines of, F f)
{
    launch(lines_kernel<L, F>, static_cast<unsigned>(ceil_of(of.outer * of.inner * L, BLOCK)), BLOCK, 0,
           iso_cuda_stream_of(stream), of, f);
}

enum { LONG_LINE = 2048, SHORT_LINE = 8 };

template <class F> void for_lines(const iso_stream *stream, lines of, F f)
{
    if (of.inner > 1 || of.count < SHORT_LINE)
        launch_lines<1>(stream, of, f);
    else if (of.count < LONG_LINE)
        launch_lines<WARP>(stream, of, f);
    else
        launch_lines<BLOCK>(stream, of, f);
}

enum { READS = 8 }; /* that are under way in a loop over a line */

/* use(k, i, get(i)) for each element k of a member, whose place is i. Several are read before the first is used, so
 * use may overwrite its own element only. */
template <int L, class Get, class Use> __device__ __forceinline__ void along(line at, Get get, Use use)
{
    for (int64_t k = member<L>(), i = at.begin + k * at.step; k < at.count;
         k += READS * L, i += READS * L * at.step) {
        decltype(get(i)) read[READS];
        ISO_UNROLL()
        for (int j = 0; j < READS; j++)
            read[j] = get(k + j * L < at.count ? i + j * L * at.step : i);
        ISO_UNROLL()
        for (int j = 0; j < READS; j++)
            if (k + j * L < at.count)
                use(k + j * L, i + j * L * at.step, read[j]);
    }
}

} // namespace iso_cuda

/* The loop of a member over the elements of a line: k is their number, i their place. */
#define ISO_CUDA_ALONG(L, at)                                                                                \
    for (int64_t k = iso_cuda::member<L>(), i = at.begin + k * at.step; k < at.count;                        \
         k += L, i += L * at.step)

#endif
