/* Complete reads and writes at offsets of an open file: interrupted and short ones are continued. name: for
 * messages. */
#ifndef ISO_CHECKPOINT_FILE_IO_IMPL_H
#define ISO_CHECKPOINT_FILE_IO_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

/* ISO_IO: "'3.weights.h5': writing 4096 bytes at 8192 failed: No space left on device". */
iso_status iso_file_write_at(int file, const char *name, const void *data, size_t bytes, uint64_t offset);
/* ISO_IO if the read fails; ISO_INVALID if the file ends before. */
iso_status iso_file_read_at(int file, const char *name, void *data, size_t bytes, uint64_t offset);
/* Reserves space for a file of `bytes` bytes, so that the disk cannot be full later. No effect on file
 * systems that cannot reserve. ISO_IO. */
iso_status iso_file_reserve(int file, const char *name, uint64_t bytes);
/* Sets the size of the file. ISO_IO. */
iso_status iso_file_end_at(int file, const char *name, uint64_t bytes);
/* Returns when all that was written is on the disk. ISO_IO: it may not be, and no later call can find out. */
iso_status iso_file_sync(int file, const char *name);

#endif
