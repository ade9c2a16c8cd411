/* Whether MPI takes addresses of a device's memory (--cuda-aware). */
#ifndef ISO_MPI_AWARE_H
#define ISO_MPI_AWARE_H

#include "collectives/control/channel.h"

/* Asks MPI. ISO_INVALID: it says that it does not; the message says what to do. All ranks get the same status.
 * Collective. iso_fabric_try_device_messages (coll.h) shows whether it does. */
iso_status iso_mpi_query_device(const iso_channel *channel);

#endif
