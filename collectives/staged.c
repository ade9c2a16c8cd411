/* Pulls into memory of a device that the host cannot write: into memory of the host, from where the device copies the
 * result. It is there when the pull returns. Errors of the device are those of the next wait for any of its streams.
 * Each thread has a stream and a buffer for its pulls, until it ends. */
#include "collectives/puller_impl.h"

#include <pthread.h>

#include "runtime/base/device.h"
#include "runtime/base/memory.h"

typedef struct staging {
    const iso_device *device;
    iso_stream *stream;
    char *buffer;
    size_t bytes;
} staging;

static pthread_key_t key;

static void free_staging(void *memory)
{
    staging *s = memory;
    s->device->destroy_stream(s->stream);
    iso_free(s->buffer);
    iso_free(s);
}

static void make_key(void)
{
    pthread_key_create(&key, free_staging);
}

static staging *make_staging(const iso_device *device)
{
    staging *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->device = device;
    if (device->create_stream(&fresh->stream) != ISO_OK || pthread_setspecific(key, fresh) != 0) {
        device->destroy_stream(fresh->stream);
        iso_free(fresh);
        return NULL;
    }
    return fresh;
}

/* This thread's, with a buffer of so many bytes; NULL: there is no memory. */
static staging *find_staging(const iso_device *device, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    staging *s = pthread_getspecific(key);
    if (!s && !(s = make_staging(device)))
        return NULL;
    if (s->bytes < bytes) {
        iso_free(s->buffer);
        s->buffer = iso_new(bytes);
        s->bytes = s->buffer ? bytes : 0;
    }
    return s->bytes >= bytes ? s : NULL;
}

/* Bytes from one step of a loop to the next in the target. */
static int64_t target_stride(const iso_gather *gather, int loop)
{
    return gather->stride[loop * (gather->n_operands + 1) + gather->n_operands];
}

/* From the target's first byte to the end of its last. */
static size_t target_span(const iso_gather *gather)
{
    int64_t span = gather->extent[gather->rank - 1] * (int64_t)gather->size;
    for (int loop = 0; loop < gather->rank - 1; loop++)
        span += (gather->extent[loop] - 1) * target_stride(gather, loop);
    return (size_t)span;
}

/* The loops from `*first` on are one run of the target: its bytes. */
static size_t find_run(const iso_gather *gather, int *first)
{
    int64_t bytes = gather->extent[gather->rank - 1] * (int64_t)gather->size;
    *first = gather->rank - 1;
    while (*first > 0 && target_stride(gather, *first - 1) == bytes)
        bytes *= gather->extent[--*first];
    return (size_t)bytes;
}

static void copy_runs(const iso_gather *gather, const staging *s)
{
    int first;
    int64_t index[ISO_MAX_RANK] = {0}, at = 0;
    size_t bytes = find_run(gather, &first);
    for (int loop = first; loop >= 0;) {
        s->device->copy(s->stream, gather->out + at, s->buffer + at, bytes);
        for (loop = first - 1; loop >= 0 && ++index[loop] == gather->extent[loop]; loop--) {
            at -= (gather->extent[loop] - 1) * target_stride(gather, loop);
            index[loop] = 0;
        }
        if (loop >= 0)
            at += target_stride(gather, loop);
    }
}

static void run_staged(const iso_gather *gather)
{
    if (!gather->device) { /* a message, which is memory of the host */
        iso_puller_shared_memory.run(gather);
        return;
    }
    if (gather->count == 0 || !gather->out)
        return;
    staging *s = find_staging(gather->device, target_span(gather));
    if (!s)
        return;
    iso_gather here = *gather;
    here.out = s->buffer;
    iso_puller_shared_memory.run(&here);
    copy_runs(gather, s);
    s->device->wait(s->stream);
}

static void part_staged(const iso_gather *gather, int64_t begin, int64_t n, void *out)
{
    iso_puller_shared_memory.part(gather, begin, n, out);
}

static bool serves_staged(const iso_device *device)
{
    return device->attached_only;
}

const iso_puller iso_puller_staged = {
    .name = "staged",
    .serves = serves_staged,
    .run = run_staged,
    .part = part_staged,
};
