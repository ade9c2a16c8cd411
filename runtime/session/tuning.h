/* --tune FILE: choices of algorithms that were measured, in a JSON file that rank 0 reads and writes. All ranks
 * use its choices. docs/gpu.md describes the file. */
#ifndef ISO_SESSION_TUNING_H
#define ISO_SESSION_TUNING_H

#include "runtime/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether there are choices: the backend has some, and --tune is given or a checkpoint has given some (tuned.h).
 * The same on all ranks. Local. */
bool iso_tuning_is_on(const iso_context *ctx, const iso_backend *backend);
/* Gives the choices of the file, if there is one, to the backend. ISO_INVALID: the file is not such a file, or is for
 * another device or other versions of libraries than a rank has, which the message names. Nothing without --tune; a
 * warning if the backend has no choices. Collective. */
iso_status iso_tuning_read(iso_context *ctx, const iso_backend *backend);
/* Rank 0 measures the ops that kernels were found for on any rank since, and that have no choice, on a stream of
 * its own of the device, and adds them to the file; all ranks use the choices. To be called when the kernels of a
 * plan are known, and before they run, with choices only. ISO_IO: the file cannot be written. ISO_INVALID: ranks do
 * an op in different ways, which the message names. ISO_INTERRUPTED: a request to stop came (iso_stop_on_signals)
 * before all ops were measured; the file has the choices so far. Collective. */
iso_status iso_tuning_complete(iso_context *ctx, const iso_backend *backend, const iso_device *device);

#ifdef __cplusplus
}
#endif
#endif
