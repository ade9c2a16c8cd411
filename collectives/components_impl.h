/* Collective components: the code that executes pulls by the collectives of a library (MPI, NCCL) where that is
 * better than gathers from the memory of the sources. A fabric uses those that it is told to use (iso_fabric_use).
 * The first one that supports a pull brings its result into memory that the slot can load, and the slot's pull only
 * reads it. The list is in components.c: a component is one file and one line there. */
#ifndef ISO_COMPONENTS_IMPL_H
#define ISO_COMPONENTS_IMPL_H

#include "collectives/request_impl.h"

/* module: its data of the fabric, as in Open MPI. schedule: its calls of an exchange; NULL until it executes a
 * pull. */
typedef struct iso_coll_component {
    const char *name; /* --collectives NAME */
    /* *module: NULL if it has nothing to do in this fabric. Collective; all ranks get the same status. */
    iso_status (*open)(iso_fabric *fabric, void **module);
    /* The fabric ends the communicators of devices afterwards (links_impl.h). */
    void (*close)(void *module);
    /* Whether it supports a pull. The same on all ranks that add the pull. */
    bool (*supports)(const void *module, const iso_request *request);
    /* Adds the pull. *result: the number of the result; *fresh: no earlier pull of this host reads it. */
    iso_status (*add)(const void *module, const iso_request *request, void **schedule, int *result,
                      bool *fresh);
    /* Allocates memory, after the last pull (also if there was none). Collective over the host. */
    iso_status (*allocate)(const iso_fabric *fabric, const void *module, void *schedule);
    /* Computes again the addresses of what the component reads (iso_exchange_resolve_gather), and that of a
     * result. */
    void (*resolve)(const iso_exchange *exchange, void *schedule);
    char *(*result)(const void *schedule, int number);
    /* The functions of a run: start is called when all sources are written, then test until *done. Thread 0 calls
     * them on ranks for which `communicates` is true. */
    bool (*communicates)(const void *module, const void *schedule);
    iso_status (*start)(const iso_exchange *exchange, const void *module, void *schedule);
    iso_status (*test)(void *schedule, int *done);
    /* Makes a stream of the slot wait for the results, after the start; the host need not wait if the fabric orders
     * streams. NULL: the host waits. */
    void (*await)(const void *schedule, int slot, iso_stream *stream);
    void (*destroy)(void *schedule);
} iso_coll_component;

/* [*count], at most ISO_MOST_COMPONENTS, the preferred ones first. */
const iso_coll_component *const *iso_coll_components(int *count);

extern const iso_coll_component iso_coll_component_mpi;  /* mpi/reductions.c */
extern const iso_coll_component iso_coll_component_nccl; /* nccl/reductions.c */

#endif
