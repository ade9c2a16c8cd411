/* Threads that read large batches, where a device computes the steps: the host's cores have nothing else to do. */
#include "runtime/base/memory.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/session.h"

iso_status iso_runtime_start_readers(iso_runtime *runtime)
{
    int each = iso_threads(runtime->ctx) / runtime->n_threads;
    iso_status status = ISO_OK;
    if (each > ISO_MOST_READERS)
        each = ISO_MOST_READERS;
    if (runtime->readers || each < 2)
        return ISO_OK;
    runtime->readers = iso_new((size_t)runtime->n_threads * sizeof *runtime->readers);
    if (!runtime->readers)
        return iso_no_memory("the threads that read batches");
    /* They sleep between batches (crowded), since steps may be far apart. */
    for (int t = 0; t < runtime->n_threads && status == ISO_OK; t++)
        status = iso_thread_pool_create(each, true, &runtime->readers[t]);
    runtime->n_readers = each;
    if (status != ISO_OK)
        iso_runtime_end_readers(runtime);
    return status;
}

void iso_runtime_end_readers(iso_runtime *runtime)
{
    for (int t = 0; runtime->readers && t < runtime->n_threads; t++)
        iso_thread_pool_destroy(runtime->readers[t]);
    iso_free(runtime->readers);
    runtime->readers = NULL;
}
