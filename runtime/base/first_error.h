/* The first of several errors, with its message, for work that continues after an error. A zeroed one has
 * no error. */
#ifndef ISO_BASE_FIRST_ERROR_H
#define ISO_BASE_FIRST_ERROR_H

#include <stdio.h>

#include "runtime/base/status.h"

typedef struct iso_first_error {
    iso_status status;
    char message[1024];
} iso_first_error;

/* Keeps the status and this thread's message of it, unless it is ISO_OK or there was an error before. */
static inline void iso_first_error_keep(iso_first_error *first, iso_status status)
{
    if (status == ISO_OK || first->status != ISO_OK)
        return;
    first->status = status;
    snprintf(first->message, sizeof first->message, "%s", iso_error_message());
}

/* Returns ISO_OK or the error, whose message becomes this thread's. */
static inline iso_status iso_first_error_get(const iso_first_error *first)
{
    return first->status == ISO_OK ? ISO_OK : iso_error(first->status, "%s", first->message);
}

#endif
