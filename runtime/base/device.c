#include "runtime/base/device.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/memory.h"

/* ---- the CPU ---- */

static iso_stream cpu_stream;

static iso_status cpu_allocate(const iso_device *device, size_t bytes, const char *what, void **memory)
{
    (void)device;
    return iso_alloc(bytes, what, memory);
}

static void cpu_release(const iso_device *device, void *memory)
{
    (void)device;
    iso_free(memory);
}

static iso_status cpu_create_stream(const iso_device *device, iso_stream **stream)
{
    (void)device;
    *stream = &cpu_stream;
    return ISO_OK;
}

static void cpu_destroy_stream(iso_stream *stream)
{
    (void)stream;
}

static void cpu_copy(iso_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static void cpu_fill(iso_stream *stream, void *to, const void *element, size_t size, size_t count)
{
    (void)stream;
    size_t bytes = count * size;
    if (bytes > 0)
        memcpy(to, element, size);
    for (size_t done = size; done < bytes; done *= 2)
        memcpy((char *)to + done, to, done < bytes - done ? done : bytes - done);
}

static iso_status cpu_wait(iso_stream *stream)
{
    (void)stream;
    return ISO_OK;
}

/* All that was queued is done: one event serves all. */
static iso_device_event cpu_event;

static iso_status cpu_create_event(const iso_device *device, iso_device_event **event)
{
    (void)device;
    *event = &cpu_event;
    return ISO_OK;
}

static void cpu_destroy_event(iso_device_event *event)
{
    (void)event;
}

static void cpu_record(iso_device_event *event, iso_stream *stream)
{
    (void)event, (void)stream;
}

static void cpu_await(iso_stream *stream, const iso_device_event *event)
{
    (void)stream, (void)event;
}

static bool cpu_passed(const iso_device_event *event)
{
    (void)event;
    return true;
}

static iso_status cpu_wait_event(const iso_device_event *event)
{
    (void)event;
    return ISO_OK;
}

static iso_status cpu_attach(const iso_device *device, void *shared, size_t bytes, void **memory)
{
    (void)device, (void)bytes;
    *memory = shared;
    return ISO_OK;
}

static void cpu_detach(const iso_device *device, void *memory)
{
    (void)device, (void)memory;
}

static void *cpu_reach(void *memory)
{
    return memory;
}

static const iso_device cpu = {.name = "cpu",
                               .host_access = true,
                               .allocate = cpu_allocate,
                               .release = cpu_release,
                               .allocate_pinned = cpu_allocate,
                               .release_pinned = cpu_release,
                               .create_stream = cpu_create_stream,
                               .destroy_stream = cpu_destroy_stream,
                               .copy = cpu_copy,
                               .fill = cpu_fill,
                               .wait = cpu_wait,
                               .check = cpu_wait,
                               .create_event = cpu_create_event,
                               .destroy_event = cpu_destroy_event,
                               .record = cpu_record,
                               .await = cpu_await,
                               .passed = cpu_passed,
                               .wait_event = cpu_wait_event,
                               .attach = cpu_attach,
                               .detach = cpu_detach,
                               .reach = cpu_reach};

static iso_stream cpu_stream = {.device = &cpu};
static iso_device_event cpu_event = {.device = &cpu};

const iso_device *iso_device_cpu(void)
{
    return &cpu;
}

/* ---- copies ---- */

iso_status iso_device_read(iso_stream *stream, void *host, const void *memory, size_t bytes)
{
    stream->device->copy(stream, host, memory, bytes);
    return stream->device->wait(stream);
}

iso_status iso_device_write(iso_stream *stream, void *memory, const void *host, size_t bytes)
{
    stream->device->copy(stream, memory, host, bytes);
    return stream->device->wait(stream);
}

static iso_stream *stream_of(const iso_state_shard *shard)
{
    return shard->stream ? shard->stream : &cpu_stream;
}

iso_status iso_shard_read(const iso_state_shard *shard, void *host)
{
    return iso_device_read(stream_of(shard), host, shard->data, iso_shard_bytes(shard));
}

iso_status iso_shard_write(const iso_state_shard *shard, const void *host)
{
    return iso_device_write(stream_of(shard), shard->data, host, iso_shard_bytes(shard));
}

/* ---- mapping ---- */

static bool is_copied(const iso_mapping *mapping)
{
    return mapping->stream && !mapping->stream->device->host_access;
}

static iso_status begin_mapping(iso_stream *stream, void *memory, size_t bytes, bool changed,
                                iso_mapping *mapping)
{
    *mapping = (iso_mapping){memory, stream, memory, bytes, changed};
    if (!is_copied(mapping))
        return ISO_OK;
    iso_status status =
        stream->device->allocate_pinned(stream->device, bytes, "a copy of a device's memory", &mapping->data);
    if (status != ISO_OK)
        *mapping = (iso_mapping){0};
    return status;
}

iso_status iso_map(iso_stream *stream, const void *memory, size_t bytes, iso_mapping *mapping)
{
    iso_status status = begin_mapping(stream, (void *)(uintptr_t)memory, bytes, false, mapping);
    if (status == ISO_OK && is_copied(mapping))
        status = iso_device_read(stream, mapping->data, memory, bytes);
    if (status != ISO_OK)
        iso_unmap(status, mapping);
    return status;
}

iso_status iso_map_to_write(iso_stream *stream, void *memory, size_t bytes, iso_mapping *mapping)
{
    return begin_mapping(stream, memory, bytes, true, mapping);
}

iso_status iso_unmap(iso_status done, iso_mapping *mapping)
{
    iso_status status = done;
    if (!is_copied(mapping))
        return status;
    if (status == ISO_OK && mapping->changed)
        status = iso_device_write(mapping->stream, mapping->memory, mapping->data, mapping->bytes);
    mapping->stream->device->release_pinned(mapping->stream->device, mapping->data);
    *mapping = (iso_mapping){0};
    return status;
}
