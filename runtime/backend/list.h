/* Every backend, one on each line: BACKEND(name) stands for the function iso_backend_name. `auto` is the first one
 * that this machine can use; cuda stands behind cpu until its tests have run on a GPU (docs/gpu.md). If BACKEND is
 * not defined, including this file declares them all; otherwise it expands to the list. */
#ifndef BACKEND
#include "runtime/backend/backend.h"
#define BACKEND(name) const iso_backend *iso_backend_##name(void);
#endif
// clang-format off

BACKEND(cpu)
BACKEND(cuda)
BACKEND(reference)

// clang-format on
#undef BACKEND
