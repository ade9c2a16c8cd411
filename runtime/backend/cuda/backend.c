/* The table of the CUDA backend. The host's library adds what it has for both sides: see
 * runtime/backend/cuda_backend.c. */
#include "runtime/backend/cuda/backend.h"

#include <stdio.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/kernels.h"
#include "runtime/backend/cuda/sequence.h"
#include "runtime/backend/cuda/step_end.h"

/* "cuda: GPU 0 (NVIDIA H200), CUDA 13.0"; "cuda: 4 GPUs (NVIDIA H200), CUDA 13.0" */
static const char *description(void)
{
    static char text[400];
    int version = 0;
    cudaRuntimeGetVersion(&version);
    snprintf(text, sizeof text, "cuda: %s, CUDA %d.%d", iso_cuda_gpu_names(), version / 1000,
             version % 1000 / 10);
    return text;
}

/* ---- on the stream's GPU ---- */

static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    iso_cuda_keep(stream, iso_cuda_enter_stream(stream));
    iso_cuda_sum_slots(dtype, n, a, b, out, stream);
}

static void maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    iso_cuda_keep(stream, iso_cuda_enter_stream(stream));
    iso_cuda_maximum_slots(dtype, n, a, b, out, stream);
}

static void optimize(const iso_optimizer_call *call, iso_stream *stream)
{
    iso_cuda_keep(stream, iso_cuda_enter_stream(stream));
    iso_cuda_optimize(call, stream);
}

static void copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream)
{
    iso_cuda_keep(stream, iso_cuda_enter_stream(stream));
    iso_cuda_copy_bytes(list, count, faults, stream);
}

static void count_fault(const iso_fault *fault, double host, double *out, iso_stream *stream)
{
    iso_cuda_keep(stream, iso_cuda_enter_stream(stream));
    iso_cuda_count_fault(fault, host, out, stream);
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
                                        .sum = sum,
                                        .maximum = maximum,
                                        .optimizer = iso_cuda_optimizer,
                                        .prepare = iso_cuda_prepare,
                                        .optimize = optimize,
                                        .copy_bytes = copy_bytes,
                                        .count_fault = count_fault};
    return &backend;
}
