/* Memory that the ranks of a host share. */
#ifndef ISO_SHM_WINDOW_IMPL_H
#define ISO_SHM_WINDOW_IMPL_H

#include <mpi.h>
#include <stddef.h>

#include "runtime/base/status.h"

typedef struct iso_window {
    char *base; /* page-aligned; each process maps it elsewhere */
    size_t bytes;
    MPI_Win window; /* MPI_WIN_NULL: private memory */
    void *mapping;  /* of private memory */
    size_t mapped;
} iso_window;

/* Zeroed memory, the same for all ranks of `host`; with MPI_COMM_NULL or one rank it is private. Pages are
 * placed where they are first touched. Collective over host, but for errors: the caller agrees. */
iso_status iso_window_create(MPI_Comm host, size_t bytes, const char *what, iso_window *window);
/* Collective over host. */
void iso_window_destroy(iso_window *window);

#endif
