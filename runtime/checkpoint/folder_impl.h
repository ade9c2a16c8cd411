/* Folders of checkpoints: creation, temporary files, commit, rotation.
 *
 * While a file is being written its name is ".NAME.saving-XXXXXXXX", beside its final name, with eight
 * hexadecimal digits of its saver. Each writer holds a lock on it (flock). This distinguishes files
 * that a killed job left behind from those that another job is writing; the next job that looks removes
 * the former. */
#ifndef ISO_CHECKPOINT_FOLDER_IMPL_H
#define ISO_CHECKPOINT_FOLDER_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

/* "DIR/NAME" in parts; the folder is "." if there is none. iso_path_free. ISO_INVALID, ISO_NO_MEMORY. */
typedef struct iso_path {
    char *whole, *folder;
    const char *name; /* points into whole */
    char *temporary;  /* its whole path */
} iso_path;
iso_status iso_path_split(const char *path, uint32_t saver, iso_path *parts);
void iso_path_free(iso_path *parts);

/* Checks that this process can write files into an existing folder: makes one, writes a page and removes it.
 * ISO_IO names the folder. Any number of processes may do this at once with the same `saver`. */
iso_status iso_folder_try(const char *folder, uint32_t saver);

/* Makes a temporary file and opens it for reading and writing. Other jobs cannot remove it until it is closed.
 * One process makes it: if each could, a file that is removed meanwhile would become two. *file: -1 on an error.
 * ISO_IO. */
iso_status iso_temporary_make(const char *temporary, int *file);
/* Opens a temporary file that another process has made; any number of processes may. *file: -1 on an error. ISO_IO:
 * also if it is missing. */
iso_status iso_temporary_open(const char *temporary, int *file);
/* Checks, before the file is renamed, that its name is still that of the open file. ISO_IO. */
iso_status iso_temporary_check(const char *temporary, int file);
/* Removes the folder's temporary files that no process writes any more. Files that cannot be removed stay. */
void iso_folder_remove_stale(const char *folder);

/* Writes a name into a file of the folder: `latest`, `best`. ISO_IO. */
iso_status iso_folder_point(const char *folder, const char *pointer, uint32_t saver, const char *name);

/* The checkpoints that rotation counts, oldest first. */
typedef struct iso_kept {
    int count;
    char **paths; /* [count] "FOLDER/NAME" */
    char *best;   /* "FOLDER/NAME": what `best` is to name; it is never removed; NULL: unknown */
    bool pointed; /* and does */
} iso_kept;
/* Adds the newest checkpoint; if it is in the list already, it becomes the newest. ISO_NO_MEMORY. */
iso_status iso_kept_add(iso_kept *kept, const char *folder, const char *name);
/* Adds the checkpoints that the folder has already: committed files whose names match the pattern, ordered by
 * number, then time. Files with the number 0 hold weights, but no training; they are left alone. *newest is raised
 * to the greatest number of the folder's committed files, whatever their names. A folder that does not exist has
 * none. ISO_IO, ISO_NO_MEMORY. */
iso_status iso_kept_adopt(iso_kept *kept, const char *folder, const char *pattern, uint64_t *newest);
/* The checkpoint of this name is the best. ISO_NO_MEMORY. */
iso_status iso_kept_set_best(iso_kept *kept, const char *folder, const char *name);
/* Moves the pointer `best` to the best checkpoint, if one is known and the pointer does not name it. ISO_IO: the next
 * call tries again. */
iso_status iso_kept_point_best(iso_kept *kept, uint32_t saver);
/* Removes the oldest until `keep` are left (0: removes none), except the best and those that `best` or `latest` name.
 * ISO_IO: a file could not be removed, or the pointers could not be read; the next call tries again. */
iso_status iso_kept_rotate(iso_kept *kept, int keep);
void iso_kept_free(iso_kept *kept);

#endif
