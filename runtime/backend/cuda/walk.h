/* Maps from the number of an element to its place in strided arrays: broadcasting, reductions, copies of
 * parts. */
#ifndef ISO_BACKEND_CUDA_WALK_H
#define ISO_BACKEND_CUDA_WALK_H

#include "runtime/backend/cuda/elements.h"

namespace iso_cuda
{

/* Row-major over dim[0..rank) for K arrays with strides in elements. Dimensions of extent 1 are left out,
 * and those are joined that every array has in one run, so that most maps have one dimension, which needs no
 * division. */
template <int K> struct walk {
    int64_t count = 1;
    int rank = 0;
    int64_t dim[ISO_MAX_RANK], stride[K][ISO_MAX_RANK];

    /* The dimension inside those that were added before. */
    void add(int64_t extent, const int64_t (&steps)[K])
    {
        count *= extent;
        if (extent == 1)
            return;
        bool joined = rank > 0;
        for (int k = 0; k < K && joined; k++)
            joined = stride[k][rank - 1] == steps[k] * extent;
        rank += !joined;
        dim[rank - 1] = joined ? dim[rank - 1] * extent : extent;
        for (int k = 0; k < K; k++)
            stride[k][rank - 1] = steps[k];
    }

    __device__ __forceinline__ int64_t inner_step(int k) const
    {
        return rank > 0 ? stride[k][rank - 1] : 0;
    }

    /* Whether each pack of `width` elements is in one run of each array, or one element of it, and begins at a
     * multiple of the width. The elements of a walk of one dimension may have a rest. */
    bool in_packs(int width) const
    {
        bool whole = rank <= 1 || dim[rank - 1] % width == 0;
        for (int k = 0; k < K; k++) {
            whole &= inner_step(k) <= 1;
            for (int d = 0; d < rank - 1 && inner_step(k) == 1; d++)
                whole &= stride[k][d] % width == 0;
        }
        return whole;
    }

    /* What a unit of elements must divide, joined by or; 1 if elements are not next to each other. */
    int64_t extents() const
    {
        int64_t all = rank > 0 ? dim[rank - 1] : 1;
        for (int k = 0; k < K; k++) {
            all |= inner_step(k) != 1;
            for (int d = 0; d < rank - 1; d++)
                all |= stride[k][d];
        }
        return all;
    }
    walk in_units(int64_t of_unit) const
    {
        walk w = *this;
        w.count /= of_unit;
        for (int d = 0; d < rank; d++)
            for (int k = 0; k < K && d < rank - 1; k++)
                w.stride[k][d] /= of_unit;
        if (rank > 0)
            w.dim[rank - 1] /= of_unit;
        return w;
    }

    template <class index> __device__ __forceinline__ void split(index i, int64_t (&at)[K]) const
    {
        ISO_UNROLL(1)
        for (int d = rank - 1; d > 0; d--) {
            index extent = static_cast<index>(dim[d]), outer = i / extent, inner = i - outer * extent;
            for (int k = 0; k < K; k++)
                at[k] += static_cast<int64_t>(inner) * stride[k][d];
            i = outer;
        }
        for (int k = 0; k < K && rank > 0; k++)
            at[k] += static_cast<int64_t>(i) * stride[k][0];
    }

    /* The places of element i. */
    __device__ __forceinline__ void find(int64_t i, int64_t (&at)[K]) const
    {
        for (int k = 0; k < K; k++)
            at[k] = 0;
        if (count <= INT32_MAX) /* divisions of 32 bits take a quarter of the time */
            split(static_cast<uint32_t>(i), at);
        else
            split(i, at);
    }
};

/* Row-major strides of a dense array. */
inline void strides_of(const iso_array &array, int64_t *stride)
{
    int64_t step = 1;
    for (int d = array.rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= array.dim[d];
    }
}

/* Over the elements of `out`, with strides of the K arrays that are broadcast to its shape. */
template <int K> walk<K> walk_of_broadcast(const iso_array &out, const iso_array *const (&arrays)[K])
{
    int64_t stride[K][ISO_MAX_RANK];
    walk<K> w;
    for (int k = 0; k < K; k++)
        strides_of(*arrays[k], stride[k]);
    for (int d = 0; d < out.rank; d++) {
        int64_t steps[K];
        for (int k = 0; k < K; k++) {
            int own = d - (out.rank - arrays[k]->rank);
            steps[k] = own < 0 || arrays[k]->dim[own] == 1 ? 0 : stride[k][own];
        }
        w.add(out.dim[d], steps);
    }
    return w;
}

} // namespace iso_cuda

#endif
