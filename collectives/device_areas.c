#include "collectives/device_areas.h"

#include "collectives/coll.h"
#include "runtime/base/memory.h"
#include "runtime/base/remote_error.h"

size_t iso_fabric_allocated_bytes(size_t bytes)
{
    const size_t block = 2 << 20;
    size_t most;
    if (bytes == 0 || __builtin_add_overflow(bytes, ISO_ALIGN + block - 1, &most))
        return bytes; /* no device has so much */
    return most / block * block - ISO_ALIGN;
}

void iso_device_areas_drop(iso_device_areas *areas)
{
    if (areas->base && areas->imported)
        areas->device->drop_memory(areas->device, areas->base);
    else if (areas->base)
        areas->device->release(areas->device, areas->base);
    areas->base = NULL;
    areas->bytes = 0;
}

/* The status of memory that other ranks open. */
static iso_status of_shared(iso_status status)
{
    return status == ISO_OK
               ? ISO_OK
               : iso_error_prefix(status,
                                  "memory that ranks of this host share (with ISOGRID_PEERS=none only "
                                  "ranks on one GPU share it): ");
}

/* The owner's part: memory, with what is kept copied, and its handle if others import it. */
static iso_status make(iso_stream *stream, const iso_device_areas *old, size_t bytes, size_t kept, bool alone,
                       unsigned char *handle, void **memory)
{
    const iso_device *device = stream->device;
    iso_status status = device->allocate(device, bytes, "buffers that slots share", memory);
    if (status == ISO_OK && old->base && kept > 0) {
        device->copy(stream, *memory, old->base, kept);
        status = device->wait(stream);
    }
    if (status == ISO_OK && !alone)
        status = of_shared(device->export_memory(device, *memory, handle));
    return status;
}

static void replace(iso_device_areas *areas, iso_device_areas fresh)
{
    iso_device_areas_drop(areas);
    *areas = fresh;
}

/* Other ranks of the domain import the memory that one allocates. It gives the old memory back when they have dropped
 * it. A rank without slots takes part, and has no memory. */
iso_status iso_device_areas_grow(const iso_comm *ranks, int owner, iso_stream *stream, size_t bytes,
                                 size_t kept, iso_device_areas *areas)
{
    struct {
        iso_status status;
        unsigned char handle[ISO_DEVICE_HANDLE];
    } made = {0};
    void *memory = NULL;
    bool mine = iso_comm_rank(ranks) == owner;
    iso_status status = ISO_OK;
    bytes = iso_fabric_allocated_bytes(bytes);
    areas->device = stream ? stream->device : NULL;
    if (mine)
        status = make(stream, areas, bytes, kept, iso_comm_size(ranks) == 1, made.handle, &memory);
    made.status = status;
    iso_status met = iso_comm_broadcast(ranks, owner, &made, sizeof made);
    status = status == ISO_OK ? met : status;
    if (status == ISO_OK && made.status == ISO_OK && !mine && stream)
        status = of_shared(stream->device->import_memory(stream->device, made.handle, &memory));
    bool good;
    met = iso_comm_all(ranks, made.status == ISO_OK && status == ISO_OK, &good);
    iso_device_areas fresh = {.device = areas->device, .base = memory, .bytes = bytes, .imported = !mine};
    if (!good) {
        iso_device_areas_drop(&fresh);
        if (status != ISO_OK || met != ISO_OK)
            return status != ISO_OK ? status : met;
        return iso_error_remote(iso_error(made.status != ISO_OK ? made.status : ISO_FAILED,
                                          "another rank of this host has no buffers that slots share"));
    }
    if (!mine)
        replace(areas, fresh);
    met = iso_comm_barrier(ranks);
    if (mine && met == ISO_OK)
        replace(areas, fresh);
    return met;
}
