/* Whole reads and writes at places of an open file: interrupted and short ones go on. name: for messages. */
#ifndef ISO_CHECKPOINT_FILE_IO_IMPL_H
#define ISO_CHECKPOINT_FILE_IO_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

/* ISO_IO: "'3.weights.h5': writing 4096 bytes at 8192 failed: No space left on device". */
iso_status iso_file_write_at(int file, const char *name, const void *data, size_t bytes, uint64_t offset);
/* ISO_IO where it fails; ISO_INVALID where the file ends before. */
iso_status iso_file_read_at(int file, const char *name, void *data, size_t bytes, uint64_t offset);
/* Takes the space of a file of so many bytes, so that it cannot be lacking later. File systems that cannot do
 * it are left alone. ISO_IO. */
iso_status iso_file_reserve(int file, const char *name, uint64_t bytes);
/* Ends the file at so many bytes. ISO_IO. */
iso_status iso_file_end_at(int file, const char *name, uint64_t bytes);
/* Returns when what was written is on the disk. ISO_IO: it may not be; nobody can tell later. */
iso_status iso_file_sync(int file, const char *name);

/* Whether a file's name is one that a pattern gives, {...} standing for anything: "3-0.25.weights.h5" and
 * "{epoch}-{val_loss:.2f}.weights.h5". Hidden files fit nothing. NULL: any name that ends in ".weights.h5".
 */
bool iso_file_name_fits(const char *name, const char *pattern);

#endif
