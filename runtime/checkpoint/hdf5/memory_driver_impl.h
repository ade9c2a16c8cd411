/* A file in memory of which only what was written takes room: HDF5 lays a checkpoint out in it. */
#ifndef ISO_CHECKPOINT_HDF5_MEMORY_DRIVER_IMPL_H
#define ISO_CHECKPOINT_HDF5_MEMORY_DRIVER_IMPL_H

#include <hdf5.h>

#include "runtime/base/status.h"

enum { ISO_MEMORY_PAGE = 4096 };

/* {0} is an empty one. */
typedef struct iso_memory_page {
    uint64_t number;
    char *data;
} iso_memory_page;

typedef struct iso_memory_file {
    uint64_t bytes; /* the file ends there */
    int count;
    iso_memory_page *pages; /* [count] sorted */
} iso_memory_file;

/* False: memory ended. */
bool iso_memory_file_write(iso_memory_file *memory, const void *data, size_t bytes, uint64_t offset);
/* What was not written is zero. */
void iso_memory_file_read(const iso_memory_file *memory, void *data, size_t bytes, uint64_t offset);
void iso_memory_file_free(iso_memory_file *memory);

/* Makes HDF5 use it, whatever name the file is given, in a list of properties of file access; -1 on an error.
 * It must outlive the file. The caller holds HDF5's lock. */
herr_t iso_memory_file_set_driver(hid_t access, iso_memory_file *memory);

#endif
