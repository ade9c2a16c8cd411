#include "runtime/backend/cuda/facts.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/text.h"

enum { LEAST_MAJOR = 8 }; /* compute capability 8.0, as CUDA_TARGETS of cuda.mk says */

/* "13.0" of 13000 */
static const char *version_text(int version, char text[16])
{
    snprintf(text, 16, "%d.%d", version / 1000, version % 1000 / 10);
    return text;
}

/* "; CUDA_VISIBLE_DEVICES is '-1'": it may hide GPUs, or name none. */
static void add_visible(char *text, size_t size)
{
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    size_t length = strlen(text);
    if (given)
        snprintf(text + length, size - length, "; CUDA_VISIBLE_DEVICES is '%.100s%s'", given,
                 strlen(given) > 100 ? "..." : "");
}

/* Without a driver its version is 0, and every other call gives an error. */
static void explain(cudaError_t error, iso_cuda_facts *facts)
{
    char driver[16], runtime[16];
    version_text(facts->driver, driver);
    version_text(facts->runtime, runtime);
    if (error == cudaErrorInsufficientDriver && facts->driver == 0) {
        facts->state = ISO_CUDA_NO_DRIVER;
        snprintf(facts->text, sizeof facts->text, "no NVIDIA driver is loaded (CUDA error %d)", (int)error);
    } else if (error == cudaErrorInsufficientDriver) {
        facts->state = ISO_CUDA_OLD_DRIVER;
        snprintf(facts->text, sizeof facts->text,
                 "the NVIDIA driver supports CUDA %s, but Isogrid was compiled with CUDA %s (CUDA error %d)",
                 driver, runtime, (int)error);
    } else if (error == cudaErrorNoDevice || error == cudaSuccess) {
        facts->state = ISO_CUDA_NO_GPU;
        snprintf(facts->text, sizeof facts->text, "the NVIDIA driver (CUDA %s) shows no GPU (CUDA error %d)",
                 driver, (int)error);
        add_visible(facts->text, sizeof facts->text);
    } else {
        facts->state = ISO_CUDA_DRIVER_FAILS;
        snprintf(facts->text, sizeof facts->text, "the NVIDIA driver (CUDA %s) fails: %s (CUDA error %d)",
                 driver, cudaGetErrorString(error), (int)error);
        add_visible(facts->text, sizeof facts->text);
    }
}

static cudaError_t describe(int index, bool free_memory, iso_cuda_gpu *gpu)
{
    struct cudaDeviceProp of;
    cudaError_t error = cudaGetDeviceProperties(&of, index);
    if (error != cudaSuccess)
        return error;
    *gpu = (iso_cuda_gpu){.total_bytes = of.totalGlobalMem, .major = of.major, .minor = of.minor};
    snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof gpu->name - 1, of.name);
    _Static_assert(sizeof of.uuid == sizeof gpu->uuid, "the UUID of a GPU");
    memcpy(gpu->uuid, &of.uuid, sizeof gpu->uuid);
    size_t total;
    return !free_memory                                    ? cudaSuccess
           : (error = cudaSetDevice(index)) != cudaSuccess ? error
                                                           : cudaMemGetInfo(&gpu->free_bytes, &total);
}

/* Without free_memory no GPU gets a context: it would take half a gigabyte, and a GPU of the mode "exclusive process"
 * refuses those of all processes but one. */
static cudaError_t describe_all(bool free_memory, iso_cuda_facts *facts)
{
    int current = 0;
    cudaError_t error = cudaGetDevice(&current);
    for (int i = 0; i < facts->n_gpus && error == cudaSuccess; i++)
        error = describe(i, free_memory, &facts->gpu[i]);
    cudaError_t back = free_memory ? cudaSetDevice(current) : cudaSuccess;
    return error != cudaSuccess ? error : back;
}

/* "2 GPUs: NVIDIA H200, NVIDIA H200; driver for CUDA 13.0" */
static void name_all(iso_cuda_facts *facts)
{
    iso_text names = {0};
    char driver[16];
    for (int i = 0; i < facts->n_gpus; i++)
        iso_text_add(&names, "%s%s", i ? ", " : "", facts->gpu[i].name);
    snprintf(facts->text, sizeof facts->text, "%d GPU%s: %s; driver for CUDA %s", facts->n_gpus,
             facts->n_gpus == 1 ? "" : "s", iso_text_get(&names), version_text(facts->driver, driver));
    iso_text_free(&names);
}

/* NULL: there is code for all. */
static const iso_cuda_gpu *find_old(const iso_cuda_facts *facts)
{
    for (int i = 0; i < facts->n_gpus; i++)
        if (facts->gpu[i].major < LEAST_MAJOR)
            return &facts->gpu[i];
    return NULL;
}

static void tell_old(const iso_cuda_gpu *gpu, iso_cuda_facts *facts)
{
    facts->state = ISO_CUDA_OLD_GPU;
    snprintf(facts->text, sizeof facts->text,
             "GPU %d (%s) has compute capability %d.%d, but Isogrid has code for %d.0 and later: "
             "CUDA_VISIBLE_DEVICES can hide this GPU",
             (int)(gpu - facts->gpu), gpu->name, gpu->major, gpu->minor, LEAST_MAJOR);
}

void iso_cuda_find_gpus(bool free_memory, iso_cuda_facts *facts)
{
    int count = 0;
    memset(facts, 0, sizeof *facts);
    cudaDriverGetVersion(&facts->driver);
    cudaRuntimeGetVersion(&facts->runtime);
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        facts->n_gpus = count < ISO_CUDA_GPUS ? count : ISO_CUDA_GPUS;
        error = describe_all(free_memory, facts);
    }
    cudaGetLastError(); /* it is reported here */
    const iso_cuda_gpu *old = find_old(facts);
    if (error != cudaSuccess || count == 0)
        explain(error, facts);
    else if (old)
        tell_old(old, facts);
    else {
        facts->state = ISO_CUDA_FOUND;
        name_all(facts);
    }
}
