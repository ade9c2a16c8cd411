/* The table of the CUDA backend. The host's library adds what it has for both sides: see
 * runtime/backend/cuda_backend.c. */
#include "runtime/backend/cuda/backend.h"

#include <stdio.h>

#include "runtime/backend/cuda/attention.h"
#include "runtime/backend/cuda/convolutions.h"
#include "runtime/backend/cuda/cublaslt.h"
#include "runtime/backend/cuda/cudnn.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/functions.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/kernels.h"
#include "runtime/backend/cuda/products.h"
#include "runtime/backend/cuda/sequence.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/backend/cuda/tuning.h"

/* "cuDNN 9.19.0 (libcudnn.so.9)", or why it is not used. */
static void convolutions_text(char *text, size_t size)
{
    iso_cuda_part_facts facts;
    iso_cuda_find_opened(ISO_CUDA_CUDNN, &facts);
    if (iso_cuda_uses_cudnn())
        snprintf(text, size, "%s", facts.text);
    else
        snprintf(text, size, "%s, convolutions by im2col",
                 !iso_cuda_wants_part(ISO_CUDA_CUDNN) ? facts.text
                 : facts.found                        ? "without cuDNN, which not all ranks have"
                 : facts.built                        ? "without cuDNN, which cannot be opened"
                                                      : "built without cuDNN");
}

/* "cuda: GPU 0 (NVIDIA H200), CUDA 13.0, cuBLASLt 13.1.0 (libcublasLt.so.13), cuDNN 9.19.0 (libcudnn.so.9)";
 * "cuda: 4 GPUs (NVIDIA H200), ..." */
static const char *description(void)
{
    static char text[1500];
    char convolutions[500];
    int version = 0;
    iso_cuda_part_facts products;
    convolutions_text(convolutions, sizeof convolutions);
    cudaRuntimeGetVersion(&version);
    iso_cuda_find_opened(ISO_CUDA_CUBLASLT, &products);
    snprintf(text, sizeof text, "cuda: %s, CUDA %d.%d, %s, %s%s", iso_cuda_gpu_names(), version / 1000,
             version % 1000 / 10, products.text, convolutions, iso_cuda_allows_tf32() ? ", TF32" : "");
    return text;
}

/* Convolutions have other bits with cuDNN than without it: all ranks use it, or none does. */
static int level(void)
{
    return iso_cuda_uses_cudnn();
}

static void limit(int level)
{
    iso_cuda_allow_cudnn(level > 0);
}

/* "cuBLASLt 13.1.0, cuDNN 9.19.0"; "cuBLASLt none, cuDNN none" */
static const char *libraries(void)
{
    static char text[120];
    iso_cuda_part_facts products, convolutions;
    iso_cuda_find_opened(ISO_CUDA_CUBLASLT, &products);
    iso_cuda_find_opened(ISO_CUDA_CUDNN, &convolutions);
    snprintf(text, sizeof text, "cuBLASLt %s, cuDNN %s", products.found ? products.version : "none",
             iso_cuda_uses_cudnn() ? convolutions.version : "none");
    return text;
}

static const char *model(void)
{
    return iso_cuda_model_name(0);
}

static void set(const iso_backend_settings *settings)
{
    iso_cuda_allow_tf32(settings->tf32);
}

static const iso_kernel *find(const char *op, const iso_kernel_call *call)
{
    const iso_kernel *kernel = iso_cuda_library_kernel(op, call);
    kernel = kernel ? kernel : iso_cuda_convolution_kernel(op, call);
    kernel = kernel ? kernel : iso_cuda_attention_kernel(op, call);
    return kernel ? kernel : iso_cuda_kernel_find(op, call);
}

/* ---- on the stream's GPU ---- */

static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    iso_cuda_use(stream);
    iso_cuda_sum_slots(dtype, n, a, b, out, stream);
}

static void maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    iso_cuda_use(stream);
    iso_cuda_maximum_slots(dtype, n, a, b, out, stream);
}

static void optimize(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table,
                     iso_stream *stream)
{
    iso_cuda_use(stream);
    iso_cuda_optimize(calls, n_calls, table, stream);
}

static void copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *stream)
{
    iso_cuda_use(stream);
    iso_cuda_copy_bytes(list, count, faults, stream);
}

static void count_fault(const iso_fault *fault, const double *host, double *out, iso_stream *stream)
{
    iso_cuda_use(stream);
    iso_cuda_count_fault(fault, host, out, stream);
}

const iso_backend *iso_cuda_backend(void)
{
    static const iso_backend backend = {.name = "cuda",
                                        .description = description,
                                        .set = set,
                                        .tuning = &iso_cuda_tuning,
                                        .level = level,
                                        .limit = limit,
                                        .libraries = libraries,
                                        .devices = iso_cuda_visible,
                                        .model = model,
                                        .kernels = model,
                                        .device = iso_cuda_device,
                                        .find = find,
                                        .rounds = true,
                                        .normalizes = true,
                                        .sequence = iso_cuda_sequence,
                                        .capture = iso_cuda_capture,
                                        .launch = iso_cuda_launch,
                                        .discard = iso_cuda_discard,
                                        .sum = sum,
                                        .maximum = maximum,
                                        .optimizer = iso_cuda_optimizer,
                                        .prepare = iso_cuda_prepare,
                                        .optimize = optimize,
                                        .table_entry = ISO_CUDA_TABLE_ENTRY,
                                        .copy_bytes = copy_bytes,
                                        .count_fault = count_fault};
    return &backend;
}
