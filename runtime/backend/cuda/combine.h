/* The combination of two elements of different slots. */
#ifndef ISO_BACKEND_CUDA_COMBINE_H
#define ISO_BACKEND_CUDA_COMBINE_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* Integers wrap around: memory that a copy which failed has not filled may hold any. */
template <class T> __device__ __forceinline__ T sum_of(T x, T y)
{
    return static_cast<T>(x + y);
}
template <> __device__ __forceinline__ int32_t sum_of(int32_t x, int32_t y)
{
    return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}
template <> __device__ __forceinline__ int64_t sum_of(int64_t x, int64_t y)
{
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}

/* a + b, or the larger one; of bools: or. NaN in either gives NaN. */
struct combiner {
    bool adds, logical;

    template <class T> __device__ __forceinline__ void put(T *to, T a, T b) const
    {
        auto x = wide(a), y = wide(b);
        if (logical)
            narrow(to, x != 0 || y != 0 ? decltype(x)(1) : decltype(x)(0));
        else
            narrow(to, adds ? sum_of(x, y) : x > y || x != x ? x : y);
    }
    template <class T, int N>
    __device__ __forceinline__ void put(pack<T, N> *to, const pack<T, N> &a, const pack<T, N> &b) const
    {
        for (int k = 0; k < N; k++)
            put(&to->at[k], a.at[k], b.at[k]);
    }
};

} // namespace iso_cuda

#endif
