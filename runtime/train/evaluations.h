/* The evaluations of a followed training: one JSON line each in a file, by which an evaluator that starts again
 * knows what it has evaluated. For runtime/train only; on one rank, nothing is collective. */
#ifndef ISO_TRAIN_EVALUATIONS_H
#define ISO_TRAIN_EVALUATIONS_H

#include <stdint.h>

#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"

/* One evaluation. Texts are lent. */
typedef struct iso_evaluation {
    const char *checkpoint; /* its name, without the folder */
    uint64_t identity;      /* of the file's bytes (iso_folder_entry) */
    int64_t step;           /* steps trained */
    int epoch;              /* whole epochs trained; -1: unknown */
    int64_t batch;          /* steps trained after these; -1: unknown */
    iso_logs logs;
} iso_evaluation;

typedef struct iso_evaluations iso_evaluations;

/* Opens the file, which is made if it is missing, and reads its lines. A last line that was cut off is removed.
 * ISO_INVALID: it cannot be written, is not such a file, or another evaluator has it open. */
iso_status iso_evaluations_open(const char *path, iso_evaluations **evaluations);
void iso_evaluations_close(iso_evaluations *evaluations);
/* Opens the file anew if its path names another one now, or none: it, or its folder, was removed or renamed. A
 * warning says so. After an error, which is as of iso_evaluations_open, the next call tries again. */
iso_status iso_evaluations_reopen(iso_evaluations *evaluations);
/* Whether the file has a line of this checkpoint. *epoch: the line's; -1: unknown. */
bool iso_evaluations_has(const iso_evaluations *evaluations, const char *checkpoint, uint64_t identity,
                         int *epoch);
/* The number of lines. */
int iso_evaluations_count(const iso_evaluations *evaluations);
/* Appends a line. ISO_IO. */
iso_status iso_evaluations_add(iso_evaluations *evaluations, const iso_evaluation *one);

#endif
