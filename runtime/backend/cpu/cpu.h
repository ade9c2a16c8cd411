/* What the parts of the CPU backend share. */
#ifndef ISO_CPU_CPU_H
#define ISO_CPU_CPU_H

#include "runtime/backend/backend.h"

/* The fast kernels, ending with NULL, for tests. */
const iso_kernel *const *iso_cpu_kernels(void);

#endif
