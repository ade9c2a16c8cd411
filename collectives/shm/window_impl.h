/* Memory that the ranks of a host share. */
#ifndef ISO_SHM_WINDOW_IMPL_H
#define ISO_SHM_WINDOW_IMPL_H

#include <mpi.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* {0} is no window. */
typedef struct iso_window {
    char *base; /* page-aligned; each process maps it elsewhere */
    size_t bytes;
    void *mapping;
    size_t mapped;
    size_t counted; /* among the bytes that this process holds: on one rank of the host */
} iso_window;

/* Zeroed memory, the same for all ranks of `host`; with MPI_COMM_NULL or one rank it is private. Pages are
 * placed where they are first touched. Collective over host; all its ranks fail, or none. */
iso_status iso_window_create(MPI_Comm host, size_t bytes, const char *what, iso_window *window);
/* Local: the memory goes with the last rank that lets it go. */
void iso_window_destroy(iso_window *window);

#endif
