/* Whether MPI takes addresses of a device's memory (--cuda-aware). */
#ifndef ISO_MPI_AWARE_H
#define ISO_MPI_AWARE_H

#include "collectives/control/channel.h"
#include "runtime/base/device.h"

/* Asks MPI, and passes messages in a ring from the memory of each rank's device to that of the next one's.
 * ISO_INVALID: MPI says that it does not. ISO_FAILED: it fails, or other bytes come. The message says what to do. All
 * ranks get the same status. Collective. */
iso_status iso_mpi_probe_device(const iso_channel *channel, const iso_device *device);

#endif
