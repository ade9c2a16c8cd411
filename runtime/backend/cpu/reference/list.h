/* Every reference kernel, one a line: KERNEL(name) stands for iso_reference_name, the plain kernel of the op
 * "name". Included plainly this declares them all; with KERNEL defined it is the list itself. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_reference_##name;
#endif
// clang-format off

/* arithmetic, reductions, shapes, products */

/* networks */

// clang-format on
#undef KERNEL
