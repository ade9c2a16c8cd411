/* Timers: events of CUDA that note the time. An event tells the time between it and another one; the host's clock is
 * read when the last one has passed. */
#include <stddef.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"

typedef struct mark {
    cudaEvent_t event;
    bool queued;
} mark;

typedef struct timer {
    iso_device_timer base;
    mark now;    /* the moment when the timer is read */
    mark mark[]; /* [moments] */
} timer;

static cudaError_t make_events(timer *t)
{
    cudaError_t error = cudaEventCreateWithFlags(&t->now.event, cudaEventDefault);
    for (int i = 0; i < t->base.moments && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&t->mark[i].event, cudaEventDefault);
    return error;
}

iso_status iso_cuda_create_timer(const iso_device *device, int moments, iso_device_timer **out)
{
    timer *t = iso_new(sizeof *t + (size_t)moments * sizeof(mark));
    if (!t)
        return iso_no_memory("a timer of %d moments", moments);
    t->base = (iso_device_timer){.device = device, .moments = moments};
    cudaError_t error = iso_cuda_enter(iso_cuda_gpu_of(device));
    if (error == cudaSuccess)
        error = make_events(t);
    if (error != cudaSuccess) {
        iso_cuda_destroy_timer(&t->base);
        return iso_cuda_status(error, "a timer cannot be made");
    }
    *out = &t->base;
    return ISO_OK;
}

void iso_cuda_destroy_timer(iso_device_timer *of)
{
    timer *t = (timer *)of;
    if (!t)
        return;
    iso_cuda_enter(iso_cuda_gpu_of(of->device));
    if (t->now.event)
        cudaEventDestroy(t->now.event);
    for (int i = 0; i < of->moments; i++)
        if (t->mark[i].event)
            cudaEventDestroy(t->mark[i].event);
    iso_free(t);
}

/* In a capture the mark becomes a node of the graph, and not an order between nodes as other events. */
static cudaError_t queue_mark(mark *m, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus capture;
    cudaError_t error = cudaStreamIsCapturing(stream, &capture);
    if (error != cudaSuccess)
        return error;
    m->queued = true;
    return cudaEventRecordWithFlags(m->event, stream,
                                    capture == cudaStreamCaptureStatusActive ? cudaEventRecordExternal
                                                                             : cudaEventRecordDefault);
}

void iso_cuda_mark(iso_device_timer *of, int moment, iso_stream *stream)
{
    iso_cuda_use(stream);
    iso_cuda_keep(stream, queue_mark(&((timer *)of)->mark[moment], ((iso_cuda_queue *)stream)->cuda));
}

/* Waits for the stream first, so that the host notices the last event at once. */
static cudaError_t read_clock(timer *t, const iso_stream *stream, int64_t *now)
{
    cudaStream_t cuda = ((const iso_cuda_queue *)stream)->cuda;
    cudaError_t error = iso_cuda_enter_stream(stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(cuda);
    if (error == cudaSuccess)
        error = queue_mark(&t->now, cuda);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(t->now.event);
    *now = iso_clock_ns();
    return error;
}

iso_status iso_cuda_read_timer(iso_device_timer *of, iso_stream *stream, int64_t *time)
{
    timer *t = (timer *)of;
    int64_t now;
    cudaError_t error = read_clock(t, stream, &now);
    for (int i = 0; i < of->moments && error == cudaSuccess; i++) {
        float before = 0; /* milliseconds */
        if (t->mark[i].queued)
            error = cudaEventElapsedTime(&before, t->mark[i].event, t->now.event);
        time[i] = t->mark[i].queued ? now - (int64_t)(1e6 * (double)before) : 0;
    }
    return iso_cuda_status(error, "the times of a step are not known");
}
