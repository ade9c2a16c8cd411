/* A sparse file in memory: only pages that were written take memory. HDF5 lays out a checkpoint in it. */
#ifndef ISO_CHECKPOINT_HDF5_MEMORY_DRIVER_IMPL_H
#define ISO_CHECKPOINT_HDF5_MEMORY_DRIVER_IMPL_H

#include <hdf5.h>

#include "runtime/base/status.h"

enum { ISO_MEMORY_PAGE = 4096 };

/* {0} is an empty file. */
typedef struct iso_memory_page {
    uint64_t number;
    char *data;
} iso_memory_page;

typedef struct iso_memory_file {
    uint64_t bytes; /* size of the file */
    int count;
    iso_memory_page *pages; /* [count], sorted by number */
} iso_memory_file;

/* False: out of memory. */
bool iso_memory_file_write(iso_memory_file *memory, const void *data, size_t bytes, uint64_t offset);
/* Bytes that were never written are zero. */
void iso_memory_file_read(const iso_memory_file *memory, void *data, size_t bytes, uint64_t offset);
void iso_memory_file_free(iso_memory_file *memory);

/* Makes HDF5 use the file, whatever its name, through a property list of file access; -1 on an error.
 * `memory` must outlive the HDF5 file. The caller holds HDF5's lock. */
herr_t iso_memory_file_set_driver(hid_t access, iso_memory_file *memory);

#endif
