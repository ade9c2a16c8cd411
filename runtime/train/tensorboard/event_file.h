/* TensorBoard's event files: tagged values, each at a step. Written by one rank; nothing is collective. */
#ifndef ISO_TRAIN_TENSORBOARD_EVENT_FILE_H
#define ISO_TRAIN_TENSORBOARD_EVENT_FILE_H

#include "runtime/base/status.h"
#include "runtime/train/tensorboard/histogram.h"

typedef struct iso_event_file iso_event_file;

/* Makes a new file in the folder, and the folder and its parents if they are missing. The name is
 * TensorFlow's: "events.out.tfevents.<seconds>.<host>.<process>.<number>.v2". ISO_IO names what cannot be
 * made. */
iso_status iso_event_file_create(const char *folder, iso_event_file **file);
/* Flushes without reporting errors. NULL is ignored. */
void iso_event_file_close(iso_event_file *file);
/* These write into a buffer. */
iso_status iso_event_file_scalar(iso_event_file *file, const char *tag, double value, int64_t step);
/* The text is Markdown. */
iso_status iso_event_file_text(iso_event_file *file, const char *tag, const char *text, int64_t step);
iso_status iso_event_file_histogram(iso_event_file *file, const char *tag, const iso_histogram *histogram,
                                    int64_t step);
/* ISO_IO if the file did not accept everything. */
iso_status iso_event_file_flush(iso_event_file *file);

#endif
