#include "runtime/backend/backend.h"

#include <stdarg.h>
#include <stdio.h>

void iso_fault_raise(iso_fault *fault, const char *format, ...)
{
    if (fault->raised)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(fault->message, sizeof(fault->message), format, list);
    va_end(list);
    fault->raised = true;
}
