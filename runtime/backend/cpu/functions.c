/* The tables of functions.h, one for each instruction set. */
#include "runtime/backend/cpu/functions.h"
#include "runtime/backend/cpu/isa.h"

const iso_cpu_functions_table *iso_cpu_functions(void)
{
    static const iso_cpu_functions_table tables[] = {
#define FUNCTION(result, name, arguments) .name = name##_base,
        {ISO_CPU_FUNCTIONS(FUNCTION)},
#undef FUNCTION
#if defined(__x86_64__)
#define FUNCTION(result, name, arguments) .name = name##_avx2,
        {ISO_CPU_FUNCTIONS(FUNCTION)},
#undef FUNCTION
#define FUNCTION(result, name, arguments) .name = name##_avx512,
        {ISO_CPU_FUNCTIONS(FUNCTION)},
#undef FUNCTION
#endif
    };
    iso_isa isa = iso_cpu_isa();
    return &tables[isa < ISO_ISA_AVX512 ? isa
                                        : ISO_ISA_AVX512]; /* bfloat16's instructions are the library's */
}
