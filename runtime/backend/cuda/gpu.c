#include "runtime/backend/cuda/gpu.h"

#include <pthread.h>
#include <stdio.h>

#include "runtime/base/text.h"

static struct {
    pthread_once_t once;
    int host_rank, gpu;
    char name[300], model[256];
} chosen = {.once = PTHREAD_ONCE_INIT};

static void choose_once(void)
{
    struct cudaDeviceProp properties = {.name = "unknown"};
    int visible = 0;
    if (cudaGetDeviceCount(&visible) == cudaSuccess)
        chosen.gpu = iso_cuda_turn(chosen.host_rank, visible);
    cudaGetDeviceProperties(&properties, chosen.gpu);
    snprintf(chosen.model, sizeof chosen.model, "%s", properties.name);
    snprintf(chosen.name, sizeof chosen.name, "GPU %d (%s)", chosen.gpu, properties.name);
}

void iso_cuda_choose(int host_rank)
{
    chosen.host_rank = host_rank;
    pthread_once(&chosen.once, choose_once);
}

int iso_cuda_chosen(void)
{
    pthread_once(&chosen.once, choose_once);
    return chosen.gpu;
}

const char *iso_cuda_gpu_name(void)
{
    pthread_once(&chosen.once, choose_once);
    return chosen.name;
}

const char *iso_cuda_model_name(void)
{
    pthread_once(&chosen.once, choose_once);
    return chosen.model;
}

cudaError_t iso_cuda_enter(void)
{
    static _Thread_local bool entered;
    cudaError_t error = entered ? cudaSuccess : cudaSetDevice(iso_cuda_chosen());
    entered = error == cudaSuccess;
    return error;
}

iso_status iso_cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return ISO_OK;
    cudaGetLastError(); /* it is reported here */
    return iso_error(ISO_FAILED, "%s: %s: %s (CUDA error %d)", iso_cuda_gpu_name(), what,
                     cudaGetErrorString(error), (int)error);
}

iso_status iso_cuda_no_memory(size_t bytes, const char *what)
{
    char planned[32], unused[32], all[32];
    size_t free_bytes = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total);
    return iso_error(ISO_NO_MEMORY, "%s: no memory for %s: %s are needed (%zu bytes), %s of %s are free",
                     iso_cuda_gpu_name(), what, iso_text_scaled((double)bytes, "B", planned, sizeof planned),
                     bytes, iso_text_scaled((double)free_bytes, "B", unused, sizeof unused),
                     iso_text_scaled((double)total, "B", all, sizeof all));
}
