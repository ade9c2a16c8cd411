/* What `isogrid train` needs beyond iso_fit's .resume_file. Functions are local. */
#ifndef ISO_TRAIN_RESUMPTION_H
#define ISO_TRAIN_RESUMPTION_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/callbacks.h"

/* ISO_INVALID if the file has no commit record, so that no training can resume from it. */
iso_status iso_resumption_check_committed(const iso_saved_file *file);
/* A callback that prints this line (copied) on rank 0 when training has resumed from a checkpoint: nothing is printed
 * if the checkpoint is refused. */
iso_callback *iso_resumption_line(const char *line);

#endif
