/* The device interface (runtime/base/device.h) on GPUs. */
#ifndef ISO_BACKEND_CUDA_DEVICE_H
#define ISO_BACKEND_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "runtime/backend/kernel.h"
#include "runtime/base/device.h"

/* The GPU of slot number `turn` among those of its host: they take those that this process sees in turn. turn -1: no
 * GPU, for a rank without slots (iso_backend.device). Constant. Local; any thread may call it. */
const iso_device *iso_cuda_device(int turn);
/* The number of a device among those that this process sees; -1: it is none. Local. */
int iso_cuda_gpu_of(const iso_device *device);
/* The GPU on which a call is to run: that of its stream, or else of its device; -1: none. Local. */
int iso_cuda_gpu_of_call(const iso_kernel_call *call);
/* Makes the stream's GPU that of the calling thread (gpu.h). */
cudaError_t iso_cuda_enter_stream(const iso_stream *stream);

/* A stream. It begins as iso_cuda_stream of launch.h, which keeps the errors of launches here. */
typedef struct iso_cuda_queue {
    iso_stream base;
    cudaStream_t cuda;
    cudaError_t error;                 /* the first of what was queued since the last wait */
    bool capturing;                    /* between begin_capture and end_capture */
    cudaError_t earlier;               /* while capturing: the error of what was queued before */
    struct iso_cuda_rates_room *rooms; /* of iso_cuda_prepare */
} iso_cuda_queue;

/* Keeps an error of what is queued, for the next wait. Local; one thread at a time uses a stream. */
void iso_cuda_keep(iso_stream *of, cudaError_t error);
/* Makes the stream's GPU that of the calling thread; keeps an error. Local; one thread at a time uses a stream. */
void iso_cuda_use(iso_stream *stream);
/* step_end.c: frees what iso_cuda_prepare keeps for a stream. Local. */
void iso_cuda_free_rates(iso_cuda_queue *of);

/* graph.c: the device's graphs. */
bool iso_cuda_captures(void);
iso_status iso_cuda_begin_capture(iso_stream *const *streams, int count, iso_device_graph **graph);
iso_status iso_cuda_end_capture(iso_device_graph *graph);
void iso_cuda_launch_graph(const iso_device_graph *graph);
void iso_cuda_destroy_graph(iso_device_graph *graph);
/* What the user allows by ISOGRID_CUDA_GRAPHS. ISO_INVALID: the variable has a wrong value. */
iso_status iso_cuda_allows_graphs(bool *allowed);

/* timer.c: the device's timers. */
iso_status iso_cuda_create_timer(const iso_device *device, int moments, iso_device_timer **timer);
void iso_cuda_destroy_timer(iso_device_timer *timer);
void iso_cuda_mark(iso_device_timer *timer, int moment, iso_stream *stream);
iso_status iso_cuda_read_timer(iso_device_timer *timer, iso_stream *stream, int64_t *time);

/* Queues a fill of elements of 2, 4 or 8 bytes (iso_device.fill). Local; one thread at a time uses a stream. */
void iso_cuda_fill(void *to, const void *element, size_t size, size_t count, iso_stream *stream);

#endif
