#include "runtime/backend/cuda/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/text.h"

static struct {
    pthread_once_t once;
    int visible;
    char name[ISO_CUDA_GPUS][300], model[ISO_CUDA_GPUS][256], all[300];
    cudaUUID_t uuid[ISO_CUDA_GPUS];
    cudaError_t error[ISO_CUDA_GPUS];
} seen = {.once = PTHREAD_ONCE_INIT};

static void look_once(void)
{
    int count = 0;
    bool alike = true;
    cudaError_t error = cudaGetDeviceCount(&count);
    count = error != cudaSuccess || count < 1 ? 1 : count;
    seen.visible = count < ISO_CUDA_GPUS ? count : ISO_CUDA_GPUS;
    for (int i = 0; i < seen.visible; i++) {
        struct cudaDeviceProp properties = {.name = "unknown"};
        seen.error[i] = cudaGetDeviceProperties(&properties, i);
        seen.uuid[i] = properties.uuid;
        snprintf(seen.model[i], sizeof seen.model[i], "%s", properties.name);
        snprintf(seen.name[i], sizeof seen.name[i], "GPU %d (%s)", i, properties.name);
        alike &= strcmp(seen.model[i], seen.model[0]) == 0;
    }
    if (seen.visible == 1)
        snprintf(seen.all, sizeof seen.all, "%s", seen.name[0]);
    else
        snprintf(seen.all, sizeof seen.all, "%d GPUs (%s%s)", seen.visible, seen.model[0],
                 alike ? "" : " and others");
}

static void look(void)
{
    pthread_once(&seen.once, look_once);
}

int iso_cuda_visible(void)
{
    look();
    return seen.visible;
}

const char *iso_cuda_gpu_names(void)
{
    look();
    return seen.all;
}

const char *iso_cuda_model_name(int gpu)
{
    look();
    return seen.model[gpu];
}

cudaError_t iso_cuda_uuid(int gpu, cudaUUID_t *uuid)
{
    look();
    *uuid = seen.uuid[gpu];
    return seen.error[gpu];
}

static _Thread_local int entered = -1;

/* CUDA is told each time: the program, or a library, may have changed the thread's GPU in between. */
cudaError_t iso_cuda_enter(int gpu)
{
    cudaError_t error = cudaSetDevice(gpu);
    entered = gpu; /* also if an earlier error is told here */
    return error;
}

const char *iso_cuda_entered_name(void)
{
    look();
    return seen.name[entered >= 0 && entered < seen.visible ? entered : 0];
}

iso_status iso_cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return ISO_OK;
    cudaGetLastError(); /* it is reported here */
    return iso_error(ISO_FAILED, "%s: %s: %s (CUDA error %d)", iso_cuda_entered_name(), what,
                     cudaGetErrorString(error), (int)error);
}

iso_status iso_cuda_no_memory(size_t bytes, const char *what)
{
    char planned[32], unused[32], all[32];
    size_t free_bytes = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total);
    return iso_error(ISO_NO_MEMORY, "%s: no memory for %s: %s are needed (%zu bytes), %s of %s are free",
                     iso_cuda_entered_name(), what,
                     iso_text_scaled((double)bytes, "B", planned, sizeof planned), bytes,
                     iso_text_scaled((double)free_bytes, "B", unused, sizeof unused),
                     iso_text_scaled((double)total, "B", all, sizeof all));
}
