/* The ops conv2d, conv2d_grad_input and conv2d_grad_kernel by NVIDIA's libraries.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_CONVOLUTIONS_H
#define ISO_BACKEND_CUDA_CONVOLUTIONS_H

#include "runtime/backend/cuda/cublaslt.h"

/* The kernel that does the op by a library, if one is in use and does it; otherwise NULL. */
const iso_kernel *iso_cuda_convolution_kernel(const char *op, const iso_kernel_call *call);

/* The number of instructions from thunks[0] on that a library does as one convolution: 1, also if it is none; or with
 * a bias, and a relu, 2 or 3 (products.h). The addresses must be known. */
int iso_cuda_fused_convolution_count(const iso_thunk *thunks, int count);
/* Queues it, if that is more than 1. */
void iso_cuda_run_fused_convolution(const iso_thunk *thunks, const iso_cuda_epilogue *epilogue);

#endif
