/* Names of files with values in them, as Python's str.format makes them. For runtime/train only. */
#ifndef ISO_TRAIN_PATH_TEMPLATE_IMPL_H
#define ISO_TRAIN_PATH_TEMPLATE_IMPL_H

#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"

/* "ckpt/{epoch:02d}-{val_loss:.4f}.weights.h5" with epoch, batch and the values of the logs put in; {{ and }}
 * stand for braces. ISO_INVALID names the pattern and what is wrong: a value that there is not (with those
 * that there are), a format other than [0][width][.digits][d e f g]. */
iso_status iso_path_template_format(const char *pattern, int64_t epoch, int64_t batch, const iso_logs *logs,
                                    iso_text *out);

#endif
