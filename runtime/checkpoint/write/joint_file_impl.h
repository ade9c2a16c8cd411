/* A file that all ranks write together, each its own bytes, and that gets its name when it is complete. For
 * runtime/checkpoint only. */
#ifndef ISO_CHECKPOINT_WRITE_JOINT_FILE_IMPL_H
#define ISO_CHECKPOINT_WRITE_JOINT_FILE_IMPL_H

#include "runtime/checkpoint/folder_impl.h"
#include "runtime/session/session.h"

/* Zero, but for ctx and fd -1, before iso_joint_file_begin. */
typedef struct iso_joint_file {
    iso_context *ctx;
    iso_path path;
    int fd;
    bool made; /* this rank, the chief, has made the file, which still has its temporary name */
} iso_joint_file;

/* Chooses the file's names. ISO_INVALID: the path is no file's name. Collective. */
iso_status iso_joint_file_begin(iso_joint_file *file, const char *path);
/* Makes the file under its temporary name and removes from the folder what killed runs left there. ISO_IO names the
 * path; also if the path is something other than a regular file. By the chief. */
iso_status iso_joint_file_make(iso_joint_file *file);
/* Reserves space for `bytes` bytes, which is the file's size. By the chief. */
iso_status iso_joint_file_reserve(iso_joint_file *file, uint64_t bytes);
/* The other ranks open the file that the chief has made. Local. */
iso_status iso_joint_file_join(iso_joint_file *file);
/* Syncs the file and gives it its name if `status` is ISO_OK on all ranks. Returns the agreed status. Collective. */
iso_status iso_joint_file_commit(iso_joint_file *file, iso_status status);
/* Closes the file; removes it if it has no name. */
void iso_joint_file_end(iso_joint_file *file);

#endif
