/* Which slots of a mesh can load each other's memory.
 *
 * On the CPU these are the slots of a host, on GPUs those of one GPU. ISOGRID_SLOTS_PER_DOMAIN=k divides them into
 * domains of k slots instead, so that one host can test what several devices without access to each other do. */
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/environment.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/exec/memory/domains.h"
#include "runtime/exec/memory/peers.h"
#include "runtime/session/session.h"

static const char PER_DOMAIN[] = "ISOGRID_SLOTS_PER_DOMAIN";

/* The identity of the device of each slot. Collective. */
static iso_status find_devices(iso_context *ctx, const iso_mesh *mesh, iso_stream *const *stream_of_slot,
                               iso_device_id *device)
{
    iso_status status = ISO_OK;
    for (int s = 0; s < mesh->n_slots && status == ISO_OK; s++)
        if (stream_of_slot[s])
            status = stream_of_slot[s]->device->identify(stream_of_slot[s]->device,
                                                         (unsigned char *)device[s].words);
    ISO_TRY(iso_agree(ctx, status));
    status = iso_all_reduce(ctx, ISO_REDUCE_OR, ISO_I64, device,
                            (size_t)mesh->n_slots * sizeof *device / sizeof(uint64_t));
done:
    return status;
}

/* The domain of the last slot before s that is on the same device, if it has room; else -1. here: [n_slots] the slots
 * before s in its domain. */
static int domain_with_room(const iso_domains *d, const iso_mesh *mesh, iso_context *ctx,
                            const iso_device_id *device, int s, int per_domain, int *here)
{
    int host = iso_host_of_rank(ctx, mesh->rank_of_slot[s]);
    for (int before = s - 1; before >= 0; before--) {
        if (!iso_same_device(&device[before], &device[s]) ||
            iso_host_of_rank(ctx, mesh->rank_of_slot[before]) != host)
            continue;
        here[s] = here[before] + 1;
        return per_domain > 0 && here[s] % per_domain == 0 ? -1 : d->of_slot[before];
    }
    return -1;
}

/* Numbers the domains host by host. */
static void number_domains(iso_domains *d, const iso_mesh *mesh, iso_context *ctx,
                           const iso_device_id *device, int per_domain, int *here)
{
    for (int host = 0; host < iso_hosts(ctx); host++)
        for (int s = 0; s < mesh->n_slots; s++) {
            if (iso_host_of_rank(ctx, mesh->rank_of_slot[s]) != host)
                continue;
            d->of_slot[s] = domain_with_room(d, mesh, ctx, device, s, per_domain, here);
            if (d->of_slot[s] < 0) {
                d->of_slot[s] = d->count;
                d->host[d->count++] = host;
            }
        }
}

/* The domain, among those of its host, of slot number `turn` on the host. The slots take the devices in turn, and
 * those of one device fill its domains; each round over all devices begins its domains in turn. */
static int domain_at(int turn, int devices, int per_domain)
{
    int device = turn % devices, on_device = turn / devices;
    return per_domain > 0 ? on_device / per_domain * devices + device : device;
}

/* Numbers the domains as number_domains does. first: [slots] zeros, memory of the caller. */
static void number_abstract(int slots, const int *host_of_slot, int devices, int per_domain, int *first,
                            int *domain_of_slot)
{
    for (int s = 0; s < slots; s++)
        domain_of_slot[s] = first[host_of_slot[s]]++; /* its place on the host */
    for (int h = 0, domains = 0; h < slots; h++) {
        int here = 0;
        for (int turn = 0; turn < first[h]; turn++) {
            int after = domain_at(turn, devices, per_domain) + 1;
            here = after > here ? after : here;
        }
        first[h] = domains;
        domains += here;
    }
    for (int s = 0; s < slots; s++)
        domain_of_slot[s] = first[host_of_slot[s]] + domain_at(domain_of_slot[s], devices, per_domain);
}

