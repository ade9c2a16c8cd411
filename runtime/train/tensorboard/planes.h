/* A step's trace in the form of TensorBoard's profile plugin. */
#ifndef ISO_TRAIN_TENSORBOARD_PLANES_H
#define ISO_TRAIN_TENSORBOARD_PLANES_H

#include "runtime/base/status.h"
#include "runtime/base/text.h"

/* Turns the text of iso_function_trace() into an XSpace message; *packed is the caller's (iso_free). host:
 * this machine's name. */
iso_status iso_planes_pack(const iso_text *trace, const char *host, unsigned char **packed, size_t *bytes);

#endif
