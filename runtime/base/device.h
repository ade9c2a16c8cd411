/* The device interface: the memory of tensors, and how the host reaches it.
 *
 * Tensors of slots are in the memory of a device, which the host may load and store only if the device says so
 * (host_access: the CPU). Everywhere else the host queues copies and fills on a stream and waits for it, or
 * maps the memory. This is done when a program is set up and at the begin and end of a step, never in each
 * instruction of a step: kernels get the addresses as they are.
 * Functions are local. */
#ifndef ISO_BASE_DEVICE_H
#define ISO_BASE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/shards.h"

typedef struct iso_device iso_device;

/* A queue of copies and fills, which its device does in order. One thread at a time uses a stream. A device's
 * own streams begin with this struct. */
typedef struct iso_stream iso_stream;
struct iso_stream {
    const iso_device *device;
};

/* An event, like those of CUDA: it completes when all work that was queued on a stream before it is done. A
 * device's own events begin with this struct. */
typedef struct iso_device_event {
    const iso_device *device;
} iso_device_event;

/* A graph, like those of CUDA: work that was captured on streams, and that one launch does. A device's own graphs
 * begin with this struct. */
typedef struct iso_device_graph {
    const iso_device *device;
} iso_device_graph;

/* A region of a device's memory that becomes the combination of operands, in postfix order: operand i is pushed, then
 * folds[i] times the last two are combined. */
typedef struct iso_device_gather {
    iso_dtype dtype;
    bool maximum; /* else the sum */
    int n_operands;
    const void *const *operand; /* [n_operands] the region's first element in each */
    const unsigned char *folds; /* [n_operands] */
    int rank;                   /* of the loop nest, outermost loop first; the last is a run without gaps */
    const int64_t *extent;      /* [rank] */
    const int64_t *stride;      /* [rank - 1][n_operands + 1] bytes; the target's is the last */
    void *out;
    int n_copies; /* other places for the result; only if rank is 1 */
    void *const *copies;
} iso_device_gather;

/* A timer: `moments` time stamps, each of which is taken when a stream reaches it. A device's own timers begin with
 * this struct. */
typedef struct iso_device_timer {
    const iso_device *device;
    int moments;
} iso_device_timer;

enum { ISO_DEVICE_HANDLE = 64, ISO_DEVICE_IDENTITY = 16, ISO_MOST_GATHERED = 128 };

