/* The stand-in for NCCL: communicators whose ranks are processes, or several devices of one, that share a file. Its
 * name travels in ncclUniqueId; the last rank that joins removes it. As the library's manual says, a call of a
 * communicator that does not block only begins its work: it is refused while the one before is in progress. */
#ifdef TESTS_HAVE_NCCL
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/nccl_impl.h"
#include "tests/standin/streams_impl.h"

/* What the last call was refused for. */
static _Thread_local char refusal[300];

__attribute__((format(printf, 2, 3))) static ncclResult_t refuse(ncclResult_t result, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(refusal, sizeof refusal, format, values);
    va_end(values);
    return result;
}

static ncclResult_t ordered(const char *function)
{
    int error = (int)standin_ordered(function);
    return error ? refuse((ncclResult_t)error, "%s fails because STANDIN_FAIL says so", function)
                 : ncclSuccess;
}
#define ORDERED()                                                                                            \
    do {                                                                                                     \
        ncclResult_t ordered_ = ordered(__func__);                                                           \
        if (ordered_ != ncclSuccess)                                                                         \
            return ordered_;                                                                                 \
    } while (0)

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                        "internal error - please report this issue to the NCCL developers",
                                        "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                        "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return refusal;
}

/* ---- jobs ---- */

/* The delay of what a thread of the library does. */
static void delay(ncclComm_t comm)
{
    uint64_t most = (uint64_t)standin_number("STANDIN_DELAY", 0), x = comm->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    comm->random = x;
    if (most)
        usleep((useconds_t)(x % most));
}

static void join_job(ncclComm_t comm)
{
    if (comm->has_job)
        pthread_join(comm->job, NULL);
    comm->has_job = false;
}

/* The error of work that was queued before, and fails now, stays. */
static void set_in_progress(ncclComm_t comm)
{
    int success = ncclSuccess;
    atomic_compare_exchange_strong(&comm->state, &success, ncclInProgress);
}

/* An error that work has set in the meantime stays. */
static void end_progress(ncclComm_t comm, ncclResult_t result)
{
    int in_progress = ncclInProgress;
    atomic_compare_exchange_strong(&comm->state, &in_progress, (int)result);
}

/* Does it in a thread of its own if the communicator does not block. */
static ncclResult_t begin_job(ncclComm_t comm, void *(*run)(void *), void *argument)
{
    join_job(comm);
    set_in_progress(comm);
    if (comm->blocking) {
        run(argument);
        return (ncclResult_t)atomic_load(&comm->state);
    }
    if (pthread_create(&comm->job, NULL, run, argument) != 0)
        standin_stop("no thread for NCCL");
    comm->has_job = true;
    return ncclInProgress;
}

static ncclResult_t check_ready(ncclComm_t comm, const char *call)
{
    if (!comm)
        return refuse(ncclInvalidArgument, "%s: comm argument is NULL", call);
    ncclResult_t state = (ncclResult_t)atomic_load(&comm->state);
    if (comm->finalized)
        return refuse(ncclInvalidArgument, "%s: the communicator was finalized", call);
    if (state == ncclInProgress)
        return refuse(ncclInvalidArgument,
                      "%s: attempt to use communicator before the previous operation returned ncclSuccess",
                      call);
    return state;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    ORDERED();
    if (!comm || !state)
        return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: an argument is NULL");
    *state = (ncclResult_t)atomic_load(&comm->state);
    return ncclSuccess;
}

/* ---- the file that ranks share ---- */

static const char *folder(void)
{
    const char *given = getenv("STANDIN_NCCL_FOLDER");
    return given && *given ? given : "/dev/shm";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static atomic_int made;
    struct timespec now;
    ORDERED();
    clock_gettime(CLOCK_REALTIME, &now);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "isogrid-nccl.%ld.%lld.%ld.%d", (long)getpid(),
             (long long)now.tv_sec, now.tv_nsec, atomic_fetch_add(&made, 1));
    return ncclSuccess;
}

static bool map_segment(ncclComm_t comm)
{
    char path[STANDIN_SEGMENT_NAME + 300];
    snprintf(path, sizeof path, "%s/%s", folder(), comm->name);
    comm->bytes =
        sizeof(standin_segment) + (size_t)comm->count * (size_t)comm->count * sizeof(standin_channel);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)comm->bytes) != 0)
        return false;
    void *mapped = mmap(NULL, comm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    comm->segment = mapped == MAP_FAILED ? NULL : mapped;
    return comm->segment != NULL;
}

