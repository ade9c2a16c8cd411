#include "runtime/base/signal_stack.h"

#include <signal.h>
#include <stdbool.h>

/* The registers of a processor with AVX-512 and AMX need 11 kB of it. */
enum { STACK_BYTES = 65536 };
static _Thread_local char memory[STACK_BYTES];
static _Thread_local bool asked;

void iso_signal_stack_use(void)
{
    stack_t present, own = {.ss_sp = memory, .ss_size = sizeof memory};
    if (asked)
        return;
    asked = true;
    if (!sigaltstack(NULL, &present) && (present.ss_flags & SS_DISABLE))
        sigaltstack(&own, NULL);
}

void iso_signal_stack_end(void)
{
    stack_t present, none = {.ss_flags = SS_DISABLE};
    if (!sigaltstack(NULL, &present) && present.ss_sp == memory)
        sigaltstack(&none, NULL);
    asked = false;
}
