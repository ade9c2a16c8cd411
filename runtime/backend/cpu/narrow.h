/* Kernels for bfloat16: some of its own, and those for float32 between two conversions. */
#ifndef ISO_BACKEND_CPU_NARROW_H
#define ISO_BACKEND_CPU_NARROW_H

#include "runtime/backend/backend.h"

/* Finds a kernel for a call without bfloat16. */
typedef const iso_kernel *(*iso_kernel_find)(const char *op, const iso_kernel_call *call);

/* Whether an operand is bfloat16. */
bool iso_narrow_has(const iso_kernel_call *call);
/* A fast kernel that was written for bfloat16 and fits; NULL: none. */
const iso_kernel *iso_narrow_own(const char *op, const iso_kernel_call *call);
/* The kernel for such a call: it converts the inputs to float32, runs the kernel that `find` returns for them, and
 * rounds the outputs, once. NULL: there is none, because the op is registered or `find` returns NULL. */
const iso_kernel *iso_narrow_find(const char *op, const iso_kernel_call *call, iso_kernel_find find);

#endif
