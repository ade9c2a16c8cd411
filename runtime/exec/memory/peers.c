/* Which devices of a host read each other's memory. The driver states it, and a trial confirms it: on some machines
 * (PCIe access control or an IOMMU between the devices) the driver allows access that returns other data. */
#include "runtime/exec/memory/peers.h"

#include <stdlib.h>
#include <string.h>

#include "collectives/coll.h"
#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/session/session.h"

bool iso_same_device(const iso_device_id *a, const iso_device_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* What is known of all slots. */
typedef struct peers {
    iso_context *ctx;
    const iso_mesh *mesh;
    iso_stream *const *stream_of_slot;
    const iso_device_id *id;
    void **memory;                            /* [n_slots] of a trial: made here, or opened; NULL: none */
    int64_t (*handle)[ISO_DEVICE_HANDLE / 8]; /* [n_slots] */
} peers;

static int host_of(const peers *p, int slot)
{
    return iso_host_of_rank(p->ctx, p->mesh->rank_of_slot[slot]);
}

static bool same_rank(const peers *p, int slot, int other)
{
    return p->mesh->rank_of_slot[slot] == p->mesh->rank_of_slot[other];
}

/* ---- what rules it out ---- */

/* Whether memory of other devices has one address in each process of a host: each of its ranks has slots on one
 * device, or one rank has all slots. */
static bool has_one_address(const peers *p, int host)
{
    bool one_rank = true, one_device = true;
    for (int s = 0; s < p->mesh->n_slots; s++)
        for (int other = 0; other < s; other++) {
            if (host_of(p, s) != host || host_of(p, other) != host)
                continue;
            one_rank &= same_rank(p, s, other);
            one_device &= !same_rank(p, s, other) || iso_same_device(&p->id[s], &p->id[other]);
        }
    return one_rank || one_device;
}

/* Whether the devices of this rank's slots reach all others of the host. */
static bool reaches_all(const peers *p, int host)
{
    bool all = true;
    for (int s = 0; s < p->mesh->n_slots && all; s++)
        for (int other = 0; p->stream_of_slot[s] && other < p->mesh->n_slots && all; other++)
            if (host_of(p, other) == host && !iso_same_device(&p->id[s], &p->id[other]))
                all = p->stream_of_slot[s]->device->reaches(p->stream_of_slot[s]->device,
                                                            (const unsigned char *)p->id[other].words);
    return all;
}

/* Whether ISOGRID_PEERS leaves it to the devices what they reach. */
static iso_status allows_peers(bool *allowed)
{
    const char *value = getenv("ISOGRID_PEERS");
    *allowed = !value || !*value;
    if (*allowed || strcmp(value, "none") == 0)
        return ISO_OK;
    return iso_error(ISO_INVALID, "ISOGRID_PEERS is '%s': it must be none, or not set", value);
}

/* ---- the trial ---- */

enum { TRIED = 1024 }; /* elements; what a device reads is written so many elements further */

/* A number for what the device of a slot offers. */
static float offered(int slot)
{
    return (float)(slot + 1);
}

/* Whether the slot is the first of its rank on its device. */
static bool is_first(const peers *p, int slot)
{
    for (int s = 0; s < slot; s++)
        if (same_rank(p, s, slot) && iso_same_device(&p->id[s], &p->id[slot]))
            return false;
    return true;
}

static bool has_several_devices(const peers *p, int host)
{
    int first = -1;
    for (int s = 0; s < p->mesh->n_slots; s++) {
        if (host_of(p, s) != host)
            continue;
        first = first < 0 ? s : first;
        if (!iso_same_device(&p->id[s], &p->id[first]))
            return true;
    }
    return false;
}

/* Memory of the device of a slot with its number in all elements, and its handle for other ranks. Warns if it has
 * none. */
static iso_status offer(const peers *p, int slot, bool *good)
{
    iso_stream *stream = p->stream_of_slot[slot];
    const iso_device *device = stream->device;
    float number = offered(slot);
    iso_status status = device->allocate(device, iso_fabric_allocated_bytes(2 * TRIED * sizeof number),
                                         "a trial of access between devices", &p->memory[slot]);
    if (status != ISO_OK)
        return status;
    device->fill(stream, p->memory[slot], &number, sizeof number, TRIED);
    status = device->wait(stream);
    if (status != ISO_OK || iso_ranks(p->ctx) == 1)
        return status;
    *good = device->export_memory(device, p->memory[slot], (unsigned char *)p->handle[slot]) == ISO_OK;
    if (!*good)
        iso_warn("%s. GPUs of this host exchange by NCCL or through the host's memory", iso_error_message());
    return ISO_OK;
}

/* Reads by the device of one slot what that of another offers. */
static iso_status read_offered(const peers *p, int slot, int other, bool *good)
{
    iso_stream *stream = p->stream_of_slot[slot];
    float *result = (float *)p->memory[slot] + TRIED, found[TRIED];
    const void *operand = p->memory[other];
    int64_t extent = TRIED;
    stream->device->gather(stream, &(iso_device_gather){.dtype = ISO_F32,
                                                        .n_operands = 1,
                                                        .operand = &operand,
                                                        .folds = &(unsigned char){0},
                                                        .rank = 1,
                                                        .extent = &extent,
                                                        .out = result});
    iso_status status = iso_device_read(stream, found, result, sizeof found);
    for (int i = 0; i < TRIED && status == ISO_OK; i++)
        *good &= found[i] == offered(other);
    return status;
}

/* The device of a slot reads what that of another offers; it opens that of another rank. Warns of a failure. */
static iso_status try_pair(const peers *p, int slot, int other, bool *good)
{
    const iso_device *device = p->stream_of_slot[slot]->device;
    const char *reason = "it gets other data";
    if (!p->memory[other] &&
        device->import_memory(device, (const unsigned char *)p->handle[other], &p->memory[other]) != ISO_OK)
        *good = false, reason = iso_error_message();
    iso_status status = *good ? read_offered(p, slot, other, good) : ISO_OK;
    if (status != ISO_OK)
        return iso_error_prefix(status,
                                "the test of access between GPUs failed (ISOGRID_PEERS=none skips it): ");
    if (!*good)
        iso_warn("the GPU of slot %d cannot read the memory of that of slot %d, though its driver allows "
                 "it: %s. GPUs of this host exchange by NCCL or through the host's memory",
                 slot, other, reason);
    return ISO_OK;
}

/* The devices of this rank read from all others of the host, until one fails. */
static iso_status read_all(const peers *p, int host, bool *good)
{
    iso_status status = ISO_OK;
    for (int s = 0; s < p->mesh->n_slots; s++) {
        if (!p->stream_of_slot[s] || !is_first(p, s))
            continue;
        for (int other = 0; other < p->mesh->n_slots && *good && status == ISO_OK; other++)
            if (host_of(p, other) == host && !iso_same_device(&p->id[s], &p->id[other]) && is_first(p, other))
                status = try_pair(p, s, other, good);
    }
    return status;
}

/* The others may still read what this rank has made. */
static void drop_opened(const peers *p)
{
    const iso_device *device = NULL;
    for (int s = 0; s < p->mesh->n_slots; s++)
        device = p->stream_of_slot[s] ? p->stream_of_slot[s]->device : device;
    for (int s = 0; s < p->mesh->n_slots && device; s++)
        if (p->memory[s] && !p->stream_of_slot[s]) {
            device->drop_memory(device, p->memory[s]);
            p->memory[s] = NULL;
        }
}

static void release_offered(const peers *p)
{
    for (int s = 0; p->memory && s < p->mesh->n_slots; s++)
        if (p->memory[s])
            p->stream_of_slot[s]->device->release(p->stream_of_slot[s]->device, p->memory[s]);
}

/* separate: as in iso_peers_find, of which hosts are not tried. What is added to it is what this rank has seen.
 * Collective. */
static iso_status try_access(peers *p, int host, int64_t *separate)
{
    size_t slots = (size_t)p->mesh->n_slots;
    bool good = !separate[host] && has_several_devices(p, host), tried = good;
    p->memory = iso_new(slots * sizeof *p->memory);
    p->handle = iso_new(slots * sizeof *p->handle);
    iso_status status = p->memory && p->handle ? ISO_OK : iso_no_memory("a trial of access between devices");
    for (int s = 0; s < p->mesh->n_slots && good && status == ISO_OK; s++)
        if (p->stream_of_slot[s] && is_first(p, s))
            status = offer(p, s, &good);
    ISO_TRY(iso_agree(p->ctx, status));
    separate[host] |= tried && !good;
    ISO_TRY(iso_all_reduce(p->ctx, ISO_REDUCE_OR, ISO_I64, separate, (size_t)iso_hosts(p->ctx)));
    ISO_TRY(iso_all_reduce(p->ctx, ISO_REDUCE_OR, ISO_I64, p->handle,
                           slots * sizeof *p->handle / sizeof(int64_t)));
    good = tried && !separate[host];
    if (good) {
        status = read_all(p, host, &good);
        drop_opened(p);
        separate[host] |= !good;
    }
    status = iso_agree(p->ctx, status);
done:
    release_offered(p);
    iso_free(p->memory);
    iso_free(p->handle);
    return status;
}

/* ---- both ---- */

static bool some_host_is_tried(const peers *p, const int64_t *separate)
{
    for (int host = 0; host < iso_hosts(p->ctx); host++)
        if (!separate[host] && has_several_devices(p, host))
            return true;
    return false;
}

iso_status iso_peers_find(iso_context *ctx, const iso_mesh *mesh, iso_stream *const *stream_of_slot,
                          const iso_device_id *id, int64_t *separate)
{
    peers p = {.ctx = ctx, .mesh = mesh, .stream_of_slot = stream_of_slot, .id = id};
    int host = iso_host_of_rank(ctx, iso_rank(ctx));
    size_t hosts = (size_t)iso_hosts(ctx);
    bool allowed = false;
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(ctx, allows_peers(&allowed)));
    separate[host] = !allowed || !has_one_address(&p, host) || !reaches_all(&p, host);
    ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_I64, separate, hosts));
    if (!some_host_is_tried(&p, separate))
        return ISO_OK;
    ISO_TRY(try_access(&p, host, separate));
    status = iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_I64, separate, hosts);
done:
    return status;
}
