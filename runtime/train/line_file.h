/* Files of lines that a training writes, one an epoch. For runtime/train only. */
#ifndef ISO_TRAIN_LINE_FILE_H
#define ISO_TRAIN_LINE_FILE_H

#include <stdio.h>

#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"

/* Filled with `what` and `path` before it is opened. */
typedef struct iso_line_file {
    const char *what; /* "history file", for messages */
    char *path;       /* owned */
    FILE *file;       /* of the chief, from open on */
    bool keep;        /* what is in it already stays */
    bool written;     /* to, in this training */
} iso_line_file;

/* False if there is no memory. */
bool iso_line_file_init(iso_line_file *file, const char *what, const char *path);
void iso_line_file_free(iso_line_file *file);
/* Opens it on the chief, changing nothing in it: a training that fails in its first epoch leaves it as it
 * was. ISO_INVALID where it cannot be written. Local. */
iso_status iso_line_file_open(iso_line_file *file, const iso_fit_state *state);
/* Whether nothing would stand before the next line (true too where it cannot be told: a pipe). */
bool iso_line_file_empty(const iso_line_file *file);
/* Adds text and gives it to the system; before the first, removes what is not kept. Nothing where the file is
 * not open. ISO_IO. */
iso_status iso_line_file_write(iso_line_file *file, const char *text);
/* How much of it belongs to a checkpoint, as JSON; what is after that goes when training goes on from it. */
iso_status iso_line_file_save(iso_line_file *file, iso_text *json);
iso_status iso_line_file_restore(iso_line_file *file, const char *json);

#endif
