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

static iso_status allocate(const iso_device *of, size_t bytes, const char *what, void **memory)
{
    (void)of;
    void *data;
    iso_status status = iso_alloc(bytes, what, &data);
    return status == ISO_OK ? add_block(data, bytes, what, memory) : status;
}

static void release(const iso_device *of, void *memory)
{
    (void)of;
    if (memory)
        iso_free(remove_block(memory));
}

static iso_status attach(const iso_device *of, void *shared, size_t bytes, void **memory)
{
    (void)of;
    return add_block(shared, bytes, "memory that ranks share", memory);
}

static void detach(const iso_device *of, void *memory)
{
    (void)of;
    remove_block(memory);
}

static void *reach(void *memory)
{
    return place(memory);
}

/* ---- streams ----
 * One lock for all: what is queued is executed by any thread that waits for it. */

typedef struct work {
    struct work *next;
    void (*run)(const struct work *work);
    void *to;
    const void *from, *arg;
    size_t bytes, size;
    int first, count;
    char element[8];
    _Alignas(8) char more[]; /* `bytes` that the work keeps */
} work;

typedef struct stream {
    iso_stream base;
    work *first, **end;
    uint64_t queued, done; /* numbers of work */
} stream;

typedef struct event {
    iso_device_event base;
    stream *of;
    uint64_t number; /* of the stream's work before it */
} event;

static const iso_device device;
static pthread_mutex_t queues = PTHREAD_MUTEX_INITIALIZER;

/* Executes the stream's work up to this number. */
static void execute(stream *s, uint64_t number)
{
    while (s->done < number) {
        work *w = s->first;
        s->first = w->next;
        s->end = s->first ? s->end : &s->first;
        s->done++;
        w->run(w);
        free(w);
    }
}

static iso_status create_stream(const iso_device *of, iso_stream **out)
{
    stream *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_error(ISO_NO_MEMORY, "no memory for a stream");
    fresh->base.device = of;
    fresh->end = &fresh->first;
    *out = &fresh->base;
    return ISO_OK;
}

static void destroy_stream(iso_stream *of)
{
    stream *s = (stream *)of;
    if (!s)
        return;
    if (s->first)
        stop("a stream is destroyed, and nobody has waited for what it has to do");
    iso_free(s);
}

/* Late (the default): nothing is done before somebody waits for it. Early: all is done at once. A number: by chance,
 * from this seed. */
static bool done_at_once(void)
{
    static unsigned long long state;
    const char *order = getenv("ISOGRID_TEST_ORDER");
    if (!order || strcmp(order, "late") == 0)
        return false;
    if (strcmp(order, "early") == 0)
        return true;
    state = (state ? state : strtoull(order, NULL, 10) * 2 + 1) * 6364136223846793005u + 1442695040888963407u;
    return state >> 62 == 0;
}

/* Work with a copy of `more` bytes. */
static work *make_work(void (*run)(const work *w), const void *more, size_t bytes)
{
    work *w = calloc(1, sizeof *w + bytes);
    if (!w)
        stop("no memory for a queue");
    w->run = run;
    w->bytes = bytes;
    if (bytes > 0)
        memcpy(w->more, more, bytes);
    return w;
}

static void queue(iso_stream *of, work *fresh)
{
    stream *s = (stream *)of;
    pthread_mutex_lock(&queues);
    *s->end = fresh;
    s->end = &fresh->next;
    s->queued++;
    if (done_at_once())
        execute(s, s->queued);
    pthread_mutex_unlock(&queues);
}

static void run_copy(const work *w)
{
    memcpy(place(w->to), place(w->from), w->size);
}

static void copy(iso_stream *of, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    work *w = make_work(run_copy, NULL, 0);
    w->to = to;
    w->from = from;
    w->size = bytes;
    queue(of, w);
}

static void run_fill(const work *w)
{
    char *to = place(w->to);
    for (int i = 0; i < w->count; i++)
        memcpy(to + (size_t)i * w->size, w->element, w->size);
}

static void fill(iso_stream *of, void *to, const void *element, size_t size, size_t count)
{
    work *w = make_work(run_fill, NULL, 0);
    if (size != 1 && size != 2 && size != 4 && size != 8)
        stop("a fill with elements of another size than 1, 2, 4 or 8");
    w->to = to;
    w->size = size;
    w->count = (int)count;
    memcpy(w->element, element, size);
    queue(of, w);
}

static iso_status check(iso_stream *of)
{
    (void)of;
    return ISO_OK;
}

static iso_status wait(iso_stream *of)
{
    stream *s = (stream *)of;
    pthread_mutex_lock(&queues);
    execute(s, s->queued);
    pthread_mutex_unlock(&queues);
    return ISO_OK;
}

/* ---- events ---- */

