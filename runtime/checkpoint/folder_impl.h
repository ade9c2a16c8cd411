/* The folders that hold checkpoints: their making, temporary files, what is committed, what is rotated away.
 *
 * A file that is being written stands beside its final name as ".NAME.saving-XXXXXXXX", eight hexadecimal
 * digits of its saver; who writes it holds a lock on it (flock), so what a killed job left behind is told
 * from what another job writes, and is removed by the next one that looks. */
#ifndef ISO_CHECKPOINT_FOLDER_IMPL_H
#define ISO_CHECKPOINT_FOLDER_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

/* "DIR/NAME" in parts; folder "." where there is none. iso_path_free. ISO_INVALID, ISO_NO_MEMORY. */
typedef struct iso_path {
    char *whole, *folder;
    const char *name; /* within whole */
    char *temporary;  /* whole path */
} iso_path;
iso_status iso_path_split(const char *path, uint32_t saver, iso_path *parts);
void iso_path_free(iso_path *parts);

/* Makes a folder and those above it where they are missing, and syncs where it made one. ISO_IO. */
iso_status iso_folder_make(const char *folder);
/* ISO_IO: what was renamed in the folder may be lost when the power is. */
iso_status iso_folder_sync(const char *folder);

/* Whether this process can write files into a folder that is there: makes one, writes a page and removes it.
 * ISO_IO names the folder. Any number of processes may, with one `saver`. */
iso_status iso_folder_try(const char *folder, uint32_t saver);

/* Opens a temporary file for reading and writing, made where it is missing, and keeps others from sweeping it
 * away until it is closed. Any number of processes may. ISO_IO. */
iso_status iso_temporary_open(const char *temporary, int *file);
/* Removes temporary files of the folder that nobody writes any more. What fails is left. */
void iso_folder_sweep(const char *folder);

/* Makes a file of the folder that holds a name: `latest`, `best`. ISO_IO. */
iso_status iso_folder_point(const char *folder, const char *pointer, uint32_t saver, const char *name);

/* Checkpoints of which so many are kept, oldest first. */
typedef struct iso_kept {
    int count;
    char **paths;    /* [count] "FOLDER/NAME" */
    uint64_t newest; /* the greatest number of those that were there already */
} iso_kept;
/* Adds the newest, or makes it so. ISO_NO_MEMORY. */
iso_status iso_kept_add(iso_kept *kept, const char *folder, const char *name);
/* Adds those that are there already: committed, with names that fit the pattern, by number, then time. A
 * folder that is missing has none. ISO_IO, ISO_NO_MEMORY. */
iso_status iso_kept_adopt(iso_kept *kept, const char *folder, const char *pattern);
/* Removes the oldest until `keep` are left (0: all are), but none that `best` or `latest` name. ISO_IO: one
 * could not be removed, or it cannot be told which may be; it will be tried again. */
iso_status iso_kept_rotate(iso_kept *kept, int keep);
void iso_kept_free(iso_kept *kept);

#endif
