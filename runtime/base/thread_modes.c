#include "runtime/base/thread_modes.h"

#include <pthread.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* The program's modes while the thread has the default ones; NULL if it has the program's. */
static _Thread_local iso_program_modes *kept;

static locale_t c_locale; /* NULL if there was no memory: threads then keep the program's locale */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t find_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_locale);
    return c_locale;
}

iso_status iso_default_modes_check(void)
{
    return find_locale() ? ISO_OK : iso_no_memory("the locale \"C\"");
}

/* <fenv.h> takes 60 ns for each call on x86, so modes that are the default ones already are left alone. */
#if defined(__x86_64__)
enum { SSE_MODES = 0xffc0, SSE_DEFAULT = 0x1f80, X87_MODES = 0x0f3f, X87_DEFAULT = 0x033f };

static bool numbers_are_default(unsigned *flags)
{
    unsigned short x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    *flags = _mm_getcsr();
    return (*flags & SSE_MODES) == SSE_DEFAULT && (x87 & X87_MODES) == X87_DEFAULT;
}

static void set_flags(unsigned flags)
{
    _mm_setcsr(flags);
}
#elif defined(__aarch64__)
/* Modes are in the register FPCR, where 0 is the default, flags in FPSR. */
static bool numbers_are_default(unsigned *flags)
{
    uint64_t modes, status;
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes) : : "memory");
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : : "memory");
    *flags = (unsigned)status;
    return modes == 0;
}

static void set_flags(unsigned flags)
{
    __asm__ volatile("msr fpcr, xzr" : : : "memory");
    __asm__ volatile("msr fpsr, %0" : : "r"((uint64_t)flags) : "memory");
}
#else
static bool numbers_are_default(unsigned *flags)
{
    *flags = 0;
    return false;
}

static void set_flags(unsigned flags)
{
    (void)flags;
}
#endif

/* Keeps the program's modes and sets the default ones. */
static void keep(iso_program_modes *program)
{
    program->default_numbers = numbers_are_default(&program->flags);
    if (!program->default_numbers) {
        fegetenv(&program->numbers);
        fesetenv(FE_DFL_ENV);
    }
    program->locale = uselocale(find_locale());
}

static void restore(const iso_program_modes *program)
{
    uselocale(program->locale);
    if (program->default_numbers)
        set_flags(program->flags);
    else
        fesetenv(&program->numbers);
}

void iso_default_modes_begin(iso_default_modes *modes)
{
    modes->outermost = !kept;
    if (!modes->outermost)
        return;
    keep(&modes->program);
    kept = &modes->program;
}

void iso_default_modes_end(iso_default_modes *modes)
{
    if (!modes->outermost)
        return;
    kept = NULL;
    restore(&modes->program);
}

/* The modes with which the thread began are its creator's, not the program's: nothing sets them again. */
static iso_program_modes none;

void iso_default_modes_of_thread(void)
{
    if (kept)
        return;
    fesetenv(FE_DFL_ENV);
    uselocale(find_locale());
    kept = &none;
}

iso_program_modes *iso_program_modes_begin(void)
{
    iso_program_modes *program = kept == &none ? NULL : kept;
    if (program) {
        kept = NULL;
        restore(program);
    }
    return program;
}

void iso_program_modes_end(iso_program_modes *program)
{
    if (!program)
        return;
    keep(program);
    kept = program;
}
