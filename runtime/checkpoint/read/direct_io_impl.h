/* Reading past the kernel's cache what it does not hold: where several ranks of a host read here and there in
 * one file, bringing everything into the cache first, page by page, costs more than the disk. */
#ifndef ISO_CHECKPOINT_READ_DIRECT_IO_IMPL_H
#define ISO_CHECKPOINT_READ_DIRECT_IO_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

/* All zero before its first use. For one thread at a time. */
typedef struct iso_direct_io {
    bool tried; /* to open the file so */
    int file;   /* -1: it cannot be had, or is not wanted */
    void *memory;
    char *window; /* within the memory, aligned as disks want it */
} iso_direct_io;

/* As iso_file_read_at, of a file that is open. Only large reads from a disk of this host that the cache does
 * not hold go past it, and whatever they cannot read is read as ever: network file systems read ahead better
 * than we could, what was just written or verified is in memory already. */
iso_status iso_direct_io_read(iso_direct_io *uncached, int file, const char *name, void *data, size_t bytes,
                              uint64_t offset);
/* Ready for another file. */
void iso_direct_io_end(iso_direct_io *uncached);

#endif
