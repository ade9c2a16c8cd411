/* Streams, events, copies and fills. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/streams_impl.h"

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;

static cudaStream_t streams, destroyed;

int standin_stream_gpu(cudaStream_t stream)
{
    return stream->gpu;
}

cudaStream_t standin_streams(void)
{
    return streams;
}

static void hold(void)
{
    pthread_mutex_lock(&standin_lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&standin_lock);
}

/* ---- items ---- */

standin_item *standin_make_item(const standin_work *work, const void *argument, size_t size)
{
    standin_item *item = malloc(sizeof *item + size);
    if (!item)
        standin_stop("no memory for work");
    *item = (standin_item){.work = *work, .users = 1};
    if (size > 0)
        memcpy(item->argument, argument, size);
    return item;
}

/* With the lock. */
void standin_drop_item(standin_item *item)
{
    if (--item->users > 0)
        return;
    if (item->work.drop)
        item->work.drop(item->argument);
    free(item);
}

void standin_push(cudaStream_t stream, standin_item *item)
{
    standin_queued *queued = malloc(sizeof *queued);
    if (!queued)
        standin_stop("no memory for a queue");
    *queued = (standin_queued){item, NULL};
    *(stream->first ? &stream->last->next : &stream->first) = queued;
    stream->last = queued;
    stream->pushed++;
    pthread_cond_signal(&stream->queued);
}

cudaError_t standin_enqueue(cudaStream_t stream, const standin_work *work, const void *argument, size_t size)
{
    if (!stream)
        standin_stop("%s on the default stream, which Isogrid does not use", work->what);
    if (!stream->graph) /* which the thread that queues changes alone */
        standin_tell("STANDIN_LAUNCHED", work->what);
    standin_item *item = standin_make_item(work, argument, size);
    cudaError_t error = cudaSuccess;
    hold();
    if (stream->graph)
        error = standin_add_node(stream, item);
    else
        standin_push(stream, item);
    let_go();
    return standin_error(error);
}

/* With the lock: waits until a stream has finished so many items. */
static void await(cudaStream_t stream, uint64_t position)
{
    while (stream->finished < position)
        pthread_cond_wait(&stream->done, &standin_lock);
}

/* ---- the thread of a stream ---- */

uint64_t standin_draw(cudaStream_t stream, uint64_t below)
{
    uint64_t x = stream->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    stream->random = x;
    return below ? x % below : 0;
}

static bool is_busy(void)
{
    hold();
    bool busy = false;
    for (cudaStream_t s = streams; s; s = s->next)
        busy = busy || s->finished < s->pushed;
    let_go();
    return busy;
}

static void finish(cudaStream_t stream, standin_item *item)
{
    hold();
    standin_drop_item(item);
    stream->finished++;
    pthread_cond_broadcast(&stream->done);
    let_go();
    standin_close(is_busy);
}

static void *serve(void *argument)
{
    cudaStream_t stream = argument;
    uint64_t most = (uint64_t)standin_number("STANDIN_DELAY", 0),
             stall = (uint64_t)standin_number("STANDIN_STALL", 0);
    for (;;) {
        hold();
        while (!stream->first && !stream->ended)
            pthread_cond_wait(&stream->queued, &standin_lock);
        standin_queued *queued = stream->first;
        uint64_t delay = most && standin_draw(stream, 2) ? standin_draw(stream, most) : 0;
        if (stall && standin_draw(stream, 16) == 0)
            delay = stall;
        if (queued)
            stream->first = queued->next;
        let_go();
        if (!queued)
            return NULL;
        if (delay)
            usleep((useconds_t)delay);
        standin_item *item = queued->item;
        free(queued);
        item->work.run(item->argument);
        finish(stream, item);
    }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    static uint64_t created;
    STANDIN_ENTER_GPU();
    cudaStream_t fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return standin_error(cudaErrorMemoryAllocation);
    if (!(flags & cudaStreamNonBlocking))
        standin_stop("a stream that waits for the default stream");
    pthread_cond_init(&fresh->queued, NULL);
    pthread_cond_init(&fresh->done, NULL);
    hold();
    fresh->gpu = standin_gpu();
    fresh->random = (++created * 31 + (uint64_t)standin_number("STANDIN_SEED", 1)) * 0x9E3779B97F4A7C15u | 1;
    fresh->next = streams;
    streams = fresh;
    let_go();
    if (pthread_create(&fresh->thread, NULL, serve, fresh) != 0)
        standin_stop("no thread for a stream");
    *stream = fresh;
    return cudaSuccess;
}

