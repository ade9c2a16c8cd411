/* Memory of the GPUs. An allocation is mapped twice: at the device's address, where nobody may touch it but while
 * streams have work, and where the stand-in reaches it. A freed address is not given out again. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum { PAGE = 4096, ALIGN = 256, READ_PAST = 64, BLOCK = 2 << 20 };

/* What a process opens of another one: the memory that begins with the first allocation of a block. */
typedef struct ipc_handle {
    int process, file, gpu; /* gpu: of the host */
    int number;             /* of the block in the process */
    size_t bytes;
} ipc_handle;

/* The file that allocations are parts of. Each has its own, but those of less than 2 MiB are put one behind the other
 * into blocks of 2 MiB, as CUDA does, where all have one handle. */
typedef struct block {
    ipc_handle handle;
    size_t taken;
    int users;
} block;

typedef struct allocation {
    struct allocation *before; /* the one that was made before */
    char *device, *data;       /* NULL: pinned memory of the host, which is at `device` */
    size_t bytes;
    char *pages, *data_pages; /* the mappings */
    size_t room;
    int gpu;
    block *block; /* NULL, unless it is memory of this process's device */
    bool exported;
    ipc_handle handle; /* of memory of another process */
    int opened, file;  /* how many times that is open; its file, locked as long as it is open */
    bool freed, registered;
} allocation;

static allocation *newest;
static int blocks;
static block *shared[STANDIN_MOST_GPUS]; /* of which the GPU's next small allocation is a part; NULL: none */
static size_t used[STANDIN_MOST_GPUS], pinned; /* pinned: memory of the host, but for what was registered */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { NONE = -1 };
static int is_open = NONE; /* to kernels of this GPU */

static int access_of(const allocation *a)
{
    return is_open != NONE && standin_reaches(is_open, a->gpu) ? PROT_READ | PROT_WRITE : PROT_NONE;
}

