/* The backend "cuda": the table of libisogrid_cuda.so, which is opened when somebody asks whether there is a GPU. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cuda_library.h"
#include "runtime/backend/list.h"

static const char *unavailable(void);

static iso_backend backend = {.name = "cuda", .unavailable = unavailable}; /* all of it once a GPU is found */
static const iso_backend *on_device;                                       /* the library's table */
static char reason[400];                                                   /* why there is none */

/* Adds two arrays. Without a stream the call comes from an exchange of the CPU, and works in the host's memory. */
static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (stream ? on_device : iso_backend_cpu())->sum(dtype, n, a, b, out, stream);
}

static void maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *stream)
{
    (stream ? on_device : iso_backend_cpu())->maximum(dtype, n, a, b, out, stream);
}

/* Whether a library of NVIDIA's is missing that may not be: cuBLASLt, because products without it are slow and have
 * other bits, and each one whose file the environment names. `none` asks for its absence. */
static bool lacks_library(const iso_cuda_library *library)
{
    static const char *const variable[ISO_CUDA_PARTS] = {[ISO_CUDA_CUBLASLT] = "ISOGRID_CUBLASLT_LIBRARY",
                                                         [ISO_CUDA_CUDNN] = "ISOGRID_CUDNN_LIBRARY",
                                                         [ISO_CUDA_NCCL] = "ISOGRID_NCCL_LIBRARY"};
    for (iso_cuda_part part = 0; part < ISO_CUDA_PARTS; part++) {
        const char *given = getenv(variable[part]);
        bool named = given && *given;
        iso_cuda_part_facts facts;
        if (named ? strcmp(given, "none") == 0 : part != ISO_CUDA_CUBLASLT)
            continue;
        library->find_part(part, &facts);
        if (facts.found || (named && !facts.built))
            continue;
        snprintf(reason, sizeof reason, "%s", facts.text);
        return true;
    }
    return false;
}

static void open_once(void)
{
    const iso_cuda_library *library;
    iso_cuda_facts facts;
    iso_cuda_find(false, &facts);
    bool found = facts.state == ISO_CUDA_FOUND;
    if ((!found && !iso_backend_only_plans()) || iso_cuda_library_open(&library, NULL) != ISO_OK) {
        snprintf(reason, sizeof reason, "%s", facts.text);
        return;
    }
    if (!found)
        library->only_plan();
    else if (lacks_library(library))
        return;
    on_device = library->backend();
    backend = *on_device;
    backend.unavailable = unavailable;
    backend.sum = sum;
    backend.maximum = maximum;
}

static const char *unavailable(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return on_device ? NULL : reason;
}

const iso_backend *iso_backend_cuda(void)
{
    return &backend;
}
