/* Whether MPI takes addresses of a device's memory (--cuda-aware). What MPI says of itself comes first: one that
 * knows no devices would load from such an address, which ends the process. Where it says nothing, or yes, a ring of
 * messages shows it. */
#include <mpi.h>
#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif
#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/mpi/aware.h"
#include "collectives/mpi/call.h"
#include "collectives/mpi/wait.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

/* Bytes of the messages: MPI sends short and long ones in different ways. No multiples of anything. */
enum { SHORT = 61, LONG = 300007 };

static const char instead[] =
    "Use an MPI that was built with CUDA, or leave the option out: messages then go "
    "through pinned memory of the host (docs/gpu.md)";

/* ---- what MPI says ---- */

/* 0: no; 1: yes; -1: it does not say. */
static int query(void)
{
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support() != 0;
#else
    return -1;
#endif
}

static iso_status refuse(void)
{
    char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (ISO_MPI(MPI_Get_library_version(name, &length)) != ISO_OK)
        length = 0;
    name[length] = 0;
    name[strcspn(name, ",\n")] = 0;
    return iso_error(
        ISO_INVALID,
        "--cuda-aware: this MPI (%s) is not CUDA-aware: its MPIX_Query_cuda_support() says 0. %s", name,
        instead);
}

/* ---- what it does ---- */

typedef struct ring {
    const iso_watchdog *watchdog;
    MPI_Comm comm;
    int rank, next, before; /* sends to `next` */
    iso_stream *stream;
    void *sent, *received;      /* [LONG] of the device's memory */
    unsigned char *host, *come; /* [LONG] */
} ring;

/* Byte i of what a rank sends. */
static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 89 + 5);
}

static iso_status compare(const ring *r, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (r->come[i] != byte_of(r->before, i))
            return iso_error(
                ISO_FAILED,
                "--cuda-aware: this MPI changes messages from the memory of GPUs: of %zu bytes that rank %d "
                "sent to rank %d, byte %zu came as %d, not %d. %s",
                bytes, r->before, r->rank, i, r->come[i], byte_of(r->before, i), instead);
    return ISO_OK;
}

/* A ring of messages of so many bytes. All ranks take part, also after an error. */
static iso_status pass(const ring *r, size_t bytes)
{
    MPI_Request request[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    iso_status status = ISO_OK;
    ISO_TRY(ISO_MPI(MPI_Irecv(r->received, (int)bytes, MPI_BYTE, r->before, 0, r->comm, &request[0])));
    ISO_TRY(ISO_MPI(MPI_Isend(r->sent, (int)bytes, MPI_BYTE, r->next, 0, r->comm, &request[1])));
    ISO_TRY(iso_mpi_await(r->watchdog, 2, request, MPI_STATUSES_IGNORE));
    ISO_TRY(iso_device_read(r->stream, r->come, r->received, bytes));
    status = compare(r, bytes);
done:
    return status;
}

static iso_status fill(const ring *r)
{
    for (size_t i = 0; i < LONG; i++)
        r->host[i] = byte_of(r->rank, i);
    return iso_device_write(r->stream, r->sent, r->host, LONG);
}

static iso_status allocate(const iso_device *device, ring *r)
{
    iso_status status = ISO_OK;
    r->host = iso_new(LONG);
    r->come = iso_new(LONG);
    if (!r->host || !r->come)
        return iso_no_memory("the probe of --cuda-aware");
    ISO_TRY(device->create_stream(device, &r->stream));
    ISO_TRY(device->allocate(device, LONG, "the probe of --cuda-aware", &r->sent));
    ISO_TRY(device->allocate(device, LONG, "the probe of --cuda-aware", &r->received));
    status = fill(r);
done:
    return status;
}

static void release(const iso_device *device, ring *r)
{
    device->release(device, r->sent);
    device->release(device, r->received);
    device->destroy_stream(r->stream);
    iso_free(r->host);
    iso_free(r->come);
}

static iso_status try_ring(const iso_channel *channel, const iso_device *device)
{
    int rank = channel->rank, ranks = channel->n_ranks;
    ring r = {.watchdog = channel->watchdog,
              .comm = iso_mpi_of(channel->communicator),
              .rank = rank,
              .next = (rank + 1) % ranks,
              .before = (rank + ranks - 1) % ranks};
    iso_status status = ISO_OK;
    ISO_TRY(iso_channel_agree(channel, allocate(device, &r)));
    ISO_TRY(iso_channel_agree(channel, pass(&r, SHORT)));
    ISO_TRY(iso_channel_agree(channel, pass(&r, LONG)));
done:
    release(device, &r);
    return status;
}

/* ---- the devices of the ranks ---- */

/* Device number `number` of those of this rank's slots, each of which counts once; NULL: there are no more. */
static const iso_device *own_device(const iso_fabric *fabric, int number)
{
    const iso_topology *topology = &fabric->topology;
    for (int slot = 0; slot < topology->n_slots; slot++) {
        int before = 0;
        if (fabric->local[slot] < 0)
            continue;
        const iso_device *device = topology->stream_of_slot[slot]->device;
        while (fabric->local[before] < 0 || topology->stream_of_slot[before]->device != device)
            before++;
        if (before == slot && number-- == 0)
            return device;
    }
    return NULL;
}

iso_status iso_mpi_query_device(const iso_channel *channel)
{
    if (iso_mpi_of(channel->communicator) == MPI_COMM_NULL)
        return ISO_OK;
    return iso_channel_agree(channel, query() == 0 ? refuse() : ISO_OK);
}

iso_status iso_fabric_try_device_messages(const iso_fabric *fabric)
{
    int own = 0, rounds;
    iso_status status = ISO_OK;
    if (iso_mpi_of(fabric->channel.communicator) == MPI_COMM_NULL)
        return ISO_OK;
    while (own_device(fabric, own))
        own++;
    rounds = own;
    ISO_TRY(iso_comm_reduce(fabric->channel.communicator, ISO_COMM_MAX, ISO_COMM_INT, &rounds, 1));
    for (int i = 0; i < rounds; i++)
        ISO_TRY(try_ring(&fabric->channel, own > 0 ? own_device(fabric, i % own) : iso_device_cpu()));
done:
    return status;
}
