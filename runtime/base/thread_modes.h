/* The modes of a thread that change numbers and texts: rounding, denormal numbers as 0 (FTZ, DAZ), traps, and the
 * locale. A program may have set others than the default ones. Within Isogrid they are the default ones: rounding
 * to nearest, denormal numbers kept, no traps, the locale "C". For this library; no public header includes it. */
#ifndef ISO_BASE_THREAD_MODES_H
#define ISO_BASE_THREAD_MODES_H

#include <fenv.h>
#include <locale.h>
#include <stdbool.h>

#include "runtime/base/status.h"

/* The modes of the program in this thread, with its flags of floating-point exceptions. */
typedef struct iso_program_modes {
    bool default_numbers; /* only `flags` are to be set again */
    unsigned flags;       /* of exceptions; on x86-64 the register that holds the modes too */
    fenv_t numbers;
    locale_t locale;
} iso_program_modes;

/* Gives this thread the default modes until the enclosing function returns, and then the program's again. Public
 * functions that compute, or that print or read real numbers, begin with it. Costs some ns; next to nothing if the
 * thread has the default modes from a caller. Local. */
#define ISO_DEFAULT_MODES()                                                                                  \
    __attribute__((cleanup(iso_default_modes_end))) iso_default_modes default_modes_;                        \
    iso_default_modes_begin(&default_modes_)

typedef struct iso_default_modes {
    bool outermost;
    iso_program_modes program;
} iso_default_modes;
void iso_default_modes_begin(iso_default_modes *modes);
void iso_default_modes_end(iso_default_modes *modes);

/* Gives a thread of Isogrid the default modes until it ends, unless it has them from a caller. Threads begin with
 * it. Local. */
void iso_default_modes_of_thread(void);

/* Between these two calls, the thread has the modes of the program, for a function of the program. NULL is
 * returned, and nothing happens, in a thread of Isogrid. Modes that the function changes stay the program's. */
iso_program_modes *iso_program_modes_begin(void);
void iso_program_modes_end(iso_program_modes *program);

/* ISO_NO_MEMORY if there is no memory for the locale "C". Local. */
iso_status iso_default_modes_check(void);

#endif
