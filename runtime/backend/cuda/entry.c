/* The table that libisogrid_cuda.so gives to the host's library: its only symbol. */
#include "runtime/backend/cuda/backend.h"
#include "runtime/backend/cuda/cublaslt.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/facts.h"
#include "runtime/backend/cuda/functions.h"
#include "runtime/backend/cuda/host.h"

extern const iso_cuda_library iso_cuda_exports;
__attribute__((visibility("default")))
const iso_cuda_library iso_cuda_exports = {.version = iso_version,
                                           .build_id = iso_build_id,
                                           .begin = iso_cuda_begin,
                                           .find = iso_cuda_find_gpus,
                                           .find_part = iso_cuda_find_opened,
                                           .device = iso_cuda_device,
                                           .only_plan = iso_cuda_assume_products,
                                           .backend = iso_cuda_backend};
