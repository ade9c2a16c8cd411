/* File names that contain values, formatted as Python's str.format does. For runtime/train only. */
#ifndef ISO_TRAIN_PATH_TEMPLATE_IMPL_H
#define ISO_TRAIN_PATH_TEMPLATE_IMPL_H

#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"

/* Fills epoch, batch and values of the logs into "ckpt/{epoch:02d}-{val_loss:.4f}.weights.h5"; {{ and }}
 * stand for braces. ISO_INVALID names the pattern and the error: an unknown value (with a list of the known
 * ones), or a format other than [0][width][.digits][d e f g]. */
iso_status iso_path_template_format(const char *pattern, int64_t epoch, int64_t batch, const iso_logs *logs,
                                    iso_text *out);

#endif
