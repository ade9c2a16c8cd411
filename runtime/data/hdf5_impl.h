/* One dataset of an HDF5 file: its type and shape, and reading its rows. The caller holds the lock of
 * HDF5. */
#ifndef ISO_DATA_HDF5_IMPL_H
#define ISO_DATA_HDF5_IMPL_H

#include "runtime/base/types.h"
#include "runtime/checkpoint/hdf5/hdf5_file.h"

typedef struct iso_hdf5_array {
    hid_t dataset;
    hid_t type;      /* type in memory: predefined by HDF5, must not be closed */
    iso_dtype dtype; /* the same */
    iso_shape row;
    int64_t rows;
    size_t row_bytes; /* in memory */
} iso_hdf5_array;

/* Opens a file for reading. ISO_INVALID if it is no HDF5 file. */
iso_status iso_hdf5_open(const char *path, hid_t *file);
bool iso_hdf5_has(hid_t file, const char *name);
/* ISO_INVALID: no such dataset (the message suggests similar names), a type other than integer or float,
 * external or virtual storage, a link to another file, no rows, a size that overflows, a missing filter. */
iso_status iso_hdf5_array_open(hid_t file, const char *path, const char *name, size_t chunk_limit,
                               iso_hdf5_array *array);
void iso_hdf5_array_close(iso_hdf5_array *array);
/* Reads rows [begin, begin + count), or this part of each (NULL: whole rows), into `out`, dense. */
iso_status iso_hdf5_array_read(const iso_hdf5_array *array, const char *path, int64_t begin, int64_t count,
                               const iso_box *part, void *out);

#endif
