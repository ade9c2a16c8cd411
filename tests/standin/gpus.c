/* GPUs, the driver, and errors. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/standin/standin.h"

long standin_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

void standin_stop(const char *format, ...)
{
    char text[500];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fprintf(stderr, "stand-in: %s\n", text);
    abort();
}

/* ---- errors ---- */

static _Thread_local cudaError_t last;

cudaError_t standin_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
};

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "an error that the stand-in has no text for";
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "an error that the stand-in has no name for";
}

cudaError_t standin_ordered(const char *function)
{
    static atomic_long calls;
    const char *order = getenv("STANDIN_FAIL");
    size_t length = strlen(function);
    if (!order || strncmp(order, function, length) != 0 || order[length] != ':')
        return cudaSuccess;
    char *rest;
    long error = strtol(order + length + 1, &rest, 10),
         first = *rest == ':' ? strtol(rest + 1, &rest, 10) : 1,
         count = *rest == ':' ? strtol(rest + 1, NULL, 10) : LONG_MAX,
         past = atomic_fetch_add(&calls, 1) + 1 - first;
    return past >= 0 && past < count ? (cudaError_t)error : cudaSuccess;
}

static int driver(void)
{
    return (int)standin_number("STANDIN_DRIVER", CUDART_VERSION);
}

static atomic_int raised; /* by work on a stream */

void standin_raise(cudaError_t error)
{
    int none = cudaSuccess;
    atomic_compare_exchange_strong(&raised, &none, (int)error);
}

cudaError_t standin_enter(const char *function)
{
    if (driver() < CUDART_VERSION / 1000 * 1000)
        return standin_error(cudaErrorInsufficientDriver);
    cudaError_t error = (cudaError_t)atomic_load(&raised);
    return standin_error(error != cudaSuccess ? error : standin_ordered(function));
}

/* ---- the driver ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- GPUs ---- */

static _Thread_local int current;

int standin_gpu(void)
{
    return current;
}

bool standin_peers(void)
{
    return standin_number("STANDIN_PEERS", 0) != 0;
}

static atomic_bool enabled[STANDIN_MOST_GPUS][STANDIN_MOST_GPUS];

bool standin_reaches(int gpu, int other)
{
    return gpu == other || atomic_load(&enabled[gpu][other]);
}

size_t standin_total_bytes(void)
{
    return (size_t)standin_number("STANDIN_MEGABYTES", 256) << 20;
}

/* Locks the file of a GPU in a folder until the process ends. */
static bool take_alone(const char *folder, int gpu)
{
    char path[500];
    snprintf(path, sizeof path, "%s/gpu.%d", folder, standin_number_on_host(gpu));
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        standin_stop("%s cannot be made", path);
    bool taken = flock(file, LOCK_EX | LOCK_NB) == 0;
    if (!taken)
        close(file);
    return taken;
}

static void tell_context(int gpu)
{
    char line[60];
    snprintf(line, sizeof line, "%d GPU %d", (int)getpid(), standin_number_on_host(gpu));
    standin_tell("STANDIN_CONTEXTS", line);
}

cudaError_t standin_context(int gpu)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool has[STANDIN_MOST_GPUS];
    const char *exclusive = getenv("STANDIN_EXCLUSIVE");
    pthread_mutex_lock(&lock);
    bool had = has[gpu], made = had || !exclusive || take_alone(exclusive, gpu);
    has[gpu] = made;
    pthread_mutex_unlock(&lock);
    if (made && !had)
        tell_context(gpu);
    return standin_error(made ? cudaSuccess : cudaErrorDevicesUnavailable);
}

/* As in CUDA 13, nothing is written in case of an error. */
cudaError_t cudaGetDeviceCount(int *gpus)
{
    STANDIN_ENTER();
    if (standin_gpus() == 0)
        return standin_error(cudaErrorNoDevice);
    *gpus = standin_gpus();
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *gpu)
{
    STANDIN_ENTER();
    *gpu = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu)
{
    STANDIN_ENTER();
    if (gpu < 0 || gpu >= standin_gpus())
        return standin_error(cudaErrorInvalidDevice);
    current = gpu; /* also if its context cannot be made */
    return standin_context(gpu);
}

/* Of a list "A,B,...", of which the last entry is for all later GPUs too. */
static void entry_of(const char *variable, const char *by_default, int gpu, char text[256])
{
    const char *at = getenv(variable) ? getenv(variable) : by_default;
    for (int i = 0; i < standin_number_on_host(gpu) && strchr(at, ','); i++)
        at = strchr(at, ',') + 1;
    snprintf(text, 256, "%.*s", (int)strcspn(at, ","), at);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int gpu)
{
    char capability[256];
    STANDIN_ENTER();
    if (gpu < 0 || gpu >= standin_gpus())
        return standin_error(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    entry_of("STANDIN_MODEL", "Stand-in", gpu, properties->name);
    standin_uuid(gpu, (unsigned char *)properties->uuid.bytes);
    properties->totalGlobalMem = standin_total_bytes();
    entry_of("STANDIN_CAPABILITY", "9.0", gpu, capability);
    sscanf(capability, "%d.%d", &properties->major, &properties->minor);
    properties->multiProcessorCount = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int gpu, int other)
{
    STANDIN_ENTER();
    if (gpu < 0 || gpu >= standin_gpus() || other < 0 || other >= standin_gpus())
        return standin_error(cudaErrorInvalidDevice);
    *can = standin_peers() && gpu != other;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER();
    if (other < 0 || other >= standin_gpus() || other == current)
        return standin_error(cudaErrorInvalidDevice);
    if (!standin_peers())
        return standin_error(cudaErrorPeerAccessUnsupported);
    cudaError_t error = standin_context(other);
    if (error != cudaSuccess || standin_number("STANDIN_PEERS", 0) == 2)
        return error;
    return standin_error(atomic_exchange(&enabled[current][other], true) ? cudaErrorPeerAccessAlreadyEnabled
                                                                         : cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    STANDIN_ENTER_GPU();
    *total = standin_total_bytes();
    *free_bytes = *total - standin_used_bytes(current);
    return cudaSuccess;
}