static void remove_segment(const struct ncclComm *comm)
{
    char path[STANDIN_SEGMENT_NAME + 300];
    snprintf(path, sizeof path, "%s/%s", folder(), comm->name);
    unlink(path);
}

static bool has_duplicates(const struct ncclComm *comm)
{
    for (int r = 0; r < comm->count; r++)
        for (int other = 0; other < r; other++)
            if (memcmp(comm->segment->rank[r].gpu, comm->segment->rank[other].gpu,
                       sizeof comm->segment->rank[r].gpu) == 0)
                return true;
    return false;
}

static ino_t own_host(void)
{
    struct stat space;
    return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

/* Until all ranks have joined. */
static ncclResult_t join(ncclComm_t comm)
{
    struct cudaDeviceProp properties;
    if (!map_segment(comm) || cudaGetDeviceProperties(&properties, comm->gpu) != cudaSuccess)
        return ncclSystemError;
    memcpy(comm->segment->rank[comm->rank].gpu, &properties.uuid, sizeof comm->segment->rank[0].gpu);
    comm->segment->rank[comm->rank].host = own_host();
    atomic_store(&comm->segment->rank[comm->rank].process, (int)getpid());
    if (atomic_fetch_add(&comm->segment->joined, 1) + 1 == comm->count)
        remove_segment(comm);
    while (atomic_load(&comm->segment->joined) < comm->count) {
        if (atomic_load(comm->parent ? &comm->parent->aborted : &comm->aborted)) {
            remove_segment(comm);
            return ncclInternalError;
        }
        usleep(50);
    }
    return has_duplicates(comm) ? ncclInvalidUsage : ncclSuccess;
}

/* ---- communicators ---- */

static ncclComm_t make_comm(int rank, int count, int gpu, bool blocking, const char *name)
{
    static atomic_uint made;
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm)
        standin_stop("no memory for a communicator");
    comm->users = 1;
    comm->rank = rank;
    comm->count = count;
    comm->gpu = gpu;
    comm->blocking = blocking;
    comm->random = (atomic_fetch_add(&made, 1) * 77 + (uint64_t)standin_number("STANDIN_SEED", 1)) *
                       0x9E3779B97F4A7C15u |
                   1;
    if (snprintf(comm->name, sizeof comm->name, "%s", name) >= (int)sizeof comm->name)
        standin_stop("NCCL: the name '%s' is too long", name);
    return comm;
}

/* With standin_lock. */
static void let_go(ncclComm_t comm)
{
    if (--comm->users > 0)
        return;
    if (comm->segment)
        munmap(comm->segment, comm->bytes);
    free(comm);
}

static void take(ncclComm_t comm)
{
    pthread_mutex_lock(&standin_lock);
    comm->users++;
    pthread_mutex_unlock(&standin_lock);
}

static void drop(ncclComm_t comm)
{
    pthread_mutex_lock(&standin_lock);
    let_go(comm);
    pthread_mutex_unlock(&standin_lock);
}

static void *run_join(void *argument)
{
    ncclComm_t comm = argument;
    delay(comm);
    int failed = (int)standin_ordered("ncclJob");
    end_progress(comm, failed ? (ncclResult_t)failed : join(comm));
    return NULL;
}

