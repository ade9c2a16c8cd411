/* Memory domains: which slots of a mesh can load each other's memory. For runtime/exec only. */
#ifndef ISO_EXEC_MEMORY_DOMAINS_H
#define ISO_EXEC_MEMORY_DOMAINS_H

#include "runtime/base/device.h"
#include "runtime/spmd/spmd_impl.h"

typedef struct iso_domains {
    int count;
    int *of_slot; /* [n_slots] numbered host by host */
    /* [n_slots] the first slot of the same rank and domain: what a rank holds in one domain, it holds once */
    int *holder_of_slot;
    int *reach_of_slot; /* [n_slots] the first of the domains that reach each other's memory */
    int *host;          /* [count] */
} iso_domains;

/* device: of any slot. stream_of_slot: [n_slots] of this rank's slots: their devices. ISO_INVALID if
 * ISOGRID_SLOTS_PER_DOMAIN has an invalid value. Collective. */
iso_status iso_domains_create(iso_context *ctx, const iso_mesh *mesh, const iso_device *device,
                              iso_stream *const *stream_of_slot, iso_domains *domains);
/* Finds the domain of each slot, [slots], of a mesh without ranks. devices: the number of devices of each host,
 * which its slots take in turn; 1 if they compute in the host's memory. *one: all slots are in one domain. Local. */
iso_status iso_domains_abstract(int slots, const int *host_of_slot, int devices, int *domain_of_slot,
                                bool *one);
void iso_domains_destroy(iso_domains *domains);

#endif
