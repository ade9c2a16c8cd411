/* Communicators of GPUs, by NCCL. They do not block: a call gives ncclInProgress while a thread of the library does
 * it, so that a rank that is lost does not hold this process. */
#include "runtime/backend/cuda/nccl.h"

#include <string.h>

#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/functions.h"
#include "runtime/backend/cuda/gpu.h"
#include "runtime/base/memory.h"

static iso_status open_library(void)
{
    return iso_cuda_open_part(ISO_CUDA_NCCL);
}

#if ISO_WITH_NCCL
struct iso_device_comm {
    ncclComm_t comm;         /* of a split: NULL until it is complete */
    iso_device_comm *parent; /* whose thread may still write `comm`; NULL: none */
    ncclResult_t finalized;  /* an error: it cannot be */
    int gpu;
};

_Static_assert(sizeof(ncclUniqueId) == ISO_DEVICE_COMM_KEY, "the size of NCCL's keys");

/* ISO_OK also of work that is in progress. */
static iso_status status_of(ncclResult_t result, ncclComm_t comm, const char *what)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return ISO_OK;
    const char *detail = iso_cuda_call.ncclGetLastError(comm);
    return iso_error(ISO_FAILED, "NCCL: %s: %s (NCCL error %d)%s%s", what,
                     iso_cuda_call.ncclGetErrorString(result), (int)result, detail && *detail ? ": " : "",
                     detail ? detail : "");
}

static const char *description(void)
{
    static iso_cuda_part_facts facts;
    iso_cuda_find_opened(ISO_CUDA_NCCL, &facts);
    return facts.text;
}

/* ncclNumTypes: it has none. */
static ncclDataType_t type_of(iso_dtype dtype)
{
    switch (dtype) {
    case ISO_F32:
        return ncclFloat32;
    case ISO_F64:
        return ncclFloat64;
    case ISO_I32:
        return ncclInt32;
    case ISO_I64:
        return ncclInt64;
    case ISO_BF16:
        return ncclBfloat16;
    default:
        return ncclNumTypes;
    }
}

static bool adds(iso_dtype dtype)
{
    return type_of(dtype) != ncclNumTypes;
}

static iso_status make_key(unsigned char key[ISO_DEVICE_COMM_KEY])
{
    ncclUniqueId id;
    iso_status status = status_of(iso_cuda_call.ncclGetUniqueId(&id), NULL, "a communicator cannot be made");
    if (status == ISO_OK)
        memcpy(key, &id, sizeof id);
    return status;
}

/* A split that is under way ends with its parent, which joins the thread that writes `comm`, also in a group. */
static void end(iso_device_comm *comm)
{
    if (comm->parent)
        end(comm->parent);
    iso_cuda_enter(comm->gpu);
    if (comm->comm)
        iso_cuda_call.ncclCommAbort(comm->comm);
    comm->comm = NULL;
}

static void abort_comm(iso_device_comm *comm)
{
    if (!comm)
        return;
    end(comm);
    iso_free(comm);
}

static iso_status finalize(iso_device_comm *comm)
{
    iso_cuda_enter(comm->gpu);
    comm->finalized = iso_cuda_call.ncclCommFinalize(comm->comm);
    return status_of(comm->finalized, comm->comm, "a communicator cannot be closed");
}

static void destroy(iso_device_comm *comm)
{
    iso_cuda_enter(comm->gpu);
    iso_cuda_call.ncclCommDestroy(comm->comm);
    iso_free(comm);
}

/* ncclCommAbort tells the kernels of its communicator to end, and frees memory, which may wait for all kernels on the
 * GPU. In a group, all communicators are told before memory of one is freed. */
static void begin_group(void)
{
    iso_cuda_call.ncclGroupStart();
}

static void end_group(void)
{
    iso_cuda_call.ncclGroupEnd();
}