/* A device: what it does. A machine may have several of a kind. */
struct iso_device {
    const char *name;
    const char *model; /* "NVIDIA H200"; NULL: a processor. The devices of one rank are of one model */
    bool host_access; /* the host may load and store the device's memory; copies and fills are done at once */
    /* Zeroed memory as from iso_alloc (memory.h), for which `release` is called. ISO_NO_MEMORY names `what` and
     * the bytes. `release` does nothing with NULL. */
    iso_status (*allocate)(const iso_device *device, size_t bytes, const char *what, void **memory);
    void (*release)(const iso_device *device, void *memory);
    /* The same for pinned memory: memory of the host from and to which the device copies directly. */
    iso_status (*allocate_pinned)(const iso_device *device, size_t bytes, const char *what, void **memory);
    void (*release_pinned)(const iso_device *device, void *memory);
    iso_status (*create_stream)(const iso_device *device, iso_stream **stream);
    void (*destroy_stream)(iso_stream *stream); /* does nothing with NULL */
    /* Queues a copy within or between the memory of devices of this kind and of the host. The regions do not
     * overlap. Until the next wait, the host must not write `from`, read `to` or free them. */
    void (*copy)(iso_stream *stream, void *to, const void *from, size_t bytes);
    /* Queues a fill: `count` elements at `to` become copies of the one at `element`, of `size` bytes (1, 2, 4 or
     * 8), which is read at once. */
    void (*fill)(iso_stream *stream, void *to, const void *element, size_t size, size_t count);
    /* Waits until all that was queued is done. Returns the first error since the last wait. */
    iso_status (*wait)(iso_stream *stream);
    /* The same error as far as it is known without waiting; the next wait returns it too. */
    iso_status (*check)(iso_stream *stream);
    iso_status (*create_event)(const iso_device *device, iso_device_event **event);
    void (*destroy_event)(iso_device_event *event); /* does nothing with NULL */
    /* Records the event at the present end of the stream's queue. The stream is of the event's own device. An event
     * that was never recorded is complete. */
    void (*record)(iso_device_event *event, iso_stream *stream);
    /* Makes work that is queued on the stream from now on wait for the event as it is recorded now; the host does
     * not wait. */
    void (*await)(iso_stream *stream, const iso_device_event *event);
    bool (*passed)(const iso_device_event *event);
    /* The host waits. Returns the first error of the event's stream since its last wait. */
    iso_status (*wait_event)(const iso_device_event *event);
    /* An event for streams of other processes of the host too: `handle` is for the other process's `import_event`.
     * Its event is for `await` alone. NULL: there are none. */
    iso_status (*create_shared_event)(const iso_device *device, iso_device_event **event);
    iso_status (*export_event)(const iso_device_event *event, unsigned char handle[ISO_DEVICE_HANDLE]);
    iso_status (*import_event)(const iso_device *device, const unsigned char handle[ISO_DEVICE_HANDLE],
                               iso_device_event **event);
    /* Whether the device captures work: not if the user forbids it. NULL: it cannot, and the four members below are
     * NULL. */
    bool (*captures)(void);
    /* What is queued from now on on `count` streams, of devices of one kind, becomes part of a graph and is not done.
     * Any thread may queue it. Its kernels have been queued before, because libraries may load a kernel when it is
     * first queued, which a capture does not allow. Streams wait for events that are recorded in the capture alone,
     * and nobody waits for the streams. Sequences (iso_backend) become part of the graph instruction by instruction.
     * ISO_FAILED: the device refuses; there is no capture. */
    iso_status (*begin_capture)(iso_stream *const *streams, int count, iso_device_graph **graph);
    /* Ends the capture in any case, in the thread that began it. ISO_FAILED: the device refuses something that was
     * queued, which is no error of its stream; the graph can only be destroyed. */
    iso_status (*end_capture)(iso_device_graph *graph);
    /* Queues what was captured, on all streams: it is done after what was queued on each before. */
    void (*launch_graph)(const iso_device_graph *graph);
    void (*destroy_graph)(iso_device_graph *graph); /* its launches are done; does nothing with NULL */
    /* Timers, for profiles. NULL: queued work is done at once, and the host's clock gives the times. */
    iso_status (*create_timer)(const iso_device *device, int moments, iso_device_timer **timer);
    void (*destroy_timer)(iso_device_timer *timer); /* does nothing with NULL */
    /* Queues time stamp number `moment`, which is taken when the stream reaches it. In captured instructions, each
     * launch takes it again. */
    void (*mark)(iso_device_timer *timer, int moment, iso_stream *stream);
    /* Waits until all work queued on the stream is done. time: [moments] the last time stamp of each number, in
     * nanoseconds of the host's clock; 0: none was taken. They are in the stream's order, and not before the time
     * at which they were queued. */
    iso_status (*read_timer)(iso_device_timer *timer, iso_stream *stream, int64_t *time);
    /* Opens to the device the memory that the ranks of a host share, mapped at `shared` in this process:
     * *memory is its address on the device, until `detach`. */
    iso_status (*attach)(const iso_device *device, void *shared, size_t bytes, void **memory);
    void (*detach)(const iso_device *device, void *memory);
    /* The address at which the exchanges of the CPU, which pull in shared memory, find the device's memory. NULL
     * for NULL. The host's own memory is found at its own address, and so is the memory of a device that gathers. */
    void *(*reach)(void *memory);
    /* Queues a gather of at most ISO_MOST_GATHERED operands and copies, in the memory of the stream's device
     * and in what is attached. The slots' windows are then in the device's memory, and those of one domain on
     * one device. Windows of others are among the operands if it `reaches` them. NULL: the exchanges gather in
     * memory of the host, and the members below are NULL. */
    void (*gather)(iso_stream *stream, const iso_device_gather *gather);
    /* The same for all processes of a host, for the same device alone. */
    iso_status (*identify)(const iso_device *device, unsigned char identity[ISO_DEVICE_IDENTITY]);
    /* Whether kernels on the device may load and store the memory of the device with this identity, if this process
     * sees it; from then on they may. */
    bool (*reaches)(const iso_device *device, const unsigned char identity[ISO_DEVICE_IDENTITY]);
    /* Opens memory from `allocate` to another process: `handle` is for that process's `import_memory`, which
     * gives its address there until `drop_memory`. The memory must not be released before. It and the ISO_ALIGN bytes
     * behind it are whole multiples of 2 MiB. */
    iso_status (*export_memory)(const iso_device *device, void *memory,
                                unsigned char handle[ISO_DEVICE_HANDLE]);
    iso_status (*import_memory)(const iso_device *device, const unsigned char handle[ISO_DEVICE_HANDLE],
                                void **memory);
    void (*drop_memory)(const iso_device *device, void *memory);
    const struct iso_device_comms *comms; /* device_comms.h; NULL: there are none */
};

/* The CPU: plain memory. */
const iso_device *iso_device_cpu(void);

/* Copies bytes between a device's memory and the host's, and waits. */
iso_status iso_device_read(iso_stream *stream, void *host, const void *memory, size_t bytes);
iso_status iso_device_write(iso_stream *stream, void *memory, const void *host, size_t bytes);

/* Copies all elements of a shard to the host's memory, or from it. */
iso_status iso_shard_read(const iso_state_shard *shard, void *host);
iso_status iso_shard_write(const iso_state_shard *shard, const void *host);

/* ---- mapping ---- */
/* A range of a device's memory while the host uses it: `data` is its address for the host. It is the memory
 * itself if the host may access it, else a copy in pinned memory. */
typedef struct iso_mapping {
    void *data;
    iso_stream *stream;
    void *memory;
    size_t bytes;
    bool changed;
} iso_mapping;

/* Maps memory to read it. stream: NULL if it is the host's memory. ISO_NO_MEMORY. */
iso_status iso_map(iso_stream *stream, const void *memory, size_t bytes, iso_mapping *mapping);
/* Maps memory to write all of it: what it held is not kept. */
iso_status iso_map_to_write(iso_stream *stream, void *memory, size_t bytes, iso_mapping *mapping);
/* Ends a mapping. done: the status of what the host did with it. If it is ISO_OK, what the host wrote is in the
 * device's memory when iso_unmap returns; else iso_unmap returns it, and what was written may be lost. */
iso_status iso_unmap(iso_status done, iso_mapping *mapping);

#endif