static iso_status create_event(const iso_device *of, iso_device_event **out)
{
    event *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_error(ISO_NO_MEMORY, "no memory for an event");
    fresh->base.device = of;
    *out = &fresh->base;
    return ISO_OK;
}

static void destroy_event(iso_device_event *of)
{
    iso_free(of);
}

static void record(iso_device_event *of, iso_stream *at)
{
    event *e = (event *)of;
    e->of = (stream *)at;
    e->number = e->of->queued;
}

static void run_await(const work *w)
{
    const event *e = (const event *)(const void *)w->more;
    execute(e->of, e->number);
}

static void await(iso_stream *of, const iso_device_event *recorded)
{
    const event *e = (const event *)recorded;
    if (e->of)
        queue(of, make_work(run_await, e, sizeof *e));
}

static iso_status wait_event(const iso_device_event *of)
{
    const event *e = (const event *)of;
    pthread_mutex_lock(&queues);
    if (e->of)
        execute(e->of, e->number);
    pthread_mutex_unlock(&queues);
    return ISO_OK;
}

/* Who asks often enough is not kept waiting. */
static bool passed(const iso_device_event *of)
{
    static int asked;
    const event *e = (const event *)of;
    if (++asked % 3 == 0)
        wait_event(of);
    pthread_mutex_lock(&queues);
    bool is = !e->of || e->of->done >= e->number;
    pthread_mutex_unlock(&queues);
    return is;
}

static iso_status allocate_pinned(const iso_device *of, size_t bytes, const char *what, void **memory)
{
    (void)of;
    return iso_alloc(bytes, what, memory);
}

static void release_pinned(const iso_device *of, void *memory)
{
    (void)of;
    iso_free(memory);
}

static const iso_device device = {.name = "test",
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
                                  .attach = attach,
                                  .detach = detach,
                                  .reach = reach};

const iso_device *test_device(int turn)
{
    (void)turn;
    return &device;
}

/* ---- shards ---- */

void test_shard_place(iso_state_shard *shard)
{
    void *host = shard->data, *memory = NULL;
    if (!chosen())
        return;
    if (create_stream(&device, &shard->stream) ||
        allocate(&device, iso_shard_bytes(shard), "a shard of a test", &memory))
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
    release(&device, shard->data);
    destroy_stream(shard->stream);
}

/* ---- kernels ---- */

/* The CPU's kernels without parts: a device computes whole gradients. */
enum { MOST_KERNELS = 256 };
static const iso_kernel *inner[MOST_KERNELS];
static iso_kernel outer[MOST_KERNELS];
static int n_kernels;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static const iso_kernel *whole(const iso_kernel *kernel)
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
    outer[i].part_rows = NULL;
    outer[i].prepare_parts = NULL;
    outer[i].run_part = NULL;
    n_kernels++;
    return &outer[i];
}

static const iso_kernel *find_kernel(const char *op, const iso_kernel_call *call)
{
    const iso_kernel *kernel = iso_backend_cpu()->find(op, call);
    pthread_mutex_lock(&making);
    kernel = kernel ? whole(kernel) : NULL;
    pthread_mutex_unlock(&making);
    return kernel;
}

static void run_kernel(const iso_kernel *kernel, const iso_kernel_call *call)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call here = *call;
    for (int i = 0; i < call->n_inputs; i++) {
        in[i] = call->in[i];
        in[i].data = place(call->in[i].data);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        out[i] = call->out[i];
        out[i].data = place(call->out[i].data);
    }
    here.in = in;
    here.out = out;
    here.scratch = place(call->scratch);
    here.info = place(call->info);
    here.fault = place(call->fault);
    kernel->run(&here);
}

static void copy_box(const iso_box_copy *given)
{
    iso_box_copy here = *given;
    here.from = place(given->from);
    here.to = place(given->to);
    iso_box_copy_run(&here);
}

struct iso_sequence {
    iso_stream *stream;
    int count;
    iso_thunk thunks[];
};

static iso_status make_sequence(const iso_thunk *given, int count, iso_stream *on, iso_sequence **out)
{
    iso_sequence *sequence = iso_new(sizeof *sequence + (size_t)count * sizeof *given);
    if (!sequence)
        return iso_error(ISO_NO_MEMORY, "no memory for %d instructions", count);
    sequence->stream = on;
    sequence->count = count;
    memcpy(sequence->thunks, given, (size_t)count * sizeof *given);
    *out = sequence;
    return ISO_OK;
}

static void run_sequence(const work *w)
{
    const iso_sequence *sequence = w->arg;
    for (int i = w->first; i < w->first + w->count; i++) {
        const iso_thunk *one = &sequence->thunks[i];
        if (one->copy)
            copy_box(one->copy);
        else
            run_kernel(one->kernel, one->call);
    }
}

