/* A file that is open to be read. */
#ifndef ISO_CHECKPOINT_READ_SAVED_FILE_IMPL_H
#define ISO_CHECKPOINT_READ_SAVED_FILE_IMPL_H

#include <sys/stat.h>

#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/manifest_impl.h"
#include "runtime/checkpoint/read/direct_io_impl.h"

struct iso_saved_file {
    iso_context *ctx; /* NULL: a program without one */
    char *path;
    int file; /* of this rank */
    iso_direct_io uncached;
    uint64_t asked; /* the kernel was asked for what lies before */
    uint64_t bytes; /* of the file */
    bool committed;
    iso_commit_record record; /* of a committed one */
    iso_manifest manifest;
    bool verified;
    struct stat facts; /* of the file when that was begun */
};

/* Opens a regular file to be read (-1 on an error) and tells its bytes: ISO_IO, or ISO_INVALID where it is no
 * file. */
iso_status iso_file_open_to_read(const char *path, int *file, uint64_t *bytes);

#endif
