/* Shared by callbacks that write checkpoints. For runtime/train only. */
#ifndef ISO_TRAIN_CHECKPOINT_WRITER_IMPL_H
#define ISO_TRAIN_CHECKPOINT_WRITER_IMPL_H

#include "runtime/train/state_impl.h"

typedef struct iso_checkpoint_writer_options {
    bool weights_only, mpio, waits;
    bool stop_on_error; /* a checkpoint that cannot be written is an error, not a warning */
    bool verbose;       /* prints a line for each */
    int keep;           /* 0: all */
} iso_checkpoint_writer_options;

typedef struct iso_checkpoint_writer iso_checkpoint_writer;

/* The training lists the writer. Collective. */
iso_status iso_checkpoint_writer_create(iso_training *training, const iso_checkpoint_writer_options *options,
                                        iso_checkpoint_writer **writer);
/* Waits for the save in progress. Collective. */
void iso_checkpoint_writer_destroy(iso_checkpoint_writer *writer);
/* Checks that every rank can write into the folder (iso_saver_try), and counts existing checkpoints for
 * `keep` (iso_saver_adopt). who: for messages. Collective. */
iso_status iso_checkpoint_writer_adopt(iso_checkpoint_writer *writer, const char *who, const char *pattern);
/* Makes the replica check, reports the result of the save before and, unless that is an error, begins a save.
 * Collective. */
iso_status iso_checkpoint_writer_save(iso_checkpoint_writer *writer, iso_training *training, const char *path,
                                      bool best);
/* Saves, and waits until the file is complete. An error says that it is not, whatever stop_on_error.
 * Collective. */
iso_status iso_checkpoint_writer_save_now(iso_checkpoint_writer *writer, iso_training *training,
                                          const char *path);
/* Whether the save that was begun last has been committed, as far as is known after iso_checkpoint_writer_wait. */
bool iso_checkpoint_writer_committed(const iso_checkpoint_writer *writer);
/* The number that the file of a save gets now. Right on the chief only. */
uint64_t iso_checkpoint_writer_number(const iso_checkpoint_writer *writer, const iso_training *training);
/* The file is the best of the run that this one resumes: see iso_saver_mark. A failure is a warning. On the chief. */
void iso_checkpoint_writer_mark(iso_checkpoint_writer *writer, const char *folder, const char *name);
/* Advances a save, after a step. One that turns out to have failed is reported by the chief's warning at once. With
 * stop_on_error it ends the steps (iso_stop_want); the next wait or save returns the error. Local. */
void iso_checkpoint_writer_poll(iso_checkpoint_writer *writer, const iso_training *training);
/* Waits for the save in progress and reports its result. Collective. */
iso_status iso_checkpoint_writer_wait(iso_checkpoint_writer *writer);
/* The same for all writers of a training, up to the first error. Collective. */
iso_status iso_checkpoint_writers_wait(const iso_training *training);
/* Waits for the saves in progress of all writers of a training. The path of the newest checkpoint that they
 * have written (lent) and its step; NULL: none. Collective. */
const char *iso_checkpoint_writers_newest(const iso_training *training, int64_t *step);
/* After the last save: the chief warns if no checkpoint could be written. */
void iso_checkpoint_writer_report_none_kept(const iso_checkpoint_writer *writer, const char *pattern);

#endif