/* What was queued is done first. The struct stays, since events may name it. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    hold();
    await(stream, stream->pushed);
    stream->ended = true;
    cudaStream_t *at = &streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (!*at)
        standin_stop("a stream is destroyed twice");
    *at = stream->next;
    stream->next = destroyed;
    destroyed = stream;
    pthread_cond_signal(&stream->queued);
    let_go();
    pthread_join(stream->thread, NULL);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    STANDIN_ENTER();
    hold();
    cudaError_t error = stream->graph ? standin_refuse_capture() : cudaSuccess;
    if (error == cudaSuccess)
        await(stream, stream->pushed);
    let_go();
    standin_tell("STANDIN_WAITED", "cudaStreamSynchronize");
    return error != cudaSuccess ? standin_error(error) : standin_enter("after cudaStreamSynchronize");
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    STANDIN_ENTER();
    hold();
    cudaError_t error = stream->graph ? standin_refuse_capture() : cudaSuccess;
    if (error == cudaSuccess && stream->finished != stream->pushed)
        error = cudaErrorNotReady;
    let_go();
    return standin_error(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    hold();
    cudaError_t error = standin_refuse_capture();
    for (cudaStream_t s = streams; s && error == cudaSuccess; s = s->next)
        await(s, s->pushed);
    let_go();
    return error != cudaSuccess ? standin_error(error) : standin_enter(__func__);
}

/* ---- events ---- */

/* In a file that other processes can map. */
static void share(cudaEvent_t event, int file)
{
    void *mapped = mmap(NULL, sizeof *event->shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        standin_stop("no memory for an event that processes share");
    event->shared = mapped;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    STANDIN_ENTER_GPU();
    *event = calloc(1, sizeof **event);
    if (!*event)
        return standin_error(cudaErrorMemoryAllocation);
    (*event)->gpu = standin_gpu();
    (*event)->timed = !(flags & cudaEventDisableTiming);
    if (!(flags & cudaEventInterprocess))
        return cudaSuccess;
    cudaError_t refused = (*event)->timed ? cudaErrorInvalidValue : standin_ordered("cudaEventInterprocess");
    if (refused != cudaSuccess)
        return standin_error(refused);
    (*event)->file = memfd_create("event", MFD_CLOEXEC);
    if ((*event)->file < 0 || ftruncate((*event)->file, sizeof(standin_moment)) != 0)
        standin_stop("no file for an event that processes share");
    share(*event, (*event)->file);
    return cudaSuccess;
}

/* What is yet to note the event's time is done first. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    hold();
    if (event->timed && event->stream)
        await(event->stream, event->position);
    let_go();
    if (event->shared && !event->imported && flock(event->file, LOCK_EX | LOCK_NB) != 0)
        standin_stop("cudaEventDestroy of an event that another process has open");
    if (event->shared) {
        flock(event->file, LOCK_UN);
        close(event->file);
    }
    free(event->nodes);
    free(event); /* work on streams may still use `shared` */
    return cudaSuccess;
}

typedef struct event_handle {
    int process, file, gpu; /* its number among those of the host */
} event_handle;

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    STANDIN_ENTER();
    if (!event->shared || event->imported)
        return standin_error(cudaErrorInvalidResourceHandle);
    event_handle made = {(int)getpid(), event->file, standin_number_on_host(event->gpu)};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &made, sizeof made);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    STANDIN_ENTER_GPU();
    event_handle of;
    char path[64];
    memcpy(&of, &handle, sizeof of);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", of.process, of.file);
    int file = of.process == (int)getpid() ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || !standin_sees(of.gpu)) {
        if (file >= 0)
            close(file);
        return standin_error(cudaErrorInvalidResourceHandle);
    }
    *event = calloc(1, sizeof **event);
    if (!*event)
        standin_stop("no memory for an event");
    (*event)->gpu = standin_gpu();
    (*event)->imported = true;
    (*event)->file = file;
    flock(file, LOCK_SH);
    share(*event, file);
    return cudaSuccess;
}

static void run_mark(void *argument)
{
    atomic_fetch_add(&(*(standin_moment **)argument)->passed, 1);
}

/* With the lock: what other processes see of a record. */
static void mark(cudaEvent_t event, cudaStream_t stream)
{
    static const standin_work work = {.run = run_mark, .what = "an event that processes share"};
    if (stream->graph)
        standin_stop("an event that processes share is captured");
    atomic_fetch_add(&event->shared->recorded, 1);
    standin_push(stream, standin_make_item(&work, &event->shared, sizeof event->shared));
}

static _Atomic int64_t spent = 1;

void standin_spend(int64_t nanoseconds)
{
    spent += nanoseconds;
}

