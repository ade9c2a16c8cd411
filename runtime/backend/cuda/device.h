/* The device seam (runtime/base/device.h) on a GPU. */
#ifndef ISO_BACKEND_CUDA_DEVICE_H
#define ISO_BACKEND_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "runtime/base/device.h"

/* The GPU of this process (gpu.h). Constant. Local; any thread may call it. */
const iso_device *iso_cuda_device(void);

/* Queues a fill of elements of 2, 4 or 8 bytes (iso_device.fill). Local; one thread at a time uses a stream. */
cudaError_t iso_cuda_fill(void *to, const void *element, size_t size, size_t count, cudaStream_t stream);

#endif