static ncclResult_t check_config(const ncclConfig_t *config, bool *blocking)
{
    *blocking = true;
    if (config && (config->magic != 0xcafebeef || config->size < sizeof(size_t)))
        return refuse(ncclInvalidArgument,
                      "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    if (config && config->blocking != NCCL_CONFIG_UNDEF_INT)
        *blocking = config->blocking != 0;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    bool blocking;
    ORDERED();
    if (check_config(config, &blocking) != ncclSuccess)
        return ncclInvalidArgument;
    if (!comm || count < 1 || count > STANDIN_MOST_RANKS || rank < 0 || rank >= count)
        return refuse(ncclInvalidArgument, "rank %d of %d ranks", rank, count);
    *comm = make_comm(rank, count, standin_gpu(), blocking, id.internal);
    standin_note("nccl join rank %d of %d", rank, count);
    return begin_job(*comm, run_join, *comm);
}

/* ---- the end of communicators ---- */

static atomic_int kernels[STANDIN_MOST_GPUS]; /* of all communicators that run on a GPU */
static _Thread_local int depth;               /* of groups */
static _Thread_local struct {
    ncclComm_t *list;
    int count;
} ending; /* in a group */

/* Ends connections and frees memory of the GPU, for which all kernels there must have ended, also those of other
 * communicators. */
static void close_rank(ncclComm_t comm)
{
    while (atomic_load(&kernels[comm->gpu]) > 0)
        usleep(50);
    if (comm->segment)
        atomic_store(&comm->segment->rank[comm->rank].closed, true);
}

/* Whether a rank of this host is still connected: its process lives. */
static bool is_open(const struct ncclComm *comm, int rank)
{
    int process = atomic_load(&comm->segment->rank[rank].process);
    return process && comm->segment->rank[rank].host == own_host() &&
           !atomic_load(&comm->segment->rank[rank].closed) && kill(process, 0) == 0;
}

/* The last of a communicator's ranks in a process waits until the other processes of the host have closed theirs. */
static void reclaim(ncclComm_t comm)
{
    bool last = comm->segment != NULL;
    for (int r = 0; last && r < comm->count; r++)
        last = !is_open(comm, r) || atomic_load(&comm->segment->rank[r].process) != (int)getpid();
    for (int r = 0; last && r < comm->count; r++)
        while (is_open(comm, r))
            usleep(100);
    drop(comm);
}

static void reclaim_group(void)
{
    for (int i = 0; i < ending.count; i++)
        close_rank(ending.list[i]);
    for (int i = 0; i < ending.count; i++)
        reclaim(ending.list[i]);
    free(ending.list);
    ending.list = NULL;
    ending.count = 0;
}

static ncclResult_t reclaim_with_group(ncclComm_t comm)
{
    ending.list = realloc(ending.list, (size_t)(ending.count + 1) * sizeof(ncclComm_t));
    if (!ending.list)
        standin_stop("no memory for a group");
    ending.list[ending.count++] = comm;
    if (depth == 0)
        reclaim_group();
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    while (standin_number("STANDIN_ABORTS", 1) == 0)
        usleep(1000);
    atomic_store(&comm->aborted, true);
    join_job(comm);
    standin_note("nccl abort rank %d of %d", comm->rank, comm->count);
    return reclaim_with_group(comm);
}

/* Until what was queued has ended. */
static void *run_finalize(void *argument)
{
    ncclComm_t comm = argument;
    delay(comm);
    for (bool used = true; used && !atomic_load(&comm->aborted); usleep(50)) {
        pthread_mutex_lock(&standin_lock);
        used = comm->users > 1;
        pthread_mutex_unlock(&standin_lock);
    }
    atomic_store(&comm->segment->rank[comm->rank].closed, true);
    end_progress(comm, atomic_load(&comm->aborted) ? ncclInternalError : ncclSuccess);
    return NULL;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ORDERED();
    ncclResult_t ready = check_ready(comm, "ncclCommFinalize");
    if (ready != ncclSuccess)
        return ready;
    comm->finalized = true;
    return begin_job(comm, run_finalize, comm);
}

/* The library would finalize it here, and wait for that. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ORDERED();
    if (!comm)
        return ncclSuccess;
    ncclResult_t state = (ncclResult_t)atomic_load(&comm->state);
    if (!comm->finalized || state != ncclSuccess)
        return refuse(ncclInvalidArgument, "ncclCommDestroy: the communicator is not finalized");
    join_job(comm);
    standin_note("nccl destroy rank %d of %d", comm->rank, comm->count);
    return reclaim_with_group(comm);
}

/* ---- splits ---- */

/* `made` is the library's until its thread has ended, also of a member without a color. */
typedef struct split {
    ncclComm_t parent, *made;
    int color, key;
    bool blocking;
} split;

static bool wait_for_splits(const struct ncclComm *parent)
{
    for (int r = 0; r < parent->count; r++)
        while (atomic_load(&parent->segment->rank[r].splits) < parent->splits) {
            if (atomic_load(&parent->aborted))
                return false;
            usleep(50);
        }
    return true;
}

static ncclComm_t make_child(const split *s)
{
    ncclComm_t parent = s->parent, child;
    char name[STANDIN_SEGMENT_NAME + 40];
    int rank = 0, count = 0;
    for (int r = 0; r < parent->count; r++) {
        int color = parent->segment->rank[r].color, key = parent->segment->rank[r].key;
        count += color == s->color;
        rank += color == s->color && (key < s->key || (key == s->key && r < parent->rank));
    }
    snprintf(name, sizeof name, "%s.%llu.%d", parent->name, (unsigned long long)parent->splits, s->color);
    child = make_comm(rank, count, parent->gpu, s->blocking, name);
    child->parent = parent;
    return child;
}

/* The last that the thread does: also without a color, where it is NULL, and after an error. */
static void give(const split *s, ncclComm_t child)
{
    if (*s->made)
        standin_stop("NCCL: the place of a new communicator was written before its split was complete");
    *s->made = child;
}

static void *run_split(void *argument)
{
    split *s = argument;
    ncclComm_t parent = s->parent, child = NULL;
    delay(parent);
    ncclResult_t result = (ncclResult_t)standin_ordered("ncclJob");
    if (result == ncclSuccess) {
        parent->segment->rank[parent->rank].color = s->color;
        parent->segment->rank[parent->rank].key = s->key;
        atomic_store(&parent->segment->rank[parent->rank].splits, ++parent->splits);
        result = wait_for_splits(parent) ? ncclSuccess : ncclInternalError;
    }
    if (result != ncclSuccess && s->color == NCCL_SPLIT_NOCOLOR)
        standin_stop("NCCL: a split fails on a member without a color, where NCCL 2.28 crashes");
    if (s->color != NCCL_SPLIT_NOCOLOR) {
        child = make_child(s);
        result = result == ncclSuccess ? join(child) : result;
        child->parent = NULL;
        atomic_store(&child->state, (int)result);
        standin_note("nccl split rank %d of %d", child->rank, child->count);
    }
    /* nobody may split again before all have read the colors */
    if (result == ncclSuccess) {
        atomic_store(&parent->segment->rank[parent->rank].splits, ++parent->splits);
        wait_for_splits(parent);
    }
    give(s, child);
    end_progress(parent, result);
    free(s);
    return NULL;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *made, ncclConfig_t *config)
{
    ORDERED();
    ncclResult_t ready = check_ready(parent, "ncclCommSplit");
    if (ready != ncclSuccess)
        return ready;
    if (!made || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
        return refuse(ncclInvalidArgument, "ncclCommSplit: color %d", color);
    split *s = malloc(sizeof *s);
    if (!s)
        standin_stop("no memory for a split");
    *s = (split){parent, made, color, key, parent->blocking};
    if (config && check_config(config, &s->blocking) != ncclSuccess) {
        free(s);
        return ncclInvalidArgument;
    }
    *made = NULL;
    return begin_job(parent, run_split, s);
}

/* ---- groups ---- */

typedef struct batch {
    ncclComm_t comm;
    cudaStream_t stream;
    int count;
    standin_operation *list;
} batch;

typedef struct group {
    batch *batches;
    int count;
} group;

static _Thread_local group under_way;
static _Thread_local ncclResult_t group_error;

static void run_batch(void *argument)
{
    const batch *b = argument;
    atomic_fetch_add(&kernels[b->comm->gpu], 1);
    standin_comm_run(b->comm, b->list, b->count);
    atomic_fetch_sub(&kernels[b->comm->gpu], 1);
}

static void drop_batch(void *argument)
{
    const batch *b = argument;
    let_go(b->comm); /* items are dropped with the lock */
    free(b->list);
}

static void enqueue(group *g)
{
    static const standin_work work = {.run = run_batch, .drop = drop_batch, .what = "a group of NCCL"};
    for (int i = 0; i < g->count; i++) {
        take(g->batches[i].comm);
        standin_enqueue(g->batches[i].stream, &work, &g->batches[i], sizeof(batch));
    }
}

static void *run_group(void *argument)
{
    group *g = argument;
    delay(g->batches[0].comm);
    enqueue(g);
    for (int i = 0; i < g->count; i++) {
        end_progress(g->batches[i].comm, ncclSuccess);
        drop(g->batches[i].comm);
    }
    free(g->batches);
    free(g);
    return NULL;
}

static ncclResult_t launch(void)
{
    group *g = malloc(sizeof *g);
    if (!g)
        standin_stop("no memory for a group");
    *g = under_way;
    under_way = (group){0};
    if (g->count == 0) {
        free(g);
        return ncclSuccess;
    }
    ncclComm_t first = g->batches[0].comm;
    for (int i = 0; i < g->count; i++) {
        if (g->batches[i].comm->blocking != first->blocking)
            return refuse(ncclInvalidArgument,
                          "blocking and nonblocking communicators are not allowed in the same group");
        join_job(g->batches[i].comm);
        set_in_progress(g->batches[i].comm);
    }
    return begin_job(first, run_group, g);
}

ncclResult_t ncclGroupStart(void)
{
    ORDERED();
    depth++;
    return ncclSuccess;
}

static void forget(void)
{
    for (int i = 0; i < under_way.count; i++)
        free(under_way.batches[i].list), drop(under_way.batches[i].comm);
    free(under_way.batches);
    under_way = (group){0};
}

ncclResult_t ncclGroupEnd(void)
{
    ORDERED();
    if (depth == 0)
        return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
    if (--depth > 0)
        return ncclSuccess;
    reclaim_group();
    ncclResult_t error = group_error;
    group_error = ncclSuccess;
    if (error == ncclSuccess)
        return launch();
    forget();
    return error;
}

static batch *batch_of(ncclComm_t comm, cudaStream_t stream)
{
    for (int i = 0; i < under_way.count; i++)
        if (under_way.batches[i].comm == comm && under_way.batches[i].stream == stream)
            return &under_way.batches[i];
    under_way.batches = realloc(under_way.batches, (size_t)(under_way.count + 1) * sizeof(batch));
    if (!under_way.batches)
        standin_stop("no memory for a group");
    take(comm);
    under_way.batches[under_way.count] = (batch){.comm = comm, .stream = stream};
    return &under_way.batches[under_way.count++];
}

/* ---- calls ---- */

static ncclResult_t check_memory(const struct ncclComm *comm, const void *memory, size_t bytes,
                                 const char *call)
{
    if (bytes == 0 ||
        (standin_kind_of(memory, bytes) == STANDIN_DEVICE && standin_memory_gpu(memory) == comm->gpu))
        return ncclSuccess;
    return refuse(ncclInvalidArgument,
                  "%s: %zu bytes at %p are not in the memory of the communicator's device %d", call, bytes,
                  memory, comm->gpu);
}

/* What the library refuses at once. */
static ncclResult_t check_call(ncclComm_t comm, const standin_operation *o, cudaStream_t stream,
                               const char *call)
{
    ncclResult_t ready = check_ready(comm, call);
    if (ready != ncclSuccess)
        return ready;
    if (o->peer < 0 || o->peer >= comm->count)
        return refuse(ncclInvalidArgument, "%s: rank %d of %d", call, o->peer, comm->count);
    if ((int)o->type < 0 || o->type >= ncclNumTypes || (int)o->op < 0 || o->op >= ncclNumOps)
        return refuse(ncclInvalidArgument, "%s: type %d, operation %d", call, (int)o->type, (int)o->op);
    if (!stream || standin_stream_gpu(stream) != comm->gpu)
        return refuse(ncclInvalidUsage, "%s: the stream is of another device", call);
    size_t bytes = o->count * standin_type_bytes(o->type), all = bytes * (size_t)comm->count;
    ncclResult_t memory = o->kind == STANDIN_RECEIVE
                              ? ncclSuccess
                              : check_memory(comm, o->from, o->kind == STANDIN_SCATTER ? all : bytes, call);
    if (memory != ncclSuccess || o->kind == STANDIN_SEND)
        return memory;
    return check_memory(comm, o->to, bytes, call);
}

static ncclResult_t add(ncclComm_t comm, standin_operation o, cudaStream_t stream, const char *call)
{
    ncclResult_t result = ordered(call);
    if (result == ncclSuccess)
        result = check_call(comm, &o, stream, call);
    if (result != ncclSuccess) {
        group_error = depth > 0 ? result : ncclSuccess;
        return result;
    }
    standin_note("%s %zu of type %d, rank %d of %d", call, o.count, (int)o.type, comm->rank, comm->count);
    batch *b = batch_of(comm, stream);
    b->list = realloc(b->list, (size_t)(b->count + 1) * sizeof o);
    if (!b->list)
        standin_stop("no memory for a group");
    b->list[b->count++] = o;
    return depth > 0 ? ncclSuccess : launch();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(comm, (standin_operation){STANDIN_SEND, from, NULL, count, type, ncclSum, peer}, stream,
               __func__);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add(comm, (standin_operation){STANDIN_RECEIVE, NULL, to, count, type, ncclSum, peer}, stream,
               __func__);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return add(comm, (standin_operation){STANDIN_SCATTER, from, to, count, type, op, 0}, stream, __func__);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return add(comm, (standin_operation){STANDIN_REDUCE, from, to, count, type, op, 0}, stream, __func__);
}
#else
typedef int standin_without_nccl;
#endif