static iso_status join(const iso_device *device, const unsigned char key[ISO_DEVICE_COMM_KEY], int count,
                       int number, iso_device_comm **out)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    iso_device_comm *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_no_memory("a communicator of GPUs");
    config.blocking = 0;
    memcpy(&id, key, sizeof id);
    fresh->gpu = iso_cuda_gpu_of(device);
    iso_status status = iso_cuda_status(iso_cuda_enter(fresh->gpu), "a communicator cannot be made");
    if (status == ISO_OK)
        status = status_of(iso_cuda_call.ncclCommInitRankConfig(&fresh->comm, count, id, number, &config),
                           NULL, "a communicator cannot be made");
    if (status == ISO_OK)
        *out = fresh;
    else
        abort_comm(fresh);
    return status;
}

static iso_status split(iso_device_comm *comm, int color, iso_device_comm **out)
{
    iso_device_comm *fresh = iso_new(sizeof *fresh);
    if (!fresh)
        return iso_no_memory("a communicator of GPUs");
    *fresh = (iso_device_comm){.parent = comm, .gpu = comm->gpu};
    iso_cuda_enter(comm->gpu);
    iso_status status = status_of(iso_cuda_call.ncclCommSplit(comm->comm, color, 0, &fresh->comm, NULL),
                                  comm->comm, "a communicator cannot be split");
    if (status == ISO_OK)
        *out = fresh;
    else
        iso_free(fresh);
    return status;
}

static iso_status test(iso_device_comm *comm, bool *begun)
{
    ncclResult_t state = ncclSuccess;
    *begun = false;
    if (!comm->comm)
        return iso_error(ISO_FAILED, "NCCL: a communicator that was split is incomplete");
    if (comm->finalized != ncclSuccess && comm->finalized != ncclInProgress)
        return status_of(comm->finalized, comm->comm, "a communicator cannot be closed");
    ncclResult_t asked = iso_cuda_call.ncclCommGetAsyncError(comm->comm, &state);
    *begun = asked == ncclSuccess && state == ncclSuccess;
    if (*begun)
        comm->parent = NULL;
    return status_of(asked != ncclSuccess ? asked : state, comm->comm, "the communicator has failed");
}

static ncclResult_t queue(const iso_device_operation *o)
{
    ncclComm_t comm = o->comm->comm;
    cudaStream_t stream = ((const iso_cuda_queue *)o->stream)->cuda;
    ncclRedOp_t op = o->maximum ? ncclMax : ncclSum;
    size_t bytes = o->count * iso_dtype_size(o->dtype);
    switch (o->kind) {
    case ISO_DEVICE_SEND:
        return iso_cuda_call.ncclSend(o->from, bytes, ncclUint8, o->peer, comm, stream);
    case ISO_DEVICE_RECEIVE:
        return iso_cuda_call.ncclRecv(o->to, bytes, ncclUint8, o->peer, comm, stream);
    case ISO_DEVICE_ALL_REDUCE:
        return iso_cuda_call.ncclAllReduce(o->from, o->to, o->count, type_of(o->dtype), op, comm, stream);
    default:
        return iso_cuda_call.ncclReduceScatter(o->from, o->to, o->count, type_of(o->dtype), op, comm, stream);
    }
}

/* A group that has begun ends in any case. */
static iso_status run(const iso_device_operation *list, int count)
{
    if (count == 0)
        return ISO_OK;
    iso_status status = status_of(iso_cuda_call.ncclGroupStart(), NULL, "an exchange cannot begin");
    if (status != ISO_OK)
        return status;
    for (int i = 0; i < count && status == ISO_OK; i++) {
        status = iso_cuda_status(iso_cuda_enter_stream(list[i].stream), "an exchange cannot be queued");
        if (status == ISO_OK)
            status = status_of(queue(&list[i]), list[i].comm->comm, "an exchange cannot be queued");
    }
    ncclResult_t ended = iso_cuda_call.ncclGroupEnd();
    return status != ISO_OK ? status : status_of(ended, list[0].comm->comm, "an exchange cannot be queued");
}

const iso_device_comms iso_cuda_comms = {.open = open_library,
                                         .description = description,
                                         .adds = adds,
                                         .make_key = make_key,
                                         .join = join,
                                         .split = split,
                                         .test = test,
                                         .run = run,
                                         .finalize = finalize,
                                         .destroy = destroy,
                                         .abort = abort_comm,
                                         .begin_group = begin_group,
                                         .end_group = end_group};
#else
const iso_device_comms iso_cuda_comms = {.open = open_library};
#endif
