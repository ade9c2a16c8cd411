/* The instruction set: what the processor has, what the user allows, and what all ranks agreed to use. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

iso_isa iso_cpu_highest_isa(void)
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

/* Intel's cores multiply pairs of bfloat16 (vdpbf16ps) at half of the rate of their float32 (85 and 175 GFLOP/s,
 * Emerald Rapids), AMD's at twice. So an Intel processor without AMX, or where it is hidden, converts operands to
 * float32. */
static bool bf16_is_slow(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

static const char VARIABLE[] = "ISOGRID_MAX_CPU_ISA";
static const char *const stated_names[] = {"base", "avx2", "avx512", "avx512_bf16", "amx"};

/* The most that the environment allows; false: it names no instruction set. */
static bool find_stated(iso_isa *most)
{
    const char *text = getenv(VARIABLE);
    *most = ISO_ISA_AMX;
    if (!text || !*text)
        return true;
    for (int isa = 0; isa <= ISO_ISA_AMX; isa++)
        if (strcmp(text, stated_names[isa]) == 0) {
            *most = (iso_isa)isa;
            return true;
        }
    return false;
}

iso_status iso_cpu_check_isa(void)
{
    iso_isa most;
    return find_stated(&most)
               ? ISO_OK
               : iso_error(ISO_INVALID, "%s is '%s': it must be base, avx2, avx512, avx512_bf16 or amx",
                           VARIABLE, getenv(VARIABLE));
}

static iso_isa lower(iso_isa a, iso_isa b)
{
    return a < b ? a : b;
}

/* Instructions that are slower than those of a lower set are used if they are named. */
static iso_isa choose(void)
{
    iso_isa most, found = iso_cpu_highest_isa();
    find_stated(&most);
    if (found == ISO_ISA_AVX512_BF16 && most != ISO_ISA_AVX512_BF16 && bf16_is_slow())
        found = ISO_ISA_AVX512;
    return lower(found, most);
}

/* 0: not detected yet; else the instruction set + 1. Threads that detect it at the same time find the
 * same. */
static atomic_int current;

iso_isa iso_cpu_isa(void)
{
    int known = atomic_load_explicit(&current, memory_order_relaxed);
    if (known == 0) {
        known = (int)choose() + 1;
        atomic_store_explicit(&current, known, memory_order_relaxed);
    }
    return (iso_isa)(known - 1);
}

void iso_cpu_limit_isa(iso_isa isa)
{
    iso_isa most = iso_cpu_highest_isa();
    if (isa < most)
        iso_onednn_limit_isa(isa);
    atomic_store_explicit(&current, (int)lower(isa, most) + 1, memory_order_relaxed);
}

const char *iso_isa_name(iso_isa isa)
{
#if defined(__aarch64__)
    static const char base[] = "NEON";
#else
    static const char base[] = "base";
#endif
    static const char *const names[] = {base, "AVX2", "AVX-512", "AVX-512 with bfloat16", "AVX-512 with AMX"};
    return names[isa];
}
