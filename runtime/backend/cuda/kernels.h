/* The kernels of the CUDA backend, for its table. */
#ifndef ISO_BACKEND_CUDA_KERNELS_H
#define ISO_BACKEND_CUDA_KERNELS_H

#include "runtime/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* iso_backend.find. Local; any thread may call it. */
const iso_kernel *iso_cuda_kernel_find(const char *op, const iso_kernel_call *call);

#ifdef __cplusplus
}
#endif
#endif
