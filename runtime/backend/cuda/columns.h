/* Sums over the rows of [rows, columns] by column, in two stages: blocks add parts of the rows, then the parts are
 * added in the same way. Parts and orders depend on shapes only. */
#ifndef ISO_BACKEND_CUDA_COLUMNS_H
#define ISO_BACKEND_CUDA_COLUMNS_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* A block has `width` columns, and `lanes` threads share the rows of each. */
struct column_parts {
    int64_t rows, columns, part_rows, parts;
    int width, lanes;
};

/* Blocks that are wanted: 108 multiprocessors (A100) run 5 each at a time, so there is one wave. */
const int64_t BLOCKS_OF_COLUMNS = 512;
enum { ROWS_AT_ONCE = 8 /* whose loads a thread begins together */, OWN_ROWS = 0 /* F does that itself */ };

inline column_parts one_part(int64_t rows, int64_t columns, int most_width)
{
    const int width = static_cast<int>(columns < 1 ? 1 : columns < most_width ? columns : most_width);
    return {rows, columns, rows, 1, width, BLOCK / width};
}

inline column_parts parts_of_columns(int64_t rows, int64_t columns)
{
    column_parts p = one_part(rows, columns, WARP * 2);
    int64_t blocks = ceil_of(columns, p.width), parts = ceil_of(rows, p.lanes * 2 * ROWS_AT_ONCE);
    int64_t wanted = blocks < 1 ? BLOCKS_OF_COLUMNS : BLOCKS_OF_COLUMNS / blocks;
    parts = parts < wanted ? parts : wanted;
    p.parts = parts < 1 ? 1 : parts;
    p.part_rows = ceil_of(rows, p.parts);
    return p;
}

/* F has a type `state`, and functions: start() -> state; add(&state, row, column); join(&state, other state);
 * finish(column, state). The lanes of a column are joined in pairs. With OWN_ROWS it has, in place of add,
 * add_rows(&state, row, end, step, column). */
template <class F, int AT_ONCE>
__device__ __forceinline__ void add_rows(const F &f, typename F::state &sum, int64_t row, int64_t end,
                                         int64_t step, int64_t column)
{
    if constexpr (AT_ONCE == OWN_ROWS) {
        f.add_rows(sum, row, end, step, column);
    } else {
        ISO_UNROLL(AT_ONCE)
        for (; row < end; row += step)
            f.add(sum, row, column);
    }
}

template <class F, int AT_ONCE>
__global__ void __launch_bounds__(BLOCK, 5) columns_kernel(column_parts p, F f, typename F::state *partial)
{
    typedef typename F::state state;
    __shared__ unsigned char memory[BLOCK * sizeof(state)] __attribute__((aligned(16)));
    state *shared = reinterpret_cast<state *>(memory);
    const int lane = static_cast<int>(threadIdx.x) / p.width, own = static_cast<int>(threadIdx.x) % p.width;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * p.width + own;
    const int64_t begin = blockIdx.y * p.part_rows,
                  end = begin + p.part_rows < p.rows ? begin + p.part_rows : p.rows;
    state sum = f.start();
    if (lane < p.lanes && column < p.columns)
        add_rows<F, AT_ONCE>(f, sum, begin + lane, end, p.lanes, column);
    for (int left = p.lanes; left > 1; left = (left + 1) / 2) {
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (lane < left / 2)
            f.join(sum, shared[threadIdx.x + (left + 1) / 2 * p.width]);
        __syncthreads();
    }
    if (lane > 0 || column >= p.columns)
        return;
    if (p.parts > 1)
        partial[blockIdx.y * p.columns + column] = sum;
    else
        f.finish(column, sum);
}

/* The parts as rows of states. */
template <class F> struct joined_parts {
    typedef typename F::state state;
    F f;
    int64_t columns;
    const state *partial;
    __device__ state start() const
    {
        return f.start();
    }
    __device__ void add(state &value, int64_t part, int64_t column) const
    {
        f.join(value, partial[part * columns + column]);
    }
    __device__ void join(state &value, const state &other) const
    {
        f.join(value, other);
    }
    __device__ void finish(int64_t column, const state &value) const
    {
        f.finish(column, value);
    }
};

template <int AT_ONCE, class F>
void launch_columns(const iso_stream *stream, const column_parts &p, F f, typename F::state *partial)
{
    dim3 grid(static_cast<unsigned>(ceil_of(p.columns, p.width)), static_cast<unsigned>(p.parts));
    launch(columns_kernel<F, AT_ONCE>, grid, BLOCK, 0, iso_cuda_stream_of(stream), p, f, partial);
}

template <class state> size_t columns_scratch(int64_t rows, int64_t columns)
{
    column_parts p = parts_of_columns(rows, columns);
    return p.parts > 1 ? static_cast<size_t>(p.parts * columns) * sizeof(state) : 0;
}

/* AT_ONCE: see ROWS_AT_ONCE. of_parts: as f, without add. Several f may have one type of it, compiled once. */
template <int AT_ONCE = ROWS_AT_ONCE, class F, class P>
void for_columns(const iso_kernel_call *call, int64_t rows, int64_t columns, F f, P of_parts)
{
    const column_parts p = parts_of_columns(rows, columns);
    typename F::state *partial = static_cast<typename F::state *>(call->scratch);
    launch_columns<AT_ONCE>(call->stream, p, f, partial);
    if (p.parts > 1)
        launch_columns<ROWS_AT_ONCE>(call->stream, one_part(p.parts, columns, 8),
                                     joined_parts<P>{of_parts, columns, partial}, partial);
}
template <class F> void for_columns(const iso_kernel_call *call, int64_t rows, int64_t columns, F f)
{
    for_columns(call, rows, columns, f, f);
}

/* The state of two sums. */
struct two_sums {
    double a, b;
};
__device__ inline void join_two(two_sums &sum, const two_sums &later)
{
    sum.a += later.a;
    sum.b += later.b;
}

} // namespace iso_cuda

#endif