/* The newest allocation that has the address; memory of a device also if it was freed. */
static allocation *find(const void *address)
{
    for (allocation *a = newest; a; a = a->before)
        if ((uintptr_t)address - (uintptr_t)a->device < a->bytes + (a->data ? READ_PAST : 0))
            return a;
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
static allocation *add_allocation(allocation of)
{
    allocation *a = malloc(sizeof *a);
    if (!a)
        standin_stop("no memory for an allocation");
    *a = of;
    a->before = newest;
    newest = a;
    return a;
}

static size_t padded_of(size_t bytes)
{
    return (bytes + READ_PAST + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t room_of(size_t bytes)
{
    return (padded_of(bytes) + PAGE - 1) / PAGE * PAGE;
}

static block *make_block(int gpu, size_t room)
{
    block *b = calloc(1, sizeof *b);
    int file = memfd_create("device", MFD_CLOEXEC);
    if (!b || file < 0 || ftruncate(file, (off_t)room) != 0)
        standin_stop("no memory file of %zu bytes", room);
    b->handle = (ipc_handle){(int)getpid(), file, standin_number_on_host(gpu), ++blocks, 0};
    return b;
}

/* The first allocation of a block does not begin with it, but its handle is for what does. */
static block *find_block(int gpu, size_t bytes)
{
    size_t room = room_of(bytes);
    if (room > BLOCK) {
        block *own = make_block(gpu, room);
        own->handle.bytes = bytes;
        return own;
    }
    if (!shared[gpu] || shared[gpu]->taken + room > BLOCK) {
        shared[gpu] = make_block(gpu, BLOCK);
        shared[gpu]->handle.bytes = BLOCK - (room - padded_of(bytes)) - READ_PAST;
    }
    return shared[gpu];
}

static void leave_block(block *b)
{
    if (--b->users > 0)
        return;
    for (int gpu = 0; gpu < STANDIN_MOST_GPUS; gpu++)
        shared[gpu] = shared[gpu] == b ? NULL : shared[gpu];
    close(b->handle.file);
    free(b);
}

/* Maps the pages of a file twice. The memory ends with the last page that is mapped, but for READ_PAST bytes that
 * kernels may read past its end. */
static void map_twice(allocation *a, int file, size_t at, size_t bytes)
{
    size_t padded = padded_of(bytes);
    a->room = room_of(bytes);
    a->pages = mmap(NULL, a->room + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    a->data_pages = mmap(NULL, a->room, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)at);
    if (a->pages == MAP_FAILED || a->data_pages == MAP_FAILED ||
        mmap(a->pages, a->room, access_of(a), MAP_SHARED | MAP_FIXED, file, (off_t)at) == MAP_FAILED)
        standin_stop("no addresses for %zu bytes", a->room);
    a->device = a->pages + (a->room - padded);
    a->data = a->data_pages + (a->room - padded);
    a->bytes = bytes;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    STANDIN_ENTER_GPU();
    if (standin_in_capture())
        return standin_error(cudaErrorStreamCaptureUnsupported);
    pthread_once(&once, begin_reports);
    pthread_mutex_lock(&lock);
    int gpu = standin_gpu();
    bool fits = bytes <= standin_total_bytes() - used[gpu];
    if (fits) {
        allocation *a = add_allocation((allocation){.gpu = gpu, .block = find_block(gpu, bytes)});
        map_twice(a, a->block->handle.file, a->block->taken, bytes);
        memset(a->data_pages, 0xff, a->room); /* NaN */
        a->block->taken += a->room;
        a->block->users++;
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
    a->freed = true;
}

cudaError_t cudaFree(void *memory)
{
    if (!memory)
        return cudaSuccess;
    cudaDeviceSynchronize(); /* as CUDA does */
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || a->freed || a->device != memory || !a->block)
        standin_stop("cudaFree of %p, which cudaMalloc did not give, or twice", memory);
    if (a->exported && flock(a->block->handle.file, LOCK_EX | LOCK_NB) != 0)
        standin_stop("cudaFree of memory of GPU %d that another process has open", a->gpu);
    flock(a->block->handle.file, LOCK_UN);
    unmap(a);
    used[a->gpu] -= a->bytes;
    leave_block(a->block);
    pthread_mutex_unlock(&lock);
    return standin_enter(__func__);
}

/* ---- memory of other processes ---- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    STANDIN_ENTER();
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    bool good = a && a->block && !a->freed && a->device == memory;
    if (good)
        a->exported = true;
    ipc_handle made = good ? a->block->handle : (ipc_handle){0};
    pthread_mutex_unlock(&lock);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &made, sizeof made);
    return standin_error(good ? cudaSuccess : cudaErrorInvalidValue);
}

/* Called with the lock. NULL: the handle is not open on this GPU. */
static allocation *find_opened(const ipc_handle *handle)
{
    for (allocation *a = newest; a; a = a->before)
        if (a->opened > 0 && a->gpu == standin_gpu() && memcmp(&a->handle, handle, sizeof *handle) == 0)
            return a;
    return NULL;
}

/* Other memory than the handle's, of the same size. Returns a file. */
static int open_other(const ipc_handle *of)
{
    int file = memfd_create("standin", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)of->bytes))
        standin_stop("no memory of %zu bytes", (size_t)of->bytes);
    return file;
}

/* As in CUDA, a process may not open what is its own, and what is open already stays where it is. */
cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER_GPU();
    ipc_handle of;
    char path[64];
    memcpy(&of, &handle, sizeof of);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", of.process, of.file);
    if (of.process == (int)getpid())
        return standin_error(cudaErrorInvalidResourceHandle);
    if (of.gpu != standin_number_on_host(standin_gpu()) && !standin_peers())
        return standin_error(cudaErrorPeerAccessUnsupported);
    bool wrong = of.gpu != standin_number_on_host(standin_gpu()) && standin_number("STANDIN_PEERS", 0) == 3;
    int file = wrong ? open_other(&of) : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return standin_error(cudaErrorInvalidResourceHandle);
    pthread_mutex_lock(&lock);
    allocation *a = find_opened(&of);
    if (a) {
        close(file);
    } else {
        a = add_allocation((allocation){.gpu = standin_gpu(), .handle = of, .file = file});
        flock(file, LOCK_SH);
        map_twice(a, file, 0, of.bytes);
    }
    a->opened++;
    *memory = a->device;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    cudaDeviceSynchronize();
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || a->opened == 0 || a->device != memory)
        standin_stop("%p is closed, which is not another process's", memory);
    if (--a->opened == 0) {
        unmap(a);
        flock(a->file, LOCK_UN);
        close(a->file);
    }
    pthread_mutex_unlock(&lock);
    return standin_enter(__func__);
}

/* ---- memory of the host ---- */

static void add_pinned(void *memory, size_t bytes, bool registered)
{
    pthread_mutex_lock(&lock);
    add_allocation((allocation){.device = memory, .bytes = bytes, .registered = registered});
    pinned += registered ? 0 : bytes;
    pthread_mutex_unlock(&lock);
}

static void remove_pinned(void *memory, bool registered)
{
    pthread_mutex_lock(&lock);
    allocation *a = find(memory);
    if (!a || a->data || a->device != memory || a->registered != registered)
        standin_stop("%p is given back, which is not pinned", memory);
    pinned -= registered ? 0 : a->bytes;
    allocation **link = &newest;
    while (*link != a)
        link = &(*link)->before;
    *link = a->before;
    free(a);
    pthread_mutex_unlock(&lock);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    STANDIN_ENTER_GPU();
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
    STANDIN_ENTER_GPU();
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
    for (const allocation *a = newest; a; a = a->before)
        if (a->data && !a->freed && mprotect(a->pages, a->room, access_of(a)) != 0)
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
