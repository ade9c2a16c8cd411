/* Facts about the GPUs, from the driver. */
#ifndef ISO_BACKEND_CUDA_FACTS_H
#define ISO_BACKEND_CUDA_FACTS_H

#include "runtime/backend/cuda_library.h"

/* The same as iso_cuda_find, once the library is open. Local; any thread may call it. */
void iso_cuda_find_gpus(bool free_memory, iso_cuda_facts *facts);

#endif
