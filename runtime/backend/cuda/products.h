/* The op matmul by cuBLASLt, also together with the addition of a bias and the relu that follow it.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_PRODUCTS_H
#define ISO_BACKEND_CUDA_PRODUCTS_H

#include "runtime/backend/backend.h"

/* The kernel that does the op by a library, if one is in use and does it; otherwise NULL. */
const iso_kernel *iso_cuda_library_kernel(const char *op, const iso_kernel_call *call);

/* How many instructions from work[0] on are one product: 1, or with those that change its result in place, 2 or 3.
 * The addresses must be known. */
int iso_cuda_fused_count(const iso_work *work, int count);
/* Queues so many instructions as one product. */
void iso_cuda_run_fused(const iso_work *work, int count);

#endif
