/* Sorts choices by expert: blocks count those of their chunks, the counts are added, and each choice is placed. No
 * thread takes part in a race, so that the order is always the same. */
#include "runtime/backend/cuda/grouped_order.h"

#include "runtime/backend/cuda/scan.h"

namespace iso_cuda
{

namespace
{

/* Reads the experts of a chunk. position: the number of earlier choices of the same expert in the chunk. */
__global__ void __launch_bounds__(BLOCK) count_chunk(indices choice, int64_t first, grouped_order order)
{
    __shared__ int32_t chunk[BLOCK];
    const int own = static_cast<int>(threadIdx.x);
    const int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + own;
    int64_t expert = -1;
    if (i < order.choices) {
        expert = choice.get(i);
        if (expert < 0)
            choice.raise(i);
        expert -= first;
    }
    const int32_t local = expert >= 0 && expert < order.experts ? static_cast<int32_t>(expert) : -1;
    chunk[own] = local;
    for (int64_t e = own; e < order.experts; e += BLOCK)
        order.counts[e * order.chunks + blockIdx.x] = 0;
    __syncthreads();
    int32_t before = 0, after = 0;
    for (int j = 0; j < BLOCK; j++) {
        before += chunk[j] == local && j < own;
        after += chunk[j] == local && j > own;
    }
    if (i >= order.choices)
        return;
    order.local[i] = local;
    order.position[i] = before;
    if (local >= 0 && after == 0)
        order.counts[local * order.chunks + blockIdx.x] = before + 1;
}

/* A block for each expert: the choices in the chunks before each chunk. begin[expert + 1]: in all of them. */
__global__ void __launch_bounds__(BLOCK) add_chunks(grouped_order order)
{
    int32_t *counts = order.counts + blockIdx.x * order.chunks, sum = 0;
    for (int64_t first = 0; first < order.chunks; first += BLOCK) {
        const int64_t chunk = first + threadIdx.x;
        int32_t all;
        const int32_t before = sum + sum_before<BLOCK>(chunk < order.chunks ? counts[chunk] : 0, all);
        if (chunk < order.chunks)
            counts[chunk] = before;
        sum += all;
    }
    if (threadIdx.x == 0)
        order.begin[blockIdx.x + 1] = sum;
}

/* One block: the first position and the first tile of each expert. */
__global__ void __launch_bounds__(BLOCK) add_experts(grouped_order order)
{
    int32_t positions = 0, tiles = 0;
    for (int64_t first = 0; first < order.experts; first += BLOCK) {
        const int64_t expert = first + threadIdx.x;
        const int32_t count = expert < order.experts ? order.begin[expert + 1] : 0;
        int32_t all, all_tiles;
        const int32_t begin = positions + sum_before<BLOCK>(count, all);
        const int32_t own = static_cast<int32_t>((count + order.tile - 1) / order.tile);
        const int32_t first_tile = tiles + sum_before<BLOCK>(own, all_tiles);
        if (expert < order.experts) { /* all counts of this round have been read */
            order.begin[expert + 1] = begin + count;
            order.first_tile[expert + 1] = first_tile + own;
        }
        positions += all;
        tiles += all_tiles;
    }
    if (threadIdx.x == 0)
        order.begin[0] = order.first_tile[0] = 0;
}

/* The expert of a tile: the last one whose tiles begin at it or before. Experts without tiles are passed over. */
__device__ int32_t expert_of_tile(const grouped_order &order, int64_t tile)
{
    int32_t low = 0, high = static_cast<int32_t>(order.experts);
    if (high == 0 || tile >= order.first_tile[high])
        return -1;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (order.first_tile[middle] <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A thread for each choice, and each tile. */
struct place_choices {
    grouped_order order;
    __device__ void operator()(int64_t i) const
    {
        if (i < order.tiles)
            order.tile_expert[i] = expert_of_tile(order, i);
        if (i >= order.choices)
            return;
        const int64_t expert = order.local[i];
        if (expert < 0) {
            order.position[i] = -1;
            return;
        }
        const int32_t at =
            order.begin[expert] + order.counts[expert * order.chunks + i / BLOCK] + order.position[i];
        order.position[i] = at;
        order.row[at] = static_cast<int32_t>(i / order.k);
    }
};

} // namespace

grouped_order lay_out_order(const iso_experts &e, int64_t tile, char *&memory)
{
    grouped_order order = {};
    const int64_t used = e.locally < e.choice_count ? e.locally : e.choice_count; /* experts with rows */
    order.choices = e.choice_count, order.k = e.k, order.experts = e.locally;
    order.chunks = ceil_of(e.choice_count, BLOCK);
    order.tile = tile;
    order.tiles = used + (e.choice_count - used) / tile;
    order.position = take<int32_t>(memory, order.choices);
    order.row = take<int32_t>(memory, order.choices);
    order.begin = take<int32_t>(memory, order.experts + 1);
    order.first_tile = take<int32_t>(memory, order.experts + 1);
    order.tile_expert = take<int32_t>(memory, order.tiles);
    order.local = take<int32_t>(memory, order.choices);
    order.counts = take<int32_t>(memory, order.experts * order.chunks);
    return order;
}

void find_order(const iso_kernel_call *call, const iso_experts &e, const grouped_order &order)
{
    iso_cuda_stream *const stream = iso_cuda_stream_of(call->stream);
    launch(count_chunk, static_cast<unsigned>(order.chunks), BLOCK, 0, stream,
           indices_of(call, ISO_EXPERTS_CHOICE, e.experts), e.first, order);
    launch(add_chunks, static_cast<unsigned>(order.experts), BLOCK, 0, stream, order);
    launch(add_experts, 1, BLOCK, 0, stream, order);
    for_each(call->stream, order.choices > order.tiles ? order.choices : order.tiles, place_choices{order});
}

} // namespace iso_cuda
