/* The op matmul by cuBLASLt, also together with the addition of a bias and the relu that follow it.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_PRODUCTS_H
#define ISO_BACKEND_CUDA_PRODUCTS_H

#include "runtime/backend/cuda/cublaslt.h"

/* The kernel that does the op by a library, if one is in use and does it; otherwise NULL. */
const iso_kernel *iso_cuda_library_kernel(const char *op, const iso_kernel_call *call);

/* The number of instructions from thunks[0] on that a library may do as one: 1, or with the addition of a bias, and a
 * relu, that change the result of the first one in place, 2 or 3. *epilogue: the bits of these. */
int iso_cuda_find_epilogue(const iso_thunk *thunks, int count, iso_cuda_epilogue *epilogue);

/* The number of instructions from thunks[0] on that are one product or convolution: 1, or with such an epilogue, 2 or
 * 3. The addresses must be known. */
int iso_cuda_fused_count(const iso_thunk *thunks, int count);
/* Queues so many instructions as one. */
void iso_cuda_run_fused(const iso_thunk *thunks, int count);

#endif
