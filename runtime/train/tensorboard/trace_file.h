/* Stores a step's trace where TensorBoard's profile plugin finds it. */
#ifndef ISO_TRAIN_TENSORBOARD_TRACE_FILE_H
#define ISO_TRAIN_TENSORBOARD_TRACE_FILE_H

#include "runtime/base/status.h"
#include "runtime/base/text.h"

/* Writes <folder>/plugins/profile/<date and time>/<host>.xplane.pb, which the current plugin reads, and
 * beside it <host>.trace.json.gz for earlier plugins and other viewers. ISO_IO. Local. */
iso_status iso_trace_file_write(const char *folder, const iso_text *json);

#endif
