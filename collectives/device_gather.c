/* Pulls on a device that gathers: each is one kernel, queued on the stream of the slot that pulls. It reads the
 * windows of its device and the messages, which are memory of the host that is attached to the device. */
#include "collectives/gather_kernels_impl.h"
#include "runtime/base/device.h"

/* The arguments of a gather for the device. The arrays are part of the struct. */
typedef struct queued {
    const void *operand[ISO_MOST_GATHERED];
    unsigned char folds[ISO_MOST_GATHERED];
    void *copies[ISO_MOST_GATHERED];
    iso_device_gather call;
} queued;

/* Elements from `skip` bytes on. */
static void describe(const iso_gather *gather, size_t skip, void *out, queued *q)
{
    for (int i = 0; i < gather->n_operands; i++) {
        q->operand[i] = gather->operands[i].address + skip;
        q->folds[i] = (unsigned char)gather->operands[i].n_folds;
    }
    q->call = (iso_device_gather){.dtype = gather->dtype,
                                  .maximum = gather->maximum,
                                  .n_operands = gather->n_operands,
                                  .operand = q->operand,
                                  .folds = q->folds,
                                  .rank = gather->rank,
                                  .extent = gather->extent,
                                  .stride = gather->stride,
                                  .out = out};
}

static void run_queued(const iso_gather *gather, iso_stream *stream)
{
    queued q;
    if (gather->count == 0 || !gather->out)
        return;
    describe(gather, 0, gather->out, &q);
    for (int i = 0; i < gather->n_copies; i++)
        q.copies[i] = gather->copies[i].address;
    q.call.n_copies = gather->n_copies;
    q.call.copies = q.copies;
    stream->device->gather(stream, &q.call);
}

static void part_queued(const iso_gather *gather, int64_t begin, int64_t n, void *out, iso_stream *stream)
{
    queued q;
    if (n == 0)
        return;
    describe(gather, (size_t)begin * gather->size, out, &q);
    q.call.extent = &n;
    stream->device->gather(stream, &q.call);
}

static bool supports(const iso_device *device)
{
    return device->gather != NULL;
}

const iso_gather_kernels iso_gather_kernels_device = {
    .name = "kernels",
    .supports = supports,
    .run = run_queued,
    .part = part_queued,
};
