#include "tests/support/guarded_device.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/backend/backend.h"
#include "runtime/base/limits.h"
#include "runtime/base/memory.h"

static void stop(const char *what)
{
    fprintf(stderr, "test device: %s\n", what);
    abort();
}

/* ---- memory ---- */

/* A block of the device's memory. Kernels may read up to READ_PAST bytes past its end. */
enum { MOST_BLOCKS = 1 << 16, READ_PAST = ISO_ALIGN };
typedef struct block {
    char *address; /* the device's: pages without access; NULL: free */
    char *data;    /* where the memory is */
    size_t bytes;
    char what[64];
} block;

static block blocks[MOST_BLOCKS];
static int n_blocks;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static block *find(const void *address)
{
    for (int i = 0; i < n_blocks; i++) {
        uintptr_t at = (uintptr_t)address - (uintptr_t)blocks[i].address;
        if (blocks[i].address && at <= blocks[i].bytes + READ_PAST)
            return &blocks[i];
    }
    return NULL;
}

/* Where an address is that is the device's, or else the host's. */
static void *place(const void *address)
{
    pthread_rwlock_rdlock(&lock);
    const block *found = address ? find(address) : NULL;
    char *data = found ? found->data + ((const char *)address - found->address) : (char *)(uintptr_t)address;
    pthread_rwlock_unlock(&lock);
    return data;
}

static size_t reserved_bytes(const block *of)
{
    return of->bytes + (size_t)2 * READ_PAST;
}

/* ---- the report ---- */

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
}

/* Tells which memory was touched; then the signal takes its course. */
static void report(int number, siginfo_t *about, void *context)
{
    (void)context;
    const block *touched = find(about->si_addr);
    char text[160];
    if (touched) {
        snprintf(text, sizeof text, "test device: the host touched byte %td of %s (%zu bytes)\n",
                 (char *)about->si_addr - touched->address, touched->what, touched->bytes);
        put(text);
    }
    signal(number, SIG_DFL);
}

