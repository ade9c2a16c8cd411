/* The registers of the processor with the modes of floating-point numbers, and with the flags of exceptions. */
#ifndef ISO_TESTS_MODES_H
#define ISO_TESTS_MODES_H

#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef struct number_modes {
    uint64_t modes, flags;
} number_modes;

#if defined(__x86_64__)
/* The modes of MXCSR, and above them the control word of the x87 unit. */
#define DEFAULT_NUMBER_MODES (UINT64_C(0x037f) << 32 | 0x1f80)

static inline number_modes number_modes_now(void)
{
    unsigned short x87;
    unsigned sse = _mm_getcsr();
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (number_modes){.modes = (uint64_t)x87 << 32 | (sse & 0xffc0), .flags = sse & 0x3f};
}

/* Denormal numbers count as 0 from now on: FTZ and DAZ. */
static inline void flush_denormals(void)
{
    _mm_setcsr(_mm_getcsr() | 0x8040u);
}
#elif defined(__aarch64__)
#define DEFAULT_NUMBER_MODES 0

static inline number_modes number_modes_now(void)
{
    number_modes is;
    __asm__ volatile("mrs %0, fpcr" : "=r"(is.modes) : : "memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(is.flags) : : "memory");
    return is;
}

/* Denormal numbers count as 0 from now on: FZ. */
static inline void flush_denormals(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(number_modes_now().modes | 1u << 24) : "memory");
}
#endif

#endif
