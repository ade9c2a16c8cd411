/* Instruction sets of the CPU, in increasing order. The choice belongs to the process. ISO_ISA_BASE is what every
 * processor of an architecture has: SSE2 on x86-64, NEON on aarch64. The others are of x86-64. */
#ifndef ISO_CPU_ISA_H
#define ISO_CPU_ISA_H

#include "runtime/base/status.h"

typedef enum iso_isa { ISO_ISA_BASE, ISO_ISA_AVX2, ISO_ISA_AVX512, ISO_ISA_AVX512_BF16, ISO_ISA_AMX } iso_isa;

/* The fastest that this CPU has and the variable ISOGRID_MAX_CPU_ISA allows, or the lower one that all ranks
 * agreed to use (before the first plan). Intel processors use ISO_ISA_AVX512_BF16 only if the variable names it. */
iso_isa iso_cpu_isa(void);
/* The highest that this CPU has. */
iso_isa iso_cpu_highest_isa(void);
/* ISO_INVALID: the variable names no instruction set. */
iso_status iso_cpu_check_isa(void);
void iso_cpu_limit_isa(iso_isa isa);
const char *iso_isa_name(iso_isa isa);
/* Loads OpenBLAS with the kernels of iso_cpu_isa(), on aarch64 with those that it chooses itself, unless it is
 * loaded already. Sets two environment variables during the load. */
void iso_cpu_load_openblas(void);

#endif
