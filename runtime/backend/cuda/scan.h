/* Sums over the threads of a block, in their order. */
#ifndef ISO_BACKEND_CUDA_SCAN_H
#define ISO_BACKEND_CUDA_SCAN_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* The sum of `value` in the threads of the block before this one; all: in all of them. */
template <int THREADS> __device__ int32_t sum_before(int32_t value, int32_t &all)
{
    __shared__ int32_t part[THREADS / WARP];
    const int lane = static_cast<int>(threadIdx.x) % WARP, warp = static_cast<int>(threadIdx.x) / WARP;
    int32_t sum = value, before = 0;
    for (int distance = 1; distance < WARP; distance *= 2) {
        int32_t other = __shfl_sync(0xffffffffu, sum, lane - distance);
        sum += lane >= distance ? other : 0;
    }
    __syncthreads(); /* `part` of the call before has been read */
    if (lane == WARP - 1)
        part[warp] = sum;
    __syncthreads();
    all = 0;
    for (int i = 0; i < THREADS / WARP; i++) {
        before += i < warp ? part[i] : 0;
        all += part[i];
    }
    return before + sum - value;
}

} // namespace iso_cuda

#endif
