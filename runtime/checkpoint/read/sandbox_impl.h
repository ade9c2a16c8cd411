/* HDF5 over files that nothing vouches for: in a child process, which may crash, hang and eat memory without
 * harm to the job. */
#ifndef ISO_CHECKPOINT_READ_SANDBOX_IMPL_H
#define ISO_CHECKPOINT_READ_SANDBOX_IMPL_H

#include "runtime/checkpoint/manifest_impl.h"

/* What a child does: it has HDF5 for itself, neither prints nor writes, calls no MPI, and leaves in *answer
 * what the parent is to get (iso_new; may be NULL). */
typedef iso_status (*iso_sandbox_work)(void *data, void **answer, size_t *bytes);

/* Runs the work in a child of this process, which must not yet hold the lock of HDF5. file_bytes: the size of
 * the file, from which the limits follow. *answer: iso_free. Returns the work's status and message;
 * ISO_INVALID, naming path and signal, where the child did not live to report. Not collective. */
iso_status iso_sandbox_run(const char *path, uint64_t file_bytes, iso_sandbox_work work, void *data,
                           void **answer, size_t *bytes);

#endif
