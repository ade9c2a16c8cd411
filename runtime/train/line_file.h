/* Files of lines that a training writes, one line an epoch. For runtime/train only. */
#ifndef ISO_TRAIN_LINE_FILE_H
#define ISO_TRAIN_LINE_FILE_H

#include <stdio.h>

#include "runtime/base/text.h"
#include "runtime/train/callbacks.h"

/* The caller fills `what` and `path` before opening it. */
typedef struct iso_line_file {
    const char *what; /* "history file", for messages */
    char *path;       /* owned */
    FILE *file;       /* on the chief, after opening */
    bool keep;        /* existing lines stay */
    bool written;     /* whether this training has written to it */
    bool created;     /* opening it has created it */
} iso_line_file;

/* False: out of memory. */
bool iso_line_file_init(iso_line_file *file, const char *what, const char *path);
void iso_line_file_free(iso_line_file *file);
/* Opens it on the chief without changing it, {rank} and {role} in its path replaced: if training fails in its
 * first epoch, the file stays as it was. ISO_INVALID if it cannot be written. Local. */
iso_status iso_line_file_open(iso_line_file *file, const iso_fit_state *state);
/* Whether the next line would be the first one. True too if this is unknown: a pipe. */
bool iso_line_file_empty(const iso_line_file *file);
/* Appends text and flushes it; the first call removes the lines that are not kept. Does nothing if the file
 * is not open. ISO_IO. */
iso_status iso_line_file_write(iso_line_file *file, const char *text);
/* Removes the file if this training has created it and nothing is in it. */
void iso_line_file_remove_empty(const iso_line_file *file);
/* Saves the file's current size as JSON. Restoring truncates the file to that size. */
iso_status iso_line_file_save(iso_line_file *file, iso_text *json);
iso_status iso_line_file_restore(iso_line_file *file, const char *json);

#endif
