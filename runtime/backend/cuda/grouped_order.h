/* The choices of a mixture of experts in the order of the experts, those of an expert in their own order. Counted and
 * placed on the device: the host does not know how many rows an expert has. */
#ifndef ISO_BACKEND_CUDA_GROUPED_ORDER_H
#define ISO_BACKEND_CUDA_GROUPED_ORDER_H

#include "runtime/backend/cuda/faults.h"
#include "runtime/backend/experts.h"

namespace iso_cuda
{

/* A position is the number of a choice in this order, from 0 on; choices of other slots' experts have none. Positions
 * are divided into tiles of `tile` rows or fewer, each of one expert. */
struct grouped_order {
    int64_t choices, k, experts, chunks, tile, tiles; /* tiles: the most that there may be */
    int32_t *position;                                /* [choices] the position of each; -1: none */
    int32_t *row;                                     /* [choices] the row of x at each position */
    int32_t *begin;                                   /* [experts + 1] the first position of each expert */
    int32_t *first_tile;                              /* [experts + 1] its first tile */
    int32_t *tile_expert; /* [tiles] the expert of each tile; -1: there are not so many tiles */
    int32_t *local;       /* [choices] the number of the expert in the slot; -1: another slot has it */
    int32_t
        *counts; /* [experts, chunks] choices in each chunk of BLOCK; at the end, in the chunks before it */
};

/* An array of whole cache lines. */
template <class E> E *take(char *&memory, int64_t count)
{
    E *taken = reinterpret_cast<E *>(memory);
    memory += ceil_of(count * static_cast<int64_t>(sizeof(E)), 64) * 64;
    return taken;
}

/* Takes its arrays from `memory`, which may begin at NULL to count bytes. */
grouped_order lay_out_order(const iso_experts &e, int64_t tile, char *&memory);

/* Fills them, on the stream of the call. Raises the fault of a choice that names no expert. */
void find_order(const iso_kernel_call *call, const iso_experts &e, const grouped_order &order);

} // namespace iso_cuda

#endif
