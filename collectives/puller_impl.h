/* Pullers: how gathers read, add and write one kind of memory. The list is in puller.c: a puller is one file and one
 * line there. A fabric uses the first one that serves the device of its slots. */
#ifndef ISO_PULLER_IMPL_H
#define ISO_PULLER_IMPL_H

#include "collectives/gather_impl.h"

typedef struct iso_puller {
    const char *name;
    bool (*serves)(const iso_device *device);
    /* Runs a gather on the stream of a slot of the device, or at once, without using the stream. */
    void (*run)(const iso_gather *gather, iso_stream *stream);
    /* Combines elements [begin, begin + n) of a region that is one run into out. At once: n is at most 4096. */
    void (*part)(const iso_gather *gather, int64_t begin, int64_t n, void *out, iso_stream *stream);
} iso_puller;

/* NULL: there is none for this device. */
const iso_puller *iso_puller_for(const iso_device *device);

extern const iso_puller iso_puller_device;        /* device_puller.c */
extern const iso_puller iso_puller_shared_memory; /* shm/pull.c */

#endif
