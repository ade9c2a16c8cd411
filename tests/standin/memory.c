/* Memory of the GPUs. An allocation is mapped twice: at the device's address, where nobody may touch it but while
 * streams have work, and where the stand-in reaches it. A freed address is not given out again. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum { PAGE = 4096, ALIGN = 256, READ_PAST = 64, MOST = 4096 };

typedef struct allocation {
    char *device, *data; /* NULL: pinned memory of the host, which is at `device` */
    size_t bytes;
    char *pages, *data_pages; /* the mappings */
    size_t room;
    int gpu, file; /* file: -1, unless it is memory of this process's device */
    bool freed, registered;
} allocation;

static allocation all[MOST];
static int count;
static size_t used[STANDIN_MOST_GPUS], pinned; /* pinned: memory of the host, but for what was registered */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { NONE = -1 };
static int is_open = NONE; /* to kernels of this GPU */

static int access_of(const allocation *a)
{
    return is_open != NONE && standin_reaches(is_open, a->gpu) ? PROT_READ | PROT_WRITE : PROT_NONE;
}

/* The newest allocation that has the address, freed or not. */
static allocation *find(const void *address)
{
    for (int i = count - 1; i >= 0; i--) {
        uintptr_t at = (uintptr_t)address - (uintptr_t)all[i].device;
        if (at < all[i].bytes + (all[i].data ? READ_PAST : 0) && !(all[i].freed && !all[i].data))
            return &all[i];
    }
    return NULL;
}

/* ---- reports ---- */

static struct sigaction before;

/* What is not of a GPU is for whoever had the signal before. */
static void report(int number, siginfo_t *about, void *context)
{
    char text[200];
    const allocation *touched = find(about->si_addr);
    if (touched) {
        int length =
            snprintf(text, sizeof text, "stand-in: %s memory of GPU %d was touched at byte %td of %zu\n",
                     touched->freed ? "freed" : "closed", touched->gpu,
                     (char *)about->si_addr - touched->device, touched->bytes);
        if (write(STDERR_FILENO, text, (size_t)length) < 0)
            _exit(1);
    } else if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, about, context);
        return;
    }
    signal(number, SIG_DFL);
}

static void begin_reports(void)
{
    struct sigaction action = {.sa_sigaction = report, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, &before);
}

/* ---- allocations ---- */

size_t standin_used_bytes(int gpu)
{
    pthread_mutex_lock(&lock);
    size_t bytes = used[gpu];
    pthread_mutex_unlock(&lock);
    return bytes;
}

size_t standin_pinned_bytes(void)
{
    pthread_mutex_lock(&lock);
    size_t bytes = pinned;
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* Called with the lock. */
static allocation *fresh_allocation(void)
{
    if (count == MOST)
        standin_stop("more than %d allocations", MOST);
    return &all[count++];
}

static size_t room_of(size_t bytes)
{
    return ((bytes + READ_PAST + ALIGN - 1) / ALIGN * ALIGN + PAGE - 1) / PAGE * PAGE;
}

static int make_file(size_t bytes)
{
    int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)room_of(bytes)) != 0)
        standin_stop("no memory file of %zu bytes", bytes);
    return file;
}

/* Maps the pages of a file twice. The memory ends with the last page that is mapped, but for READ_PAST bytes that
 * kernels may read past its end. */