static int64_t time_now(void)
{
    struct timespec now;
    if (standin_number("STANDIN_CLOCK", 0))
        return spent;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note_time(void *argument)
{
    cudaEvent_t event = *(cudaEvent_t *)argument;
    int64_t now = time_now();
    hold();
    event->time = now;
    let_go();
}

static const standin_work timing = {.run = note_time, .what = "an event"};

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    STANDIN_ENTER();
    if (event->gpu != stream->gpu)
        return standin_error(cudaErrorInvalidResourceHandle);
    hold();
    if (event->timed && !stream->graph)
        standin_push(stream, standin_make_item(&timing, &event, sizeof event));
    if (event->shared)
        mark(event, stream);
    event->stream = stream;
    event->position = stream->pushed;
    event->capture = stream->graph ? stream->graph->capture : 0;
    if (stream->graph)
        standin_set_nodes(&event->nodes, &event->n_nodes, stream->tail, stream->n_tail);
    let_go();
    return cudaSuccess;
}

/* In a capture an external record is a node, and no order of what is captured after a wait for the event. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    STANDIN_ENTER();
    if (flags != cudaEventRecordExternal)
        return cudaEventRecord(event, stream);
    if (event->gpu != stream->gpu)
        return standin_error(cudaErrorInvalidResourceHandle);
    if (!stream->graph) /* the manual: invalid outside of a capture */
        return standin_error(cudaErrorInvalidValue);
    return standin_enqueue(stream, &timing, &event, sizeof event);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    STANDIN_ENTER();
    hold();
    cudaError_t error =
        from->timed && to->timed && from->time && to->time ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess)
        *milliseconds = (float)(1e-6 * (double)(to->time - from->time));
    let_go();
    return standin_error(error);
}

/* With the lock: the capture in which the event was recorded, while it goes on. */
static cudaGraph_t capture_of(cudaEvent_t event)
{
    for (cudaStream_t s = streams; s; s = s->next)
        if (s->graph && s->graph->capture == event->capture)
            return s->graph;
    return NULL;
}

