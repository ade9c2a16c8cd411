/* Loads and stores of packs: elements that are next to each other, at an address that is a multiple of their size. */
#ifndef ISO_BACKEND_CUDA_PACKS_H
#define ISO_BACKEND_CUDA_PACKS_H

#include <string.h>

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* Larger packs than 16 bytes are read in several. */
template <int N, class T> __device__ __forceinline__ pack<T, N> load_pack(const T *from)
{
    constexpr int most = 16 / sizeof(T);
    if constexpr (N <= most) {
        return *reinterpret_cast<const pack<T, N> *>(from);
    } else {
        pack<T, N> all;
        ISO_UNROLL()
        for (int k = 0; k < N; k += most) {
            const auto part = load_pack<most>(from + k);
            ISO_UNROLL()
            for (int i = 0; i < most; i++)
                all.at[k + i] = part.at[i];
        }
        return all;
    }
}

/* The same at any address. */
template <int N, class T> __device__ __forceinline__ pack<T, N> load_pack(const T *from, bool aligned)
{
    if (N > 1 && aligned)
        return load_pack<N>(from);
    pack<T, N> all;
    ISO_UNROLL()
    for (int k = 0; k < N; k++)
        all.at[k] = from[k];
    return all;
}

/* Elements that are `step` apart: 1, or 0 for the same one N times. */
template <int N, class T> __device__ __forceinline__ pack<T, N> load_strided(const T *from, int64_t step)
{
    if (step == 1)
        return load_pack<N>(from);
    pack<T, N> all;
    for (int k = 0; k < N; k++)
        all.at[k] = *from;
    return all;
}

template <class W, int N, class T> __device__ __forceinline__ void store_as(T *to, const pack<T, N> &value)
{
    W whole;
    memcpy(&whole, &value, sizeof whole);
    __stwb(reinterpret_cast<W *>(to), whole);
}

/* nvcc makes several small stores of some packs. __stwb is always one. */
template <int N, class T> __device__ __forceinline__ void store_pack(T *to, const pack<T, N> &value)
{
    if constexpr (sizeof value == sizeof(uint4))
        store_as<uint4>(to, value);
    else if constexpr (sizeof value == sizeof(uint2))
        store_as<uint2>(to, value);
    else
        *reinterpret_cast<pack<T, N> *>(to) = value;
}

template <int N, class T>
__device__ __forceinline__ void store_pack(T *to, const pack<T, N> &value, bool aligned)
{
    if (N > 1 && aligned)
        return store_pack(to, value);
    ISO_UNROLL()
    for (int k = 0; k < N; k++)
        to[k] = value.at[k];
}

/* Calls `run` with a zero of the unit in which elements are copied, and the number of elements of a unit: 16 bytes
 * where these divide the addresses and the extents, which are joined by or; else one element. */
template <class Run>
void with_units(iso_dtype dtype, int64_t extents, std::initializer_list<const void *> addresses,
                const Run &run)
{
    const int64_t of_unit = 16 / static_cast<int64_t>(iso_dtype_size(dtype));
    if (extents % of_unit == 0 && aligned(addresses))
        run(pack<uint64_t, 2>(), of_unit);
    else
        with_size(dtype, [&](auto zero) { run(zero, static_cast<int64_t>(1)); });
}

} // namespace iso_cuda

#endif
