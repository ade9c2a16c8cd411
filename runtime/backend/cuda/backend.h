/* The table of the CUDA backend. */
#ifndef ISO_BACKEND_CUDA_BACKEND_H
#define ISO_BACKEND_CUDA_BACKEND_H

#include "runtime/backend/backend.h"

/* Without `unavailable` and `load`. Constant. Local; any thread may call it. */
const iso_backend *iso_cuda_backend(void);

#endif
