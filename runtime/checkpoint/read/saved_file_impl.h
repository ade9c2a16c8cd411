/* A file that is open for reading. */
#ifndef ISO_CHECKPOINT_READ_SAVED_FILE_IMPL_H
#define ISO_CHECKPOINT_READ_SAVED_FILE_IMPL_H

#include <sys/stat.h>

#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/manifest_impl.h"
#include "runtime/checkpoint/read/direct_io_impl.h"

struct iso_saved_file {
    iso_context *ctx; /* NULL: the program has none */
    char *path;       /* what messages call it */
    char *opened;     /* the path that was opened, if it is another; otherwise NULL */
    int file;         /* this rank's descriptor */
    iso_direct_io uncached;
    uint64_t asked; /* the kernel was asked to read up to here */
    uint64_t bytes; /* size of the file */
    bool committed;
    iso_commit_record
        record; /* of a committed file; otherwise the tensors and their checksums, if the file has any */
    iso_manifest manifest;
    bool verified;
    struct stat facts; /* of the file when the verification began */
};

/* Opens a regular file for reading (-1 on an error) and returns its size: ISO_IO, or ISO_INVALID if it is not
 * a regular file. */
iso_status iso_file_open_to_read(const char *path, int *file, uint64_t *bytes);
/* The CRC-32 of all bytes of the file that this rank's host sees: each of the host's ranks reads a part.
 * Collective. */
iso_status iso_saved_file_sum_on_host(const iso_saved_file *file, uint32_t *sum);

#endif
