/* Memory that the ranks of a host share. */
#ifndef ISO_SHM_WINDOW_IMPL_H
#define ISO_SHM_WINDOW_IMPL_H

#include <stddef.h>

#include "collectives/comm.h"

/* {0}: no window. */
typedef struct iso_window {
    char *base; /* page-aligned; differs between processes */
    size_t bytes;
    void *mapping;
    size_t mapped;
    size_t counted; /* bytes that count as held by this process: on one rank of the host only */
} iso_window;

/* Zeroed memory, the same for all ranks of `host`; with NULL or one rank it is private. Pages are
 * placed on the NUMA node that touches them first. Collective over host; all its ranks fail, or none. */
iso_status iso_window_create(const iso_comm *host, size_t bytes, const char *what, iso_window *window);
/* Copies the first `bytes` bytes to a window that is at least as large, block by block. The memory of a copied block
 * is freed, so at most one block exists twice. The contents of `from` are lost. One rank calls this while no other
 * uses either window. */
void iso_window_move(const iso_window *from, size_t bytes, const iso_window *to);
/* The memory is freed when the last rank has destroyed its window. Local. */
void iso_window_destroy(iso_window *window);

#endif
