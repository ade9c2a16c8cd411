/* The device interface on GPUs. */
#include "runtime/backend/cuda/device.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "runtime/backend/cuda/gather.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/nccl.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

/* One of the GPUs. */
typedef struct gpu_device {
    iso_device base;
    int number;
} gpu_device;

int iso_cuda_gpu_of(const iso_device *device)
{
    return ((const gpu_device *)device)->number;
}

cudaError_t iso_cuda_enter_stream(const iso_stream *stream)
{
    return iso_cuda_enter(iso_cuda_gpu_of(stream->device));
}

int iso_cuda_gpu_of_call(const iso_kernel_call *call)
{
    const iso_device *device = call->stream ? call->stream->device : call->device;
    return device ? iso_cuda_gpu_of(device) : 0;
}

static cudaError_t enter(const iso_device *device)
{
    return iso_cuda_enter(iso_cuda_gpu_of(device));
}

typedef iso_cuda_queue stream;

void iso_cuda_keep(iso_stream *of, cudaError_t error)
{
    stream *s = (stream *)of;
    if (s->error == cudaSuccess)
        s->error = error;
}

static void keep(iso_stream *of, cudaError_t error)
{
    iso_cuda_keep(of, error);
}

void iso_cuda_use(iso_stream *of)
{
    keep(of, iso_cuda_enter_stream(of));
}

/* ---- streams ---- */

/* The GPUs on which this process has streams. */
static _Atomic bool used[ISO_CUDA_GPUS];

static iso_status create_stream(const iso_device *device, iso_stream **out)
{
    stream *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_no_memory("a stream");
    fresh->base.device = device;
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&fresh->cuda, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
        iso_free(fresh);
        return iso_cuda_status(error, "a stream cannot be made");
    }
    used[iso_cuda_gpu_of(device)] = true;
    *out = &fresh->base;
    return ISO_OK;
}

static void destroy_stream(iso_stream *of)
{
    if (!of)
        return;
    enter(of->device);
    cudaStreamDestroy(((stream *)of)->cuda);
    iso_cuda_free_rates((stream *)of);
    iso_free(of);
}

static iso_status wait(iso_stream *of)
{
    stream *s = (stream *)of;
    iso_cuda_use(of);
    keep(of, cudaStreamSynchronize(s->cuda));
    cudaError_t error = s->error;
    s->error = cudaSuccess;
    return iso_cuda_status(error, "the work that was queued failed");
}

static iso_status check(iso_stream *of)
{
    iso_cuda_use(of);
    return iso_cuda_status(((const stream *)of)->error, "the work that was queued failed");
}

static void copy(iso_stream *of, void *to, const void *from, size_t bytes)
{
    iso_cuda_use(of);
    if (bytes > 0)
        keep(of, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, ((stream *)of)->cuda));
}

static bool is_uniform(const unsigned char *element, size_t size)
{
    for (size_t i = 1; i < size; i++)
        if (element[i] != element[0])
            return false;
    return true;
}

static void fill(iso_stream *of, void *to, const void *element, size_t size, size_t count)
{
    const unsigned char *bytes = element;
    iso_cuda_use(of);
    if (count > 0 && is_uniform(bytes, size))
        keep(of, cudaMemsetAsync(to, bytes[0], size * count, ((stream *)of)->cuda));
    else if (count > 0)
        iso_cuda_fill(to, element, size, count, of);
}

/* ---- events ---- */

typedef struct event {
    iso_device_event base;
    cudaEvent_t cuda;
    cudaError_t error; /* of what was queued before the last record */
} event;

static iso_status make_event(const iso_device *device, unsigned flags, iso_device_event **out)
{
    event *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_no_memory("an event");
    fresh->base.device = device;
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&fresh->cuda, flags);
    if (error != cudaSuccess) {
        iso_free(fresh);
        return iso_cuda_status(error, "an event cannot be made");
    }
    *out = &fresh->base;
    return ISO_OK;
}

static iso_status create_event(const iso_device *device, iso_device_event **out)
{
    return make_event(device, cudaEventDisableTiming, out);
}

