/* The choices of --tune in checkpoints: those of a run are stored, and a run that continues uses them. */
#ifndef ISO_SESSION_TUNING_CHOICES_H
#define ISO_SESSION_TUNING_CHOICES_H

#include "runtime/base/json.h"
#include "runtime/session/session.h"

/* The choices of the plans that were made so far, on all ranks: an object with what they depend on ("device", ...)
 * and "ops", an object of choices. NULL: there are none. The same on all ranks. Local. */
json_t *iso_tuning_choices_state(const iso_context *ctx);
/* A training goes on from a checkpoint, `path`, whose state has these choices (NULL: none). What the file of --tune
 * says goes first; the other ops use the checkpoint's choices, if they are for this device and these libraries.
 * Rank 0 says so, and warns where numbers will differ. To be called before plans are made; a second call for the same
 * checkpoint does nothing. The same on all ranks. ISO_INVALID: `stored` is no such object. Local. */
iso_status iso_tuning_choices_resume(iso_context *ctx, const char *path, const json_t *stored);

#endif
