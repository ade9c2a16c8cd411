/* Which slots of a mesh can load each other's memory.
 *
 * On the CPU these are the slots of a host. ISOGRID_SLOTS_PER_DOMAIN=k divides the slots of every host into domains
 * of k slots instead, so that one host can test what several devices without access to each other do. */
#include <stdlib.h>

#include "collectives/control/control.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/exec/domains.h"
#include "runtime/session/session.h"

static iso_status slots_per_domain(int *slots)
{
    const char *text = getenv("ISOGRID_SLOTS_PER_DOMAIN");
    *slots = 0;
    if (!text || !*text)
        return ISO_OK;
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 1 || value > 1 << 20)
        return iso_error(ISO_INVALID, "ISOGRID_SLOTS_PER_DOMAIN is '%s': it must be an integer from 1", text);
    *slots = (int)value;
    return ISO_OK;
}

/* Numbers the domains host by host. */
static void number_domains(iso_domains *d, const iso_mesh *mesh, iso_context *ctx, int per_domain)
{
    for (int host = 0; host < iso_hosts(ctx); host++) {
        int here = 0;
        for (int s = 0; s < mesh->n_slots; s++) {
            if (iso_host_of_rank(ctx, mesh->rank_of_slot[s]) != host)
                continue;
            if (here == 0 || (per_domain > 0 && here % per_domain == 0))
                d->host[d->count++] = host;
            d->of_slot[s] = d->count - 1;
            here++;
        }
    }
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

iso_status iso_domains_create(iso_context *ctx, const iso_mesh *mesh, iso_domains *out)
{
    size_t slots = (size_t)mesh->n_slots;
    int *room = iso_new(3 * slots * sizeof *room), per_domain = 0;
    iso_domains d = {.of_slot = room,
                     .holder_of_slot = room ? room + slots : NULL,
                     .host = room ? room + 2 * slots : NULL};
    iso_status status =
        room ? slots_per_domain(&per_domain) : iso_no_memory("the memory domains of %zu slots", slots);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_agree_same(ctx, "ISOGRID_SLOTS_PER_DOMAIN", (uint64_t)per_domain, NULL));
    number_domains(&d, mesh, ctx, per_domain);
    ISO_TRY(iso_agree(ctx, find_holders(&d, mesh)));
    *out = d;
    return ISO_OK;
done:
    iso_domains_destroy(&d);
    return status;
}

void iso_domains_destroy(iso_domains *d)
{
    iso_free(d->of_slot); /* the others are in the same memory */
    *d = (iso_domains){0};
}