static iso_status create_shared_event(const iso_device *device, iso_device_event **out)
{
    return make_event(device, cudaEventDisableTiming | cudaEventInterprocess, out);
}

static iso_status export_event(const iso_device_event *of, unsigned char handle[ISO_DEVICE_HANDLE])
{
    cudaIpcEventHandle_t made;
    _Static_assert(sizeof made == ISO_DEVICE_HANDLE, "the size of CUDA's handles");
    cudaError_t error = enter(of->device);
    if (error == cudaSuccess)
        error = cudaIpcGetEventHandle(&made, ((const event *)of)->cuda);
    if (error == cudaSuccess)
        memcpy(handle, &made, sizeof made);
    return iso_cuda_status(error, "an event cannot be opened to other processes of the host");
}

static iso_status import_event(const iso_device *device, const unsigned char handle[ISO_DEVICE_HANDLE],
                               iso_device_event **out)
{
    cudaIpcEventHandle_t made;
    event *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_no_memory("an event");
    fresh->base.device = device;
    memcpy(&made, handle, sizeof made);
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error = cudaIpcOpenEventHandle(&fresh->cuda, made);
    if (error != cudaSuccess) {
        iso_free(fresh);
        return iso_cuda_status(error, "an event of another process of the host cannot be opened");
    }
    *out = &fresh->base;
    return ISO_OK;
}

static void destroy_event(iso_device_event *of)
{
    if (!of)
        return;
    enter(of->device);
    cudaEventDestroy(((event *)of)->cuda);
    iso_free(of);
}

static void record(iso_device_event *of, iso_stream *at)
{
    event *e = (event *)of;
    e->error = enter(at->device);
    if (e->error == cudaSuccess)
        e->error = cudaEventRecord(e->cuda, ((stream *)at)->cuda);
    keep(at, e->error);
    e->error = ((const stream *)at)->error;
}

static void await(iso_stream *of, const iso_device_event *recorded)
{
    iso_cuda_use(of);
    keep(of, cudaStreamWaitEvent(((stream *)of)->cuda, ((const event *)recorded)->cuda, 0));
}

/* An event that fails has passed: wait_event says why. CUDA counts "not ready" as an error of the thread. */
static bool passed(const iso_device_event *of)
{
    if (enter(of->device) != cudaSuccess)
        return true;
    bool is = cudaEventQuery(((const event *)of)->cuda) != cudaErrorNotReady;
    if (!is)
        cudaGetLastError();
    return is;
}

static iso_status wait_event(const iso_device_event *of)
{
    const event *e = (const event *)of;
    cudaError_t error = enter(of->device);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(e->cuda);
    return iso_cuda_status(e->error != cudaSuccess ? e->error : error, "the work that was queued failed");
}

/* ---- memory ---- */

