/* Memory of the GPUs. An allocation is mapped twice: at the device's address, where nobody may touch it but while
 * streams have work, and where the stand-in reaches it. A freed address is not given out again. */
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
    int gpu;
    bool freed, registered;
} allocation;

static allocation all[MOST];
static int count;
static size_t used[STANDIN_MOST_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;

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

/* Called with the lock. */
static allocation *fresh_allocation(void)
{
    if (count == MOST)
        standin_stop("more than %d allocations", MOST);
    return &all[count++];
}

/* Maps new pages twice. The memory ends with the last page that is mapped, but for READ_PAST bytes that kernels may
 * read past its end. */
static void map_twice(allocation *a, size_t bytes)
{
    size_t padded = (bytes + READ_PAST + ALIGN - 1) / ALIGN * ALIGN;
    a->room = (padded + PAGE - 1) / PAGE * PAGE;
    int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)a->room) != 0)
        standin_stop("no memory file of %zu bytes", a->room);
    a->pages = mmap(NULL, a->room + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    a->data_pages = mmap(NULL, a->room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (a->pages == MAP_FAILED || a->data_pages == MAP_FAILED ||
        mmap(a->pages, a->room, is_open ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED | MAP_FIXED, file,
             0) == MAP_FAILED)
        standin_stop("no addresses for %zu bytes", a->room);
    close(file);
    memset(a->data_pages, 0xff, a->room); /* NaN */
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
        *a = (allocation){.gpu = gpu};
        map_twice(a, bytes);
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
    used[a->gpu] -= a->bytes;
}

cudaError_t cudaFree(void *memory)
{
    if (!memory)
        return cudaSuccess;
    cudaDeviceSynchronize(); /* as CUDA does */
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || !a->data || a->freed || a->device != memory)
        standin_stop("cudaFree of %p, which cudaMalloc did not give, or twice", memory);
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
    pthread_mutex_unlock(&lock);
}

static void remove_pinned(void *memory, bool registered)
{
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || a->data || a->device != memory || a->registered != registered)
        standin_stop("%p is given back, which is not pinned", memory);
    a->freed = true;
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
static void set_access(bool open)
{
    for (int i = 0; i < count; i++)
        if (all[i].data && !all[i].freed &&
            mprotect(all[i].pages, all[i].room, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
            standin_stop("the access to device memory cannot be changed");
    is_open = open;
}

void standin_open(void)
{
    pthread_mutex_lock(&lock);
    if (!is_open)
        set_access(true);
    pthread_mutex_unlock(&lock);
}

bool standin_is_open(void)
{
    pthread_mutex_lock(&lock);
    bool open = is_open;
    pthread_mutex_unlock(&lock);
    return open;
}

void standin_close(bool (*busy)(void))
{
    pthread_mutex_lock(&lock);
    if (is_open && !busy())
        set_access(false);
    pthread_mutex_unlock(&lock);
}
