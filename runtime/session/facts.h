/* Facts about MPI, the hosts and their clocks, for `isogrid doctor`. For `launch`; no public header includes
 * it. */
#ifndef ISO_SESSION_FACTS_H
#define ISO_SESSION_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "collectives/coll.h"
#include "runtime/session/session.h"

typedef enum iso_thread_support {
    ISO_THREAD_UNKNOWN, /* MPI is not running */
    ISO_THREAD_SINGLE,
    ISO_THREAD_FUNNELED,
    ISO_THREAD_SERIALIZED,
    ISO_THREAD_MULTIPLE,
} iso_thread_support;

typedef struct iso_mpi_facts {
    bool running;
    iso_thread_support level;
    char library[64];  /* "Open MPI v4.1.4", the library that is loaded */
    char compiled[64]; /* the version of the headers, in the same form; "" if that is not known */
} iso_mpi_facts;

/* Local. MPI need not run. */
iso_status iso_mpi_facts_find(iso_mpi_facts *facts);
/* The name of a level in MPI: "MPI_THREAD_SINGLE". */
const char *iso_thread_support_name(iso_thread_support level);
/* Writes the value of a setting of the MPI library (an MPI_T control variable: "mpi_yield_when_idle") into
 * text; false if the library has no such setting, or it is neither a number nor a text. MPI must run. Local. */
bool iso_mpi_setting(const char *name, char *text, size_t size);

/* The model of this host's processor, from /proc/cpuinfo; "unknown" if it is not there. Local. */
void iso_processor_model(char *model, size_t size);

/* How the ranks of this rank's host share memory. Collective. */
iso_status iso_host_shared_memory(iso_context *ctx, iso_shared_memory *kind);

/* The clock (CLOCK_REALTIME) of this rank's host minus that of rank 0's host, and the uncertainty of the
 * difference, both in seconds. Rank 0 and the lowest rank of each host exchange messages; the one with the
 * shortest way there and back counts, and half of its time is the uncertainty (Cristian 1989, "Probabilistic
 * clock synchronization"). The host of rank 0 has 0 and 0. Collective. */
iso_status iso_clock_offset(iso_context *ctx, double *offset, double *uncertainty);

#endif
