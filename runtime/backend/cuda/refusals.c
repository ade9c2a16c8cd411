#include "runtime/backend/cuda/refusals.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char kept[400];

void iso_cuda_refused(const char *format, ...)
{
    va_list values;
    if (kept[0])
        return;
    va_start(values, format);
    vsnprintf(kept, sizeof kept, format, values);
    va_end(values);
}

bool iso_cuda_has_refusal(void)
{
    return kept[0] != 0;
}

const char *iso_cuda_refusal(void)
{
    static _Thread_local char taken[sizeof kept];
    memcpy(taken, kept, sizeof taken);
    kept[0] = 0;
    return *taken ? taken : NULL;
}
