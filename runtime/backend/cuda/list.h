/* The kernels of the CUDA backend, one for each op of graph/ops/list.h: KERNEL(name) stands for iso_cuda_name, the
 * kernel of the op "name". If KERNEL is not defined, including this file declares them all; otherwise it expands to
 * the list. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_cuda_##name;
#define ISO_CUDA_DECLARES
#endif
#if defined(ISO_CUDA_DECLARES) && defined(__cplusplus)
extern "C" {
#endif

#define OP(name) KERNEL(name)
#define OP_ALIAS(name)
#include "runtime/graph/ops/list.h"

#if defined(ISO_CUDA_DECLARES) && defined(__cplusplus)
}
#endif
#undef ISO_CUDA_DECLARES
#undef KERNEL
