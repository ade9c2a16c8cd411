/* The GPUs that this process sees, and CUDA's errors as statuses.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_GPU_H
#define ISO_BACKEND_CUDA_GPU_H

#include <cuda_runtime_api.h>

#include "runtime/backend/cuda_library.h"

/* The GPU for number `index` of those on this host that want one, of `visible` GPUs: they take turns. */
static inline int iso_cuda_round_robin(int index, int visible)
{
    return visible > 0 ? index % visible : 0;
}

/* The number of GPUs, at least 1 and at most ISO_CUDA_GPUS; the same in every call. */
int iso_cuda_visible(void);
/* "GPU 0 (NVIDIA H200)", "4 GPUs (NVIDIA H200)". Constant. */
const char *iso_cuda_gpu_names(void);
/* "NVIDIA H200": the model of one of them. Constant. */
const char *iso_cuda_model_name(int gpu);
/* The UUID of a GPU, or why it is not known. */
cudaError_t iso_cuda_uuid(int gpu, cudaUUID_t *uuid);
/* Makes it the GPU of the calling thread, as every call of CUDA expects. */
cudaError_t iso_cuda_enter(int gpu);

/* "GPU 0 (NVIDIA H200)": that which the thread has entered last. Constant. */
const char *iso_cuda_entered_name(void);

/* ISO_OK, or ISO_FAILED: "GPU 0 (NVIDIA H200): <what>: <CUDA's text> (CUDA error 719)". The GPU is that which the
 * thread has entered last: CUDA also tells it what failed on another one. */
iso_status iso_cuda_status(cudaError_t error, const char *what);
/* ISO_NO_MEMORY, with the bytes that were asked for and those that are free there. */
iso_status iso_cuda_no_memory(size_t bytes, const char *what);

#endif
