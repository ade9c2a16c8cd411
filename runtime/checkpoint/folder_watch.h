/* A folder into which another process writes checkpoints: what is new in it, and whether that training has
 * ended. For the library only. Everything is local: one rank watches. */
#ifndef ISO_CHECKPOINT_FOLDER_WATCH_H
#define ISO_CHECKPOINT_FOLDER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct iso_folder_watch iso_folder_watch;

/* A checkpoint of the folder. Texts are lent until the next look. */
typedef struct iso_folder_entry {
    const char *path, *name; /* name: without the folder */
    uint64_t number;         /* of its commit record */
    uint64_t identity;       /* a hash of its commit record, which has the checksums of all bytes */
} iso_folder_entry;

/* pattern: of the names (iso_file_name_fits); NULL: any. */
iso_status iso_folder_watch_create(const char *folder, const char *pattern, iso_folder_watch **watch);
void iso_folder_watch_destroy(iso_folder_watch *watch);
/* Lists the folder, unless it has not changed since the last look. A missing folder has no checkpoints.
 * Files without a commit record are skipped until they change, with a warning when they have not changed for some
 * seconds. Those with the number 0, which are no checkpoints of a training, are ignored. gone: called for each
 * checkpoint that disappeared or was replaced before
 * iso_folder_watch_done. ISO_INVALID or ISO_IO if the folder cannot be listed; a later look may succeed. */
iso_status iso_folder_watch_look(iso_folder_watch *watch, void (*gone)(void *user, const char *path),
                                 void *user);
/* The oldest checkpoint that is not done yet, or the newest; false: there is none. */
bool iso_folder_watch_next(const iso_folder_watch *watch, bool newest, iso_folder_entry *found);
/* Marks it, and with `older` also all that are older. It counts as new again if the file is replaced. Returns
 * the number of marked ones. */
int iso_folder_watch_done(iso_folder_watch *watch, const iso_folder_entry *one, bool older);
/* Marks one that cannot be read. It counts as new again if the file changes, also in place. False: the file is no
 * longer the one that was seen. */
bool iso_folder_watch_failed(iso_folder_watch *watch, const iso_folder_entry *one);
/* Warns of files without a commit record that it has not warned of: all, or those that have not changed for some
 * seconds. */
void iso_folder_watch_warn_torn(iso_folder_watch *watch, bool all);
/* The number of files that could not be read: those that a warning, or iso_folder_watch_failed, named and that did
 * not change afterwards. */
int iso_folder_watch_unread(const iso_folder_watch *watch);
/* Whether checkpoints may have appeared and gone between two polls. Rotation removes the oldest first, except the
 * best: so none has where the newer look still finds one, not the best, that the older look found. Before the first
 * look that found any, none has if a later look found more at a time. */
bool iso_folder_watch_may_have_missed(const iso_folder_watch *watch);

/* ---- the end of a training: the file `finished` in the folder of its checkpoints ---- */

/* Writes the file, or removes it. epoch, step: what was trained; epochs: what was to be trained. ISO_IO. */
iso_status iso_finished_write(const char *folder, int epoch, int epochs, int64_t step);
iso_status iso_finished_remove(const char *folder);
/* Whether there is such a file; *epochs as above. */
bool iso_finished_read(const char *folder, int *epochs);

#endif