static cudaError_t clear(void *memory, size_t bytes)
{
    cudaStream_t cuda;
    cudaError_t error = cudaStreamCreateWithFlags(&cuda, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return error;
    error = cudaMemsetAsync(memory, 0, bytes, cuda);
    cudaError_t done = cudaStreamSynchronize(cuda), destroyed = cudaStreamDestroy(cuda);
    return error != cudaSuccess ? error : done != cudaSuccess ? done : destroyed;
}

/* Kernels may read up to ISO_ALIGN bytes past the end. */
static iso_status allocate(const iso_device *device, size_t bytes, const char *what, void **memory)
{
    void *fresh = NULL;
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error =
            bytes > SIZE_MAX - ISO_ALIGN ? cudaErrorMemoryAllocation : cudaMalloc(&fresh, bytes + ISO_ALIGN);
    if (error == cudaErrorMemoryAllocation)
        return iso_cuda_no_memory(bytes, what);
    if (error == cudaSuccess)
        error = clear(fresh, bytes + ISO_ALIGN);
    if (error != cudaSuccess) {
        cudaFree(fresh);
        return iso_cuda_status(error, what);
    }
    *memory = fresh;
    return ISO_OK;
}

static void release(const iso_device *device, void *memory)
{
    enter(device);
    cudaFree(memory);
}

static iso_status no_pinned_memory(size_t bytes, const char *what)
{
    char needed[32], unused[32];
    cudaGetLastError();
    double free_bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return iso_error(
        ISO_NO_MEMORY,
        "no pinned memory of the host for %s: %s are needed (%zu bytes), %s of the host's memory are free",
        what, iso_text_scaled((double)bytes, "B", needed, sizeof needed), bytes,
        iso_text_scaled(free_bytes, "B", unused, sizeof unused));
}

static iso_status allocate_pinned(const iso_device *device, size_t bytes, const char *what, void **memory)
{
    void *fresh = NULL;
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error = bytes > SIZE_MAX - ISO_ALIGN
                    ? cudaErrorMemoryAllocation
                    : cudaHostAlloc(&fresh, bytes + ISO_ALIGN, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation)
        return no_pinned_memory(bytes, what);
    if (error != cudaSuccess)
        return iso_cuda_status(error, what);
    memset(fresh, 0, bytes + ISO_ALIGN);
    *memory = fresh;
    return ISO_OK;
}

static void release_pinned(const iso_device *device, void *memory)
{
    enter(device);
    cudaFreeHost(memory);
}

/* Memory of the host for messages, which all GPUs reach over the bus. */
static iso_status attach(const iso_device *device, void *shared, size_t bytes, void **memory)
{
    cudaError_t error = enter(device);
    if (error == cudaSuccess && bytes > 0)
        error = cudaHostRegister(shared, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error == cudaSuccess && bytes > 0)
        error = cudaHostGetDevicePointer(memory, shared, 0);
    if (error != cudaSuccess)
        return iso_cuda_status(error, "the memory that ranks share cannot be opened to the GPU");
    if (bytes == 0)
        *memory = shared;
    return ISO_OK;
}

static void detach(const iso_device *device, void *memory)
{
    enter(device);
    if (cudaHostUnregister(memory) != cudaSuccess)
        cudaGetLastError();
}

/* ---- memory of other processes ---- */

static iso_status identify(const iso_device *device, unsigned char identity[ISO_DEVICE_IDENTITY])
{
    cudaUUID_t own;
    cudaError_t error = enter(device), known = iso_cuda_uuid(iso_cuda_gpu_of(device), &own);
    error = error == cudaSuccess ? known : error;
    if (error == cudaSuccess)
        memcpy(identity, &own, ISO_DEVICE_IDENTITY);
    return iso_cuda_status(error, "its UUID is not known");
}

/* The number of the GPU with this UUID among those that this process sees; -1: it does not see it. */
static int find_gpu(const unsigned char identity[ISO_DEVICE_IDENTITY])
{
    cudaUUID_t uuid;
    for (int i = 0; i < iso_cuda_visible(); i++)
        if (iso_cuda_uuid(i, &uuid) == cudaSuccess && memcmp(&uuid, identity, sizeof uuid) == 0)
            return i;
    return -1;
}

/* Peer access is enabled between GPUs of this process alone: it makes a context on the other GPU, which takes memory
 * there. Memory that other processes share is opened with peer access (import_memory). */
static bool reaches(const iso_device *device, const unsigned char identity[ISO_DEVICE_IDENTITY])
{
    int own = iso_cuda_gpu_of(device), other = find_gpu(identity), can = 0;
    if (other < 0 || other == own)
        return other == own;
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error = cudaDeviceCanAccessPeer(&can, own, other);
    if (error == cudaSuccess && can && used[other])
        error = cudaDeviceEnablePeerAccess(other, 0);
    cudaGetLastError(); /* without access, data goes through memory of the host */
    return can && (error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled);
}

static iso_status export_memory(const iso_device *device, void *memory,
                                unsigned char handle[ISO_DEVICE_HANDLE])
{
    cudaIpcMemHandle_t made;
    _Static_assert(sizeof made == ISO_DEVICE_HANDLE, "the size of CUDA's handles");
    cudaError_t error = enter(device);
    if (error == cudaSuccess)
        error = cudaIpcGetMemHandle(&made, memory);
    if (error == cudaSuccess)
        memcpy(handle, &made, sizeof made);
    return iso_cuda_status(error, "memory cannot be opened to other processes of the host");
}

static iso_status import_memory(const iso_device *device, const unsigned char handle[ISO_DEVICE_HANDLE],
                                void **memory)
{
    cudaIpcMemHandle_t made;
    cudaError_t error = enter(device);
    memcpy(&made, handle, sizeof made);
    if (error == cudaSuccess)
        error = cudaIpcOpenMemHandle(memory, made, cudaIpcMemLazyEnablePeerAccess);
    return iso_cuda_status(error, "memory of another process of the host cannot be opened");
}

static void drop_memory(const iso_device *device, void *memory)
{
    enter(device);
    if (cudaIpcCloseMemHandle(memory) != cudaSuccess)
        cudaGetLastError();
}

static void gather(iso_stream *of, const iso_device_gather *call)
{
    iso_cuda_use(of);
    iso_cuda_gather(of, call);
}

/* Memory of the host that is attached has one address for all. */
static void *reach(void *memory)
{
    return memory;
}

static const iso_device functions = {.name = "cuda",
                                     .allocate = allocate,
                                     .release = release,
                                     .allocate_pinned = allocate_pinned,
                                     .release_pinned = release_pinned,
                                     .create_stream = create_stream,
                                     .destroy_stream = destroy_stream,
                                     .copy = copy,
                                     .fill = fill,
                                     .wait = wait,
                                     .check = check,
                                     .create_event = create_event,
                                     .destroy_event = destroy_event,
                                     .record = record,
                                     .await = await,
                                     .passed = passed,
                                     .wait_event = wait_event,
                                     .create_shared_event = create_shared_event,
                                     .export_event = export_event,
                                     .import_event = import_event,
                                     .captures = iso_cuda_captures,
                                     .begin_capture = iso_cuda_begin_capture,
                                     .end_capture = iso_cuda_end_capture,
                                     .launch_graph = iso_cuda_launch_graph,
                                     .destroy_graph = iso_cuda_destroy_graph,
                                     .create_timer = iso_cuda_create_timer,
                                     .destroy_timer = iso_cuda_destroy_timer,
                                     .mark = iso_cuda_mark,
                                     .read_timer = iso_cuda_read_timer,
                                     .attach = attach,
                                     .detach = detach,
                                     .reach = reach,
                                     .gather = gather,
                                     .identify = identify,
                                     .reaches = reaches,
                                     .export_memory = export_memory,
                                     .import_memory = import_memory,
                                     .drop_memory = drop_memory,
                                     .comms = &iso_cuda_comms};

/* ---- a rank without slots ---- */

/* What it shares with the others lies in memory of the host, which it does not open to a GPU: each process that calls
 * CUDA for a GPU takes memory there. */

static iso_status allocate_plain(const iso_device *device, size_t bytes, const char *what, void **memory)
{
    (void)device;
    return iso_alloc(bytes, what, memory);
}

static void release_plain(const iso_device *device, void *memory)
{
    (void)device;
    iso_free(memory);
}

static iso_status attach_nothing(const iso_device *device, void *shared, size_t bytes, void **memory)
{
    (void)device, (void)bytes;
    *memory = shared;
    return ISO_OK;
}

static void detach_nothing(const iso_device *device, void *memory)
{
    (void)device, (void)memory;
}

static gpu_device devices[ISO_CUDA_GPUS], no_device;

static void make_devices(void)
{
    for (int i = 0; i < ISO_CUDA_GPUS; i++)
        devices[i] = (gpu_device){.base = functions, .number = i};
    for (int i = 0; i < iso_cuda_visible(); i++)
        devices[i].base.model = iso_cuda_model_name(i);
    no_device = (gpu_device){.base = functions, .number = -1};
    no_device.base.release = release_plain; /* of nothing, as it allocates nothing */
    no_device.base.allocate_pinned = allocate_plain;
    no_device.base.release_pinned = release_plain;
    no_device.base.attach = attach_nothing;
    no_device.base.detach = detach_nothing;
}

const iso_device *iso_cuda_device(int turn)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_devices);
    return turn < 0 ? &no_device.base : &devices[iso_cuda_round_robin(turn, iso_cuda_visible())].base;
}
