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

/* Whether matrix products are missing: without cuBLASLt they would be slow and have other bits, so that must be
 * asked for. */
static bool lacks_products(const iso_cuda_library *library)
{
    const char *given = getenv("ISOGRID_CUBLASLT_LIBRARY");
    iso_cuda_part_facts products;
    library->find_part(ISO_CUDA_CUBLASLT, &products);
    if (products.found || (given && strcmp(given, "none") == 0))
        return false;
    snprintf(reason, sizeof reason, "%s", products.text);
    return true;
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
    else if (lacks_products(library))
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
