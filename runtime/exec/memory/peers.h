/* Devices of one host that read each other's memory. For runtime/exec/memory only. */
#ifndef ISO_EXEC_MEMORY_PEERS_H
#define ISO_EXEC_MEMORY_PEERS_H

#include "runtime/base/device.h"
#include "runtime/spmd/spmd_impl.h"

/* The identity of a device, the same on all ranks. */
typedef struct iso_device_id {
    uint64_t words[ISO_DEVICE_IDENTITY / sizeof(uint64_t)];
} iso_device_id;

bool iso_same_device(const iso_device_id *a, const iso_device_id *b);

/* Finds on which hosts devices do not read each other's memory. separate: [hosts], becomes 1 where ISOGRID_PEERS,
 * the spread of the slots over ranks or the driver rules it out, or where a trial fails, of which a warning tells:
 * then the host counts as if none of its devices did. stream_of_slot: [n_slots] of this rank's slots. id: [n_slots]
 * of the slots' devices. ISO_INVALID if ISOGRID_PEERS has an invalid value; ISO_NO_MEMORY. Collective. */
iso_status iso_peers_find(iso_context *ctx, const iso_mesh *mesh, iso_stream *const *stream_of_slot,
                          const iso_device_id *id, int64_t *separate);

#endif