iso_status iso_domains_abstract(int slots, const int *host_of_slot, int devices, int *domain_of_slot,
                                bool *one)
{
    int per_domain, *first;
    iso_status status = iso_environment_integer(PER_DOMAIN, 1 << 20, &per_domain);
    if (status != ISO_OK)
        return status;
    first = iso_new((size_t)slots * sizeof *first);
    if (!first)
        return iso_no_memory("the memory domains of %d slots", slots);
    number_abstract(slots, host_of_slot, devices, per_domain, first, domain_of_slot);
    iso_free(first);
    *one = true;
    for (int s = 0; s < slots; s++)
        *one &= domain_of_slot[s] == domain_of_slot[0];
    return ISO_OK;
}

/* Finds whether the devices of each host reach each other's memory: all of them, or the host counts as if none did.
 * Collective. */
static iso_status find_reach(iso_domains *d, const iso_mesh *mesh, iso_context *ctx,
                             iso_stream *const *stream_of_slot, const iso_device_id *device)
{
    int hosts = iso_hosts(ctx);
    int64_t *separate = iso_new((size_t)hosts * sizeof *separate);
    iso_status status = separate ? ISO_OK : iso_no_memory("%d hosts", hosts);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_peers_find(ctx, mesh, stream_of_slot, device, separate));
    for (int s = 0; s < mesh->n_slots; s++) {
        int host = d->host[d->of_slot[s]], first = d->of_slot[s];
        while (!separate[host] && first > 0 && d->host[first - 1] == host)
            first--;
        d->reach_of_slot[s] = first;
    }
done:
    iso_free(separate);
    return status;
}

static iso_status find_holders(iso_domains *d, const iso_mesh *mesh)
{
    iso_hash_key *key = iso_new((size_t)mesh->n_slots * sizeof *key);
    bool room = key != NULL;
    for (int s = 0; room && s < mesh->n_slots; s++)
        key[s] = (iso_hash_key){{iso_hash_mix((uint64_t)mesh->rank_of_slot[s] + 1), (uint64_t)d->of_slot[s]}};
    room = room && iso_hash_firsts(key, mesh->n_slots, d->holder_of_slot);
    iso_free(key);
    return room ? ISO_OK : iso_no_memory("the memory domains of %d slots", mesh->n_slots);
}

iso_status iso_domains_create(iso_context *ctx, const iso_mesh *mesh, const iso_device *device,
                              iso_stream *const *stream_of_slot, iso_domains *out)
{
    size_t slots = (size_t)mesh->n_slots;
    int *room = iso_new(4 * slots * sizeof *room), *here = iso_new(slots * sizeof *here), per_domain = 0;
    iso_device_id *of = iso_new(slots * sizeof *of);
    iso_domains d = {.of_slot = room,
                     .holder_of_slot = room ? room + slots : NULL,
                     .host = room ? room + 2 * slots : NULL,
                     .reach_of_slot = room ? room + 3 * slots : NULL};
    iso_status status = room && here && of ? iso_environment_integer(PER_DOMAIN, 1 << 20, &per_domain)
                                           : iso_no_memory("the memory domains of %zu slots", slots);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(
        iso_agree_same(ctx, PER_DOMAIN, (uint64_t)per_domain, per_domain ? getenv(PER_DOMAIN) : "no value"));
    if (device->identify)
        ISO_TRY(find_devices(ctx, mesh, stream_of_slot, of));
    number_domains(&d, mesh, ctx, of, per_domain, here);
    memcpy(d.reach_of_slot, d.of_slot, slots * sizeof *d.of_slot);
    if (device->identify)
        ISO_TRY(find_reach(&d, mesh, ctx, stream_of_slot, of));
    ISO_TRY(iso_agree(ctx, find_holders(&d, mesh)));
done:
    iso_free(here);
    iso_free(of);
    if (status == ISO_OK)
        *out = d;
    else
        iso_domains_destroy(&d);
    return status;
}

void iso_domains_destroy(iso_domains *d)
{
    iso_free(d->of_slot); /* the others are in the same memory */
    *d = (iso_domains){0};
}
