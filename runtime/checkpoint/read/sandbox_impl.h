/* Runs HDF5 on files that cannot be trusted, in a child process, which may crash, hang or use up memory
 * without harm to the job. */
#ifndef ISO_CHECKPOINT_READ_SANDBOX_IMPL_H
#define ISO_CHECKPOINT_READ_SANDBOX_IMPL_H

#include "runtime/checkpoint/manifest_impl.h"

/* The work of a child: it has HDF5 for itself, neither prints nor writes, calls no MPI, and leaves the result
 * for the parent in *answer (iso_new; may be NULL). */
typedef iso_status (*iso_sandbox_work)(void *data, void **answer, size_t *bytes);

/* Runs the work in a child of this process, which must not hold HDF5's lock. file_bytes: the size of the
 * file, from which the limits follow. *answer: iso_free. Returns the work's status and message; if the child
 * ended without a report: ISO_INVALID, naming path and signal. Not collective. */
iso_status iso_sandbox_run(const char *path, uint64_t file_bytes, iso_sandbox_work work, void *data,
                           void **answer, size_t *bytes);

#endif
