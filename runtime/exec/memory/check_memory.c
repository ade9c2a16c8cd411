/* Whether the hosts have the memory that plans need: a process that takes more than there is, is killed without
 * a word. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/host.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/exec/memory/runtime_impl.h"
#include "runtime/session/lifetime.h"
#include "runtime/session/session.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of the optimizers' states that this rank holds. */
static double bytes_of_states(const iso_runtime *runtime)
{
    double bytes = 0;
    for (const iso_update_state *state = runtime->updates; state; state = state->next)
        for (int b = 0; b < state->n_buckets; b++) {
            const iso_bucket *bucket = &state->buckets[b];
            bytes += (double)bucket->part * (double)iso_dtype_size(bucket->dtype) * state->state[b].n_slots *
                     runtime->n_locals;
        }
    return bytes;
}

/* Bytes of this rank's slots and data sets alone. */
static double private_bytes(const iso_runtime *runtime, size_t arena, const size_t *scratch)
{
    double bytes = (double)larger(arena, runtime->arena_bytes) * runtime->n_locals +
                   bytes_of_states(runtime) + (double)*iso_context_kept(runtime->ctx);
    for (int t = 0; t < runtime->n_scratch; t++)
        bytes += (double)larger(scratch ? scratch[t] : 0, runtime->scratch[t].bytes);
    return bytes;
}

/* Bytes that the slots of a host share. */
static double host_bytes(const iso_runtime *runtime, int host, size_t shared)
{
    double bytes = 0;
    for (int d = 0; d < runtime->domains.count; d++)
        if (runtime->domains.host[d] == host)
            bytes += (double)runtime->domain_bytes[d];
    for (int s = 0; s < runtime->mesh->n_slots; s++)
        if (runtime->host_of_slot[s] == host)
            bytes += (double)larger(shared, runtime->shared_bytes);
    return bytes;
}

/* Compares on this rank's host. need: bytes in all; kept: of batches. */
static iso_status compare(iso_runtime *runtime, double need, double kept)
{
    iso_host_memory memory;
    char name[ISO_HOST_NAME], has[32], more[32], batches[80] = "";
    double grows = need - runtime->host_bytes;
    iso_host_memory_find("", &memory);
    iso_host_name(name);
    const char *group = *memory.group ? " by the limit of the control group " : "";
    if (kept > 0)
        snprintf(batches, sizeof batches, ", of which %s for batches that are read ahead",
                 iso_text_scaled(kept, "B", more, sizeof more));
    if (need > (double)memory.limit)
        return iso_error(ISO_NO_MEMORY, "host %s has %s of memory%s%s, and %s are needed there%s", name,
                         iso_text_scaled((double)memory.limit, "B", has, sizeof has), group, memory.group,
                         iso_text_scaled(need, "B", more, sizeof more), batches);
    if (grows > (double)memory.available && iso_is_host_leader(runtime->ctx))
        iso_warn("host %s has %s of memory available%s%s, and %s are needed now: the system may end the job",
                 name, iso_text_scaled((double)memory.available, "B", has, sizeof has), group, memory.group,
                 iso_text_scaled(grows, "B", more, sizeof more));
    runtime->host_bytes = need;
    return ISO_OK;
}

iso_status iso_runtime_check_memory(iso_runtime *runtime, size_t arena, size_t shared, const size_t *scratch)
{
    iso_context *ctx = runtime->ctx;
    int hosts = iso_hosts(ctx), host = iso_host_of_rank(ctx, iso_rank(ctx));
    iso_status status = ISO_OK;
    double *need = NULL;               /* of each host, then what data sets keep there */
    if (!runtime->device->host_access) /* it tells what it has */
        return ISO_OK;
    need = iso_new(2 * (size_t)hosts * sizeof *need);
    ISO_TRY(iso_agree(ctx, need ? ISO_OK : iso_no_memory("%d hosts", hosts)));
    need[host] = private_bytes(runtime, arena, scratch);
    need[hosts + host] = (double)*iso_context_kept(ctx);
    ISO_TRY(iso_all_reduce(ctx, ISO_REDUCE_SUM, ISO_F64, need, 2 * hosts));
    ISO_TRY(
        iso_agree(ctx, compare(runtime, need[host] + host_bytes(runtime, host, shared), need[hosts + host])));
done:
    iso_free(need);
    return status;
}
