/* The reference kernels, one for each op of graph/ops/list.h: KERNEL(name) stands for iso_reference_name, the
 * reference kernel of the op "name". If KERNEL is not defined, including this file declares them all; otherwise it
 * expands to the list. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_reference_##name;
#endif

#define OP(name) KERNEL(name)
#define OP_ALIAS(name)
#include "runtime/graph/ops/list.h"
#undef KERNEL
