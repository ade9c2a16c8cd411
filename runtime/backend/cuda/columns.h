/* Sums over the rows of [rows, columns] by column, in two stages: blocks add parts of the rows, then the
 * parts are added in order. The parts depend on shapes only. */
#ifndef ISO_BACKEND_CUDA_COLUMNS_H
#define ISO_BACKEND_CUDA_COLUMNS_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* A block has `width` columns, and BLOCK / width of its threads share the rows of each. */
struct column_parts {
    int64_t rows, columns, part_rows, parts;
    int width, lanes;
};

inline column_parts parts_of_columns(int64_t rows, int64_t columns)
{
    const int64_t of_a_thread = 16, blocks_wanted = 1024, most_parts = 65535;
    column_parts p = {rows, columns, 0, 0, 0, 0};
    p.width = static_cast<int>(columns < 1 ? 1 : columns < WARP * 2 ? columns : WARP * 2);
    p.lanes = BLOCK / p.width;
    int64_t blocks = ceil_of(columns, p.width), parts = ceil_of(rows, p.lanes * of_a_thread);
    int64_t wanted = blocks < blocks_wanted ? blocks_wanted / (blocks < 1 ? 1 : blocks) : 1;
    parts = parts < wanted ? parts : wanted;
    parts = parts < 1 ? 1 : parts > most_parts ? most_parts : parts;
    p.part_rows = ceil_of(rows, parts);
    p.parts = parts;
    return p;
}

/* F has a type `state`, and functions: start() -> state; add(&state, row, column); join(&state, state of
 * later rows); finish(column, state). */
template <class F>
__global__ void __launch_bounds__(BLOCK) columns_kernel(column_parts p, F f, typename F::state *partial)
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
        for (int64_t row = begin + lane; row < end; row += p.lanes)
            f.add(sum, row, column);
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (lane > 0 || column >= p.columns)
        return;
    for (int i = 1; i < p.lanes; i++)
        f.join(sum, shared[i * p.width + own]);
    if (p.parts > 1)
        partial[blockIdx.y * p.columns + column] = sum;
    else
        f.finish(column, sum);
}

template <class F> struct columns_end {
    column_parts p;
    F f;
    const typename F::state *partial;
    __device__ void operator()(int64_t column) const
    {
        typename F::state sum = partial[column];
        for (int64_t i = 1; i < p.parts; i++)
            f.join(sum, partial[i * p.columns + column]);
        f.finish(column, sum);
    }
};

template <class state> size_t columns_scratch(int64_t rows, int64_t columns)
{
    column_parts p = parts_of_columns(rows, columns);
    return p.parts > 1 ? static_cast<size_t>(p.parts * columns) * sizeof(state) : 0;
}

template <class F> void for_columns(const iso_kernel_call *call, int64_t rows, int64_t columns, F f)
{
    column_parts p = parts_of_columns(rows, columns);
    typename F::state *partial = static_cast<typename F::state *>(call->scratch);
    dim3 grid(static_cast<unsigned>(ceil_of(columns, p.width)), static_cast<unsigned>(p.parts));
    launch(columns_kernel<F>, grid, BLOCK, 0, iso_cuda_stream_of(call->stream), p, f, partial);
    if (p.parts > 1)
        for_each(call->stream, columns, columns_end<F>{p, f, partial});
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
