/* The ops conv2d, conv2d_grad_input and conv2d_grad_kernel by NVIDIA's libraries.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_CONVOLUTIONS_H
#define ISO_BACKEND_CUDA_CONVOLUTIONS_H

#include "runtime/backend/backend.h"

/* The kernel that does the op by a library, if one is in use and does it; otherwise NULL. */
const iso_kernel *iso_cuda_convolution_kernel(const char *op, const iso_kernel_call *call);

#endif
