/* Graphs of work that was captured on streams. The capture begins on the first stream. Events let the others join it,
 * and let the first one wait for them at the end. */
#include <stdlib.h>
#include <string.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/base/memory.h"

/* A stream and its event. */
typedef struct branch {
    iso_cuda_queue *stream;
    cudaEvent_t event;
} branch;

typedef struct graph {
    iso_device_graph base;
    cudaGraphExec_t cuda; /* NULL: the capture has not ended, or was refused */
    int count;
    branch branches[]; /* [count] */
} graph;

static const char *const refused = "work cannot be captured as a graph";

iso_status iso_cuda_allows_graphs(bool *allowed)
{
    const char *value = getenv("ISOGRID_CUDA_GRAPHS");
    *allowed = !value || !*value;
    if (*allowed || strcmp(value, "0") == 0)
        return ISO_OK;
    return iso_error(ISO_INVALID, "ISOGRID_CUDA_GRAPHS is '%s': it must be 0, or not set", value);
}

bool iso_cuda_captures(void)
{
    bool allowed;
    return iso_cuda_allows_graphs(&allowed) == ISO_OK && allowed;
}

/* Makes what is queued on one branch from now on follow what is queued on another. */
static void follow(const branch *later, const branch *earlier)
{
    iso_cuda_use(&earlier->stream->base);
    iso_cuda_keep(&earlier->stream->base, cudaEventRecord(earlier->event, earlier->stream->cuda));
    iso_cuda_use(&later->stream->base);
    iso_cuda_keep(&later->stream->base, cudaStreamWaitEvent(later->stream->cuda, earlier->event, 0));
}

static void fork_branches(const graph *of)
{
    for (int i = 1; i < of->count; i++)
        follow(&of->branches[i], &of->branches[0]);
}

static void join_branches(const graph *of)
{
    for (int i = 1; i < of->count; i++)
        follow(&of->branches[0], &of->branches[i]);
}

/* ---- capture ---- */

static cudaError_t make_branches(iso_stream *const *streams, int count, graph *fresh)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < count && error == cudaSuccess; i++) {
        fresh->branches[i].stream = (iso_cuda_queue *)streams[i];
        error = iso_cuda_enter_stream(streams[i]);
        if (count > 1 && error == cudaSuccess)
            error = cudaEventCreateWithFlags(&fresh->branches[i].event, cudaEventDisableTiming);
    }
    return error;
}

/* What a stream has met before is not of the capture. */
static void begin_branch(const branch *of)
{
    of->stream->earlier = of->stream->error;
    of->stream->error = cudaSuccess;
    of->stream->capturing = true;
}

static cudaError_t end_branch(const branch *of)
{
    cudaError_t queued = of->stream->error;
    of->stream->error = of->stream->earlier;
    of->stream->capturing = false;
    return queued;
}

iso_status iso_cuda_begin_capture(iso_stream *const *streams, int count, iso_device_graph **out)
{
    graph *fresh = iso_new(sizeof *fresh + (size_t)count * sizeof(branch));
    if (!fresh)
        return iso_no_memory("a graph of %d streams", count);
    *fresh = (graph){.base = {streams[0]->device}, .count = count};
    cudaError_t error = make_branches(streams, count, fresh);
    if (error == cudaSuccess)
        error = iso_cuda_enter_stream(streams[0]);
    if (error == cudaSuccess)
        error = cudaStreamBeginCapture(fresh->branches[0].stream->cuda, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess) {
        iso_cuda_destroy_graph(&fresh->base);
        return iso_cuda_status(error, refused);
    }
    for (int i = 0; i < count; i++)
        begin_branch(&fresh->branches[i]);
    fork_branches(fresh);
    *out = &fresh->base;
    return ISO_OK;
}

/* The first error of what was queued is more telling than that of the end. */
iso_status iso_cuda_end_capture(iso_device_graph *of)
{
    graph *ended = (graph *)of;
    cudaGraph_t captured = NULL;
    cudaError_t error = cudaSuccess;
    join_branches(ended);
    for (int i = 0; i < ended->count; i++) {
        cudaError_t queued = end_branch(&ended->branches[i]);
        error = error == cudaSuccess ? queued : error;
    }
    iso_cuda_enter_stream(&ended->branches[0].stream->base);
    cudaError_t end = cudaStreamEndCapture(ended->branches[0].stream->cuda, &captured);
    error = error == cudaSuccess ? end : error;
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&ended->cuda, captured, 0);
    if (captured)
        cudaGraphDestroy(captured);
    cudaGetLastError();
    return iso_cuda_status(error, refused);
}

/* ---- launches ---- */

void iso_cuda_launch_graph(const iso_device_graph *of)
{
    const graph *launched = (const graph *)of;
    iso_cuda_queue *first = launched->branches[0].stream;
    join_branches(launched);
    iso_cuda_use(&first->base);
    iso_cuda_keep(&first->base, cudaGraphLaunch(launched->cuda, first->cuda));
    fork_branches(launched);
}

void iso_cuda_destroy_graph(iso_device_graph *of)
{
    graph *old = (graph *)of;
    for (int i = 0; old && i < old->count; i++) {
        if (!old->branches[i].event)
            continue;
        iso_cuda_enter_stream(&old->branches[i].stream->base);
        cudaEventDestroy(old->branches[i].event);
    }
    if (old && old->cuda) {
        iso_cuda_enter_stream(&old->branches[0].stream->base);
        cudaGraphExecDestroy(old->cuda);
    }
    iso_free(old);
}
