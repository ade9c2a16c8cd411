/* Sequences of instructions: a captured graph, which one launch executes, and the list, for parts of it. */
#include "runtime/backend/cuda/sequence.h"

#include <string.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/base/memory.h"

struct iso_sequence {
    iso_stream *stream;
    cudaGraphExec_t graph;
    int count;
    iso_work work[];
};

static void queue(const iso_sequence *sequence, int first, int count)
{
    for (const iso_work *w = &sequence->work[first], *end = w + count; w < end; w++)
        if (w->copy)
            iso_cuda_copy_box(w->copy, sequence->stream);
        else
            w->kernel->run(w->call);
}

static cudaError_t capture_graph(iso_sequence *sequence)
{
    cudaStream_t stream = ((iso_cuda_queue *)sequence->stream)->cuda;
    cudaGraph_t graph = NULL;
    cudaError_t error = iso_cuda_enter_stream(sequence->stream);
    if (error == cudaSuccess)
        error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return error;
    queue(sequence, 0, sequence->count);
    cudaError_t refused = cudaGetLastError(); /* of a launch */
    error = cudaStreamEndCapture(stream, &graph);
    error = refused != cudaSuccess ? refused : error;
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&sequence->graph, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    return error;
}

iso_status iso_cuda_capture(const iso_work *work, int count, iso_stream *stream, iso_sequence **out)
{
    size_t bytes = (size_t)count * sizeof *work;
    iso_sequence *sequence = iso_new(sizeof *sequence + bytes);
    if (!sequence)
        return iso_no_memory("a sequence of %d instructions", count);
    sequence->stream = stream;
    sequence->count = count;
    memcpy(sequence->work, work, bytes);
    cudaError_t error = capture_graph(sequence);
    if (error != cudaSuccess) {
        iso_cuda_discard(sequence);
        return iso_cuda_status(error, "a sequence of instructions cannot be captured");
    }
    *out = sequence;
    return ISO_OK;
}

void iso_cuda_launch(const iso_sequence *sequence, int first, int count)
{
    iso_cuda_keep(sequence->stream, iso_cuda_enter_stream(sequence->stream));
    if (count == sequence->count)
        iso_cuda_keep(sequence->stream,
                      cudaGraphLaunch(sequence->graph, ((iso_cuda_queue *)sequence->stream)->cuda));
    else
        queue(sequence, first, count);
}

void iso_cuda_discard(iso_sequence *sequence)
{
    if (!sequence)
        return;
    iso_cuda_enter_stream(sequence->stream);
    if (sequence->graph)
        cudaGraphExecDestroy(sequence->graph);
    iso_free(sequence);
}
