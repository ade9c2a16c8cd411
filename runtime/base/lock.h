/* A lock for libraries that only one thread of a process may use at a time: HDF5 as Debian builds it. */
#ifndef ISO_BASE_LOCK_H
#define ISO_BASE_LOCK_H

void iso_hdf5_lock(void);
void iso_hdf5_unlock(void);

#endif
