/* Rows that one rank of a host reads and all its ranks see. */
#ifndef ISO_DATA_SHARE_IMPL_H
#define ISO_DATA_SHARE_IMPL_H

#include "runtime/data/node_impl.h"

/* Opens a source in this process: what sharing saves the other ranks from. */
typedef struct iso_opener {
    iso_status (*open)(const void *arguments, iso_node **node);
    const void *arguments;
} iso_opener;

/* The first rank of each host opens the source; where its rows lie in memory, the host's other ranks map
 * them, and the pages are held once. Whatever cannot be shared, each opens by itself. All ranks get the same
 * status. Collective. */
iso_status iso_share_open(iso_context *ctx, const char *name, const iso_opener *opener, iso_node **node);

#endif
