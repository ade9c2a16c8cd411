/* Reading with HDF5: what a file holds, and elements that only HDF5 can get at. Runs in this process for
 * files that are known to be whole, else in a child (sandbox_impl.h). */
#ifndef ISO_CHECKPOINT_HDF5_HDF5_IMPL_H
#define ISO_CHECKPOINT_HDF5_HDF5_IMPL_H

#include <hdf5.h>

#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest_impl.h"

/* Takes the lock of HDF5, starts it and silences its printing of errors; and back. */
typedef struct iso_hdf5_quiet {
    H5E_auto2_t print;
    void *print_data;
} iso_hdf5_quiet;
void iso_hdf5_quiet_begin(iso_hdf5_quiet *quiet);
void iso_hdf5_quiet_end(const iso_hdf5_quiet *quiet);

/* "'a.h5': WHAT: what HDF5 says about it", ISO_INVALID. Printf's format for what. */
iso_status iso_hdf5_failed(const char *path, const char *what, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The rest needs the lock. */

/* Puts a driver of our own, with what it is told of this file, into a list of properties of file access; -1
 * on an error. registered: the driver's number, kept for all its files; -1 before the first. */
herr_t iso_hdf5_set_driver(hid_t access, const H5FD_class_t *driver, hid_t *registered, const void *settings);

/* Opens with the plain driver, to read; never waits for file locks. */
iso_status iso_hdf5_open_to_read(const char *path, hid_t *file);

/* Goes through the file: all groups and tensors, and the texts of /isogrid. file_bytes: its size. ISO_INVALID
 * names the file and the object: links, external and virtual datasets, types without counterpart, depths and
 * counts beyond those of the manifest. */
iso_status iso_hdf5_walk(hid_t file, const char *path, uint64_t file_bytes, iso_manifest *manifest);

/* The elements of `box`, which lies in the tensor's shape, as tensor->element has them. */
iso_status iso_hdf5_read(hid_t file, const char *path, const iso_manifest_tensor *tensor, const iso_box *box,
                         void *out);

/* ---- parts of walking ---- */

/* How a dataset's elements come; `direct` is cleared where they do not lie in the file as that says.
 * ISO_INVALID "has elements of ...". */
iso_status iso_hdf5_storage_type(hid_t dataset, hid_t type, const char *path, const char *place,
                                 iso_storage_type *element, bool *direct);
/* The text of a string, in a scalar attribute or dataset, or of an array of bytes (iso_free): NULL where it
 * is no text, or longer than `most`; an attribute that is not there is none. ISO_INVALID: it cannot be read.
 * path, place: of the file and the object, for messages. */
iso_status iso_hdf5_attribute_text(hid_t object, const char *path, const char *place, const char *name,
                                   size_t most, char **text);
iso_status iso_hdf5_dataset_text(hid_t dataset, const char *path, const char *place, size_t most,
                                 char **text);
/* ISO_INVALID where a dataset's values lie in other files, or are not to be had. direct: one after the other.
 */
iso_status iso_hdf5_check_storage(hid_t dataset, const char *path, const char *place, bool *direct);
/* A dataset's place, shape, element and offset. */
iso_status iso_hdf5_dataset(hid_t dataset, const char *path, const char *place, uint64_t file_bytes,
                            iso_manifest_tensor *tensor);

/* ---- mpio_driver.c ---- */
/* HDF5's parallel driver, kept from what HDF5 1.10 does not survive. HDF5 writes the superblock again
 * whenever it closes a file, and where that or closing fails it keeps the file, half freed, and crashes on it
 * within MPI_Finalize. So a driver of our own stands before the parallel one: tensors' bytes pass, what HDF5
 * would write about them is there already and is dropped, and a failure to close is told to us instead of
 * HDF5. */
/* Puts it into a list of properties of file access; -1 on an error. parallel: a list with the parallel driver
 * (H5Pset_fapl_mpio). closed: set to the error if what was written cannot be synced or the file cannot be
 * closed; H5Fclose() succeeds all the same. Both must outlive the file. The caller holds HDF5's lock. */
herr_t iso_mpio_set_driver(hid_t access, hid_t parallel, iso_status *closed);

#endif
