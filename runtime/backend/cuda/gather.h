/* The gathers of exchanges (iso_device.gather). */
#ifndef ISO_BACKEND_CUDA_GATHER_H
#define ISO_BACKEND_CUDA_GATHER_H

#include "runtime/base/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Queues it on the stream. Sums have the bits of the CPU's: the same order, and a rounding to the type after each
 * addition. Local; one thread at a time uses a stream. */
void iso_cuda_gather(iso_stream *stream, const iso_device_gather *gather);

#ifdef __cplusplus
}
#endif
#endif
