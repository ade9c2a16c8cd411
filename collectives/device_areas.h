/* Memory of a device that the ranks of a memory domain share: one of them allocates, the others import it. */
#ifndef ISO_COLL_DEVICE_AREAS_H
#define ISO_COLL_DEVICE_AREAS_H

#include "collectives/comm.h"
#include "collectives/shm/uses_impl.h"
#include "runtime/base/device.h"

typedef struct iso_device_areas {
    const iso_device *device; /* NULL: this rank has no device that reaches it */
    char *base;               /* its address on the device; NULL: none */
    size_t bytes;
    bool imported;
    iso_uses uses; /* of the memory, by the ranks that import it */
} iso_device_areas;

/* Replaces the memory by zeroed memory of iso_fabric_allocated_bytes(bytes), into which the first `kept` bytes of the
 * old are copied. The old memory is given back when no rank uses it. ranks: of the domain; owner: the one that
 * allocates; stream: of a slot of this rank that reaches the memory, NULL if it has none. After an error the old
 * memory is kept. Collective over ranks. */
iso_status iso_device_areas_grow(const iso_comm *ranks, int owner, iso_stream *stream, size_t bytes,
                                 size_t kept, iso_device_areas *areas);
/* The rank that has allocated waits until the others have dropped the memory (iso_uses_await_closed). Does nothing
 * with empty areas. Local. */
void iso_device_areas_drop(iso_device_areas *areas);

#endif
