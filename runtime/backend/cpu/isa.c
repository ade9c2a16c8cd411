/* The instruction set: what the processor has, and what all ranks agreed to use. */
#include <stdatomic.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "runtime/backend/cpu/onednn.h"

#if defined(__x86_64__)
/* AMX for bfloat16. Linux gives the unit's registers to a process that asks for them: arch_prctl(2), and
 * Documentation/arch/x86/xstate.rst of its sources. */
static bool has_amx(void)
{
    enum { LEAF = 7, HAS_BF16 = 1 << 22, HAS_TILES = 1 << 24, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned needed = HAS_BF16 | HAS_TILES;
    unsigned a, b, c, d = 0;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & needed) == needed &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

static iso_isa detect(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return !__builtin_cpu_supports("avx512bf16") ? ISO_ISA_AVX512
               : has_amx()                           ? ISO_ISA_AMX
                                                     : ISO_ISA_AVX512_BF16;
    if (avx2)
        return ISO_ISA_AVX2;
#endif
    return ISO_ISA_BASE;
}

/* 0: not detected yet; else the instruction set + 1. Threads that detect it at the same time find the
 * same. */
static atomic_int current;

iso_isa iso_cpu_isa(void)
{
    int known = atomic_load_explicit(&current, memory_order_relaxed);
    if (known == 0) {
        known = (int)detect() + 1;
        atomic_store_explicit(&current, known, memory_order_relaxed);
    }
    return (iso_isa)(known - 1);
}

void iso_cpu_limit_isa(iso_isa isa)
{
    iso_isa most = detect();
    iso_onednn_limit_isa(isa);
    atomic_store_explicit(&current, (int)(isa < most ? isa : most) + 1, memory_order_relaxed);
}

const char *iso_isa_name(iso_isa isa)
{
    static const char *const names[] = {"base", "AVX2", "AVX-512", "AVX-512 with bfloat16",
                                        "AVX-512 with AMX"};
    return names[isa];
}
