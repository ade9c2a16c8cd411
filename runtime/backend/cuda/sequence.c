/* Sequences of instructions: a list, and, once it is captured, a graph, which one launch executes. */
#include "runtime/backend/cuda/sequence.h"

#include <string.h>

#include "runtime/backend/cuda/chain.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/products.h"
#include "runtime/backend/cuda/refusals.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/base/memory.h"

/* Instructions that are done as one. */
typedef struct iso_group {
    int count;  /* from this one on; 0: it is done with an earlier one */
    bool chain; /* elementwise ones; else a library's kernel that does more than one of them */
} iso_group;

struct iso_sequence {
    iso_stream *stream;
    cudaGraphExec_t graph; /* NULL: it is not captured */
    int count;
    iso_group *group; /* [count] */
    iso_thunk thunks[];
};

static void mark(const iso_sequence *sequence, int at, int end)
{
    const iso_thunk *w = &sequence->thunks[at];
    if (w->timer)
        sequence->stream->device->mark(w->timer, w->moment + end, sequence->stream);
}

static void queue_one(const iso_sequence *sequence, int at)
{
    const iso_thunk *w = &sequence->thunks[at];
    mark(sequence, at, 0);
    const iso_group *group = &sequence->group[at];
    if (group->chain)
        iso_cuda_run_chain(w, group->count, sequence->stream);
    else if (group->count > 1)
        iso_cuda_run_fused(w, group->count);
    else if (group->count == 1 && w->copy)
        iso_cuda_copy_box(w->copy, sequence->stream);
    else if (group->count == 1)
        w->kernel->run(w->call);
    mark(sequence, at, 1);
}

static iso_group group_from(const iso_thunk *thunks, int left)
{
    iso_group group = {.count = iso_cuda_fused_count(thunks, left)};
    if (group.count > 1)
        return group;
    group.count = iso_cuda_chain_count(thunks, left);
    group.chain = group.count > 1;
    return group;
}

static void fuse(iso_sequence *sequence)
{
    for (int at = 0; at < sequence->count; at += sequence->group[at].count)
        sequence->group[at] = group_from(&sequence->thunks[at], sequence->count - at);
}

/* The refusal of a library as a status; the message names the op and the layer. */
static iso_status library_status(const iso_sequence *sequence, int at)
{
    const char *error = iso_cuda_refusal();
    const iso_thunk *w = &sequence->thunks[at];
    return !error ? ISO_OK
                  : iso_error(ISO_FAILED, "%s: the op %s of layer '%s': %s", iso_cuda_gpu_names(),
                              w->kernel->op, w->layer ? w->layer : "", error);
}

static iso_status queue(const iso_sequence *sequence, int first, int count)
{
    iso_status status = ISO_OK;
    for (int at = first; at < first + count && status == ISO_OK; at++) {
        queue_one(sequence, at);
        status = library_status(sequence, at);
    }
    return status;
}

static const char *const refused = "a sequence of instructions cannot be captured";

/* A capture that has begun ends in any case. */
static iso_status end_capture(iso_sequence *sequence, iso_status queued)
{
    cudaGraph_t graph = NULL;
    cudaError_t launched = cudaGetLastError();
    cudaError_t error = cudaStreamEndCapture(((iso_cuda_queue *)sequence->stream)->cuda, &graph);
    error = launched != cudaSuccess ? launched : error;
    if (queued == ISO_OK && error == cudaSuccess)
        error = cudaGraphInstantiate(&sequence->graph, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return queued != ISO_OK ? queued : iso_cuda_status(error, refused);
}

iso_status iso_cuda_capture(iso_sequence *sequence)
{
    if (sequence->graph)
        return ISO_OK;
    cudaError_t error = iso_cuda_enter_stream(sequence->stream);
    if (error == cudaSuccess)
        error = cudaStreamBeginCapture(((iso_cuda_queue *)sequence->stream)->cuda,
                                       cudaStreamCaptureModeThreadLocal);
    return error == cudaSuccess ? end_capture(sequence, queue(sequence, 0, sequence->count))
                                : iso_cuda_status(error, refused);
}

iso_status iso_cuda_sequence(const iso_thunk *thunks, int count, iso_stream *stream, iso_sequence **out)
{
    size_t bytes = (size_t)count * sizeof *thunks;
    iso_sequence *sequence = iso_new(sizeof *sequence + bytes);
    iso_group *group = iso_new((size_t)count * sizeof *group);
    if (!sequence || !group) {
        iso_free(sequence);
        iso_free(group);
        return iso_no_memory("a sequence of %d instructions", count);
    }
    *sequence = (iso_sequence){.stream = stream, .count = count, .group = group};
    memcpy(sequence->thunks, thunks, bytes);
    fuse(sequence);
    *out = sequence;
    return ISO_OK;
}

iso_status iso_cuda_launch(const iso_sequence *sequence, int first, int count)
{
    iso_cuda_use(sequence->stream);
    if (!sequence->graph || count < sequence->count)
        return queue(sequence, first, count);
    iso_cuda_keep(sequence->stream,
                  cudaGraphLaunch(sequence->graph, ((iso_cuda_queue *)sequence->stream)->cuda));
    return ISO_OK;
}

void iso_cuda_discard(iso_sequence *sequence)
{
    if (!sequence)
        return;
    iso_cuda_enter_stream(sequence->stream);
    if (sequence->graph)
        cudaGraphExecDestroy(sequence->graph);
    iso_free(sequence->group);
    iso_free(sequence);
}
