/* Direct reads (O_DIRECT) of bytes that the page cache does not hold. When several ranks of a host read
 * scattered parts of one file, filling the cache page by page costs more than the disk does. */
#ifndef ISO_CHECKPOINT_READ_DIRECT_IO_IMPL_H
#define ISO_CHECKPOINT_READ_DIRECT_IO_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

/* All zero before the first use. For one thread at a time. */
typedef struct iso_direct_io {
    bool tried; /* whether opening with O_DIRECT was tried */
    int file;   /* -1: the file cannot be opened so, or is not on a disk */
    void *memory;
    char *window; /* within the memory, aligned as disks require */
} iso_direct_io;

/* Same as iso_file_read_at, for an open file. Only large reads from a disk of this host that the cache does
 * not hold are direct; whatever a direct read does not get is read normally. Network file systems read ahead
 * better than we could, and a file that was just written or verified is in memory already. */
iso_status iso_direct_io_read(iso_direct_io *uncached, int file, const char *name, void *data, size_t bytes,
                              uint64_t offset);
/* Makes it ready for another file. */
void iso_direct_io_end(iso_direct_io *uncached);

#endif
