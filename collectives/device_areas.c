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
    if (areas->base && areas->imported) {
        areas->device->drop_memory(areas->device, areas->base);
        iso_uses_close(&areas->uses, 0);
    } else if (areas->base && iso_uses_await_closed(&areas->uses, 0)) {
        areas->device->release(areas->device, areas->base);
    }
    iso_uses_destroy(&areas->uses);
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
static iso_status make(iso_stream *stream, const iso_device_areas *old, size_t kept, bool alone,
                       unsigned char *handle, iso_device_areas *areas)
{
    void *memory = NULL;
    const iso_device *device = stream->device;
    iso_status status = device->allocate(device, areas->bytes, "buffers that slots share", &memory);
    areas->base = memory;
    if (status == ISO_OK && old->base && kept > 0) {
        device->copy(stream, memory, old->base, kept);
        status = device->wait(stream);
    }
    if (status == ISO_OK && !alone)
        status = of_shared(device->export_memory(device, memory, handle));
    return status;
}

/* The part of the others. */
static iso_status import(iso_stream *stream, const unsigned char *handle, iso_device_areas *areas)
{
    void *memory = NULL;
    iso_status status = of_shared(stream->device->import_memory(stream->device, handle, &memory));
    if (status == ISO_OK) {
        areas->base = memory;
        iso_uses_open(&areas->uses, 0);
    }
    return status;
}

/* Either all ranks have the memory then, or none; a rank without a stream takes part, and has none. */
static iso_status share(const iso_comm *ranks, int owner, iso_stream *stream, const iso_device_areas *old,
                        size_t kept, iso_device_areas *fresh)
{
    struct {
        iso_status status;
        unsigned char handle[ISO_DEVICE_HANDLE];
    } made = {0};
    bool good;
    iso_status status = ISO_OK;
    if (!fresh->imported)
        status = make(stream, old, kept, iso_comm_size(ranks) == 1, made.handle, fresh);
    made.status = status;
    iso_status met = iso_comm_broadcast(ranks, owner, &made, sizeof made);
    status = status == ISO_OK ? met : status;
    if (status == ISO_OK && made.status == ISO_OK && fresh->imported && stream)
        status = import(stream, made.handle, fresh);
    met = iso_comm_all(ranks, made.status == ISO_OK && status == ISO_OK, &good);
    if (good)
        return ISO_OK;
    iso_device_areas_drop(fresh);
    if (status != ISO_OK || met != ISO_OK)
        return status != ISO_OK ? status : met;
    return iso_error_remote(iso_error(made.status != ISO_OK ? made.status : ISO_FAILED,
                                      "another rank of this host has no buffers that slots share"));
}

/* The owner gives the old memory back when the others have dropped it. */
iso_status iso_device_areas_grow(const iso_comm *ranks, int owner, iso_stream *stream, size_t bytes,
                                 size_t kept, iso_device_areas *areas)
{
    iso_status status = ISO_OK;
    iso_device_areas fresh = {.device = stream ? stream->device : NULL,
                              .bytes = iso_fabric_allocated_bytes(bytes),
                              .imported = iso_comm_rank(ranks) != owner};
    ISO_TRY(iso_uses_create(ranks, 1, &fresh.uses));
    ISO_TRY(share(ranks, owner, stream, areas, kept, &fresh));
    iso_device_areas_drop(areas);
    *areas = fresh;
done:
    return status;
}
