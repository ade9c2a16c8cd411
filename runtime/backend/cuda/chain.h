/* Elementwise instructions that follow each other, as one kernel: for arrays so small that the launch of a kernel
 * takes longer than its work, such as the moving statistics of batch normalization and the norms of clipped
 * gradients.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_CHAIN_H
#define ISO_BACKEND_CUDA_CHAIN_H

#include "runtime/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of instructions from thunks[0] on that form one chain; 1: none begins there. The addresses must be
 * known. */
int iso_cuda_chain_count(const iso_thunk *thunks, int count);
/* Queues so many instructions as one kernel, with the bits of their own kernels. */
void iso_cuda_run_chain(const iso_thunk *thunks, int count, const iso_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
