/* The table of the CUDA backend. The host's library adds what it has for both sides: see
 * runtime/backend/cuda_backend.c. */
#include "runtime/backend/cuda/backend.h"

#include <stdio.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/kernels.h"
#include "runtime/backend/cuda/sequence.h"
#include "runtime/backend/cuda/step_end.h"

/* "cuda: GPU 0 (NVIDIA H200), CUDA 13.0" */
static const char *description(void)
{
    static char text[400];
    int version = 0;
    cudaRuntimeGetVersion(&version);
    snprintf(text, sizeof text, "cuda: %s, CUDA %d.%d", iso_cuda_gpu_name(), version / 1000,
             version % 1000 / 10);
    return text;
}

const iso_backend *iso_cuda_backend(void)
{
    static const iso_backend backend = {.name = "cuda",
                                        .description = description,
                                        .kernels = iso_cuda_model_name,
                                        .device = iso_cuda_device,
                                        .find = iso_cuda_kernel_find,
                                        .capture = iso_cuda_capture,
                                        .launch = iso_cuda_launch,
                                        .discard = iso_cuda_discard,
                                        .sum = iso_cuda_sum_slots,
                                        .maximum = iso_cuda_maximum_slots,
                                        .optimizer = iso_cuda_optimizer,
                                        .prepare = iso_cuda_prepare,
                                        .optimize = iso_cuda_optimize,
                                        .copy_bytes = iso_cuda_copy_bytes,
                                        .count_fault = iso_cuda_count_fault};
    return &backend;
}
