/* Memory of the host for messages, which the kernels of a device that gathers read and write. */
#ifndef ISO_COLL_BUFFERS_H
#define ISO_COLL_BUFFERS_H

#include "collectives/shm/window_impl.h"
#include "runtime/base/device.h"

/* A window (window_impl.h) that is attached to the device if it gathers. ISO_FAILED on a rank alone: the device
 * cannot attach it. Collective over host. */
iso_status iso_buffer_create(const iso_comm *host, const iso_device *device, size_t bytes, const char *what,
                             iso_window *window);
/* Does nothing with an empty window. Local. */
void iso_buffer_destroy(const iso_device *device, iso_window *window);

#endif
