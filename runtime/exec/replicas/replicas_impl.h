/* The replica check: digests of what several hosts hold, and the search for what differs. For runtime/exec
 * only. */
#ifndef ISO_EXEC_REPLICAS_REPLICAS_IMPL_H
#define ISO_EXEC_REPLICAS_REPLICAS_IMPL_H

#include "runtime/exec/memory/runtime_impl.h"

/* Identifies a box of a variable: the same number on every host that holds it. */
uint64_t iso_replica_key(const iso_state_shard *shard);
/* The units of ISO_SHARD_UNIT bytes of the box that a shard covers: the first, and how many. */
typedef struct iso_replica_units {
    int64_t first, count;
} iso_replica_units;
iso_replica_units iso_replica_units_of(const iso_state_shard *shard);
/* The bytes of a unit (numbered within the box) that a shard covers. data: the shard's, mapped. */
const char *iso_replica_unit(const iso_state_shard *shard, const void *data, int64_t unit, size_t *bytes);
/* The digest of such a unit. That of a copy is the sum over its units, so it does not depend on which ranks
 * of a host list them. */
uint64_t iso_replica_unit_digest(const iso_state_shard *shard, const void *data, uint64_t key, int64_t unit);
iso_status iso_replica_digest(const iso_state_shard *shard, uint64_t key, uint64_t *digest);

/* replicas_report.c: what differs, as an error: ISO_FAILED names the variables and the hosts, and the first
 * element that differs with its values. shards: this rank's, of boxes that several hosts hold. Collective. */
iso_status iso_replicas_report(const iso_runtime *runtime, const iso_state_shards *shards);

#endif
