/* Reading with HDF5: the list of a file's contents, and elements that only HDF5 can read. Runs in this
 * process for files that are known to be complete, otherwise in a child process (sandbox_impl.h). */
#ifndef ISO_CHECKPOINT_HDF5_HDF5_IMPL_H
#define ISO_CHECKPOINT_HDF5_HDF5_IMPL_H

#include "runtime/base/status.h"
#include "runtime/checkpoint/hdf5/hdf5_file.h"
#include "runtime/checkpoint/manifest_impl.h"

/* The functions below need the lock. */

/* Sets a driver of our own, with its settings for this file, in a property list of file access; -1 on an
 * error. registered: the driver's id, kept for all its files; -1 before the first. */
herr_t iso_hdf5_set_driver(hid_t access, const H5FD_class_t *driver, hid_t *registered, const void *settings);

/* Walks the file: all groups and tensors, and the texts of /isogrid. file_bytes: its size. ISO_INVALID names
 * the file and the object: links, external and virtual datasets, types that Isogrid does not have, depths and
 * counts beyond the manifest's limits. */
iso_status iso_hdf5_walk(hid_t file, const char *path, uint64_t file_bytes, iso_manifest *manifest);

/* The elements of `box`, which is within the tensor's shape, in the type tensor->element. */
iso_status iso_hdf5_read(hid_t file, const char *path, const iso_manifest_tensor *tensor, const iso_box *box,
                         void *out);

/* ---- parts of the walk ---- */

/* The storage type of a dataset's elements. Clears `direct` if their bytes in the file differ from that type.
 * ISO_INVALID "has elements of ...". */
iso_status iso_hdf5_storage_type(hid_t dataset, hid_t type, const char *path, const char *h5_path,
                                 iso_storage_type *element, bool *direct);
/* The text of a string, in a scalar attribute or dataset, or of an array of bytes (iso_free). NULL if it is
 * not a text, if it is longer than `most`, or if the attribute does not exist. ISO_INVALID: it cannot be
 * read. path, h5_path: of the file, and of the object in it, for messages. */
iso_status iso_hdf5_attribute_text(hid_t object, const char *path, const char *h5_path, const char *name,
                                   size_t most, char **text);
iso_status iso_hdf5_dataset_text(hid_t dataset, const char *path, const char *h5_path, size_t most,
                                 char **text);
/* ISO_INVALID if a dataset's values are in other files or cannot be read. direct: they are contiguous. */
iso_status iso_hdf5_check_storage(hid_t dataset, const char *path, const char *h5_path, bool *direct);
/* A dataset's HDF5 path, shape, element type and offset. */
iso_status iso_hdf5_dataset(hid_t dataset, const char *path, const char *h5_path, uint64_t file_bytes,
                            iso_manifest_tensor *tensor);

/* ---- mpio_driver.c ---- */
/* A driver that wraps HDF5's parallel driver and avoids a crash of HDF5 1.10. HDF5 rewrites the superblock
 * whenever it closes a file. If this write or the close fails, HDF5 keeps the file half freed and crashes on
 * it within MPI_Finalize. The wrapper passes tensors' bytes through, drops what HDF5 would write about them,
 * which is in the file already, and reports a failed close to us instead of HDF5. */
/* Sets it in a property list of file access; -1 on an error. parallel: a list with the parallel driver
 * (H5Pset_fapl_mpio). closed: set to the error if the file cannot be synced or closed; H5Fclose() succeeds
 * all the same. Both must outlive the file. The caller holds HDF5's lock. */
herr_t iso_mpio_set_driver(hid_t access, hid_t parallel, iso_status *closed);

#endif