/* With the lock: the host can neither test nor await an event of a capture, also when that has ended. */
static cudaError_t refuse_captured(cudaEvent_t event)
{
    if (event->capture == 0)
        return cudaSuccess;
    if (capture_of(event))
        standin_refuse_capture();
    return cudaErrorCapturedEvent;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    STANDIN_ENTER();
    hold();
    cudaError_t error = refuse_captured(event);
    if (error == cudaSuccess && event->stream && event->stream->finished < event->position)
        error = cudaErrorNotReady;
    let_go();
    return standin_error(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    STANDIN_ENTER();
    hold();
    cudaError_t error = refuse_captured(event);
    if (error == cudaSuccess && event->stream)
        await(event->stream, event->position);
    let_go();
    standin_tell("STANDIN_WAITED", "cudaEventSynchronize");
    return error != cudaSuccess ? standin_error(error) : standin_enter("after cudaEventSynchronize");
}

typedef struct awaited {
    cudaStream_t stream;
    uint64_t position;
} awaited;

static void run_wait(void *argument)
{
    const awaited *of = argument;
    hold();
    await(of->stream, of->position);
    let_go();
}

/* For another process's event, as it is recorded now. */
typedef struct awaited_moment {
    standin_moment *shared;
    uint64_t recorded;
} awaited_moment;

static void run_wait_for_moment(void *argument)
{
    const awaited_moment *of = argument;
    while (atomic_load(&of->shared->passed) < of->recorded)
        usleep(20);
}

/* With the lock. */
static void await_moment(cudaStream_t stream, cudaEvent_t event)
{
    static const standin_work work = {.run = run_wait_for_moment, .what = "a wait for another process"};
    awaited_moment of = {event->shared, atomic_load(&event->shared->recorded)};
    standin_push(stream, standin_make_item(&work, &of, sizeof of));
}

/* Adds a node to a list that has none twice. */
static void add_to(int *nodes, int *count, int node)
{
    for (int i = 0; i < *count; i++)
        if (nodes[i] == node)
            return;
    nodes[(*count)++] = node;
}

/* A stream that waits for an event of a capture takes part in it. */
static cudaError_t join_capture(cudaStream_t stream, cudaEvent_t event)
{
    cudaGraph_t graph = capture_of(event);
    if (!graph)
        return cudaErrorCapturedEvent;
    if (stream->graph && stream->graph != graph)
        return cudaErrorStreamCaptureMerge;
    if (!stream->graph)
        stream->n_tail = 0;
    stream->graph = graph;
    int *both = malloc((size_t)(stream->n_tail + event->n_nodes) * sizeof *both + 1), count = stream->n_tail;
    if (!both)
        standin_stop("no memory for a capture");
    if (count > 0)
        memcpy(both, stream->tail, (size_t)count * sizeof *both);
    for (int i = 0; i < event->n_nodes; i++)
        add_to(both, &count, event->nodes[i]);
    free(stream->tail);
    stream->tail = both;
    stream->n_tail = count;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    static const standin_work work = {.run = run_wait, .what = "a wait"};
    (void)flags;
    STANDIN_ENTER();
    if (standin_number("STANDIN_WAITS", 1) == 0)
        return cudaSuccess;
    cudaError_t error = cudaSuccess;
    hold();
    if (event->capture != 0)
        error = join_capture(stream, event);
    else if (stream->graph)
        error = cudaErrorStreamCaptureIsolation;
    else if (event->imported)
        await_moment(stream, event);
    else if (event->stream)
        standin_push(stream,
                     standin_make_item(&work, &(awaited){event->stream, event->position}, sizeof(awaited)));
    if (error != cudaSuccess && stream->graph)
        stream->graph->broken = cudaErrorStreamCaptureInvalidated;
    let_go();
    return standin_error(error);
}

/* ---- host functions ---- */

typedef struct host_call {
    cudaHostFn_t function;
    void *data;
} host_call;

static void run_host(void *argument)
{
    const host_call *call = argument;
    usleep((useconds_t)standin_number("STANDIN_STALL", 0));
    call->function(call->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    static const standin_work work = {.run = run_host, .what = "a host function"};
    STANDIN_ENTER();
    if (standin_number("STANDIN_COPIES", 0))
        standin_note("cudaLaunchHostFunc %s kernels", stream->computes ? "among" : "beside");
    return standin_enqueue(stream, &work, &(host_call){function, data}, sizeof(host_call));
}

/* ---- copies and fills ---- */

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    void *staged; /* what a copy from memory that is not pinned has read at once; NULL: `from` */
} copy;

/* A stream copies and fills what its own GPU reaches. */
static void check_reach(cudaStream_t stream, const void *memory)
{
    int gpu = standin_memory_gpu(memory);
    if (gpu >= 0 && !standin_reaches(stream->gpu, gpu))
        standin_stop("a stream of GPU %d copies or fills memory of GPU %d, which it does not reach",
                     stream->gpu, gpu);
}

static void run_copy(void *argument)
{
    const copy *c = argument;
    memcpy(standin_reach(c->to, c->bytes), c->staged ? c->staged : standin_reach(c->from, c->bytes),
           c->bytes);
}

static void drop_copy(void *argument)
{
    free(((copy *)argument)->staged);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    static const standin_work work = {.run = run_copy, .drop = drop_copy, .what = "a copy"};
    STANDIN_ENTER();
    copy c = {to, from, bytes, NULL};
    standin_kind to_kind = standin_kind_of(to, bytes), from_kind = standin_kind_of(from, bytes);
    bool to_device = to_kind == STANDIN_DEVICE, from_device = from_kind == STANDIN_DEVICE;
    if ((kind == cudaMemcpyHostToDevice && (!to_device || from_device)) ||
        (kind == cudaMemcpyDeviceToHost && (to_device || !from_device)) ||
        (kind == cudaMemcpyDeviceToDevice && (!to_device || !from_device)))
        return standin_error(cudaErrorInvalidMemcpyDirection);
    if (bytes == 0)
        return cudaSuccess;
    check_reach(stream, to);
    check_reach(stream, from);
    bool pageable = from_kind == STANDIN_PAGEABLE || to_kind == STANDIN_PAGEABLE;
    if (pageable && stream && stream->graph) { /* no manual promises it */
        hold();
        cudaError_t refused = standin_refuse_capture();
        let_go();
        return standin_error(refused);
    }
    if (to_device != from_device && standin_number("STANDIN_COPIES", 0))
        standin_note("cudaMemcpyAsync %s %zu %s kernels", to_device ? "in" : "out", bytes,
                     stream && stream->computes ? "among" : "beside");
    if (from_kind == STANDIN_PAGEABLE) {
        c.staged = malloc(bytes);
        if (!c.staged)
            return standin_error(cudaErrorMemoryAllocation);
        memcpy(c.staged, from, bytes);
    }
    cudaError_t error = standin_enqueue(stream, &work, &c, sizeof c);
    return error == cudaSuccess && to_kind == STANDIN_PAGEABLE ? cudaStreamSynchronize(stream) : error;
}

typedef struct fill {
    void *to;
    int value;
    size_t bytes;
} fill;

static void run_fill(void *argument)
{
    const fill *f = argument;
    memset(standin_reach(f->to, f->bytes), f->value, f->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    static const standin_work work = {.run = run_fill, .what = "a fill"};
    STANDIN_ENTER();
    if (standin_kind_of(to, bytes) == STANDIN_PAGEABLE && bytes > 0)
        return standin_error(cudaErrorInvalidValue);
    if (bytes == 0)
        return cudaSuccess;
    check_reach(stream, to);
    return standin_enqueue(stream, &work, &(fill){to, value, bytes}, sizeof(fill));
}
