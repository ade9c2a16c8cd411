/* The replica check: whether the copies of a variable that several memory domains hold have the same bits. It uses
 * shards alone, so it does not depend on how functions are planned. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/replicas/replicas_impl.h"
#include "runtime/session/session.h"

/* ---- digests ---- */

uint64_t iso_replica_key(const iso_state_shard *shard)
{
    size_t bytes = (size_t)shard->box.rank * sizeof(int64_t);
    uint64_t key = iso_hash_text((uint64_t)shard->dtype, shard->path);
    return iso_hash_bytes(iso_hash_bytes(key, shard->box.offset, bytes), shard->box.extent, bytes);
}

iso_replica_units iso_replica_units_of(const iso_state_shard *shard)
{
    int64_t element = (int64_t)iso_dtype_size(shard->dtype);
    return (iso_replica_units){shard->begin * element / ISO_SHARD_UNIT,
                               (shard->count * element + ISO_SHARD_UNIT - 1) / ISO_SHARD_UNIT};
}

const char *iso_replica_unit(const iso_state_shard *shard, const void *data, int64_t unit, size_t *bytes)
{
    size_t all = iso_shard_bytes(shard);
    size_t at = (size_t)(unit - iso_replica_units_of(shard).first) * ISO_SHARD_UNIT;
    *bytes = all - at < ISO_SHARD_UNIT ? all - at : ISO_SHARD_UNIT;
    return (const char *)data + at;
}

uint64_t iso_replica_unit_digest(const iso_state_shard *shard, const void *data, uint64_t key, int64_t unit)
{
    size_t bytes;
    const char *first = iso_replica_unit(shard, data, unit, &bytes);
    return iso_hash_mix(iso_hash_content(first, bytes) ^ iso_hash_mix(key + (uint64_t)unit));
}

iso_status iso_replica_digest(const iso_state_shard *shard, uint64_t key, uint64_t *digest)
{
    uint64_t sum = 0;
    iso_replica_units units = iso_replica_units_of(shard);
    iso_mapping mapping;
    iso_status status = iso_map(shard->stream, shard->data, iso_shard_bytes(shard), &mapping);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0; i < units.count; i++)
        sum += iso_replica_unit_digest(shard, mapping.data, key, units.first + i);
    *digest = sum;
    return iso_unmap(ISO_OK, &mapping);
}

/* ---- the list of what is compared ---- */

/* Drops the shards of boxes that one domain alone holds. */
static void keep_shared(iso_state_shards *shards)
{
    int kept = 0;
    for (int i = 0; i < shards->count; i++)
        if (shards->shards[i].copies > 1)
            shards->shards[kept++] = shards->shards[i];
    shards->count = kept;
}

/* The list is kept until variables are added or move. An optimizer's slots are not in it: each element of
 * them has one holder. Local. */
static iso_status list_replicas(iso_runtime *runtime)
{
    iso_replicas *kept = &runtime->replicas;
    if (kept->listed && kept->generation == runtime->generation)
        return ISO_OK;
    iso_state_shards shards = {0};
    iso_status status = iso_runtime_add_variables(runtime, &shards);
    if (status != ISO_OK) {
        iso_state_shards_free(&shards);
        return status;
    }
    keep_shared(&shards);
    iso_state_shards_free(&kept->shards);
    *kept = (iso_replicas){true, runtime->generation, shards};
    return ISO_OK;
}

/* ---- the check ---- */

/* Each copy of a box but the first adds its digest, and the first subtracts its own as often: the sum over
 * all ranks is 0 if all copies are equal. If they are not, it is 0 with a probability of 2^-64. */
static iso_status add_weighed_digest(const iso_state_shard *shard, uint64_t *sum)
{
    uint64_t digest = 0;
    iso_status status = iso_replica_digest(shard, iso_replica_key(shard), &digest);
    *sum += shard->copy > 0 ? digest : -digest * (uint64_t)(shard->copies - 1);
    return status;
}

iso_status iso_graph_check_replicas(iso_graph *graph, int64_t *compared)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(graph);
    iso_runtime *runtime = graph->runtime;
    uint64_t sum[] = {0, 0, 0}; /* of digests; of bytes; of ranks that could not read their copies */
    iso_status status = ISO_OK;
    if (!runtime)
        return iso_error(ISO_INVALID,
                         "a graph has no variables to compare before its first function is made");
    ISO_TRY(iso_context_check(runtime->ctx));
    if (runtime->domains.count > 1) {
        iso_step_send_deferred_weights(runtime);
        /* no rank of a domain still writes to the variables */
        ISO_TRY(iso_agree(runtime->ctx, list_replicas(runtime)));
        const iso_state_shards *shards = &runtime->replicas.shards;
        for (int i = 0; i < shards->count && status == ISO_OK; i++) {
            status = add_weighed_digest(&shards->shards[i], &sum[0]);
            sum[1] += iso_shard_bytes(&shards->shards[i]);
        }
        sum[2] = status != ISO_OK;
        iso_status mine = status;
        ISO_TRY(iso_all_reduce(runtime->ctx, ISO_REDUCE_SUM, ISO_I64, sum, 3));
        if (sum[2] != 0)
            ISO_TRY(iso_agree(runtime->ctx, mine));
        if (sum[0] != 0)
            ISO_TRY(iso_replicas_report(runtime, shards));
    }
    if (compared)
        *compared = (int64_t)sum[1];
done:
    return status;
}