static iso_status launch(const iso_sequence *sequence, int first, int count)
{
    work *w = make_work(run_sequence, NULL, 0);
    if (first < 0 || count < 1 || first + count > sequence->count)
        stop("instructions are launched that the sequence does not have");
    w->arg = sequence;
    w->first = first;
    w->count = count;
    queue(sequence->stream, w);
    return ISO_OK;
}

static void discard(iso_sequence *sequence)
{
    iso_free(sequence);
}

/* ---- the end of a step ---- */

static void run_prepare(const work *w)
{
    iso_rates_call call = *(const iso_rates_call *)(const void *)w->more;
    call.iteration = place(call.iteration);
    call.rate = place(call.rate);
    call.rates = place(call.rates);
    iso_backend_cpu()->prepare(&call, NULL);
}

static void prepare(const iso_rates_call *call, iso_stream *on)
{
    queue(on, make_work(run_prepare, call, sizeof *call));
}

static void run_optimize(const work *w)
{
    iso_optimizer_call call = *(const iso_optimizer_call *)w->arg;
    iso_optimizer_run one;
    call.rates = place(call.rates);
    call.faults = place(call.faults);
    for (int i = 0; i < w->count; i++) {
        memcpy(&one, w->more + (size_t)i * sizeof one, sizeof one);
        one.weights = place(one.weights);
        one.gradient = place(one.gradient);
        for (int k = 0; k < ISO_MAX_OPTIMIZER_SLOTS; k++)
            one.slots[k] = place(one.slots[k]);
        call.n_runs = 1;
        call.runs = &one;
        iso_backend_cpu()->optimize(&call, 1, NULL, NULL);
    }
    free((void *)(uintptr_t)w->arg);
}

static void queue_optimize(const iso_optimizer_call *call, iso_stream *on)
{
    work *w = make_work(run_optimize, call->runs, (size_t)call->n_runs * sizeof *call->runs);
    iso_optimizer_call *kept = malloc(sizeof *kept);
    if (!kept)
        stop("no memory for a queue");
    *kept = *call;
    w->arg = kept;
    w->count = call->n_runs;
    queue(on, w);
}

static void optimize(const iso_optimizer_call *calls, int n_calls, iso_optimizer_table *table, iso_stream *on)
{
    (void)table;
    for (int i = 0; i < n_calls; i++)
        queue_optimize(&calls[i], on);
}

static void run_copy_bytes(const work *w)
{
    const double *faults = w->from ? place(w->from) : NULL;
    for (int i = 0; i < w->count; i++) {
        iso_bytes_copy one;
        memcpy(&one, w->more + (size_t)i * sizeof one, sizeof one);
        one.from = place(one.from);
        one.to = place(one.to);
        iso_backend_cpu()->copy_bytes(&one, 1, faults, NULL);
    }
}

static void copy_bytes(const iso_bytes_copy *list, int count, const double *faults, iso_stream *on)
{
    work *w = make_work(run_copy_bytes, list, (size_t)count * sizeof *list);
    w->from = faults;
    w->count = count;
    queue(on, w);
}

static void run_count_fault(const work *w)
{
    iso_backend_cpu()->count_fault(place(w->from), place(w->arg), place(w->to), NULL);
}

static void count_fault(const iso_fault *fault, const double *host, double *out, iso_stream *on)
{
    work *w = make_work(run_count_fault, NULL, 0);
    w->from = fault;
    w->to = out;
    w->arg = host;
    queue(on, w);
}

typedef struct combination {
    bool maximum;
    iso_dtype dtype;
    int64_t n;
    const void *a, *b;
    void *out;
} combination;

static void combine_here(const combination *c)
{
    const iso_backend *cpu = iso_backend_cpu();
    (c->maximum ? cpu->maximum : cpu->sum)(c->dtype, c->n, place(c->a), place(c->b), place(c->out), NULL);
}

static void run_combine(const work *w)
{
    combine_here((const combination *)(const void *)w->more);
}

static void combine(const combination *c, iso_stream *on)
{
    if (on)
        queue(on, make_work(run_combine, c, sizeof *c));
    else
        combine_here(c);
}

static void sum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *on)
{
    combine(&(combination){false, dtype, n, a, b, out}, on);
}

static void maximum(iso_dtype dtype, int64_t n, const void *a, const void *b, void *out, iso_stream *on)
{
    combine(&(combination){true, dtype, n, a, b, out}, on);
}

static iso_rule_run optimizer(const char *name, iso_dtype dtype)
{
    return iso_backend_cpu()->optimizer(name, dtype);
}

/* ---- the backend ---- */

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
                                        .sequence = make_sequence,
                                        .launch = launch,
                                        .discard = discard,
                                        .prepare = prepare,
                                        .optimize = optimize,
                                        .copy_bytes = copy_bytes,
                                        .count_fault = count_fault,
                                        .optimizer = optimizer};
    return &backend;
}

__attribute__((constructor)) static void add(void)
{
    iso_backend_add(test_device_backend());
}
