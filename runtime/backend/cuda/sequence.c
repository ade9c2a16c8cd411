/* Sequences of instructions: a list, and, once it is captured, a graph. */
#include "runtime/backend/cuda/sequence.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend/cuda/chain.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/products.h"
#include "runtime/backend/cuda/refusals.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"

/* Instructions that are done as one. */
typedef struct iso_group {
    int count;  /* from this one on; 0: it is done with an earlier one */
    bool chain; /* elementwise ones; else a library's kernel that does more than one of them */
} iso_group;

struct iso_sequence {
    iso_stream *stream;
    iso_device_graph *graph; /* NULL: it is not captured */
    bool one_by_one;         /* nor can be, or is to be */
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

/* The message names the op and the layer. */
static iso_status op_error(const iso_sequence *sequence, int at, const char *error)
{
    const iso_thunk *w = &sequence->thunks[at];
    const char *op = w->kernel ? w->kernel->op : "copy";
    if (!w->layer || !*w->layer) /* of the loss, the optimizer or an exchange */
        return iso_error(ISO_FAILED, "%s: the op %s: %s", iso_cuda_entered_name(), op, error);
    return iso_error(ISO_FAILED, "%s: the op %s of layer '%s': %s", iso_cuda_entered_name(), op, w->layer,
                     error);
}

/* What was refused while an instruction was queued, by a library or by CUDA. */
static iso_status queued_status(const iso_sequence *sequence, int at, cudaError_t error)
{
    char text[200];
    const char *refusal = iso_cuda_refusal();
    if (refusal || error == cudaSuccess)
        return refusal ? op_error(sequence, at, refusal) : ISO_OK;
    snprintf(text, sizeof text, "%s (CUDA error %d)", cudaGetErrorString(error), (int)error);
    return op_error(sequence, at, text);
}

/* An error that the stream has had before is not of these instructions. It stays the stream's. */
static iso_status queue(const iso_sequence *sequence, int first, int count)
{
    const iso_cuda_queue *stream = (const iso_cuda_queue *)sequence->stream;
    const cudaError_t before = stream->error;
    iso_status status = ISO_OK;
    if (stream->capturing && before != cudaSuccess)
        return ISO_OK; /* the end of the capture tells it; libraries would refuse the rest */
    for (int at = first; at < first + count && status == ISO_OK; at++) {
        queue_one(sequence, at);
        status = queued_status(sequence, at, before == cudaSuccess ? stream->error : cudaSuccess);
    }
    return status;
}

/* ---- graphs ---- */

/* The end of a capture that has failed has an error of its own, which does not name the op. */
static iso_status drop_capture(const iso_device *device, iso_device_graph *graph, iso_status failed)
{
    char message[512];
    snprintf(message, sizeof message, "%s", iso_error_message());
    device->end_capture(graph);
    device->destroy_graph(graph);
    return iso_error(failed, "%s", message);
}

static iso_status capture(iso_sequence *sequence)
{
    const iso_device *device = sequence->stream->device;
    iso_device_graph *graph = NULL;
    iso_status status = device->begin_capture(&sequence->stream, 1, &graph);
    if (status != ISO_OK)
        return status;
    status = queue(sequence, 0, sequence->count);
    if (status != ISO_OK)
        return drop_capture(device, graph, status);
    status = device->end_capture(graph);
    if (status == ISO_OK)
        sequence->graph = graph;
    else
        device->destroy_graph(graph);
    return status;
}

/* Whether the stream takes work in spite of an error. */
static bool is_usable(cudaStream_t stream)
{
    cudaError_t error = cudaStreamQuery(stream);
    cudaGetLastError();
    return error == cudaSuccess || error == cudaErrorNotReady;
}

static void warn_once(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        iso_warn("instructions that no CUDA graph can have are queued one by one in each step: %s",
                 iso_error_message());
}

iso_status iso_cuda_capture(iso_sequence *sequence)
{
    if (sequence->graph || sequence->one_by_one)
        return ISO_OK;
    iso_status status = capture(sequence);
    if (status == ISO_OK || !is_usable(((const iso_cuda_queue *)sequence->stream)->cuda))
        return status;
    sequence->one_by_one = true;
    warn_once();
    return ISO_OK;
}

/* ---- making and launching ---- */

void iso_cuda_discard(iso_sequence *sequence)
{
    if (!sequence)
        return;
    sequence->stream->device->destroy_graph(sequence->graph);
    iso_free(sequence->group);
    iso_free(sequence);
}

iso_status iso_cuda_sequence(const iso_thunk *thunks, int count, iso_stream *stream, iso_sequence **out)
{
    size_t bytes = (size_t)count * sizeof *thunks;
    bool graphs;
    iso_status status = iso_cuda_allows_graphs(&graphs);
    if (status != ISO_OK)
        return status;
    iso_sequence *sequence = iso_new(sizeof *sequence + bytes);
    iso_group *group = iso_new((size_t)count * sizeof *group);
    if (!sequence || !group) {
        iso_free(sequence);
        iso_free(group);
        return iso_no_memory("a sequence of %d instructions", count);
    }
    *sequence = (iso_sequence){.stream = stream, .count = count, .group = group, .one_by_one = !graphs};
    memcpy(sequence->thunks, thunks, bytes);
    fuse(sequence);
    const char *error = iso_cuda_refusal(); /* since kernels were looked for */
    if (error) {
        status = iso_error(ISO_FAILED, "%s: %s", iso_cuda_entered_name(), error);
        iso_cuda_discard(sequence);
        return status;
    }
    *out = sequence;
    return ISO_OK;
}

iso_status iso_cuda_launch(const iso_sequence *sequence, int first, int count)
{
    iso_cuda_use(sequence->stream);
    bool capturing = ((const iso_cuda_queue *)sequence->stream)->capturing;
    if (!sequence->graph || count < sequence->count || capturing)
        return queue(sequence, first, count);
    sequence->stream->device->launch_graph(sequence->graph);
    return ISO_OK;
}