static void begin_reports(void)
{
    struct sigaction action = {.sa_sigaction = report, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
}

static iso_status add_block(void *data, size_t bytes, const char *what, void **memory)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    block fresh = {.data = data, .bytes = bytes};
    pthread_once(&once, begin_reports);
    snprintf(fresh.what, sizeof fresh.what, "%s", what);
    void *address =
        mmap(NULL, reserved_bytes(&fresh), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        return iso_error(ISO_NO_MEMORY, "no addresses for %s (%zu bytes)", what, bytes);
    fresh.address = address;
    pthread_rwlock_wrlock(&lock);
    int i = 0;
    while (i < n_blocks && blocks[i].address)
        i++;
    if (i == MOST_BLOCKS)
        stop("too many blocks");
    n_blocks = i < n_blocks ? n_blocks : i + 1;
    blocks[i] = fresh;
    pthread_rwlock_unlock(&lock);
    *memory = address;
    return ISO_OK;
}

static void *remove_block(void *memory)
{
    pthread_rwlock_wrlock(&lock);
    block *of = find(memory);
    if (!of || of->address != memory)
        stop("memory is released that is not the device's");
    char *data = of->data;
    munmap(of->address, reserved_bytes(of));
    *of = (block){0};
    pthread_rwlock_unlock(&lock);
    return data;
}

static bool chosen(void)
{
    const char *name = getenv("ISOGRID_BACKEND");
    return name && strcmp(name, "test") == 0;
}

static iso_status allocate(size_t bytes, const char *what, void **memory)
{
    void *data;
    iso_status status = iso_alloc(bytes, what, &data);
    return status == ISO_OK ? add_block(data, bytes, what, memory) : status;
}

static void release(void *memory)
{
    if (memory)
        iso_free(remove_block(memory));
}

static iso_status attach(void *shared, size_t bytes, void **memory)
{
    return add_block(shared, bytes, "memory that ranks share", memory);
}

static void detach(void *memory)
{
    remove_block(memory);
}

static void *reach(void *memory)
{
    return place(memory);
}

/* ---- streams ---- */

typedef struct queued {
    void *to;
    const void *from; /* NULL: a fill */
    char element[8];
    size_t bytes, size;
} queued;

typedef struct stream {
    iso_stream base;
    queued *list;
    int count;
} stream;

static const iso_device device;

static iso_status create_stream(iso_stream **out)
{
    stream *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_error(ISO_NO_MEMORY, "no memory for a stream");
    fresh->base.device = &device;
    *out = &fresh->base;
    return ISO_OK;
}

static void destroy_stream(iso_stream *of)
{
    stream *s = (stream *)of;
    if (!s)
        return;
    if (s->count > 0)
        stop("a stream is destroyed, and nobody has waited for its copies");
    free(s->list);
    iso_free(s);
}

static void queue(iso_stream *of, queued fresh)
{
    stream *s = (stream *)of;
    s->list = realloc(s->list, ((size_t)s->count + 1) * sizeof *s->list);
    if (!s->list)
        stop("no memory for a queue");
    s->list[s->count++] = fresh;
}

static void copy(iso_stream *of, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        queue(of, (queued){.to = to, .from = from, .bytes = bytes});
}

static void fill(iso_stream *of, void *to, const void *element, size_t size, size_t count)
{
    queued fresh = {.to = to, .bytes = size * count, .size = size};
    if (size != 1 && size != 2 && size != 4 && size != 8)
        stop("a fill with elements of another size than 1, 2, 4 or 8");
    memcpy(fresh.element, element, size);
    queue(of, fresh);
}

static iso_status wait(iso_stream *of)
{
    stream *s = (stream *)of;
    for (int i = 0; i < s->count; i++) {
        const queued *q = &s->list[i];
        char *to = place(q->to);
        if (q->from)
            memcpy(to, place(q->from), q->bytes);
        for (size_t at = 0; !q->from && at < q->bytes; at += q->size)
            memcpy(to + at, q->element, q->size);
    }
    s->count = 0;
    return ISO_OK;
}

static const iso_device device = {.name = "test",
                                  .allocate = allocate,
                                  .release = release,
                                  .allocate_pinned = iso_alloc,
                                  .release_pinned = iso_free,
                                  .create_stream = create_stream,
                                  .destroy_stream = destroy_stream,
                                  .copy = copy,
                                  .fill = fill,
                                  .wait = wait,
                                  .attach = attach,
                                  .detach = detach,
                                  .reach = reach};

const iso_device *test_device(void)
{
    return &device;
}

/* ---- shards ---- */

void test_shard_place(iso_state_shard *shard)
{
    void *host = shard->data, *memory = NULL;
    if (!chosen())
        return;
    if (create_stream(&shard->stream) || allocate(iso_shard_bytes(shard), "a shard of a test", &memory))
        stop("no memory for a shard");
    shard->data = memory;
    iso_shard_write(shard, host);
    free(host);
}

void test_shard_free(iso_state_shard *shard)
{
    if (!shard->stream) {
        free(shard->data);
        return;
    }
    release(shard->data);
    destroy_stream(shard->stream);
}

/* ---- kernels ---- */

/* A kernel function is not told which kernel it is, so each kernel gets functions of its own. */
enum { MOST_KERNELS = 256, MOST_RULES = 256 };
#define EACH_16(M, N)                                                                                        \
    M(N##0)                                                                                                  \
    M(N##1)                                                                                                  \
    M(N##2)                                                                                                  \
    M(N##3)                                                                                                  \
    M(N##4)                                                                                                  \
    M(N##5)                                                                                                  \
    M(N##6)                                                                                                  \
    M(N##7)                                                                                                  \
    M(N##8)                                                                                                  \
    M(N##9)                                                                                                  \
    M(N##a)                                                                                                  \
    M(N##b)                                                                                                  \
    M(N##c)                                                                                                  \
    M(N##d)                                                                                                  \
    M(N##e)                                                                                                  \
    M(N##f)
#define EACH_256(M)                                                                                          \
    EACH_16(M, 0x0)                                                                                          \
    EACH_16(M, 0x1)                                                                                          \
    EACH_16(M, 0x2)                                                                                          \
    EACH_16(M, 0x3)                                                                                          \
    EACH_16(M, 0x4)                                                                                          \
    EACH_16(M, 0x5)                                                                                          \
    EACH_16(M, 0x6)                                                                                          \
    EACH_16(M, 0x7)                                                                                          \
    EACH_16(M, 0x8)                                                                                          \
    EACH_16(M, 0x9)                                                                                          \
    EACH_16(M, 0xa)                                                                                          \
    EACH_16(M, 0xb)                                                                                          \
    EACH_16(M, 0xc)                                                                                          \
    EACH_16(M, 0xd)                                                                                          \
    EACH_16(M, 0xe)                                                                                          \
    EACH_16(M, 0xf)

static const iso_kernel *inner[MOST_KERNELS];
static iso_kernel outer[MOST_KERNELS];
static iso_rule_run rule[MOST_RULES];
static int n_kernels, n_rules;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* A call with the places of its memory. */
typedef struct placed {
    iso_kernel_call call;
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
} placed;

static const iso_kernel_call *place_call(const iso_kernel_call *call, placed *p)
{
    p->call = *call;
    for (int i = 0; i < call->n_inputs; i++) {
        p->in[i] = call->in[i];
        p->in[i].data = place(call->in[i].data);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        p->out[i] = call->out[i];
        p->out[i].data = place(call->out[i].data);
    }
    p->call.in = p->in;
    p->call.out = p->out;
    p->call.scratch = place(call->scratch);
    p->call.info = place(call->info);
    p->call.fault = place(call->fault);
    return &p->call;
}

#define KERNEL(N)                                                                                            \
    static void run_##N(const iso_kernel_call *call)                                                         \
    {                                                                                                        \
        placed p;                                                                                            \
        inner[N]->run(place_call(call, &p));                                                                 \
    }                                                                                                        \
    static void prepare_##N(const iso_kernel_call *call)                                                     \
    {                                                                                                        \
        placed p;                                                                                            \
        inner[N]->prepare_parts(place_call(call, &p));                                                       \
    }                                                                                                        \
    static void run_part_##N(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent,      \
                             bool add, void *part)                                                           \
    {                                                                                                        \
        placed p;                                                                                            \
        inner[N]->run_part(place_call(call, &p), offset, extent, add, place(part));                          \
    }                                                                                                        \
    static void rule_##N(int64_t n, void *w, void *const *slots, const void *g, const double *hyper)         \
    {                                                                                                        \
        run_rule(rule[N], n, w, slots, g, hyper);                                                            \
    }

static void run_rule(iso_rule_run run, int64_t n, void *w, void *const *slots, const void *g,
                     const double *hyper)
{
    void *placed_slots[ISO_MAX_OPTIMIZER_SLOTS];
    for (int i = 0; i < ISO_MAX_OPTIMIZER_SLOTS; i++) /* a rule with fewer slots does not use the others */
        placed_slots[i] = place(slots[i]);
    run(n, place(w), placed_slots, place(g), hyper);
}

EACH_256(KERNEL)

#define FUNCTIONS(N) {run_##N, prepare_##N, run_part_##N, rule_##N},
static const struct {
    void (*run)(const iso_kernel_call *call);
    void (*prepare_parts)(const iso_kernel_call *call);
    void (*run_part)(const iso_kernel_call *call, const int64_t *offset, const int64_t *extent, bool add,
                     void *part);
    iso_rule_run rule;
} functions[] = {EACH_256(FUNCTIONS)};

static const iso_kernel *wrap(const iso_kernel *kernel)
{
    int i = 0;
    while (i < n_kernels && inner[i] != kernel)
        i++;
    if (i == MOST_KERNELS)
        stop("too many kernels");
    if (i < n_kernels)
        return &outer[i];
    inner[i] = kernel;
    outer[i] = *kernel;
    outer[i].run = functions[i].run;
    outer[i].prepare_parts = kernel->prepare_parts ? functions[i].prepare_parts : NULL;
    outer[i].run_part = kernel->run_part ? functions[i].run_part : NULL;
    n_kernels++;
    return &outer[i];
}

static const iso_kernel *find_kernel(const char *op, const iso_kernel_call *call)
{
    const iso_kernel *kernel = iso_backend_cpu()->find(op, call);
    pthread_mutex_lock(&making);
    kernel = kernel ? wrap(kernel) : NULL;
    pthread_mutex_unlock(&making);
    return kernel;
}

static iso_rule_run optimizer(const char *name, iso_dtype dtype)
{
    iso_rule_run run = iso_backend_cpu()->optimizer(name, dtype);
    int i = 0;
    if (!run)
        return NULL;
    pthread_mutex_lock(&making);
    while (i < n_rules && rule[i] != run)
        i++;
    if (i == MOST_RULES)
        stop("too many optimizers");
    rule[i] = run;
    n_rules = i < n_rules ? n_rules : i + 1;
    pthread_mutex_unlock(&making);
    return functions[i].rule;
}

static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out)
{
    iso_backend_cpu()->sum(dtype, n, place(a), place(b), place(out));
}

static void maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out)
{
    iso_backend_cpu()->maximum(dtype, n, place(a), place(b), place(out));
}

static void copy_box(const iso_box_copy *given)
{
    iso_box_copy here = *given;
    here.from = place(given->from);
    here.to = place(given->to);
    iso_box_copy_run(&here);
}

static const char *description(void)
{
    return "test: the CPU's kernels on guarded memory";
}

static const char *kernels_in_use(void)
{
    return iso_backend_cpu()->kernels();
}

static void load(void)
{
    iso_backend_cpu()->load();
}

static int level(void)
{
    return iso_backend_cpu()->level();
}

static void limit(int to)
{
    iso_backend_cpu()->limit(to);
}

const iso_backend *test_device_backend(void)
{
    static const iso_backend backend = {.name = "test",
                                        .description = description,
                                        .kernels = kernels_in_use,
                                        .load = load,
                                        .level = level,
                                        .limit = limit,
                                        .device = test_device,
                                        .find = find_kernel,
                                        .sum = sum,
                                        .maximum = maximum,
                                        .copy = copy_box,
                                        .optimizer = optimizer};
    return &backend;
}

__attribute__((constructor)) static void add(void)
{
    iso_backend_add(test_device_backend());
}