static void map_twice(allocation *a, int file, size_t bytes)
{
    size_t padded = (bytes + READ_PAST + ALIGN - 1) / ALIGN * ALIGN;
    a->room = room_of(bytes);
    a->pages = mmap(NULL, a->room + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    a->data_pages = mmap(NULL, a->room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (a->pages == MAP_FAILED || a->data_pages == MAP_FAILED ||
        mmap(a->pages, a->room, access_of(a), MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        standin_stop("no addresses for %zu bytes", a->room);
    a->device = a->pages + (a->room - padded);
    a->data = a->data_pages + (a->room - padded);
    a->bytes = bytes;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    STANDIN_ENTER();
    pthread_once(&once, begin_reports);
    pthread_mutex_lock(&lock);
    int gpu = standin_gpu();
    bool fits = bytes <= standin_total_bytes() - used[gpu];
    if (fits) {
        allocation *a = fresh_allocation();
        *a = (allocation){.gpu = gpu, .file = make_file(bytes)};
        map_twice(a, a->file, bytes);
        memset(a->data_pages, 0xff, a->room); /* NaN */
        used[gpu] += bytes;
        *memory = a->device;
    }
    pthread_mutex_unlock(&lock);
    return standin_error(fits ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* The pages are given back, and the addresses stay without access. */
static void unmap(allocation *a)
{
    munmap(a->data_pages, a->room);
    if (mmap(a->pages, a->room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        standin_stop("a mapping cannot be undone");
    if (a->file >= 0) {
        close(a->file);
        used[a->gpu] -= a->bytes;
    }
}

cudaError_t cudaFree(void *memory)
{
    if (!memory)
        return cudaSuccess;
    cudaDeviceSynchronize(); /* as CUDA does */
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || !a->data || a->freed || a->device != memory || a->file < 0)
        standin_stop("cudaFree of %p, which cudaMalloc did not give, or twice", memory);
    unmap(a);
    a->freed = true;
    pthread_mutex_unlock(&lock);
    return standin_enter(__func__);
}

/* ---- memory of other processes ---- */

typedef struct ipc_handle {
    int process, file, gpu; /* gpu: of the host */
    size_t bytes;
} ipc_handle;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    STANDIN_ENTER();
    pthread_mutex_lock(&lock);
    const allocation *a = find(memory);
    bool good = a && a->data && !a->freed && a->file >= 0 && a->device == memory;
    ipc_handle made = {0};
    if (good)
        made = (ipc_handle){(int)getpid(), a->file, standin_number_on_host(a->gpu), a->bytes};
    pthread_mutex_unlock(&lock);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &made, sizeof made);
    return standin_error(good ? cudaSuccess : cudaErrorInvalidValue);
}

/* As in CUDA, a process may not open what is its own. */
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER();
    ipc_handle of;
    char path[64];
    memcpy(&of, &handle, sizeof of);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", of.process, of.file);
    if (of.process == (int)getpid())
        return standin_error(cudaErrorInvalidResourceHandle);
    if (of.gpu != standin_number_on_host(standin_gpu()) && !standin_peers())
        return standin_error(cudaErrorPeerAccessUnsupported);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return standin_error(cudaErrorInvalidResourceHandle);
    pthread_mutex_lock(&lock);
    allocation *a = fresh_allocation();
    *a = (allocation){.gpu = standin_gpu(), .file = -1};
    map_twice(a, file, of.bytes);
    *memory = a->device;
    pthread_mutex_unlock(&lock);
    close(file);
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    cudaDeviceSynchronize();
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || !a->data || a->freed || a->device != memory || a->file >= 0)
        standin_stop("%p is closed, which is not another process's", memory);
    unmap(a);
    a->freed = true;
    pthread_mutex_unlock(&lock);
    return standin_enter(__func__);
}

/* ---- memory of the host ---- */

static void add_pinned(void *memory, size_t bytes, bool registered)
{
    pthread_mutex_lock(&lock);
    *fresh_allocation() = (allocation){.device = memory, .bytes = bytes, .registered = registered};
    pinned += registered ? 0 : bytes;
    pthread_mutex_unlock(&lock);
}

static void remove_pinned(void *memory, bool registered)
{
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || a->data || a->device != memory || a->registered != registered)
        standin_stop("%p is given back, which is not pinned", memory);
    a->freed = true;
    pinned -= registered ? 0 : a->bytes;
    pthread_mutex_unlock(&lock);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER();
    void *fresh = aligned_alloc(PAGE, (bytes + PAGE) / PAGE * PAGE);
    if (!fresh)
        return standin_error(cudaErrorMemoryAllocation);
    add_pinned(fresh, bytes, false);
    *memory = fresh;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    if (!memory)
        return cudaSuccess;
    cudaDeviceSynchronize();
    remove_pinned(memory, false);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER();
    add_pinned(memory, bytes, true);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    cudaDeviceSynchronize();
    remove_pinned(memory, true);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER();
    if (standin_kind_of(host, 0) != STANDIN_PINNED)
        return standin_error(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

/* ---- access ---- */

standin_kind standin_kind_of(const void *memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const allocation *a = find(memory);
    if (a && a->freed)
        standin_stop("freed memory of GPU %d is used: byte %td of %zu", a->gpu,
                     (const char *)memory - a->device, a->bytes);
    if (a && (const char *)memory + bytes > a->device + a->bytes)
        standin_stop("%zu bytes from byte %td of an allocation of %zu bytes", bytes,
                     (const char *)memory - a->device, a->bytes);
    standin_kind kind = !a ? STANDIN_PAGEABLE : a->data ? STANDIN_DEVICE : STANDIN_PINNED;
    pthread_mutex_unlock(&lock);
    return kind;
}

int standin_memory_gpu(const void *memory)
{
    pthread_mutex_lock(&lock);
    const allocation *a = find(memory);
    int gpu = a && a->data ? a->gpu : NONE;
    pthread_mutex_unlock(&lock);
    return gpu;
}

void *standin_reach(const void *memory, size_t bytes)
{
    char *at = (char *)(uintptr_t)memory;
    if (standin_kind_of(memory, bytes) == STANDIN_DEVICE) {
        pthread_mutex_lock(&lock);
        const allocation *a = find(memory);
        at = a->data + (at - a->device);
        pthread_mutex_unlock(&lock);
    }
    return at;
}

/* Called with the lock. */
static void set_access(int gpu)
{
    is_open = gpu;
    for (int i = 0; i < count; i++)
        if (all[i].data && !all[i].freed && mprotect(all[i].pages, all[i].room, access_of(&all[i])) != 0)
            standin_stop("the access to device memory cannot be changed");
}

void standin_open(int gpu)
{
    pthread_mutex_lock(&lock);
    if (is_open != gpu)
        set_access(gpu);
    pthread_mutex_unlock(&lock);
}

bool standin_is_open(void)
{
    pthread_mutex_lock(&lock);
    bool open = is_open != NONE;
    pthread_mutex_unlock(&lock);
    return open;
}

void standin_close(bool (*busy)(void))
{
    pthread_mutex_lock(&lock);
    if (is_open != NONE && !busy())
        set_access(NONE);
    pthread_mutex_unlock(&lock);
}
