/* Within libisogrid_cuda.so: the table of the host's functions. */
#ifndef ISO_BACKEND_CUDA_HOST_H
#define ISO_BACKEND_CUDA_HOST_H

#include "runtime/backend/cuda_library.h"

/* Keeps the table, which is lent. Local; one thread calls it, before anything else. */
void iso_cuda_begin(const iso_cuda_host *given);

/* iso_backend.prepare in memory of the host, at once. Local; any thread may call it. */
void iso_cuda_host_prepare(const struct iso_rates_call *call);

#endif
