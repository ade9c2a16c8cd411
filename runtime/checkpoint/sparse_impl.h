/* A file in memory of which only what was written takes room: HDF5 lays a checkpoint out in it. */
#ifndef ISO_CHECKPOINT_SPARSE_IMPL_H
#define ISO_CHECKPOINT_SPARSE_IMPL_H

#include <hdf5.h>

#include "runtime/base/status.h"

enum { ISO_SPARSE_PAGE = 4096 };

/* {0} is an empty one. */
typedef struct iso_sparse_page {
    uint64_t number;
    char *data;
} iso_sparse_page;

typedef struct iso_sparse {
    uint64_t bytes; /* the file ends there */
    int count;
    iso_sparse_page *page; /* [count] sorted */
} iso_sparse;

/* False: memory ended. */
bool iso_sparse_write(iso_sparse *sparse, const void *data, size_t bytes, uint64_t offset);
/* What was not written is zero. */
void iso_sparse_read(const iso_sparse *sparse, void *data, size_t bytes, uint64_t offset);
void iso_sparse_free(iso_sparse *sparse);

/* Makes HDF5 use it, whatever name the file is given, in a list of properties of file access; -1 on an error.
 * It must outlive the file. The caller holds HDF5's lock. */
herr_t iso_sparse_set_driver(hid_t access, iso_sparse *sparse);

#endif
