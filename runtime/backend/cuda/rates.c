/* The rates of a step. The host computes them, with the CPU's bits, when the stream has come to it. */
#include <stddef.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/backend/cuda/host.h"
#include "runtime/backend/cuda/step_end.h"
#include "runtime/base/memory.h"

/* Pinned memory for one of a slot's rates. The addresses in `call` are its own. A call stays as it is, since the host
 * may compute the rates of an earlier step while those of the next are queued. */
typedef struct iso_cuda_rates_room {
    iso_rates_call call;
    int64_t iteration;
    double rate;
    iso_step_rates rates;
    const iso_step_rates *of; /* those of the device */
    struct iso_cuda_rates_room *next;
} room;

static iso_status make_room(iso_cuda_queue *stream, const iso_rates_call *call, room **out)
{
    void *memory = NULL;
    iso_status status = stream->base.device->allocate_pinned(stream->base.device, sizeof(room),
                                                             "the rates of a slot", &memory);
    if (status != ISO_OK)
        return status;
    room *fresh = memory;
    fresh->call = *call;
    fresh->call.iteration = &fresh->iteration;
    fresh->call.rate = &fresh->rate;
    fresh->call.rates = &fresh->rates;
    fresh->of = call->rates;
    fresh->next = stream->rooms;
    stream->rooms = fresh;
    *out = fresh;
    return ISO_OK;
}

static bool is_of(const room *r, const iso_rates_call *call)
{
    return r->of == call->rates && r->call.rule == call->rule && r->call.optimizer == call->optimizer &&
           r->call.dtype == call->dtype;
}

static room *find_room(iso_cuda_queue *stream, const iso_rates_call *call)
{
    room *r = stream->rooms;
    while (r && !is_of(r, call))
        r = r->next;
    return r;
}

void iso_cuda_free_rates(iso_cuda_queue *of)
{
    for (room *r = of->rooms, *next; r; r = next) {
        next = r->next;
        of->base.device->release_pinned(of->base.device, r);
    }
}

static void compute(void *data)
{
    room *r = data;
    iso_cuda_host_prepare(&r->call);
}

void iso_cuda_prepare(const iso_rates_call *call, iso_stream *of)
{
    iso_cuda_queue *stream = (iso_cuda_queue *)of;
    const iso_device *device = of->device;
    room *r = find_room(stream, call);
    if (!r && make_room(stream, call, &r) != ISO_OK) {
        iso_cuda_keep(of, cudaErrorMemoryAllocation);
        return;
    }
    iso_cuda_use(of);
    device->copy(of, &r->iteration, call->iteration, sizeof r->iteration);
    device->copy(of, &r->rate, call->rate, sizeof r->rate);
    iso_cuda_keep(of, cudaLaunchHostFunc(stream->cuda, compute, r));
    device->copy(of, call->rates, &r->rates, sizeof r->rates);
}
