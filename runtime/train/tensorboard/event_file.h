/* Event files of TensorBoard: values under tags, each at a step. Written by one rank; nothing is collective.
 */
#ifndef ISO_TRAIN_TENSORBOARD_EVENT_FILE_H
#define ISO_TRAIN_TENSORBOARD_EVENT_FILE_H

#include "runtime/base/status.h"
#include "runtime/train/tensorboard/histogram.h"

typedef struct iso_event_file iso_event_file;

/* A new file of the folder, which is made with those above it where they are missing, named as TensorFlow
 * names them: "events.out.tfevents.<seconds>.<host>.<process>.<number>.v2". ISO_IO names what cannot be made.
 */
iso_status iso_event_file_create(const char *folder, iso_event_file **file);
/* NULL is nothing. What has not been flushed is, without a word about errors. */
void iso_event_file_close(iso_event_file *file);
/* These write into a buffer. */
iso_status iso_event_file_scalar(iso_event_file *file, const char *tag, double value, int64_t step);
/* Markdown. */
iso_status iso_event_file_text(iso_event_file *file, const char *tag, const char *text, int64_t step);
iso_status iso_event_file_histogram(iso_event_file *file, const char *tag, const iso_histogram *histogram,
                                    int64_t step);
/* ISO_IO where the file did not take everything. */
iso_status iso_event_file_flush(iso_event_file *file);

#endif
