/* What all readers of HDF5 files share, checkpoints and data sets: opening a file, errors, and which storage and
 * which types are read. */
#ifndef ISO_CHECKPOINT_HDF5_HDF5_FILE_H
#define ISO_CHECKPOINT_HDF5_HDF5_FILE_H

#include <hdf5.h>

#include "runtime/base/types.h"

/* Takes HDF5's lock, starts HDF5 and silences its printing of errors; the second function undoes this. */
typedef struct iso_hdf5_quiet {
    H5E_auto2_t print;
    void *print_data;
} iso_hdf5_quiet;
void iso_hdf5_quiet_begin(iso_hdf5_quiet *quiet);
void iso_hdf5_quiet_end(const iso_hdf5_quiet *quiet);

/* An error with the message "'a.h5': WHAT: HDF5's own message": ISO_IO if HDF5 tells an error of the file system,
 * otherwise ISO_INVALID. `what` is a printf format. */
iso_status iso_hdf5_failed(const char *path, const char *what, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The functions below need the lock. */

/* Opens with HDF5's POSIX driver (sec2), for reading. Never waits for file locks. */
iso_status iso_hdf5_open_to_read(const char *path, hid_t *file);

/* create, type: of a chunked dataset. ISO_INVALID if HDF5, which reads a whole chunk into memory, would need more
 * than `most` bytes for it, or if a filter is not installed. */
iso_status iso_hdf5_check_chunks(hid_t create, hid_t type, const char *path, const char *h5_path,
                                 uint64_t most);

/* Whether a type is h5py's bool: an enumeration of bytes, FALSE = 0 and TRUE = 1. */
bool iso_hdf5_is_bool(hid_t type);

#endif
