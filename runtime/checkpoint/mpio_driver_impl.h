/* HDF5's parallel driver, kept from what HDF5 1.10 does not survive. HDF5 writes the superblock again
 * whenever it closes a file, and where that or closing fails it keeps the file, half freed, and crashes on it
 * within MPI_Finalize. So a driver of our own stands before the parallel one: tensors' bytes pass, what HDF5
 * would write about them is there already and is dropped, and a failure to close is told to us instead of
 * HDF5. */
#ifndef ISO_CHECKPOINT_MPIO_DRIVER_IMPL_H
#define ISO_CHECKPOINT_MPIO_DRIVER_IMPL_H

#include <hdf5.h>

#include "runtime/base/status.h"

/* Puts it into a list of properties of file access; -1 on an error. parallel: a list with the parallel driver
 * (H5Pset_fapl_mpio). closed: set to the error if what was written cannot be synced or the file cannot be
 * closed; H5Fclose() succeeds all the same. Both must outlive the file. The caller holds HDF5's lock. */
herr_t iso_mpio_set_driver(hid_t access, hid_t parallel, iso_status *closed);

#endif
