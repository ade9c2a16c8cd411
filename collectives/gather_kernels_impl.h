/* Gather kernels: the functions that run gathers on one kind of memory. The list is in gather_kernels.c: a kind of
 * memory is one file and one line there. A fabric uses the first kernels that support the device of its slots. */
#ifndef ISO_GATHER_KERNELS_IMPL_H
#define ISO_GATHER_KERNELS_IMPL_H

#include "collectives/gather_impl.h"

typedef struct iso_gather_kernels {
    const char *name;
    bool (*supports)(const iso_device *device);
    /* Runs a gather on the stream of a slot of the device, or at once, without using the stream. */
    void (*run)(const iso_gather *gather, iso_stream *stream);
    /* Combines elements [begin, begin + n) of a region that is one run into out. At once: n is at most 4096. */
    void (*part)(const iso_gather *gather, int64_t begin, int64_t n, void *out, iso_stream *stream);
} iso_gather_kernels;

/* NULL: there are none for this device. */
const iso_gather_kernels *iso_gather_kernels_for(const iso_device *device);

extern const iso_gather_kernels iso_gather_kernels_device;        /* device_gather.c */
extern const iso_gather_kernels iso_gather_kernels_shared_memory; /* shm/pull.c */

#endif
