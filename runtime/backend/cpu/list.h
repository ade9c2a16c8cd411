/* Every fast kernel of the CPU backend, one a line, in order of preference: KERNEL(name) stands for
 * iso_cpu_name. Included plainly this declares them all; with KERNEL defined it is the list itself. */
#ifndef KERNEL
#include "runtime/backend/backend.h"
#define KERNEL(name) extern const iso_kernel iso_cpu_##name;
#endif
// clang-format off

KERNEL(matmul_library) KERNEL(matmul_tiles) KERNEL(matmul_double)

// clang-format on
#undef KERNEL
